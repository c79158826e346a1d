#pragma once

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/queue/queue_transaction.h"
#include "tessera/v1/storage.pb.h"

/// Before it searches for trees, a tune action measures the open choices of the graph: those whose alternatives have
/// predicted times within the error of the prediction (compiler/schedule/ambiguous_choices.h). The model is compiled
/// with one choice changed, and its runs alternate with runs of the best artifact so far. If the results are correct
/// and the gain exceeds the noise, the change is kept and the next choice is tried on top of it. At the end, the model
/// with all changes is compared with the default. A change that cannot be compiled or run is dropped, and the report
/// gives the reason. Each outcome is a tuning record, which later jobs and compilations read.
namespace tessera::server {

inline constexpr int kDefaultChoices = 8;

/// Call it when the default has been planned. Stores the plan's open choices in the action, first those that records
/// report as faster. Leaves out choices that this compiler's records report as not faster.
absl::Status noteOpenChoices(QueueTransaction& queue, const v1::PlanTaskResult& plan, v1::Action& action);

/// Call it when the default has been timed. Selects the choices to try, and stores a reason for each other one. Returns
/// whether any is selected.
bool selectChoices(v1::TuneState& tune, int64_t now_us);

/// Call it when the model with the choice being tried is compiled (`action.result` is its artifact). Adds the task that
/// measures it.
absl::Status choiceAssembled(QueueTransaction& queue, v1::Action& action);

/// State after a step: more choices remain, or all are decided and the default plan stays, or all are decided and the
/// changed plan must be timed.
enum class Choosing { kGoesOn, kDefaultStays, kChanged };

/// Starts with the first choice, if there is one and time for it.
absl::StatusOr<Choosing> beginChoosing(QueueTransaction& queue, v1::Action& action);

/// Call it when a MEASURE task of an action that is CHOOSING or CONFIRMING_CHOICES has succeeded. Keeps or drops the
/// choice and starts the next one.
absl::StatusOr<Choosing> choiceMeasured(QueueTransaction& queue, v1::Action& action, const v1::Task& task);

/// Call it when a task of the choice being tried has failed. Drops the choice with `failure` as the reason, and starts
/// the next one.
absl::StatusOr<Choosing> choiceFailed(QueueTransaction& queue, v1::Action& action, const v1::Task& task,
                                      const v1::Failure& failure);

/// Adds the choices that the action has kept so far to `pins`.
void pinTaken(const v1::TuneState& tune, v1::Pins& pins);

}  // namespace tessera::server
