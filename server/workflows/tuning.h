#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/queue/step.h"
#include "tessera/v1/storage.pb.h"

/// A tune action's way: the model is compiled as it is by default and timed step by step; choices that its prices do
/// not settle are measured (choices.h), and what is taken is timed again; a search for each workload that takes enough
/// of the time, as many at once as workers can feed, those first from which the model gains most, and a little of one
/// at a time while choices are tried already; the trees that are confirmed make versions of its artifact (versions.h).
/// Nothing that a candidate does ends it.
namespace tessera::server {

inline constexpr int kDefaultTrials = 64;
inline constexpr int kComparingRuns = 15;  ///< of whole models in turns
inline constexpr int64_t kDefaultBudgetUs = int64_t{300} * 1'000'000;

/// The first task of a new tune action, whose `compile` and `target` are set. `deadline_us` is its job's.
absl::Status beginTuning(Step& step, v1::Action action, const v1::Job& job, v1::TuneMode mode);

/// Artifacts of the model that `action.plan` is of.
struct Measured {
  v1::Digest baseline;
  v1::Digest candidate = {};  ///< none: the baseline is timed alone, step by step
  v1::Digest plan = {};  ///< the baseline's, where `action.plan` is the candidate's and steps that change are wanted
};
absl::Status measureModel(Step& step, const v1::Action& action, const Measured& artifacts, int runs);

/// The blob of these decisions as a text.
absl::StatusOr<v1::Digest> printedPins(Step& step, const v1::Action& action, const v1::Pins& pins);

/// Compiles the action's model with them.
absl::Status compileTuned(Step& step, v1::Action& action, const v1::Pins& pins);

/// The artifact that the action's jobs have from now on.
void resultIs(const v1::Digest& artifact, v1::Action& action);

/// The key under which the artifact that the action assembles now is found.
std::string tunedKey(const v1::Action& action);

/// Whether it is compiled, timed, or its choices are tried: what its searches find meanwhile waits.
bool isBeforeSearching(const v1::TuneState& tune);

/// Its artifact is stored: `action.result` names it.
absl::Status tuneAssembled(Step& step, v1::Action& action);

/// A MEASURE task of the action itself is DONE.
absl::Status tuneMeasured(Step& step, v1::Action& action, const v1::Task& task);

/// A task of the action itself ended for good: the job's failure, unless the default is there and only what was tuned
/// is lacking.
absl::Status tuneTaskFailed(Step& step, v1::Action action, const v1::Task& task, const v1::Failure& failure);

/// A trial of a search has ended, for `failure` if that is not empty: who waits for the search hears of it.
absl::Status tellTrial(Step& step, const v1::Action& search, const std::string& failure);

/// A search that the action waits for is over.
absl::Status searchEnded(Step& step, const std::string& tune_id, const v1::Action& search);

/// Makes the next version where there is something new, and gives waiting searches their turn; when there is none left,
/// the action goes on.
absl::Status dispatchSearches(Step& step, const std::string& tune_id);

/// Tune actions that still search and whose budget is used up.
absl::StatusOr<std::vector<std::string>> pastBudget(storage::Reader& reader, int64_t now_us);

/// The budget is used up: no trial begins any more.
absl::Status endBudget(Step& step, const std::string& tune_id);

/// What was found so far.
v1::TuneResult tuneResult(const v1::Action& action);

}  // namespace tessera::server
