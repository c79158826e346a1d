#include "server/workflows/searches.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "proto/messages/project.h"
#include "proto/messages/search_methods.h"
#include "proto/support/median.h"
#include "proto/support/status_macros.h"
#include "server/canonical.h"
#include "server/queue/actions.h"
#include "server/queue/jobs.h"
#include "server/queue/tasks.h"
#include "server/queue/uses.h"
#include "server/workflows/candidates.h"
#include "server/workflows/compile_steps.h"
#include "server/workflows/knowledge.h"
#include "server/workflows/search_log.h"
#include "server/workflows/trial_records.h"
#include "server/workflows/tuning.h"
#include "server/workflows/versions.h"

namespace tessera::server {
namespace {

constexpr int kMaxReportedFailures = 5;    // failures reported per workload
constexpr size_t kMaxFailureBytes = 1000;  // length of each; they are stored with every trial
constexpr int kConfirmTimes = 3;           // runs, in multiples of a trial's
constexpr double kUnknownGain = 0.1, kMinExpected = 0.002;
constexpr double kMinGain = 1.01;
constexpr double kWorthConfirming = 1.05;  // minimum gain over the last confirmed tree for an early confirmation
constexpr int64_t kTrialTimeoutUs = 30'000'000;

using Trial = v1::SearchState::Trial;

/// Adds a task. Its run timeout is taken from the action, so that is set to the trial's or the default one.
absl::StatusOr<v1::Task> addSearchTask(QueueTransaction& queue, v1::Action& search, v1::TaskSpec spec, bool trial) {
  const int64_t given = search.search().rules().trial_timeout_us();
  search.set_run_timeout_us(!trial ? queue.rules.run_timeout_us : given > 0 ? given : kTrialTimeoutUs);
  const bool runs = spec.kind() == v1::MEASURE;
  const HostNeeds needs = needsOf(search.target());
  return addTask(queue, search, std::move(spec), "", runs ? &needs : nullptr);
}

/// Adds the measurement of a candidate against the default tree, with `times` the usual number of runs.
absl::StatusOr<v1::Task> addMeasurement(QueueTransaction& queue, v1::Action& search, const v1::Digest& candidate,
                                        int times) {
  const v1::SearchState& state = search.search();
  v1::TaskSpec spec;
  spec.set_kind(v1::MEASURE);
  v1::MeasureTask& measure = *spec.mutable_measure();
  *measure.mutable_plan() = state.plan();
  measure.set_workload_hash(state.workload_hash());
  *measure.mutable_baseline() = state.baseline();
  *measure.mutable_candidate() = candidate;
  measure.set_threads(state.threads());
  measure.set_seed(state.seed());
  measure.set_cold(state.cold());
  measure.set_best_speed(state.best_speed());
  *measure.mutable_rules() = state.rules();
  if (times > 1) {
    measure.mutable_rules()->set_repeat(times * std::max(7, state.rules().repeat()));
    measure.mutable_rules()->set_most(2 * measure.rules().repeat());
  }
  for (const v1::Digest* input : {&state.plan(), &state.baseline(), &candidate}) {
    *spec.add_inputs() = *input;
  }
  return addSearchTask(queue, search, std::move(spec), true);
}

Trial* trialOf(v1::SearchState& state, const std::string& task_id) {
  const auto found = std::find_if(state.mutable_trials()->begin(), state.mutable_trials()->end(),
                                  [&](const Trial& trial) { return trial.task_id() == task_id; });
  return found == state.mutable_trials()->end() ? nullptr : &*found;
}

/// Number of trials in progress.
int openTrials(const v1::SearchState& state) {
  return static_cast<int>(std::count_if(state.trials().begin(), state.trials().end(), isOpen));
}

/// Whether a candidate is still to be built.
bool isBuilding(const v1::SearchState& state) {
  return std::any_of(state.trials().begin(), state.trials().end(),
                     [](const Trial& trial) { return isOpen(trial) && !trial.measuring(); });
}

/// Whether no further trial will be started.
bool isOver(const v1::SearchState& state) {
  return state.exhausted() || state.closing() || state.report().trials() >= state.trials_wanted();
}

/// Lets the tune actions that wait for the search start their next batches.
absl::Status dispatchWaiting(QueueTransaction& queue, const v1::Action& search) {
  const std::vector<std::string> waiting(search.search().wanted_by().begin(), search.search().wanted_by().end());
  for (const std::string& tune : waiting) {
    TESSERA_RETURN_IF_ERROR(dispatchSearches(queue, tune));
  }
  return absl::OkStatus();
}

/// Puts the search among those that wait to be started.
absl::Status awaitTurn(QueueTransaction& queue, v1::Action search) {
  search.mutable_search()->set_stage(v1::SearchState::WAITING);
  search.mutable_search()->clear_task_id();
  TESSERA_RETURN_IF_ERROR(queue.tx.putAction(search));
  return dispatchWaiting(queue, search);
}

/// Ends the search: reports its result to the tune actions, and deletes it.
absl::Status finish(QueueTransaction& queue, v1::Action search) {
  TESSERA_ASSIGN_OR_RETURN(const SearchHistory history, historyOf(queue.tx, search.id()));
  v1::SearchState& state = *search.mutable_search();
  const bool improved = history.confirmed.has_schedule();
  state.mutable_report()->set_improved(improved);
  if (improved) {
    *state.mutable_report()->mutable_best() = history.confirmed.schedule();
    state.mutable_report()->set_best_ms(state.report().default_ms() / history.confirmed.speed());
  } else {
    state.mutable_report()->clear_best();
    state.mutable_report()->set_best_ms(state.report().default_ms());
  }
  const std::vector<std::string> waiting(state.wanted_by().begin(), state.wanted_by().end());
  for (const std::string& tune : waiting) {
    TESSERA_RETURN_IF_ERROR(searchEnded(queue, tune, search));
  }
  TESSERA_RETURN_IF_ERROR(deleteSearch(queue, search));
  for (const std::string& tune : waiting) {
    TESSERA_RETURN_IF_ERROR(dispatchSearches(queue, tune));
  }
  return absl::OkStatus();
}

/// Measures the best tree again against the default, with more runs.
absl::Status confirm(QueueTransaction& queue, v1::Action search) {
  v1::SearchState& state = *search.mutable_search();
  state.set_stage(v1::SearchState::CONFIRMING);
  TESSERA_ASSIGN_OR_RETURN(const v1::Task task, addMeasurement(queue, search, state.best().object(), kConfirmTimes));
  state.set_task_id(task.id());
  return queue.tx.putAction(search);
}

/// Confirms the best tree if that is still to be done, otherwise ends the search.
absl::Status conclude(QueueTransaction& queue, v1::Action search) {
  const v1::SearchState& state = search.search();
  TESSERA_ASSIGN_OR_RETURN(const SearchHistory history, historyOf(queue.tx, search.id()));
  // A tree that was confirmed early is not measured again.
  const bool known = canonicalBytes(history.confirmed.schedule()) == canonicalBytes(state.best().schedule());
  const bool faster = state.best().has_object() && state.best_speed() >= minGain(state.rules());
  return faster && !known ? confirm(queue, std::move(search)) : finish(queue, std::move(search));
}

/// Whether a tune action can use a tree before the search ends.
absl::StatusOr<bool> wantedEarly(QueueTransaction& queue, const v1::SearchState& state) {
  for (const std::string& tune : state.wanted_by()) {
    TESSERA_ASSIGN_OR_RETURN(const bool early, takesTreesEarly(queue, tune));
    if (early) {
      return true;
    }
  }
  return false;
}

/// Whether the best tree should be confirmed before further trials.
absl::StatusOr<bool> confirmationIsDue(QueueTransaction& queue, const v1::Action& search) {
  const v1::SearchState& state = search.search();
  if (!state.best().has_object() || state.best_speed() < kWorthConfirming) {
    return false;
  }
  TESSERA_ASSIGN_OR_RETURN(const SearchHistory history, historyOf(queue.tx, search.id()));
  return state.best_speed() < kWorthConfirming * history.confirmed.speed() ? false : wantedEarly(queue, state);
}

/// Moves batches without open trials to the log. Then continues with a batch that was proposed ahead, waits to be
/// started again, or ends the search.
absl::Status endBatches(QueueTransaction& queue, v1::Action search) {
  v1::SearchState& state = *search.mutable_search();
  while (oldestIsOver(state)) {
    TESSERA_ASSIGN_OR_RETURN(const SearchHistory history, historyOf(queue.tx, search.id()));
    TESSERA_RETURN_IF_ERROR(appendOldest(queue, search));
    const double gained =
        state.best_speed() > history.best_speed ? (state.best_speed() - history.best_speed) / state.best_speed() : 0;
    // Exponential smoothing: recent batches count most.
    state.set_batch_gain((state.batch_gain() + gained) / 2);
  }
  if (!state.log().batches().empty()) {
    TESSERA_RETURN_IF_ERROR(queue.tx.putAction(search));
    return dispatchWaiting(queue, search);
  }
  if (!state.task_id().empty()) {  // the next batch is being proposed already
    state.set_stage(v1::SearchState::PROPOSING);
    return queue.tx.putAction(search);
  }
  if (isOver(state)) {
    return conclude(queue, std::move(search));
  }
  TESSERA_ASSIGN_OR_RETURN(const bool due, confirmationIsDue(queue, search));
  return due ? confirm(queue, std::move(search)) : awaitTurn(queue, std::move(search));
}

/// Adds a failure to the report, within limits of number and length.
void reportFailure(v1::TuneResult::Workload& report, const std::string& text) {
  if (report.failures_size() == kMaxReportedFailures) {
    return;
  }
  size_t end = std::min(text.size(), kMaxFailureBytes);
  while (end > 0 && end < text.size() && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) {
    --end;  // do not cut within a UTF-8 character
  }
  report.add_failures(text.substr(0, end));
}

/// Ends the trial of task `task_id`: with `speed`, or with a `failure`.
absl::Status endTrial(QueueTransaction& queue, v1::Action search, const std::string& task_id, double speed,
                      const std::string& failure) {
  v1::SearchState& state = *search.mutable_search();
  Trial& trial = *trialOf(state, task_id);
  trial.clear_task_id();
  trial.set_speed(speed);
  v1::TuneResult::Workload& report = *state.mutable_report();
  report.set_trials(report.trials() + 1);
  if (!failure.empty()) {
    reportFailure(report, failure);
  }
  v1::Candidate loser = trial.candidate();
  // Only the best candidate's blobs are kept, for its confirmation.
  if (speed > state.best_speed()) {
    loser = state.best();
    *state.mutable_best() = trial.candidate();
    state.set_best_speed(speed);
    *report.mutable_best() = state.best().schedule();
  }
  TESSERA_RETURN_IF_ERROR(dropCandidate(queue, loser));
  report.set_best_ms(report.default_ms() / state.best_speed());
  TESSERA_RETURN_IF_ERROR(queue.tx.putAction(search));
  TESSERA_RETURN_IF_ERROR(reportTrial(queue, search, failure));
  return oldestIsOver(state) ? endBatches(queue, std::move(search)) : absl::OkStatus();
}

/// A SEARCH task is done: starts a trial for each proposed tree.
absl::Status proposed(QueueTransaction& queue, v1::Action search, const v1::Task& task) {
  v1::SearchState& state = *search.mutable_search();
  const v1::SearchTaskResult& result = task.result().search();
  *state.mutable_log()->add_batches() = result.batch();
  state.set_stage(v1::SearchState::TRYING);
  state.clear_task_id();
  // Outcomes that were unknown to the task may lead to further proposals.
  const bool knew_all = result.batch().pending().empty();
  state.set_exhausted(knew_all && result.proposals_size() < task.spec().search().wanted());
  v1::TuneResult::Workload& report = *state.mutable_report();
  report.set_refused(report.refused() + result.batch().refused_size() - result.proposals_size());
  int number = report.trials() + openTrials(state);
  for (const v1::SearchTaskResult::Proposal& proposal : result.proposals()) {
    Trial& trial = *state.add_trials();
    trial.set_number(++number);
    *trial.mutable_candidate()->mutable_schedule() = proposal.schedule();
    const v1::Digest unit = fileDigest(task.result(), proposal.unit_file());
    *trial.mutable_candidate()->mutable_unit() = unit;
    v1::TaskSpec spec;
    spec.set_kind(v1::BUILD);
    *spec.mutable_build()->mutable_unit() = unit;
    spec.mutable_build()->set_candidate(true);
    *spec.add_inputs() = unit;
    TESSERA_ASSIGN_OR_RETURN(const v1::Task build, addSearchTask(queue, search, std::move(spec), true));
    trial.set_task_id(build.id());
  }
  TESSERA_RETURN_IF_ERROR(queue.tx.putAction(search));
  return oldestIsOver(state) ? endBatches(queue, std::move(search)) : absl::OkStatus();
}

/// A candidate is built: measures it.
absl::Status built(QueueTransaction& queue, v1::Action search, const v1::Task& task) {
  Trial* trial = trialOf(*search.mutable_search(), task.id());
  if (trial == nullptr) {
    return absl::OkStatus();
  }
  *trial->mutable_candidate()->mutable_object() = fileDigest(task.result(), task.result().build().object_file());
  trial->set_build_ms(static_cast<double>(queue.now_us - task.start_time_us()) / 1000.0);
  trial->set_measuring(true);
  TESSERA_ASSIGN_OR_RETURN(const v1::Task measurement, addMeasurement(queue, search, trial->candidate().object(), 1));
  trial->set_task_id(measurement.id());
  TESSERA_RETURN_IF_ERROR(queue.tx.putAction(search));
  return isBuilding(search.search()) ? absl::OkStatus() : dispatchWaiting(queue, search);
}

/// Time of the default over that of the candidate; 0 if nothing was timed.
double speedOf(const v1::MeasureTaskResult& measured) {
  const double candidate = medianOf(measured.candidate_ms());
  return candidate > 0 ? medianOf(measured.baseline_ms()) / candidate : 0;
}

/// The best tree was measured again. If it stands, the tune actions receive it. Then the search continues or ends.
absl::Status confirmationMeasured(QueueTransaction& queue, v1::Action search, double speed) {
  v1::SearchState& state = *search.mutable_search();
  TESSERA_ASSIGN_OR_RETURN(const SearchHistory history, historyOf(queue.tx, search.id()));
  v1::SearchEntry entry;
  v1::SearchEntry::Confirmation& confirmation = *entry.mutable_confirmation();
  *confirmation.mutable_schedule() = state.best().schedule();
  confirmation.set_speed(speed);
  confirmation.set_confirmed(speed >= minGain(state.rules()));
  TESSERA_RETURN_IF_ERROR(queue.tx.appendToSearch(search.id(), entry));
  if (!confirmation.confirmed()) {  // a lucky measurement, or a wrong result
    TESSERA_RETURN_IF_ERROR(dropCandidate(queue, state.best()));
    state.clear_best();
    state.set_best_speed(std::max(1.0, history.confirmed.speed()));
    state.mutable_report()->set_best_ms(state.report().default_ms() / state.best_speed());
    state.mutable_report()->clear_best();
    if (history.confirmed.has_schedule()) {
      *state.mutable_report()->mutable_best() = history.confirmed.schedule();
    }
  }
  const std::vector<std::string> waiting(state.wanted_by().begin(), state.wanted_by().end());
  if (confirmation.confirmed() && speed > history.confirmed.speed()) {
    for (const std::string& tune : waiting) {
      TESSERA_RETURN_IF_ERROR(treeConfirmed(queue, tune, state.workload_hash(), state.best().schedule(), speed));
    }
  }
  if (isOver(state)) {
    return finish(queue, std::move(search));
  }
  return awaitTurn(queue, std::move(search));
}

/// A measurement is done: of the confirmation, or of a trial.
absl::Status measured(QueueTransaction& queue, v1::Action search, const v1::Task& task) {
  v1::SearchState& state = *search.mutable_search();
  const v1::MeasureTaskResult& result = task.result().measure();
  const bool wrong = !result.wrong().empty();
  const double speed = wrong ? 0 : speedOf(result);
  const TrialOutcome outcome{wrong ? v1::TuningRecord::WRONG_RESULT : v1::TuningRecord::PASSED, result.wrong(),
                             &result};
  v1::TuneResult::Workload& report = *state.mutable_report();
  if (state.stage() == v1::SearchState::CONFIRMING && state.task_id() == task.id()) {
    TESSERA_RETURN_IF_ERROR(
        storeTrial(queue, search, task, state.best().schedule(), report.trials(), 0, kConfirmedMode, outcome));
    if (!wrong) {
      report.set_default_ms(medianOf(result.baseline_ms()));
      report.set_best_ms(medianOf(result.candidate_ms()));
    }
    return confirmationMeasured(queue, std::move(search), speed);
  }
  const Trial* trial = trialOf(state, task.id());
  if (trial == nullptr) {
    return absl::OkStatus();
  }
  TESSERA_RETURN_IF_ERROR(storeTrial(queue, search, task, trial->candidate().schedule(), trial->number(),
                                     trial->build_ms(), kSearchMode, outcome));
  if (wrong) {
    report.set_wrong(report.wrong() + 1);
  } else {
    report.set_default_ms(medianOf(result.baseline_ms()));
  }
  return endTrial(queue, std::move(search), task.id(), speed, result.wrong());
}

/// Fails the jobs that wait for the search.
absl::Status failJobsBehind(QueueTransaction& queue, const v1::Action& search, const v1::Failure& failure) {
  const std::vector<std::string> waiting(search.search().wanted_by().begin(), search.search().wanted_by().end());
  for (const std::string& id : waiting) {
    TESSERA_ASSIGN_OR_RETURN(v1::Action tune, queue.tx.getAction(id));
    if (isLiving(tune)) {
      TESSERA_RETURN_IF_ERROR(failAction(queue, tune, failure));  // this leaves the search
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::string> joinSearch(QueueTransaction& queue, const v1::Action& tune,
                                       const v1::Action::BuildRef& unit, int64_t flops, bool& shared) {
  const v1::TuneSpec& spec = tune.tune().spec();
  // The key has everything that results depend on, but not the number of trials: the search runs for the largest one.
  const int threads = std::max(1, spec.threads()), trials = spec.trials() > 0 ? spec.trials() : kDefaultTrials;
  const std::string method = spec.method().empty() ? kSearchMethods.front() : spec.method();
  const std::string key = KeyHash()
                              .add("tessera.search")
                              .add(projectOf(tune))
                              .add(unit.workload_hash())
                              .add(tune.tune().target_hash())
                              .add(absl::StrCat(threads, spec.cold() ? " cold" : ""))
                              .add(absl::StrCat(method, spec.ignore_records() ? " afresh" : ""))
                              .add(canonicalBytes(spec.measuring()))
                              .finish();
  TESSERA_ASSIGN_OR_RETURN(const std::vector<v1::Action> living, queue.tx.liveActionsByKey(key));
  // A search that starts no further trials would give a new job only the trials of the others.
  const auto going_on = std::find_if(living.begin(), living.end(), [](const v1::Action& other) {
    return !other.search().closing() &&
           !(other.search().stage() == v1::SearchState::CONFIRMING && isOver(other.search()));
  });
  shared = going_on != living.end();
  if (shared) {
    v1::Action search = *going_on;
    search.mutable_search()->add_wanted_by(tune.id());
    search.mutable_search()->set_trials_wanted(std::max(search.search().trials_wanted(), trials));
    search.set_priority(std::max(search.priority(), tune.priority()));
    TESSERA_RETURN_IF_ERROR(queue.tx.putAction(search));
    TESSERA_ASSIGN_OR_RETURN(const SearchHistory history, historyOf(queue.tx, search.id()));
    if (history.confirmed.has_schedule()) {
      TESSERA_RETURN_IF_ERROR(treeConfirmed(queue, tune.id(), unit.workload_hash(), history.confirmed.schedule(),
                                            history.confirmed.speed()));
    }
    return search.id();
  }
  v1::Action search;
  search.set_id(queue.ids.next("search"));
  search.set_key(key);
  search.set_state(v1::Job::RUNNING);
  search.set_job_id(tune.job_id());
  search.set_project(projectOf(tune));
  search.set_create_time_us(queue.now_us);
  search.set_priority(tune.priority());
  *search.mutable_target() = tune.target();
  v1::SearchState& state = *search.mutable_search();
  state.add_wanted_by(tune.id());
  state.set_workload_hash(unit.workload_hash());
  state.set_summary(unit.summary());
  *state.mutable_shape() = unit.shape();
  *state.mutable_unit() = unit.unit();
  *state.mutable_plan() = tune.tune().base_plan();
  TESSERA_ASSIGN_OR_RETURN(*state.mutable_baseline(), queue.tx.getObject(unit.build_key()));
  state.set_method(method);
  state.set_seed(spec.seed());
  state.set_threads(threads);
  state.set_cold(spec.cold());
  *state.mutable_rules() = spec.measuring();
  state.set_trials_wanted(trials);
  state.set_stage(v1::SearchState::WAITING);
  state.set_best_speed(1);
  // New searches start before those that have stopped improving.
  state.set_batch_gain(kUnknownGain);
  state.set_client(tune.tune().client());
  state.set_start_time_us(queue.now_us);
  state.set_flops(flops);
  state.mutable_report()->set_hash(unit.workload_hash());
  TESSERA_RETURN_IF_ERROR(touchAll(queue, search.project(), digestsIn(state)));
  TESSERA_RETURN_IF_ERROR(queue.tx.putAction(search));
  if (!spec.ignore_records()) {
    TESSERA_ASSIGN_OR_RETURN(
        v1::KnownTrees known,
        warmStartCandidates(queue.tx, {projectOf(tune), unit.workload_hash(), tune.target(), threads},
                            {unit.shape(), unit.summary()}));
    if (!known.trees().empty()) {
      known.set_search(search.id());
      v1::SearchEntry entry;
      TESSERA_ASSIGN_OR_RETURN(*entry.mutable_known(), queue.blobs.put(known.SerializeAsString()));
      TESSERA_RETURN_IF_ERROR(queue.tx.putBlob(entry.known(), projectOf(search), queue.now_us));
      TESSERA_RETURN_IF_ERROR(queue.tx.touch(storage::Kind::kBlob, entry.known().sha256(), queue.now_us));
      TESSERA_RETURN_IF_ERROR(queue.tx.appendToSearch(search.id(), entry));
    }
  }
  return search.id();
}

double minGain(const v1::MeasuringRules& rules) { return rules.min_gain() > 0 ? rules.min_gain() : kMinGain; }

bool onlyMeasurementsRemain(const v1::SearchState& search) {
  return search.stage() == v1::SearchState::TRYING && search.task_id().empty() && !isBuilding(search);
}

double expectedGain(const v1::SearchState& search) { return std::max(search.batch_gain(), kMinExpected); }

absl::StatusOr<bool> mayPropose(QueueTransaction& queue, const v1::Action& search) {
  const v1::SearchState& state = search.search();
  if (state.stage() == v1::SearchState::WAITING) {
    return true;
  }
  const bool ahead = state.log().batches_size() > 1;
  if (!onlyMeasurementsRemain(state) || ahead || isOver(state) ||
      state.report().trials() + openTrials(state) >= state.trials_wanted()) {
    return false;
  }
  TESSERA_ASSIGN_OR_RETURN(const bool due, confirmationIsDue(queue, search));
  return !due;
}

absl::Status beginBatch(QueueTransaction& queue, v1::Action search, int most) {
  v1::SearchState& state = *search.mutable_search();
  TESSERA_ASSIGN_OR_RETURN(const int64_t turn,
                           queue.tx.takeTicket(search.priority(), clientOf(projectOf(search), state.client())));
  search.set_ticket(turn);
  v1::TaskSpec spec;
  spec.set_kind(v1::SEARCH);
  v1::SearchTask& task = *spec.mutable_search();
  *task.mutable_unit() = state.unit();
  task.set_method(state.method());
  TESSERA_ASSIGN_OR_RETURN(const SearchHistory history, historyOf(queue.tx, search.id()));
  task.set_seed(state.seed() + static_cast<uint64_t>(history.restarts));
  if (history.restarts > 0 && state.best().has_schedule()) {
    *task.add_suggested() = state.best().schedule();
  }
  task.set_wanted(std::clamp(state.trials_wanted() - state.report().trials() - openTrials(state), 1, most));
  task.set_search(absl::StrCat(search.id(), history.restarts > 0 ? absl::StrCat("~", history.restarts) : ""));
  *spec.add_inputs() = state.unit();
  if (history.known.size_bytes() > 0) {
    *spec.add_inputs() = history.known;
  }
  if (state.log().batches().empty()) {
    state.set_stage(v1::SearchState::PROPOSING);
  }
  TESSERA_ASSIGN_OR_RETURN(const v1::Task added, addSearchTask(queue, search, std::move(spec), false));
  state.set_task_id(added.id());
  return queue.tx.putAction(search);
}

absl::Status searchTaskDone(QueueTransaction& queue, v1::Action search, const v1::Task& task) {
  // The result is in the search and its records, so the task's copy can go; tasks stay until the search is deleted.
  v1::Task short_task = task;
  short_task.clear_result();
  TESSERA_RETURN_IF_ERROR(queue.tx.putTask(short_task));
  switch (task.spec().kind()) {
    case v1::SEARCH:
      return proposed(queue, std::move(search), task);
    case v1::BUILD:
      return built(queue, std::move(search), task);
    default:
      return measured(queue, std::move(search), task);
  }
}

absl::Status searchTaskFailed(QueueTransaction& queue, v1::Action search, const v1::Task& task,
                              const v1::Failure& failure) {
  v1::SearchState& state = *search.mutable_search();
  const v1::TaskKind kind = task.spec().kind();
  const std::optional<v1::TuningRecord::Outcome> outcome = outcomeOf(kind, failure.reason());
  if (kind == v1::SEARCH &&
      state.stage() == v1::SearchState::TRYING) {  // if the cause lasts, the next proposal meets it too
    state.clear_task_id();
    return queue.tx.putAction(search);
  }
  if (kind == v1::SEARCH && failure.reason() == v1::Failure::INCOMPATIBLE_HOST) {
    // Floating-point numbers differ between hosts, so no available host can replay the log. Discard it and restart; the
    // best tree is kept.
    v1::SearchEntry entry;
    entry.set_restarted(true);
    TESSERA_RETURN_IF_ERROR(queue.tx.appendToSearch(search.id(), entry));
    return awaitTurn(queue, std::move(search));
  }
  if (failure.reason() == v1::Failure::NO_WORKER) {  // after a long wait; earlier results stand
    reportFailure(*state.mutable_report(), absl::StrCat("the search ended: ", failure.message()));
    return finish(queue, std::move(search));
  }
  if (!outcome || (kind == v1::SEARCH && failure.reason() == v1::Failure::INVALID_INPUT)) {
    return failJobsBehind(queue, search, failure);
  }
  if (kind == v1::SEARCH) {  // earlier results stand
    reportFailure(*state.mutable_report(), absl::StrCat("the search ended: ", failure.message()));
    return conclude(queue, std::move(search));
  }
  if (state.stage() == v1::SearchState::CONFIRMING) {
    reportFailure(*state.mutable_report(), absl::StrCat("the best could not be confirmed: ", failure.message()));
    return confirmationMeasured(queue, std::move(search), 0);
  }
  const Trial* trial = trialOf(state, task.id());
  if (trial == nullptr) {
    return absl::OkStatus();
  }
  addFailedTrial(*state.mutable_report(), *outcome);
  TESSERA_RETURN_IF_ERROR(storeTrial(queue, search, task, trial->candidate().schedule(), trial->number(),
                                     trial->build_ms(), kSearchMode, {*outcome, failure.message(), nullptr}));
  return endTrial(queue, std::move(search), task.id(), 0, failure.message());
}

absl::Status closeSearch(QueueTransaction& queue, v1::Action search) {
  v1::SearchState& state = *search.mutable_search();
  state.set_closing(true);
  if (state.stage() == v1::SearchState::CONFIRMING) {
    return queue.tx.putAction(search);
  }
  TESSERA_RETURN_IF_ERROR(cancelTasks(queue, search.id()));
  for (const Trial& trial : state.trials()) {
    if (isOpen(trial)) {
      TESSERA_RETURN_IF_ERROR(dropCandidate(queue, trial.candidate()));
    }
  }
  state.clear_trials();
  state.clear_log();
  state.clear_task_id();
  return conclude(queue, std::move(search));
}

absl::Status leaveSearch(QueueTransaction& queue, const std::string& search_id, const std::string& tune_id) {
  auto search = queue.tx.getAction(search_id);
  if (absl::IsNotFound(search.status())) {
    return absl::OkStatus();
  }
  TESSERA_RETURN_IF_ERROR(search.status());
  auto* waiting = search->mutable_search()->mutable_wanted_by();
  waiting->erase(std::remove(waiting->begin(), waiting->end(), tune_id), waiting->end());
  return waiting->empty() ? deleteSearch(queue, *search) : queue.tx.putAction(*search);
}

}  // namespace tessera::server
