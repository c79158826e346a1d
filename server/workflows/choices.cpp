#include "server/workflows/choices.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "proto/messages/project.h"
#include "proto/support/median.h"
#include "proto/support/status_macros.h"
#include "server/queue/actions.h"
#include "server/workflows/knowledge.h"
#include "server/workflows/searches.h"
#include "server/workflows/trial_records.h"
#include "server/workflows/tuning.h"
#include "server/workflows/tuning_progress.h"
#include "server/workflows/versions.h"

namespace tessera::server {
namespace {

using Trial = v1::TuneResult::ChoiceTrial;

constexpr double kMinShare = 0.001;  // of the model's time; a smaller gain is not worth a compilation
constexpr int64_t kBudgetParts = 3;  // fraction of the budget for choices is 1 / kBudgetParts

/// "winograd-2x2 instead of direct at Conv_16 and 2 more"
std::string nameOf(const v1::AmbiguousChoice& open) {
  const std::string more =
      open.choices_size() > 1 ? absl::StrCat(" and ", open.choices_size() - 1, " more like it") : "";
  return absl::StrCat(open.choices(0).choice(), " instead of ", open.instead_of(), " at ", open.choices(0).place(),
                      more);
}

/// Progress of the phase "choose", in choices.
v1::Progress progressOf(const v1::TuneState& tune, const std::string& detail) {
  v1::Progress progress;
  progress.set_phase("choose");
  progress.set_done(tune.choices_tried());
  progress.set_total(tune.choices_size());
  progress.set_detail(detail);
  return progress;
}

/// Leaves the choice out if this compiler's records report it as not faster. Returns whether records report it as
/// faster.
absl::StatusOr<bool> askRecords(QueueTransaction& queue, const v1::Action& action, Trial& trial) {
  const int threads = std::max(1, action.tune().spec().threads());
  TESSERA_ASSIGN_OR_RETURN(
      const v1::TuningRecord answer,
      newestChoiceRecord(queue.tx, {projectOf(action), trial.open().hash(), action.target(), threads}));
  if (answer.id().empty()) {
    return false;
  }
  if (isFaster(answer)) {
    return true;
  }
  if (answer.compiler_version() == queue.rules.compiler_version) {
    trial.set_untaken(answer.median_ms() > 0 ? absl::StrFormat("%.3f times as fast, as record %s says",
                                                               answer.baseline_ms() / answer.median_ms(), answer.id())
                                             : absl::StrCat(answer.reason(), ", as record ", answer.id(), " says"));
  }
  return false;
}

/// Advances to the next choice to try; false if there is none, or no time. Reads the records again, since other jobs
/// may have measured some meanwhile.
absl::StatusOr<bool> advance(QueueTransaction& queue, v1::Action& action) {
  v1::TuneState& tune = *action.mutable_tune();
  while (tune.choices_tried() < tune.choices_size()) {
    Trial& next = *tune.mutable_choices(tune.choices_tried());
    if (next.untaken().empty()) {
      TESSERA_RETURN_IF_ERROR(askRecords(queue, action, next).status());
    }
    if (next.untaken().empty() && queue.now_us >= tune.choices_end_us()) {
      next.set_untaken("the part of the budget that is for choices was used up");
    }
    if (next.untaken().empty()) {
      return true;
    }
    tune.set_choices_tried(tune.choices_tried() + 1);
  }
  return false;
}

/// Compiles the model with the next choice in addition to the kept ones. After the last choice, compares the model with
/// all kept choices with the default.
absl::StatusOr<Choosing> tryNext(QueueTransaction& queue, v1::Action& action) {
  v1::TuneState& tune = *action.mutable_tune();
  TESSERA_ASSIGN_OR_RETURN(const bool more, advance(queue, action));
  if (more) {
    const v1::AmbiguousChoice& open = tune.choices(tune.choices_tried()).open();
    TESSERA_RETURN_IF_ERROR(showProgress(queue, action, progressOf(tune, nameOf(open)), false));
    v1::Pins pins;
    pinTaken(tune, pins);
    pins.mutable_choices()->MergeFrom(open.choices());
    TESSERA_RETURN_IF_ERROR(compileTuned(queue, action, pins));
    return Choosing::kGoesOn;
  }
  if (!tune.has_chosen_artifact()) {
    return Choosing::kDefaultStays;
  }
  tune.set_stage(v1::TuneState::CONFIRMING_CHOICES);
  *action.mutable_plan() = tune.chosen_plan();
  TESSERA_RETURN_IF_ERROR(measureModel(
      queue, action, {.baseline = tune.default_artifact(), .candidate = tune.chosen_artifact()}, kComparingRuns));
  TESSERA_RETURN_IF_ERROR(queue.tx.putAction(action));
  return Choosing::kGoesOn;
}

/// The record of the choice being tried.
v1::TuningRecord recordOfTried(const QueueTransaction& queue, const v1::Action& action, const v1::Task& task,
                               const TrialOutcome& outcome) {
  const int tried = action.tune().choices_tried();
  return choiceRecord(queue, action, task, action.tune().choices(tried).open(), tried + 1, outcome);
}

/// Takes the current choice if `why_not` is empty, otherwise leaves it; then tries the next one.
absl::StatusOr<Choosing> decided(QueueTransaction& queue, v1::Action& action, const std::string& why_not) {
  v1::TuneState& tune = *action.mutable_tune();
  Trial& trial = *tune.mutable_choices(tune.choices_tried());
  trial.set_taken(why_not.empty());
  trial.set_untaken(why_not);
  tune.set_choices_tried(tune.choices_tried() + 1);
  const std::string outcome =
      trial.ms() > 0 ? absl::StrFormat("%.4f ms, %.4f ms before", trial.ms(), trial.before_ms()) : why_not;
  TESSERA_RETURN_IF_ERROR(
      showProgress(queue, action, progressOf(tune, absl::StrCat(nameOf(trial.open()), ": ", outcome)), false));
  return tryNext(queue, action);
}

/// Leaves the current choice, and stores its measurement.
absl::StatusOr<Choosing> left(QueueTransaction& queue, v1::Action& action, const v1::TuningRecord& record,
                              const std::string& why_not) {
  TESSERA_RETURN_IF_ERROR(queue.tx.putRecord(record));
  return decided(queue, action, why_not);
}

/// Decides about the current choice by the measured times.
absl::StatusOr<Choosing> compared(QueueTransaction& queue, v1::Action& action, const v1::Task& task) {
  v1::TuneState& tune = *action.mutable_tune();
  Trial& trial = *tune.mutable_choices(tune.choices_tried());
  const v1::MeasureTaskResult& result = task.result().measure();
  if (!result.wrong().empty()) {
    const TrialOutcome wrong{v1::TuningRecord::WRONG_RESULT, result.wrong(), nullptr};
    return left(queue, action, recordOfTried(queue, action, task, wrong),
                absl::StrCat("the model's results change with it: ", result.wrong()));
  }
  v1::TuningRecord record = recordOfTried(queue, action, task, {v1::TuningRecord::PASSED, "", &result});
  trial.set_before_ms(record.baseline_ms());
  trial.set_ms(record.median_ms());
  trial.set_noise(record.host_noise());
  if (trial.before_ms() == 0) {
    return decided(queue, action, "no step changes with it");
  }
  // A gain within the noise of the host is none.
  const double least = std::max(minGain(tune.spec().measuring()), 1 + trial.noise());
  const double speed = trial.ms() > 0 ? trial.before_ms() / trial.ms() : 0;
  if (speed < least) {
    return left(queue, action, record, absl::StrFormat("%.3f times as fast, less than %.3f", speed, least));
  }
  // The steps that change are faster. The whole model must not be slower, e.g. by a layout that other steps have to
  // undo.
  const double before_ms = medianOf(result.baseline_ms()), ms = medianOf(result.candidate_ms());
  if (ms > before_ms * (1 + relativeMad(result.baseline_ms()))) {
    return decided(queue, action,
                   absl::StrFormat("its steps are %.3f times as fast, but others slower: %.4f ms, %.4f ms before",
                                   speed, ms, before_ms));
  }
  *tune.mutable_chosen_artifact() = task.spec().measure().candidate();
  *tune.mutable_chosen_plan() = action.plan();
  *tune.mutable_chosen_units() = action.builds();
  *tune.add_unconfirmed() = std::move(record);
  return decided(queue, action, "");
}

/// Leaves all choices, because their confirmation failed.
Choosing dropAll(v1::Action& action, const std::string& why) {
  v1::TuneState& tune = *action.mutable_tune();
  for (Trial& trial : *tune.mutable_choices()) {
    if (trial.taken()) {
      trial.set_taken(false);
      trial.set_untaken(why);
    }
  }
  tune.clear_chosen_artifact();
  tune.clear_chosen_plan();
  tune.clear_chosen_units();
  tune.clear_unconfirmed();
  return Choosing::kDefaultStays;
}

/// Takes over all choices together, if the model is correct and not slower with them.
absl::StatusOr<Choosing> confirmed(QueueTransaction& queue, v1::Action& action, const v1::Task& task) {
  const v1::MeasureTaskResult& result = task.result().measure();
  if (!result.wrong().empty()) {
    return dropAll(action, absl::StrCat("the model's results change with all of them: ", result.wrong()));
  }
  // Gains measured one by one need not add up.
  const double default_ms = medianOf(result.baseline_ms()), ms = medianOf(result.candidate_ms());
  if (ms > default_ms) {
    return dropAll(action, absl::StrFormat("with all of them the model was not faster (%.4f ms, %.4f ms by default)",
                                           ms, default_ms));
  }
  v1::TuneState& tune = *action.mutable_tune();
  *tune.mutable_base_plan() = tune.chosen_plan();
  *tune.mutable_units() = tune.chosen_units();
  v1::Pins pins;
  pinTaken(tune, pins);
  TESSERA_ASSIGN_OR_RETURN(*tune.mutable_pins(), printedPins(queue, action, pins));
  for (const v1::TuningRecord& record : tune.unconfirmed()) {
    TESSERA_RETURN_IF_ERROR(queue.tx.putRecord(record));
  }
  tune.clear_unconfirmed();
  TESSERA_RETURN_IF_ERROR(choicesConfirmed(queue, action, result));
  return Choosing::kChanged;
}

}  // namespace

absl::Status noteOpenChoices(QueueTransaction& queue, const v1::PlanTaskResult& plan, v1::Action& action) {
  std::vector<Trial> faster, others;
  for (const v1::AmbiguousChoice& open : plan.ambiguous_choices()) {
    Trial trial;
    *trial.mutable_open() = open;
    TESSERA_ASSIGN_OR_RETURN(const bool known_faster, askRecords(queue, action, trial));
    // Those that records call faster are tried first, while there is time.
    (known_faster ? faster : others).push_back(std::move(trial));
  }
  v1::TuneState& tune = *action.mutable_tune();
  tune.mutable_choices()->Assign(faster.begin(), faster.end());
  tune.mutable_choices()->Add(others.begin(), others.end());
  return absl::OkStatus();
}

bool selectChoices(v1::TuneState& tune, int64_t now_us) {
  const int most = tune.spec().has_choices() ? tune.spec().choices() : kDefaultChoices;
  const double least_us = 1000 * tune.model_ms() * kMinShare;
  int wanted = 0;
  for (Trial& trial : *tune.mutable_choices()) {
    if (!trial.untaken().empty()) {
      continue;
    }
    if (trial.open().possible_gain_us() < least_us) {
      trial.set_untaken(
          absl::StrFormat("it may gain %.1f us, too little for a compilation", trial.open().possible_gain_us()));
    } else if (wanted == most) {
      trial.set_untaken(most == 0 ? "the request asks for none"
                                  : absl::StrCat("not among the ", most, " that may gain most"));
    } else {
      ++wanted;
    }
  }
  tune.set_choices_start_us(now_us);
  tune.set_choices_end_us(now_us + ((tune.budget_end_us() - now_us) / kBudgetParts));
  return wanted > 0;
}

absl::StatusOr<Choosing> beginChoosing(QueueTransaction& queue, v1::Action& action) {
  action.mutable_tune()->set_stage(v1::TuneState::CHOOSING);
  return tryNext(queue, action);
}

absl::Status choiceAssembled(QueueTransaction& queue, v1::Action& action) {
  const v1::TuneState& tune = action.tune();
  const v1::Digest made = action.result().artifact();
  const v1::Digest& before = tune.has_chosen_artifact() ? tune.chosen_artifact() : tune.default_artifact();
  // The default stays the job's artifact until all choices taken are confirmed.
  setResult(tune.default_artifact(), action);
  const v1::Digest& plan = tune.has_chosen_artifact() ? tune.chosen_plan() : tune.base_plan();
  TESSERA_RETURN_IF_ERROR(
      measureModel(queue, action, {.baseline = before, .candidate = made, .plan = plan}, kComparingRuns));
  return queue.tx.putAction(action);
}

absl::StatusOr<Choosing> choiceMeasured(QueueTransaction& queue, v1::Action& action, const v1::Task& task) {
  return action.tune().stage() == v1::TuneState::CHOOSING ? compared(queue, action, task)
                                                          : confirmed(queue, action, task);
}

absl::StatusOr<Choosing> choiceFailed(QueueTransaction& queue, v1::Action& action, const v1::Task& task,
                                      const v1::Failure& failure) {
  const std::string why = absl::StrCat("the model could not be compiled or run with it: ", failure.message());
  if (action.tune().stage() != v1::TuneState::CHOOSING) {
    return dropAll(action, why);
  }
  const auto outcome = outcomeOf(task.spec().kind(), failure.reason());
  if (!outcome) {
    return decided(queue, action, why);
  }
  return left(queue, action, recordOfTried(queue, action, task, {*outcome, failure.message(), nullptr}), why);
}

void pinTaken(const v1::TuneState& tune, v1::Pins& pins) {
  for (const Trial& trial : tune.choices()) {
    if (trial.taken()) {
      pins.mutable_choices()->MergeFrom(trial.open().choices());
    }
  }
}

}  // namespace tessera::server
