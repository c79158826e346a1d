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

/// RESOURCE_EXHAUSTED with a Failure that names the quota, its figure, what is used and when to try again.
absl::Status quotaExceeded(const std::string& project, const std::string& quota, double limit, double used,
                           int64_t retry_after_us, const std::string& fix);

/// It, of quota stored_bytes.
absl::Status outOfBytes(const std::string& project, int64_t limit, const storage::Usage& usage);

/// The calls that a quota ended: of so many projects by name, of all others together. No count ever falls: what was
/// counted among the others stays there when a project gets a name of its own, and its own count goes on from where it
/// was when it gets its name back. Thread-safe.
class QuotaRefusals {
 public:
  static constexpr size_t kNamed = 50;

  /// Counts the answer of a call where it is one of quotaExceeded().
  void note(const std::string& project, const absl::Status& answer);

  struct Counts {
    std::map<std::pair<std::string, std::string>, int64_t> named;  ///< by project and quota
    std::map<std::string, int64_t> others;                         ///< by quota
    std::set<std::string> projects;                                ///< that have a name
    bool all_named = true;                                         ///< others have met no quota
  };
  Counts counts() const;

 private:
  struct Project {
    int64_t refusals = 0;  ///< in all, by name or not
    bool named = false;
    std::map<std::string, int64_t> own;  ///< by quota, while it had a name
  };
  bool isNamed(Project& project);

  mutable std::mutex mutex_;
  std::map<std::string, Project> projects_;
  std::vector<Project*> named_;
  std::map<std::string, int64_t> others_;
};

/// What projects may use, as the operator's file says (a text proto of v1::Quotas), and the calls of this second.
/// Thread-safe.
class Quotas {
 public:
  /// `file` empty: no project has a quota.
  Quotas(Clock& clock, std::string file) : clock_(clock), file_(std::move(file)) {}

  /// Reads the file, the first time as it is; later if it is another than before, and the same as at the last look:
  /// somebody may be writing it. INVALID_ARGUMENT, once for each change, names the file, the line and what is wrong;
  /// then what was read before stands. It does so where the file is there no more, or has become empty, too.
  absl::Status refresh();

  /// Whether any project may ever have one.
  bool any() const { return !file_.empty(); }
  v1::Quota of(const std::string& project) const;
  /// Those that the file names.
  std::map<std::string, v1::Quota> named() const;

  /// Counts a call; RESOURCE_EXHAUSTED where the project has made as many as it may.
  absl::Status takeCall(const std::string& project);

  /// Calls in progress hold it as well.
  const std::shared_ptr<QuotaRefusals>& refusals() const { return refusals_; }

 private:
  /// As many calls as a second has may come at once; what is used fills up steadily (a token bucket).
  struct Bucket {
    double calls = 0;
    int64_t filled_us = 0;
  };
  v1::Quota lockedOf(const std::string& project) const;

  Clock& clock_;
  const std::string file_;
  mutable std::mutex mutex_;
  /// What tells a file from itself, changed; empty where there is none.
  using Facts = std::string;
  Facts facts() const;

  Facts seen_;                 ///< at the last look
  std::optional<Facts> read_;  ///< of what was read; before the first time nothing
  v1::Quota default_;
  std::map<std::string, v1::Quota> named_;
  std::map<std::string, Bucket> buckets_;
  const std::shared_ptr<QuotaRefusals> refusals_ = std::make_shared<QuotaRefusals>();
};

}  // namespace tessera::server
