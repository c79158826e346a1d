#include "storage/operator_list.h"

#include <random>
#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/support/status_macros.h"
#include "storage/entity.h"
#include "storage/sql/rows.h"
#include "storage/sqlite/database.h"

namespace tessera::storage {
namespace {

constexpr const char* kCreate =
    "CREATE TABLE operators (id TEXT PRIMARY KEY, name TEXT NOT NULL, domain TEXT NOT NULL, family TEXT NOT NULL, "
    "since_version INTEGER NOT NULL, until_version INTEGER NOT NULL, body BLOB NOT NULL) WITHOUT ROWID";
constexpr const char* kInsert = "INSERT OR REPLACE INTO operators VALUES (?, ?, ?, ?, ?, ?, ?)";

std::string randomKey() {
  std::random_device random;
  return absl::StrCat(random(), random(), random(), random());
}

class SqliteOperatorList : public OperatorList {
 public:
  explicit SqliteOperatorList(std::unique_ptr<SqliteDatabase> database)
      : database_(std::move(database)), token_key_(randomKey()) {}

  absl::Status fill(const Operators& operators) {
    TESSERA_RETURN_IF_ERROR(database_->execute(kCreate));
    for (const v1::OperatorInfo& info : operators) {
      TESSERA_RETURN_IF_ERROR(database_->prepare(kInsert)
                                  .bind(absl::StrCat(info.domain(), ":", info.name(), ":", info.since_version()))
                                  .bind(info.name())
                                  .bind(info.domain())
                                  .bind(info.family())
                                  .bind(info.since_version())
                                  .bind(info.until_version())
                                  .bindBlob(info.SerializeAsString())
                                  .run());
    }
    return absl::OkStatus();
  }

  absl::StatusOr<Page<v1::OperatorInfo>> list(const ListQuery& query) override {
    const std::lock_guard lock(mutex_);
    return pageOf<v1::OperatorInfo>(*database_, token_key_, operatorEntity(), query);
  }

 private:
  std::mutex mutex_;  // a connection is used by one thread at a time
  const std::unique_ptr<SqliteDatabase> database_;
  const std::string token_key_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<OperatorList>> OperatorList::create(const Operators& operators) {
  TESSERA_ASSIGN_OR_RETURN(auto database, SqliteDatabase::open(":memory:", SqliteDatabase::Mode::kReadWriteCreate));
  auto list = std::make_unique<SqliteOperatorList>(std::move(database));
  TESSERA_RETURN_IF_ERROR(list->fill(operators));
  return list;
}

}  // namespace tessera::storage
