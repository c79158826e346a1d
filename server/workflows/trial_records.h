#pragma once

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "server/queue/step.h"
#include "tessera/v1/record.pb.h"
#include "tessera/v1/storage.pb.h"

/// What came of a trial as a tuning record, stored with the step that ends the trial: exactly once.
namespace tessera::server {

inline constexpr char kSearchMode[] = "search";
inline constexpr char kConfirmedMode[] = "confirmed";  ///< the best once more, with more runs
inline constexpr char kChoiceMode[] = "choice";        ///< of the graph: the steps that change with it, without a tree

struct TrialOutcome {
  v1::TuningRecord::Outcome outcome = v1::TuningRecord::PASSED;
  std::string reason;                               ///< of one that failed
  const v1::MeasureTaskResult* measured = nullptr;  ///< of one that was measured
};

/// `task` built or measured the tree; `number` is the trial's.
absl::Status fileTrial(Step& step, const v1::Action& search, const v1::Task& task, const v1::Schedule& schedule,
                       int number, double build_ms, const char* mode, const TrialOutcome& outcome);

/// The same of the `number`th open choice of a tune action, to be stored by the caller. What was measured are times of
/// the steps that change with it.
v1::TuningRecord choiceRecord(const Step& step, const v1::Action& tune, const v1::Task& task,
                              const v1::OpenChoice& open, int number, const TrialOutcome& outcome);

/// What a failed candidate counts as; nothing where it is not its own fault.
std::optional<v1::TuningRecord::Outcome> outcomeOf(v1::TaskKind kind, v1::Failure::Reason reason);

/// Counts a failed trial.
void count(v1::TuneResult::Workload& told, v1::TuningRecord::Outcome outcome);

}  // namespace tessera::server
