// Arbitrary bytes as a filter, an order and a page token: rejected with INVALID_ARGUMENT and a message, or a statement
// that SQLite executes.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <string_view>

#include "storage/list_query.h"
#include "storage/sqlite/database.h"
#include "storage/sqlite/migrate.h"

namespace {

using namespace tessera::storage;

void require(bool ok, const absl::Status& status) {
  if (ok) return;
  std::cerr << status << "\n";
  std::abort();
}

Database& database() {
  static Database* const instance = [] {
    auto opened = SqliteDatabase::open(":memory:", SqliteDatabase::Mode::kReadWriteCreate);
    require(opened.ok(), opened.status());
    absl::Status migrated = migrate(**opened);
    require(migrated.ok(), migrated);
    return opened->release();
  }();
  return *instance;
}

/// Removes and returns the text up to the next line break.
std::string_view nextLine(std::string_view& text) {
  const size_t end = std::min(text.find('\n'), text.size());
  const std::string_view line = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return line;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string_view text(reinterpret_cast<const char*>(data), size);
  ListQuery query;
  query.order_by = nextLine(text);
  query.page_token = nextLine(text);
  query.filter = text;
  for (const Entity* entity : {&jobEntity(), &artifactEntity(), &recordEntity(), &targetEntity(), &workerEntity()}) {
    absl::StatusOr<ListPlan> plan = planList(query, *entity, "key");
    if (!plan.ok()) {
      require(absl::IsInvalidArgument(plan.status()) && !plan.status().message().empty(), plan.status());
      continue;
    }
    Statement statement = database().prepareOnce(plan->sql);
    for (const Value& value : plan->values) statement.bind(value);
    absl::StatusOr<bool> row = statement.step();
    require(row.ok(), row.status());
  }
  return 0;
}
