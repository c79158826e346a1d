#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "storage/store.h"
#include "tessera/v1/server_service.pb.h"

namespace tessera::storage {

/// A server and its process.
struct ServerIdentity {
  v1::Server server;     ///< without state, heartbeat_time and duties
  std::string home;      ///< machine and data folder, which one process at a time uses
  std::string instance;  ///< unique to the process
  bool draining = false;
};

/// What a server reports with a heartbeat.
struct ServerReport {
  std::set<std::string> wanted = {};          ///< duties that it holds or would take
  std::map<std::string, int64_t> calls = {};  ///< admitted since the start of the process, by project
};

/// What it learns from it.
struct ServerNews {
  std::map<std::string, int64_t> held;             ///< its duties, with their fencing tokens
  std::map<std::string, int64_t> done_us;          ///< end of the last complete run of each duty, if any
  std::set<std::string> others;                    ///< ids of the other live servers
  std::map<std::string, int64_t> calls_elsewhere;  ///< sums of ServerReport::calls of the other servers
  int64_t token_changes = 0;                       ///< rises with each change of an access token
};

/// The servers on one database: which of them live, who does periodic work for all, and small values that all use.
/// Times are those of the database, so that the servers' clocks may differ. Not part of the store's transactions.
/// Thread-safe.
class ServerRegistry {
 public:
  /// A server without a heartbeat for this long counts as ended, and others may take its duties.
  static constexpr std::chrono::milliseconds kLifetime{5'000};

  virtual ~ServerRegistry() = default;
  /// Whether several servers can use the database.
  virtual bool isShared() const = 0;
  /// Renews the server's row and its duties, and takes wanted duties that nobody holds. FAILED_PRECONDITION if a live
  /// server of another home has this id. Call it at least every kLifetime / 3.
  virtual absl::StatusOr<ServerNews> beat(const ServerIdentity& self, const ServerReport& report) = 0;
  /// Gives up one duty. `done`: a run is complete.
  virtual absl::Status endDuty(const ServerIdentity& self, const std::string& duty, bool done) = 0;
  /// Records the end of a run of a duty that the server keeps.
  virtual absl::Status noteDone(const ServerIdentity& self, const std::string& duty) = 0;
  /// Gives up all duties, and removes the server's row.
  virtual absl::Status leave(const ServerIdentity& self) = 0;
  virtual absl::StatusOr<Page<v1::Server>> list(const ListQuery& query) = 0;

  /// The value of that name; NOT_FOUND if there is none.
  virtual absl::StatusOr<std::string> value(const std::string& name) = 0;
  virtual absl::Status setValue(const std::string& name, std::string_view value) = 0;
  /// Stores the value if there is none of that name; returns the stored one.
  virtual absl::StatusOr<std::string> valueOrInsert(const std::string& name, std::string_view value) = 0;
  /// Microseconds to add to this machine's clock to get the database's, within half a round trip.
  virtual absl::StatusOr<int64_t> clockOffsetMicros() = 0;
};

/// The registry of a server that has its database to itself; in memory.
std::unique_ptr<ServerRegistry> openLocalServerRegistry();
/// The registry in a PostgreSQL database that openPostgresStore() has migrated. UNAVAILABLE if it cannot be reached.
absl::StatusOr<std::unique_ptr<ServerRegistry>> openPostgresServerRegistry(const std::string& uri);

/// One page of these servers; `token_key` signs page tokens.
absl::StatusOr<Page<v1::Server>> pageOfServers(const std::vector<v1::Server>& servers, const std::string& token_key,
                                               const ListQuery& query);

}  // namespace tessera::storage
