#include "storage/server_registry.h"

#include <google/protobuf/util/time_util.h>

#include <chrono>
#include <mutex>
#include <random>
#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/support/status_macros.h"
#include "storage/entity.h"
#include "storage/sql/rows.h"
#include "storage/sqlite/database.h"

namespace tessera::storage {
namespace {

using google::protobuf::util::TimeUtil;

constexpr const char* kCreateServers =
    "CREATE TABLE servers (id TEXT PRIMARY KEY, state INTEGER NOT NULL, address TEXT NOT NULL, host TEXT NOT NULL, "
    "release_name TEXT NOT NULL, start_time INTEGER NOT NULL, heartbeat_time INTEGER NOT NULL, body BLOB NOT NULL) "
    "WITHOUT ROWID";
constexpr const char* kInsertServer = "INSERT INTO servers VALUES (?, ?, ?, ?, ?, ?, ?, ?)";

int64_t nowMicros() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::microseconds>(now).count();
}

/// One server, which holds all duties.
class LocalServerRegistry : public ServerRegistry {
 public:
  LocalServerRegistry() : token_key_(absl::StrCat(std::random_device()(), std::random_device()())) {}

  bool isShared() const override { return false; }

  absl::StatusOr<ServerNews> beat(const ServerIdentity& self, const ServerReport& report) override {
    const std::lock_guard lock(mutex_);
    server_ = self.server;
    server_.set_state(self.draining ? v1::Server::DRAINING : v1::Server::LIVE);
    *server_.mutable_heartbeat_time() = TimeUtil::MicrosecondsToTimestamp(nowMicros());
    server_.mutable_duties()->Assign(report.wanted.begin(), report.wanted.end());
    ServerNews news;
    for (const std::string& duty : report.wanted) news.held[duty] = 1;
    news.done_us = done_us_;
    return news;
  }
  absl::Status endDuty(const ServerIdentity& self, const std::string& duty, bool done) override {
    return done ? noteDone(self, duty) : absl::OkStatus();
  }
  absl::Status noteDone(const ServerIdentity& /*self*/, const std::string& duty) override {
    const std::lock_guard lock(mutex_);
    done_us_[duty] = nowMicros();
    return absl::OkStatus();
  }
  absl::Status leave(const ServerIdentity& /*self*/) override { return absl::OkStatus(); }
  absl::StatusOr<Page<v1::Server>> list(const ListQuery& query) override {
    const std::lock_guard lock(mutex_);
    return pageOfServers({server_}, token_key_, query);
  }
  absl::StatusOr<std::string> value(const std::string& name) override {
    const std::lock_guard lock(mutex_);
    const auto found = values_.find(name);
    if (found == values_.end()) return absl::NotFoundError(absl::StrCat("there is no value ", name));
    return found->second;
  }
  absl::Status setValue(const std::string& name, std::string_view value) override {
    const std::lock_guard lock(mutex_);
    values_[name] = value;
    return absl::OkStatus();
  }
  absl::StatusOr<std::string> valueOrInsert(const std::string& name, std::string_view value) override {
    const std::lock_guard lock(mutex_);
    return values_.try_emplace(name, value).first->second;
  }
  absl::StatusOr<int64_t> clockOffsetMicros() override { return 0; }

 private:
  const std::string token_key_;
  std::mutex mutex_;
  v1::Server server_;
  std::map<std::string, int64_t> done_us_;
  std::map<std::string, std::string> values_;
};

}  // namespace

std::unique_ptr<ServerRegistry> openLocalServerRegistry() { return std::make_unique<LocalServerRegistry>(); }

absl::StatusOr<Page<v1::Server>> pageOfServers(const std::vector<v1::Server>& servers, const std::string& token_key,
                                               const ListQuery& query) {
  // Servers are few, so a table in memory for each list costs little, and lists follow the rules of all others.
  TESSERA_ASSIGN_OR_RETURN(const auto database,
                           SqliteDatabase::open(":memory:", SqliteDatabase::Mode::kReadWriteCreate));
  TESSERA_RETURN_IF_ERROR(database->execute(kCreateServers));
  for (const v1::Server& server : servers) {
    TESSERA_RETURN_IF_ERROR(database->prepare(kInsertServer)
                                .bind(server.id())
                                .bind(static_cast<int64_t>(server.state()))
                                .bind(server.address())
                                .bind(server.host())
                                .bind(server.release())
                                .bind(TimeUtil::TimestampToMicroseconds(server.start_time()))
                                .bind(TimeUtil::TimestampToMicroseconds(server.heartbeat_time()))
                                .bindBlob(server.SerializeAsString())
                                .run());
  }
  return pageOf<v1::Server>(*database, token_key, serverEntity(), query);
}

}  // namespace tessera::storage
