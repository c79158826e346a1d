// Untrusted bytes as a page token, and as the content of a token of this database (from another release, or from a list
// with other fields): rejected with INVALID_ARGUMENT and a message, or a statement that SQLite executes. Tokens that
// the database issues are accepted.
#include <cstdlib>
#include <iostream>
#include <string>

#include "storage/list_query.h"
#include "storage/page_token.h"
#include "storage/sqlite/database.h"
#include "storage/sqlite/migrate.h"
#include "tessera/v1/storage.pb.h"

namespace {

using namespace tessera;           // NOLINT: a fuzzer of one function
using namespace tessera::storage;  // NOLINT

constexpr char kKey[] = "key";

void require(bool ok, const std::string& what) {
  if (ok) return;
  std::cerr << what << "\n";
  std::abort();
}

Database& database() {
  static Database* const instance = [] {
    auto opened = SqliteDatabase::open(":memory:", SqliteDatabase::Mode::kReadWriteCreate);
    require(opened.ok(), opened.status().ToString());
    const absl::Status migrated = migrate(**opened);
    require(migrated.ok(), migrated.ToString());
    return opened->release();
  }();
  return *instance;
}

/// Whether the list is answered.
bool list(const Entity& entity, const std::string& order_by, const std::string& token) {
  ListQuery query;
  query.order_by = order_by;
  query.page_token = token;
  const auto plan = planList(query, entity, kKey);
  if (!plan.ok()) {
    require(absl::IsInvalidArgument(plan.status()) && !plan.status().message().empty(), plan.status().ToString());
    return false;
  }
  Statement statement = database().prepareOnce(plan->sql);
  for (const Value& value : plan->values) statement.bind(value);
  const auto row = statement.step();
  require(row.ok(), row.status().ToString());
  return true;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string bytes(reinterpret_cast<const char*>(data), size);
  v1::PageCursor cursor;
  const bool parsed = cursor.ParseFromString(bytes);
  std::vector<Value> values;
  for (const v1::PageCursor::Value& value : cursor.values()) {
    if (value.has_integer()) values.emplace_back(value.integer());
    if (value.has_real()) values.emplace_back(value.real());
    if (value.has_text()) values.emplace_back(value.text());
  }
  for (const Entity* entity :
       {&jobEntity(), &artifactEntity(), &recordEntity(), &targetEntity(), &workerEntity(), &taskEntity()}) {
    for (const char* order_by : {"", "create_time desc"}) {
      list(*entity, order_by, bytes);
      ListQuery first;
      first.order_by = order_by;
      const auto plan = planList(first, *entity, kKey);
      if (!parsed || !plan.ok()) continue;
      const std::string token = makePageToken(plan->fingerprint, values, kKey);
      list(*entity, order_by, token);
      const auto back = readPageToken(token, plan->fingerprint, kKey);
      require(back.ok() && back->size() == values.size(), "a token that was issued is refused");
      require(!readPageToken(token, plan->fingerprint, "another key").ok(), "a token of another database is taken");
    }
  }
  return 0;
}
