#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/backends/backend.h"
#include "compiler/step_cache/step_cache.h"
#include "tessera/v1/job.pb.h"
#include "tessera/v1/plan.pb.h"

namespace tessera::compiler {

/// The CompileOptions.opt_level of untiled, unfused loops.
inline constexpr int32_t kPlainLoops = 1;

/// Decides the schedules of the distinct workloads of all variants, each once: by a pin, or by default.
class Schedules {
 public:
  /// The arguments must outlive the object. `backend` decides and checks; null: of() is not called. `steps` caches
  /// default schedules; it may be null.
  Schedules(const v1::Target& target, const Backend* backend, const v1::CompileSpec& spec, const v1::Pins& pins,
            StepCache* steps);

  /// Decides the schedules of all `workloads` that have none yet, on as many threads as the process may use. Calls
  /// `done` after each, one call at a time. Errors are returned by of(). The schedules do not depend on the number of
  /// threads.
  void decideAll(const std::vector<const v1::Workload*>& workloads,
                 const std::function<void(int done, int total, const v1::Workload&)>& done);

  /// Returns the schedule of a decided workload: the pinned tree, else the default tree with the proposed slices.
  /// Slicing the stages of a rewritten convolution is optional; the stages run whole if code generation rejects it.
  /// Errors: those of defaultSchedule; INVALID_SCHEDULE with the path for a pinned tree that does not fit the workload,
  /// and for a workload for which a complete plan has no tree.
  const absl::StatusOr<v1::Schedule>& of(const v1::Workload& workload) const;

  bool isPinned(const v1::Workload& workload) const { return !suggests() && pins_.contains(workload.hash()); }

  /// Returns the workload's unit without its schedule.
  v1::BuildUnit unitOf(const v1::Workload& workload) const;

  /// Fails with INVALID_SCHEDULE for a pinned tree that names no decided workload. Adds the outcome of suggested trees
  /// to the report, for the workloads that exist.
  absl::Status finish(v1::GraphReport& report) const;

 private:
  absl::StatusOr<v1::Schedule> decide(const v1::Workload& workload, std::string& suggestion) const;
  bool suggests() const { return spec_.pin_use() == v1::SUGGESTIONS; }

  const v1::Target& target_;
  const Backend* const backend_;
  const v1::CompileSpec& spec_;
  StepCache* const steps_;
  std::map<std::string, const v1::Schedule*> pins_;
  struct Known {
    absl::StatusOr<v1::Schedule> schedule;
    std::string summary;
    std::string refusal;  ///< why a suggested tree was refused; empty: it was accepted, or there is none
  };
  std::map<std::string, Known> known_;  ///< by workload hash
};

/// Returns the pinned choices for a variant (variantText): those for it alone, then those for all variants.
std::vector<v1::Choice> choicesOf(const v1::Pins& pins, const std::string& variant);

/// Removes the suggested choice that `failed` is about, and records that in `decisions`. Returns false if planning
/// failed for another reason.
bool dropFailedSuggestion(const absl::Status& failed, std::vector<v1::Choice>& suggested,
                          std::vector<v1::Decision>& decisions);

/// Fails with INVALID_SCHEDULE for the first choice that `pins` do not decide.
absl::Status checkAllPinned(const v1::GraphReport& report, const std::vector<v1::Choice>& pins);

}  // namespace tessera::compiler
