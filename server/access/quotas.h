#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/clock.h"
#include "storage/store.h"
#include "tessera/v1/admin_service.pb.h"

namespace tessera::server {

/// RESOURCE_EXHAUSTED with a Failure that has the quota's name, its value, the usage and the time to retry.
absl::Status quotaExceeded(const std::string& project, const std::string& quota, double limit, double used,
                           int64_t retry_after_us, const std::string& fix);

/// Likewise for stored_bytes.
absl::Status outOfBytes(const std::string& project, int64_t limit, const storage::Usage& usage);

/// Counts calls that quotas rejected: for a limited number of projects by name, for the rest together. Counts never
/// decrease: calls counted for the rest stay there when a project gets a name, and a project's own count continues when
/// it gets its name back. Thread-safe.
class QuotaRefusals {
 public:
  static constexpr size_t kNamed = 50;

  /// Counts a call if its answer is a quotaExceeded() error.
  void note(const std::string& project, const absl::Status& answer);

  struct Counts {
    std::map<std::pair<std::string, std::string>, int64_t> named;  ///< by project and quota
    std::map<std::string, int64_t> others;                         ///< of the other projects, by quota
    std::set<std::string> projects;                                ///< projects with a name
    bool all_named = true;                                         ///< no other project has been rejected
  };
  Counts counts() const;

 private:
  struct Project {
    int64_t refusals = 0;  ///< in total, named or not
    bool named = false;
    std::map<std::string, int64_t> own;  ///< by quota, while it had a name
  };
  bool isNamed(Project& project);

  mutable std::mutex mutex_;
  std::map<std::string, Project> projects_;
  std::vector<Project*> named_;
  std::map<std::string, int64_t> others_;
};

/// Quotas of projects, from the operator's file (a text proto of v1::Quotas), and the calls of the current second.
/// Thread-safe.
class Quotas {
 public:
  /// `file` empty: no quotas.
  Quotas(Clock& clock, std::string file) : clock_(clock), file_(std::move(file)) {}

  /// Reads the file if it has changed. A changed file is accepted only if it was the same at the previous call, because
  /// it may be in the middle of a write; the first call accepts it as it is. INVALID_ARGUMENT, once per change, with
  /// file, line and fault; the previous quotas then stay in force. A missing or empty file is such a fault too.
  absl::Status refresh();

  /// Whether any project can have a quota.
  bool any() const { return !file_.empty(); }
  v1::Quota of(const std::string& project) const;
  /// Projects that the file names.
  std::map<std::string, v1::Quota> named() const;

  /// Counts a call. RESOURCE_EXHAUSTED if the project has used up its calls.
  absl::Status takeCall(const std::string& project);

  /// Calls that takeCall() counted since the start, of each project with a limit of its rate.
  std::map<std::string, int64_t> callsTaken() const;
  /// Counts the calls that other servers admitted, as sums since any time in the past; the increase since the previous
  /// call of this function counts. A server learns of the others' calls with each heartbeat, so N servers together
  /// admit at most N - 1 times the calls of one interval between heartbeats more than one server would.
  void countElsewhere(const std::map<std::string, int64_t>& calls);

  /// Shared with calls in progress.
  const std::shared_ptr<QuotaRefusals>& refusals() const { return refusals_; }

 private:
  /// Token bucket: holds the calls of one second, and refills steadily. Each server has one for all servers' calls.
  struct Bucket {
    double calls = 0;  ///< below 0: other servers admitted more than there were
    int64_t filled_us = 0;
    int64_t taken = 0;
    std::optional<int64_t> elsewhere = std::nullopt;  ///< sum at the last countElsewhere()
  };
  v1::Quota lockedOf(const std::string& project) const;
  Bucket& lockedBucket(const std::string& project, double rate);

  Clock& clock_;
  const std::string file_;
  mutable std::mutex mutex_;
  /// Identity of a version of the file; empty if there is no file.
  using Facts = std::string;
  Facts facts() const;

  Facts seen_;                 ///< at the previous call
  std::optional<Facts> read_;  ///< of the version in force; nullopt before the first one
  v1::Quota default_;
  std::map<std::string, v1::Quota> named_;
  std::map<std::string, Bucket> buckets_;
  const std::shared_ptr<QuotaRefusals> refusals_ = std::make_shared<QuotaRefusals>();
};

}  // namespace tessera::server
