#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/queue/queue_transaction.h"
#include "tessera/v1/storage.pb.h"

/// Steps of a tune action:
///   1. The model is compiled with default decisions, and each of its steps is timed.
///   2. Open choices of the graph are measured (choices.h). If the plan changes, its steps are timed again.
///   3. A search runs for each workload with a sufficient share of the time (searches.h): as many at once as the
///   workers
///      can serve, those with the largest expected gain first. During step 2 only one runs, with small batches.
///   4. Confirmed trees become versions of the artifact (versions.h).
/// A candidate's failure never ends the action.
namespace tessera::server {

inline constexpr int kDefaultTrials = 64;
inline constexpr int kComparingRuns = 15;  ///< of whole models, alternating
inline constexpr int64_t kDefaultBudgetUs = int64_t{300} * 1'000'000;

/// Adds the first task of a new tune action, whose `compile` and `target` are set.
absl::Status beginTuning(QueueTransaction& queue, v1::Action action, const v1::Job& job, v1::TuneMode mode);

/// Artifacts to measure. `action.plan` is the plan of the candidate, or of the baseline if there is no candidate.
struct Measured {
  v1::Digest baseline;
  v1::Digest candidate = {};  ///< empty: the baseline is timed alone, step by step
  /// The baseline's plan, to time the steps in which the two plans differ; empty: the plans are equal.
  v1::Digest plan = {};
};
/// Adds the MEASURE task of these artifacts, with `runs` runs of each.
absl::Status measureModel(QueueTransaction& queue, const v1::Action& action, const Measured& artifacts, int runs);

/// Stores these decisions as text, and returns the blob.
absl::StatusOr<v1::Digest> printedPins(QueueTransaction& queue, const v1::Action& action, const v1::Pins& pins);

/// Compiles the action's model with these decisions.
absl::Status compileTuned(QueueTransaction& queue, v1::Action& action, const v1::Pins& pins);

/// Sets the action's current artifact.
void setResult(const v1::Digest& artifact, v1::Action& action);

/// Key under which the artifact being assembled is cached.
std::string tunedKey(const v1::Action& action);

/// Whether the default is being compiled or timed, or choices are being tried. No version is made during this time.
bool isBeforeSearching(const v1::TuneState& tune);

/// Call it when an artifact of the action is stored (`action.result` is its digest): starts the measurement that the
/// action's stage requires.
absl::Status tuneAssembled(QueueTransaction& queue, v1::Action& action);

/// Call it when a MEASURE task of the action itself, not of a search, has succeeded: evaluates the times and starts the
/// next stage.
absl::Status tuneMeasured(QueueTransaction& queue, v1::Action& action, const v1::Task& task);

/// Call it when a task of the action itself has failed without a further attempt. Fails the jobs if the default is not
/// available yet.
absl::Status tuneTaskFailed(QueueTransaction& queue, v1::Action action, const v1::Task& task,
                            const v1::Failure& failure);

/// Call it when a trial of a search has ended; `failure` is empty if it succeeded. Updates the report of the tune
/// actions that wait for the search.
absl::Status reportTrial(QueueTransaction& queue, const v1::Action& search, const std::string& failure);

/// Call it when a search that the action waits for has ended: copies its report and removes it from the action.
absl::Status searchEnded(QueueTransaction& queue, const std::string& tune_id, const v1::Action& search);

/// Starts the next version if there is a new tree, and the next batches of idle searches. If no search remains, starts
/// the action's next stage.
absl::Status dispatchSearches(QueueTransaction& queue, const std::string& tune_id);

/// Returns the ids of tune actions that are still searching and have used up their budget.
absl::StatusOr<std::vector<std::string>> pastBudget(storage::Reader& reader, int64_t now_us);

/// Call it when the action's budget is used up: ends its searches, which start no further trial.
absl::Status endBudget(QueueTransaction& queue, const std::string& tune_id);

/// Returns the result so far.
v1::TuneResult tuneResult(const v1::Action& action);

}  // namespace tessera::server
