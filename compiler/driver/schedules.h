#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/step_cache/step_cache.h"
#include "tessera/v1/job.pb.h"
#include "tessera/v1/plan.pb.h"

namespace tessera::compiler {

/// Schedules of the distinct workloads of all variants, each decided once: by a pin, or by default.
class Schedules {
 public:
  /// The arguments outlive it. `steps` knows defaults that were decided before; it may be null.
  Schedules(const v1::Target& target, const v1::CompileSpec& spec, const v1::Pins& pins, StepCache* steps);

  /// Decides all of these that are not known yet, on as many threads as the process may use at once. `done` hears of
  /// each, one at a time; errors wait for of(). What is decided does not depend on the threads.
  void decideAll(const std::vector<const v1::Workload*>& workloads,
                 const std::function<void(int done, int total, const v1::Workload&)>& done);

  /// What was decided of one of those: the pinned tree; else the default in the slices that are proposed. Those of a
  /// rewritten convolution are a wish: a result that cannot be cut so is computed stage by stage. Errors: as
  /// defaultSchedule; INVALID_SCHEDULE with the path for a pinned tree that the workload cannot follow, and for a
  /// workload that a whole plan leaves out.
  const absl::StatusOr<v1::Schedule>& of(const v1::Workload& workload) const;

  bool isPinned(const v1::Workload& workload) const { return !suggests() && pins_.contains(workload.hash()); }

  /// The unit without its schedule.
  v1::BuildUnit unitOf(const v1::Workload& workload) const;

  /// INVALID_SCHEDULE for a pinned tree of no workload that was asked for. Of suggested ones the report says what
  /// became of those that a workload has.
  absl::Status finish(v1::GraphReport& report) const;

 private:
  absl::StatusOr<v1::Schedule> decide(const v1::Workload& workload, std::string& suggestion) const;
  bool suggests() const { return spec_.pin_use() == v1::SUGGESTIONS; }

  const v1::Target& target_;
  const v1::CompileSpec& spec_;
  StepCache* const steps_;
  std::map<std::string, const v1::Schedule*> pins_;
  struct Known {
    absl::StatusOr<v1::Schedule> schedule;
    std::string summary;
    std::string refusal;  ///< of a suggested tree; empty: it is followed, or there is none
  };
  std::map<std::string, Known> known_;  ///< by workload hash
};

/// The pinned choices for a variant (variantText), those for it alone before those for all.
std::vector<v1::Choice> choicesOf(const v1::Pins& pins, const std::string& variant);

/// Suggested choices are followed where they can be. Leaves out the one that planning a variant failed for, and says so
/// in `decisions`; false: it failed for something else.
bool leaveOut(const absl::Status& failed, std::vector<v1::Choice>& suggested, std::vector<v1::Decision>& decisions);

/// INVALID_SCHEDULE with the first choice that `pins` leave open.
absl::Status allPinned(const v1::GraphReport& report, const std::vector<v1::Choice>& pins);

}  // namespace tessera::compiler
