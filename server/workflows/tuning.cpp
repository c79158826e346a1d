#include "server/workflows/tuning.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "compiler/schedule/pins.h"
#include "compiler/target/target.h"
#include "proto/messages/project.h"
#include "proto/support/status_macros.h"
#include "server/action_key.h"
#include "server/queue/actions.h"
#include "server/queue/jobs.h"
#include "server/queue/tasks.h"
#include "server/workflows/choices.h"
#include "server/workflows/compile_steps.h"
#include "server/workflows/searches.h"
#include "server/workflows/trial_records.h"
#include "server/workflows/tuning_progress.h"
#include "server/workflows/versions.h"

namespace tessera::server {
namespace {

constexpr double kMinShare = 0.005;
constexpr int kTimingRuns = 7;
// Whole models are most affected by other load, and take the longest to run. A comparison uses up to kMaxTimes the
// requested runs, as far as they fit into kComparingMs.
constexpr int kMaxTimes = 5;
constexpr double kComparingMs = 4000;
constexpr int64_t kMinReserveUs = 10'000'000;  // time of the job's deadline that is kept for the steps after the search
constexpr int kBatchBeside = 2;  // trees per batch while choices are tried, whose tasks would wait for a larger batch

using Workload = v1::TuneResult::Workload;

/// Whether the request includes this workload.
bool isWanted(const v1::TuneSpec& spec, const Workload& workload) {
  return spec.workloads().empty() ||
         std::any_of(spec.workloads().begin(), spec.workloads().end(), [&](const std::string& piece) {
           return absl::StrContains(workload.hash(), piece) || absl::StrContains(workload.summary(), piece);
         });
}

/// Times the steps of the artifact whose plan is `action.plan`.
absl::Status timeSteps(QueueTransaction& queue, v1::Action& action, const v1::Digest& artifact) {
  action.mutable_tune()->set_stage(v1::TuneState::TIMING);
  TESSERA_RETURN_IF_ERROR(showProgress(queue, action, phaseProgress("time"), false));
  TESSERA_RETURN_IF_ERROR(measureModel(queue, action, {.baseline = artifact}, kTimingRuns));
  return queue.tx.putAction(action);
}

/// Lists all workloads with their share of the time, largest first, and the reason if one is not tuned. Workloads of an
/// earlier list keep the results of their searches.
void listWorkloads(const v1::MeasureTaskResult& timed, v1::TuneState& tune) {
  const std::vector<Workload> before(tune.workloads().begin(), tune.workloads().end());
  std::map<std::string, Workload> workloads;
  double model_ms = 0;
  for (const v1::MeasureTaskResult::StepTime& step : timed.steps()) {
    Workload& workload = workloads[step.workload_hash()];
    workload.set_hash(step.workload_hash());
    workload.set_summary(step.summary());
    workload.set_steps(workload.steps() + 1);
    workload.set_share(workload.share() + step.median_ms());
    workload.set_flops(step.flops());
    if (step.has_fusion()) {
      *workload.mutable_fusion() = step.fusion();
    }
    model_ms += step.median_ms();
  }
  tune.clear_workloads();
  std::vector<Workload> sorted;
  for (auto& [hash, workload] : workloads) {
    workload.set_default_ms(workload.share() / workload.steps());
    workload.set_best_ms(workload.default_ms());
    workload.set_share(model_ms > 0 ? workload.share() / model_ms : 0);
    sorted.push_back(std::move(workload));
  }
  std::ranges::sort(sorted, [](const Workload& one, const Workload& other) {
    return one.share() != other.share() ? one.share() > other.share() : one.hash() < other.hash();
  });
  const v1::TuneSpec& spec = tune.spec();
  // A workload with a small share cannot speed up the model by more than its share.
  const double least = spec.min_share() > 0 ? spec.min_share() : kMinShare;
  int wanted = 0;
  for (Workload& workload : sorted) {
    if (!isWanted(spec, workload)) {
      workload.set_untuned("the request does not ask for it");
    } else if (workload.share() < least) {
      workload.set_untuned(absl::StrFormat("less than %g %% of the model's time", 100 * least));
    } else if (spec.top() > 0 && wanted == spec.top()) {
      workload.set_untuned(absl::StrCat("not among the ", spec.top(), " that take the most time"));
    } else {
      ++wanted;
    }
    *tune.add_workloads() = workload;
  }
  tune.set_model_ms(model_ms);
  for (const Workload& report : before) {
    if (report.trials() > 0 || report.shared()) {
      copySearchReport(report, tune);
    }
  }
}

/// Leaves the searches of workloads that are no longer in the plan, and returns the workloads of the others.
absl::StatusOr<std::set<std::string>> keepSearches(QueueTransaction& queue, v1::Action& action) {
  v1::TuneState& tune = *action.mutable_tune();
  std::set<std::string> wanted, kept;
  for (const Workload& workload : tune.workloads()) {
    if (workload.untuned().empty()) {
      wanted.insert(workload.hash());
    }
  }
  const std::vector<std::string> searches(tune.searches().begin(), tune.searches().end());
  tune.clear_searches();
  for (const std::string& id : searches) {
    TESSERA_ASSIGN_OR_RETURN(const v1::Action search, queue.tx.getAction(id));
    if (wanted.contains(search.search().workload_hash())) {
      kept.insert(search.search().workload_hash());
      tune.add_searches(id);
    } else {
      TESSERA_RETURN_IF_ERROR(leaveSearch(queue, id, action.id()));
    }
  }
  return kept;
}

/// Starts a search for each workload that should be tuned, unless it has one already or has ended.
absl::Status beginSearches(QueueTransaction& queue, v1::Action& action) {
  v1::TuneState& tune = *action.mutable_tune();
  if (tune.search_start_us() == 0) {
    tune.set_search_start_us(queue.now_us);
  }
  std::map<std::string, const v1::Action::BuildRef*> units;
  for (const v1::Action::BuildRef& unit : tune.units()) {
    units[unit.workload_hash()] = &unit;
  }
  for (Workload& workload : *tune.mutable_workloads()) {
    if (workload.untuned().empty() && !units.contains(workload.hash())) {
      workload.set_untuned("the plan has no unit to build of it");
    }
  }
  TESSERA_ASSIGN_OR_RETURN(const std::set<std::string> kept, keepSearches(queue, action));
  for (Workload& workload : *tune.mutable_workloads()) {
    if (!workload.untuned().empty() || kept.contains(workload.hash()) || workload.trials() > 0) {
      continue;
    }
    bool shared = false;
    TESSERA_ASSIGN_OR_RETURN(*tune.add_searches(),
                             joinSearch(queue, action, *units[workload.hash()], workload.flops(), shared));
    workload.set_shared(shared);
  }
  return queue.tx.putAction(action);
}

/// Choices are decided: all searches may run.
absl::Status beginSearching(QueueTransaction& queue, v1::Action& action) {
  action.mutable_tune()->set_stage(v1::TuneState::SEARCHING);
  TESSERA_RETURN_IF_ERROR(beginSearches(queue, action));
  TESSERA_RETURN_IF_ERROR(showProgress(queue, action, searchProgress(action.tune()), false));
  TESSERA_RETURN_IF_ERROR(queue.tx.putAction(action));
  return dispatchSearches(queue, action.id());
}

/// Continues after a step of choosing.
absl::Status afterChoosing(QueueTransaction& queue, v1::Action& action, Choosing state) {
  if (state == Choosing::kGoesOn) {
    return absl::OkStatus();
  }
  const v1::TuneState& tune = action.tune();
  showPhase(action, "choose", millis(queue.now_us - tune.choices_start_us()), 0, tune.choices_tried());
  return state == Choosing::kChanged ? timeSteps(queue, action, tune.chosen_artifact()) : beginSearching(queue, action);
}

/// The artifact was timed: tries choices if that is still to be done, and searches.
absl::Status timed(QueueTransaction& queue, v1::Action& action, const v1::Task& task) {
  v1::TuneState& tune = *action.mutable_tune();
  listWorkloads(task.result().measure(), tune);
  if (tune.choices_end_us() != 0 || !selectChoices(tune, queue.now_us)) {
    return beginSearching(queue, action);
  }
  // Searches start while choices are tried, since most choices change few workloads or none.
  TESSERA_RETURN_IF_ERROR(beginSearches(queue, action));
  TESSERA_ASSIGN_OR_RETURN(const Choosing state, beginChoosing(queue, action));
  TESSERA_RETURN_IF_ERROR(afterChoosing(queue, action, state));
  return dispatchSearches(queue, action.id());
}

/// Number of searches to keep in progress: one per worker slot, and one that can propose meanwhile. While choices are
/// tried one after another: one, unless that would take the only slot.
absl::StatusOr<int> searchesAtOnce(QueueTransaction& queue, bool beside) {
  int slots = 0;
  storage::ListQuery query;
  query.page_size = 1000;
  query.filter = "state = IDLE OR state = BUSY";
  TESSERA_ASSIGN_OR_RETURN(const storage::Page<v1::Worker> page, queue.tx.listWorkers(query));
  for (const v1::Worker& worker : page.items) {
    slots += worker.slots();
  }
  return !beside ? slots + 1 : slots > 1 ? 1 : 0;
}

/// Whether choices are being tried or confirmed.
bool isChoosing(const v1::TuneState& tune) {
  return tune.stage() == v1::TuneState::CHOOSING || tune.stage() == v1::TuneState::CONFIRMING_CHOICES;
}

/// The workload's fraction of the model's time.
double shareOf(const v1::TuneState& tune, const std::string& hash) {
  for (const Workload& workload : tune.workloads()) {
    if (workload.hash() == hash) {
      return workload.share();
    }
  }
  return 0;
}

}  // namespace

absl::Status measureModel(QueueTransaction& queue, const v1::Action& action, const Measured& artifacts, int runs) {
  const v1::TuneState& tune = action.tune();
  v1::TaskSpec spec;
  spec.set_kind(v1::MEASURE);
  v1::MeasureTask& measure = *spec.mutable_measure();
  *measure.mutable_plan() = artifacts.plan.sha256().empty() ? action.plan() : artifacts.plan;
  *measure.mutable_baseline() = artifacts.baseline;
  *spec.add_inputs() = measure.plan();
  *spec.add_inputs() = measure.baseline();
  if (!artifacts.candidate.sha256().empty()) {
    *measure.mutable_candidate() = artifacts.candidate;
    *spec.add_inputs() = measure.candidate();
  }
  if (!artifacts.plan.sha256().empty()) {
    *measure.mutable_candidate_plan() = action.plan();
    *spec.add_inputs() = measure.candidate_plan();
  }
  measure.set_threads(std::max(1, tune.spec().threads()));
  measure.set_seed(tune.spec().seed());
  measure.set_cold(tune.spec().cold());
  *measure.mutable_rules() = tune.spec().measuring();
  measure.mutable_rules()->set_repeat(runs);
  // Two models are run alternately, so a round takes twice the model's time.
  const double in_time = tune.model_ms() > 0 ? kComparingMs / (2 * tune.model_ms()) : runs;
  measure.mutable_rules()->set_most(static_cast<int>(std::clamp<double>(in_time, runs, kMaxTimes * runs)));
  const HostNeeds needs = needsOf(action.target());
  return shareEqualTask(queue, action, std::move(spec), &needs);
}

absl::Status beginTuning(QueueTransaction& queue, v1::Action action, const v1::Job& job, v1::TuneMode mode) {
  v1::TuneState& tune = *action.mutable_tune();
  *tune.mutable_spec() = job.tune();
  tune.set_stage(v1::TuneState::COMPILING);
  tune.set_client(job.client());
  tune.set_target_hash(compiler::targetHash(action.target()));
  tune.set_default_key(actionKey(projectOf(action), action.compile(), action.target(), queue.rules.compiler_version));
  // The job's deadline; tuneAssembled() turns it into the end of the budget once the job runs.
  tune.set_budget_end_us(job.deadline_us());
  TESSERA_RETURN_IF_ERROR(beginVersions(queue, job, mode));
  TESSERA_RETURN_IF_ERROR(queue.tx.putAction(action));
  return beginCompile(queue, action);
}

absl::StatusOr<v1::Digest> printedPins(QueueTransaction& queue, const v1::Action& action, const v1::Pins& pins) {
  TESSERA_ASSIGN_OR_RETURN(v1::Digest text, queue.blobs.put(compiler::printPins(pins)));
  TESSERA_RETURN_IF_ERROR(queue.tx.putBlob(text, projectOf(action), queue.now_us));
  TESSERA_RETURN_IF_ERROR(queue.tx.touch(storage::Kind::kBlob, text.sha256(), queue.now_us));
  return text;
}

absl::Status compileTuned(QueueTransaction& queue, v1::Action& action, const v1::Pins& pins) {
  // A ticket for each compilation, so that tasks which other jobs need to begin go before further tries of this job.
  TESSERA_ASSIGN_OR_RETURN(const int64_t ticket,
                           queue.tx.takeTicket(action.priority(), clientOf(projectOf(action), action.tune().client())));
  action.set_ticket(ticket);
  v1::CompileSpec& compile = *action.mutable_compile();
  TESSERA_ASSIGN_OR_RETURN(*compile.mutable_pins(), printedPins(queue, action, pins));
  action.mutable_tune()->set_tuned_key(
      actionKey(projectOf(action), compile, action.target(), queue.rules.compiler_version));
  // Results of the previous compilation.
  action.clear_plan();
  action.clear_weights();
  action.clear_builds();
  action.set_builds_done(0);
  action.set_builds_reused(0);
  TESSERA_RETURN_IF_ERROR(queue.tx.putAction(action));
  return beginCompile(queue, action);
}

void setResult(const v1::Digest& artifact, v1::Action& action) {
  action.mutable_result()->set_artifact_id(artifact.sha256());  // an artifact's id is the digest of its file
  *action.mutable_result()->mutable_artifact() = artifact;
}

bool isBeforeSearching(const v1::TuneState& tune) {
  return tune.stage() == v1::TuneState::COMPILING || tune.stage() == v1::TuneState::TIMING || isChoosing(tune);
}

std::string tunedKey(const v1::Action& action) {
  return action.tune().stage() == v1::TuneState::COMPILING ? action.tune().default_key() : action.tune().tuned_key();
}

absl::Status tuneAssembled(QueueTransaction& queue, v1::Action& action) {
  v1::TuneState& tune = *action.mutable_tune();
  if (isChoosing(tune)) {
    return choiceAssembled(queue, action);
  }
  if (tune.stage() != v1::TuneState::COMPILING) {
    return versionAssembled(queue, action);
  }
  tune.set_default_artifact_id(action.result().artifact_id());
  *tune.mutable_default_artifact() = action.result().artifact();
  *tune.mutable_base_plan() = action.plan();
  *tune.mutable_units() = action.builds();
  const int64_t deadline_us = tune.budget_end_us();
  const int64_t budget_us = tune.spec().budget_us() > 0 ? tune.spec().budget_us() : kDefaultBudgetUs;
  // A fifth of the job's time is kept for versions after the search.
  const int64_t reserve_us = std::max(kMinReserveUs, (deadline_us - action.start_time_us()) / 5);
  tune.set_budget_end_us(std::min(action.start_time_us() + budget_us, deadline_us - reserve_us));
  TESSERA_RETURN_IF_ERROR(defaultCompiled(queue, action));
  return timeSteps(queue, action, tune.default_artifact());
}

absl::Status tuneMeasured(QueueTransaction& queue, v1::Action& action, const v1::Task& task) {
  if (action.tune().stage() == v1::TuneState::TIMING) {
    return timed(queue, action, task);
  }
  if (!isChoosing(action.tune())) {
    return versionMeasured(queue, action, task);
  }
  TESSERA_ASSIGN_OR_RETURN(const Choosing state, choiceMeasured(queue, action, task));
  return afterChoosing(queue, action, state);
}

absl::Status tuneTaskFailed(QueueTransaction& queue, v1::Action action, const v1::Task& task,
                            const v1::Failure& failure) {
  const v1::TuneState& tune = action.tune();
  if (isChoosing(tune)) {
    TESSERA_ASSIGN_OR_RETURN(const Choosing state, choiceFailed(queue, action, task, failure));
    return afterChoosing(queue, action, state);
  }
  if (tune.stage() != v1::TuneState::COMPILING && tune.stage() != v1::TuneState::TIMING) {
    return versionFailed(queue, action, failure);
  }
  return failAction(queue, action, failure);
}

absl::Status searchEnded(QueueTransaction& queue, const std::string& tune_id, const v1::Action& search) {
  TESSERA_ASSIGN_OR_RETURN(v1::Action action, queue.tx.getAction(tune_id));
  if (!isLiving(action)) {
    return absl::OkStatus();
  }
  v1::TuneState& tune = *action.mutable_tune();
  copySearchReport(search.search().report(), tune);
  auto* searches = tune.mutable_searches();
  searches->erase(std::remove(searches->begin(), searches->end(), search.id()), searches->end());
  return queue.tx.putAction(action);
}

absl::Status dispatchSearches(QueueTransaction& queue, const std::string& tune_id) {
  TESSERA_ASSIGN_OR_RETURN(v1::Action action, queue.tx.getAction(tune_id));
  const v1::TuneState& tune = action.tune();
  if (!isLiving(action)) {
    return absl::OkStatus();
  }
  const bool beside = isBeforeSearching(tune);
  if (!beside) {
    TESSERA_RETURN_IF_ERROR(publishNextVersion(queue, tune_id));
  }
  if (tune.searches().empty() || tune.budget_end_us() <= queue.now_us) {
    return absl::OkStatus();
  }
  TESSERA_ASSIGN_OR_RETURN(const int at_once, searchesAtOnce(queue, beside));
  // Places for searches that are waiting, and searches that only wait for measurements.
  int open = at_once, timed = 0;
  std::vector<std::pair<double, v1::Action>> waiting, trying;
  for (const std::string& id : tune.searches()) {
    TESSERA_ASSIGN_OR_RETURN(v1::Action search, queue.tx.getAction(id));
    const bool waits = search.search().stage() == v1::SearchState::WAITING;
    open -= waits ? 0 : 1;
    timed += onlyMeasurementsRemain(search.search()) ? 1 : 0;
    const double expected = shareOf(tune, search.search().workload_hash()) * expectedGain(search.search());
    (waits ? waiting : trying).emplace_back(expected, std::move(search));
  }
  // Measurements wait for lent cores. A search whose trials are all waiting to be timed gives its place to another, so
  // that candidates are built meanwhile. If no other search waits, its own next batch may be proposed ahead.
  const int behind = beside ? 0 : std::min(timed, at_once);
  TESSERA_ASSIGN_OR_RETURN(const int most,
                           searchesToDispatch(queue, action, static_cast<int>(waiting.size()), open + behind));
  int begun = 0;
  // First the searches without a batch, then further batches of searches that only wait for measurements.
  for (const auto& [searches, until] : {std::pair(&waiting, most), std::pair(&trying, most - behind)}) {
    std::ranges::sort(*searches, [](const auto& one, const auto& other) {
      return one.first != other.first ? one.first > other.first : one.second.id() < other.second.id();
    });
    for (auto& [expected, search] : *searches) {
      if (begun >= until) {
        break;
      }
      TESSERA_ASSIGN_OR_RETURN(const bool may, mayPropose(queue, search));
      if (may) {
        ++begun;
        TESSERA_RETURN_IF_ERROR(beginBatch(queue, std::move(search), beside ? kBatchBeside : kBatch));
      }
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<std::string>> pastBudget(storage::Reader& reader, int64_t now_us) {
  std::vector<std::string> ids;
  storage::ListQuery query;
  query.page_size = 1000;
  query.filter = "state = RUNNING AND kind = TUNE";
  do {
    TESSERA_ASSIGN_OR_RETURN(const storage::Page<v1::Job> page, reader.listJobs(query));
    for (const v1::Job& job : page.items) {
      TESSERA_ASSIGN_OR_RETURN(const std::string action_id, reader.getActionOfJob(job.id()));
      TESSERA_ASSIGN_OR_RETURN(const v1::Action action, reader.getAction(action_id));
      if (action.tune().stage() == v1::TuneState::SEARCHING && action.tune().budget_end_us() <= now_us) {
        ids.push_back(action_id);
      }
    }
    query.page_token = page.next_page_token;
  } while (!query.page_token.empty());
  return ids;
}

absl::Status endBudget(QueueTransaction& queue, const std::string& tune_id) {
  TESSERA_ASSIGN_OR_RETURN(v1::Action action, queue.tx.getAction(tune_id));
  v1::TuneState& tune = *action.mutable_tune();
  if (!isLiving(action) || tune.stage() != v1::TuneState::SEARCHING || tune.budget_end_us() > queue.now_us) {
    return absl::OkStatus();
  }
  if (tune.note().empty()) {
    tune.set_note("the budget was used up before all trials");
    TESSERA_RETURN_IF_ERROR(queue.tx.putAction(action));
  }
  const std::vector<std::string> searches(tune.searches().begin(), tune.searches().end());
  for (const std::string& id : searches) {
    auto search = queue.tx.getAction(id);
    if (absl::IsNotFound(search.status())) {
      continue;
    }
    TESSERA_RETURN_IF_ERROR(search.status());
    // Only this job waits for it: it ends with a confirmation.
    if (search->search().wanted_by_size() == 1) {
      if (!search->search().closing()) {
        TESSERA_RETURN_IF_ERROR(closeSearch(queue, *std::move(search)));
      }
      continue;
    }
    // Other jobs still have time. This one takes the best tree so far, unconfirmed; the comparison of the version
    // decides.
    v1::SearchState& state = *search->mutable_search();
    if (state.best_speed() > 1 && state.best().has_object()) {
      TESSERA_RETURN_IF_ERROR(
          treeConfirmed(queue, tune_id, state.workload_hash(), state.best().schedule(), state.best_speed()));
    }
    TESSERA_RETURN_IF_ERROR(searchEnded(queue, tune_id, *search));
    TESSERA_RETURN_IF_ERROR(leaveSearch(queue, id, tune_id));
  }
  return dispatchSearches(queue, tune_id);
}

absl::Status reportTrial(QueueTransaction& queue, const v1::Action& search, const std::string& failure) {
  const v1::SearchState& state = search.search();
  for (const std::string& id : state.wanted_by()) {
    TESSERA_ASSIGN_OR_RETURN(v1::Action action, queue.tx.getAction(id));
    if (!isLiving(action)) {
      continue;
    }
    copySearchReport(state.report(), *action.mutable_tune());
    if (!isBeforeSearching(action.tune())) {
      *action.mutable_progress() = searchProgress(action.tune());
    }
    TESSERA_RETURN_IF_ERROR(queue.tx.putAction(action));
    v1::JobEvent event;
    *event.mutable_tune() = trialProgress(action, state.workload_hash(), failure, queue.now_us);
    TESSERA_RETURN_IF_ERROR(forLivingJobs(queue, id, [&](v1::Job& job) -> absl::Status {
      *job.mutable_progress() = action.progress();
      TESSERA_RETURN_IF_ERROR(queue.tx.updateJob(job));
      return appendEvent(queue, job.id(), event);
    }));
  }
  return absl::OkStatus();
}

}  // namespace tessera::server
