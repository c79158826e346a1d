#pragma once

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "server/queue/queue_transaction.h"
#include "tessera/v1/record.pb.h"
#include "tessera/v1/storage.pb.h"

/// Tuning records of trials. Each is stored in the transaction that ends the trial, hence exactly once.
namespace tessera::server {

inline constexpr char kSearchMode[] = "search";
inline constexpr char kConfirmedMode[] = "confirmed";  ///< the best tree, measured again with more runs
inline constexpr char kChoiceMode[] = "choice";        ///< of the graph: times of the steps that it changes; no tree

struct TrialOutcome {
  v1::TuningRecord::Outcome outcome = v1::TuningRecord::PASSED;
  std::string reason;                               ///< of a failed trial
  const v1::MeasureTaskResult* measured = nullptr;  ///< of a measured trial
};

/// Stores the record of a tree that `task` built or measured; `number` is the trial's.
absl::Status storeTrial(QueueTransaction& queue, const v1::Action& search, const v1::Task& task,
                        const v1::Schedule& schedule, int number, double build_ms, const char* mode,
                        const TrialOutcome& outcome);

/// The record of the `number`th open choice of a tune action, with the times of the steps that it changes. The caller
/// stores it.
v1::TuningRecord choiceRecord(const QueueTransaction& queue, const v1::Action& tune, const v1::Task& task,
                              const v1::AmbiguousChoice& open, int number, const TrialOutcome& outcome);

/// Outcome that a candidate's failure counts as; nullopt if the candidate did not cause it.
std::optional<v1::TuningRecord::Outcome> outcomeOf(v1::TaskKind kind, v1::Failure::Reason reason);

/// Adds a failed trial to the counters of `report`, the workload's report that clients read.
void addFailedTrial(v1::TuneResult::Workload& report, v1::TuningRecord::Outcome outcome);

}  // namespace tessera::server
