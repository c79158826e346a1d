#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/queue/step.h"
#include "tessera/v1/storage.pb.h"

/// The search for one workload's best tree: an action that belongs to the tune actions that want it, not to a job.
/// Equal workloads of different jobs in flight have one. It goes in batches: SEARCH proposes some trees, each is BUILT
/// and MEASURED, each outcome is committed with its record, and the log of outcomes (search_log.h) makes the next
/// batch. A tree that is much faster than what was confirmed before is confirmed at once where somebody can use it. Its
/// candidates' blobs go with their trials, what is left of them with the search.
namespace tessera::server {

/// Makes the tune action wait for the search of one of its workloads; the search's id. `unit` is of the default tree.
/// Sets `shared` where another job had begun it.
absl::StatusOr<std::string> joinSearch(Step& step, const v1::Action& tune, const v1::Action::BuildRef& unit,
                                       int64_t flops, bool& shared);

/// Whether its next batch may be proposed: it waits for its turn, or all trials under way are built, so that nothing of
/// it is left but what is measured.
absl::StatusOr<bool> mayPropose(Step& step, const v1::Action& search);

/// The next batch of a search that may propose one, of at most so many trees. Ahead of outcomes of the batch before, it
/// is told what is known.
inline constexpr int kBatch = 5;  ///< thesis, 4.4.2: what is learned is learned every five trials
absl::Status beginBatch(Step& step, v1::Action search, int most);

/// The default's time over a candidate's from which that is faster.
double leastGain(const v1::MeasuringRules& rules);

/// Whether all that is left of its batches is to be timed.
bool isTimedOnly(const v1::SearchState& search);

/// What the next batch may add to the workload's speed, as a share of it.
double expectedGain(const v1::SearchState& search);

/// A task of the search is DONE.
absl::Status searchTaskDone(Step& step, v1::Action search, const v1::Task& task);

/// A task of the search ended for good. What lies in a candidate is an outcome; what lies in the service or in the
/// request ends the jobs behind the search.
absl::Status searchTaskFailed(Step& step, v1::Action search, const v1::Task& task, const v1::Failure& failure);

/// No trial is begun any more and none is waited for; the best is confirmed, then the search is over.
absl::Status closeSearch(Step& step, v1::Action search);

/// The tune action does not wait any more; a search that nobody waits for is gone with all it has.
absl::Status leaveSearch(Step& step, const std::string& search_id, const std::string& tune_id);

}  // namespace tessera::server
