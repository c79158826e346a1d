#pragma once

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/queue/step.h"
#include "tessera/v1/storage.pb.h"

/// Before it searches for trees, a tune action measures the graph choices that prices leave open
/// (compiler/schedule/ambiguous_choices.h). The model is compiled with one choice changed and run alternating with the
/// best artifact so far. A choice that gives correct results and a gain beyond the noise is taken, and the next one is
/// tried on top of it. At the end all choices taken are run against the default together. A choice that cannot be
/// compiled or run is left as it was, with the reason. Each outcome is a tuning record, which later jobs and
/// compilations read.
namespace tessera::server {

inline constexpr int kDefaultChoices = 8;

/// The default has been planned: lists its open choices, first those that records report as faster. Choices that this
/// compiler's records report as not faster are left out.
absl::Status noteOpenChoices(Step& step, const v1::PlanTaskResult& plan, v1::Action& action);

/// The default has been timed: selects the choices to try, and notes a reason for each other one. Returns whether there
/// are any.
bool selectChoices(v1::TuneState& tune, int64_t now_us);

/// The model is compiled with the choice that is being tried; `action.result` is its artifact.
absl::Status choiceAssembled(Step& step, v1::Action& action);

/// Progress of choosing: it continues, or has ended with the default plan, or with a changed plan that is to be timed.
enum class Choosing { kGoesOn, kDefaultStays, kChanged };

/// Starts with the first choice, if there is one and time for it.
absl::StatusOr<Choosing> beginChoosing(Step& step, v1::Action& action);

/// A MEASURE task is DONE while the action is CHOOSING or CONFIRMING_CHOICES.
absl::StatusOr<Choosing> choiceMeasured(Step& step, v1::Action& action, const v1::Task& task);

/// `task` failed: the choice could not be compiled or run.
absl::StatusOr<Choosing> choiceFailed(Step& step, v1::Action& action, const v1::Task& task, const v1::Failure& failure);

/// Adds the choices taken.
void pinTaken(const v1::TuneState& tune, v1::Pins& pins);

}  // namespace tessera::server
