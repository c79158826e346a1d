#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "storage/server_registry.h"

namespace tessera::server {

/// Periodic work that one server does for all servers on a database.
inline constexpr char kSweeping[] = "sweeping";      ///< ends overdue leases, jobs and tasks
inline constexpr char kRetention[] = "retention";    ///< starts collections (--collect-every)
inline constexpr char kScrubbing[] = "scrubbing";    ///< reads all blobs (--scrub-rate)
inline constexpr char kCollection[] = "collection";  ///< held during a collection, by whoever does it

/// This server among those on its database: a heartbeat each second, the duties that it holds, and what it learns of
/// the others. A duty is held by one server at a time: it counts from the time before the request that renewed it, by
/// the monotonic clock, and ends here before another server can take it. Thread-safe.
class Membership {
 public:
  /// Called by the heartbeat's thread, and by join() and take().
  struct Callbacks {
    std::function<void()> others_ended = {};    ///< a server ended, maybe before it announced its last commits
    std::function<void()> tokens_changed = {};  ///< access tokens were created or revoked
    std::function<std::map<std::string, int64_t>()> calls = {};  ///< ServerReport::calls
    std::function<void(const std::map<std::string, int64_t>&)> calls_elsewhere = {};
  };

  /// `duties`: those that this server does whenever no other one does. `interval`: of heartbeats.
  Membership(storage::ServerRegistry& registry, storage::ServerIdentity self, std::set<std::string> duties,
             Callbacks callbacks, std::chrono::milliseconds interval = std::chrono::seconds(1));
  ~Membership();

  /// The first heartbeat. FAILED_PRECONDITION if a live server has this name.
  absl::Status join();
  /// The address that lists of servers show, from the next heartbeat on.
  void setAddress(const std::string& address);

  bool holds(const std::string& duty) const;
  /// Whether a heartbeat has succeeded lately.
  bool isCurrent() const;
  bool hasOthers() const;
  bool isShared() const { return registry_.isShared(); }
  /// End of the last complete run of a duty by any server, as microseconds of the database's clock. Nothing if there is
  /// none, or this server has its database to itself.
  std::optional<int64_t> doneMicros(const std::string& duty) const;
  void noteDone(const std::string& duty);

  /// Takes a duty for a while. False if another server, or another thread of this one, holds it.
  absl::StatusOr<bool> take(const std::string& duty);
  void end(const std::string& duty);

  /// Lists show that this server drains. Gives up its duties if other servers live.
  void drain();
  /// Gives up all duties and leaves the list. Idempotent.
  void leave();

 private:
  using Clock = std::chrono::steady_clock;
  void run();
  absl::Status beat();

  storage::ServerRegistry& registry_;
  const Callbacks callbacks_;
  const std::chrono::milliseconds interval_;
  std::mutex beating_;  ///< held during a heartbeat
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  storage::ServerIdentity self_;
  std::set<std::string> wanted_;
  storage::ServerNews news_;
  std::map<std::string, int64_t> reported_;    ///< calls in the last heartbeat that succeeded; under beating_
  std::optional<Clock::time_point> answered_;  ///< start of the last heartbeat that succeeded
  bool left_ = false;
  bool failing_ = false;  ///< the last heartbeat failed, which the log has
  std::thread thread_;
};

}  // namespace tessera::server
