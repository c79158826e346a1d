#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/queue/step.h"
#include "tessera/v1/storage.pb.h"

/// Steps of a tune action. The model is compiled with default decisions and timed step by step. Choices that prices
/// leave open are measured (choices.h), and a changed plan is timed again. A search runs for each workload with a
/// sufficient share of the time (searches.h), as many at once as the workers can serve, those with the largest expected
/// gain first; while choices are tried, only one with small batches. Confirmed trees become versions of the artifact
/// (versions.h). No failure of a candidate ends the action.
namespace tessera::server {

inline constexpr int kDefaultTrials = 64;
inline constexpr int kComparingRuns = 15;  ///< of whole models, alternating
inline constexpr int64_t kDefaultBudgetUs = int64_t{300} * 1'000'000;

/// Adds the first task of a new tune action, whose `compile` and `target` are set.
absl::Status beginTuning(Step& step, v1::Action action, const v1::Job& job, v1::TuneMode mode);

/// Artifacts to measure. Two plans are involved: `action.plan` is the plan of the candidate, or of the baseline if
/// there is no candidate; `plan` below is that of the baseline, if it differs.
struct Measured {
  v1::Digest baseline;
  v1::Digest candidate = {};  ///< empty: the baseline is timed alone, step by step
  v1::Digest plan =
      {};  ///< the baseline's plan, if the steps in which the plans differ are to be timed; empty: equal plans
};
absl::Status measureModel(Step& step, const v1::Action& action, const Measured& artifacts, int runs);

/// Stores these decisions as text, and returns the blob.
absl::StatusOr<v1::Digest> printedPins(Step& step, const v1::Action& action, const v1::Pins& pins);

/// Compiles the action's model with these decisions.
absl::Status compileTuned(Step& step, v1::Action& action, const v1::Pins& pins);

/// Sets the action's current artifact.
void setResult(const v1::Digest& artifact, v1::Action& action);

/// Key under which the artifact being assembled is cached.
std::string tunedKey(const v1::Action& action);

/// Whether the default is being compiled or timed, or choices are being tried. Trees that searches find meanwhile wait.
bool isBeforeSearching(const v1::TuneState& tune);

/// An artifact is stored; `action.result` names it.
absl::Status tuneAssembled(Step& step, v1::Action& action);

/// A MEASURE task of the action itself is DONE.
absl::Status tuneMeasured(Step& step, v1::Action& action, const v1::Task& task);

/// A task of the action itself has failed for good. Fails the jobs unless the default is available.
absl::Status tuneTaskFailed(Step& step, v1::Action action, const v1::Task& task, const v1::Failure& failure);

/// A trial of a search has ended; `failure` is empty if it succeeded. Updates the tune actions that wait for the
/// search.
absl::Status reportTrial(Step& step, const v1::Action& search, const std::string& failure);

/// A search that the action waits for has ended.
absl::Status searchEnded(Step& step, const std::string& tune_id, const v1::Action& search);

/// Starts the next version if there is a new tree, and batches of waiting searches. Without remaining searches the
/// action proceeds.
absl::Status dispatchSearches(Step& step, const std::string& tune_id);

/// Tune actions that are still searching and have used up their budget.
absl::StatusOr<std::vector<std::string>> pastBudget(storage::Reader& reader, int64_t now_us);

/// The budget is used up: starts no further trial.
absl::Status endBudget(Step& step, const std::string& tune_id);

/// The result so far.
v1::TuneResult tuneResult(const v1::Action& action);

}  // namespace tessera::server
