#pragma once

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/queue/step.h"
#include "tessera/v1/storage.pb.h"

/// A tune action measures the choices of the graph that prices do not settle (compiler/schedule/open_choices.h), before
/// it searches trees: the model is compiled with one made the other way and run in turns with the best so far. What is
/// right and faster beyond the noise is taken, the next is tried on top of it; in the end all that were taken are run
/// against the default once more. A choice that cannot be compiled or run is left as it was, with the reason. What was
/// found of each is a tuning record, which later jobs and compilations read.
namespace tessera::server {

inline constexpr int kDefaultChoices = 8;

/// The default has been planned: what can be tried. First what records say is faster; what they say is not, of this
/// compiler, is left.
absl::Status noteOpenChoices(Step& step, const v1::PlanTaskResult& plan, v1::Action& action);

/// The default has been timed: whether any is worth trying. Those that are left out get the reason.
bool mayChoose(v1::TuneState& tune, int64_t now_us);

/// The model is compiled with the choice that is tried: `action.result` names it.
absl::Status choiceAssembled(Step& step, v1::Action& action);

/// Whether choosing goes on, or is over: with the default's plan, or with another one, which is to be timed.
enum class Choosing { kGoesOn, kDefaultStays, kChanged };

/// Begins with the first one, where there is time for any.
absl::StatusOr<Choosing> beginChoosing(Step& step, v1::Action& action);

/// A MEASURE task is DONE while the action is CHOOSING or CONFIRMING_CHOICES.
absl::StatusOr<Choosing> choiceMeasured(Step& step, v1::Action& action, const v1::Task& task);

/// It could not be compiled or run: `task` failed.
absl::StatusOr<Choosing> choiceFailed(Step& step, v1::Action& action, const v1::Task& task, const v1::Failure& failure);

/// Adds those that were taken.
void pinTaken(const v1::TuneState& tune, v1::Pins& pins);

}  // namespace tessera::server
