#include "server/workflows/versions.h"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "compiler/schedule/pins.h"
#include "proto/messages/project.h"
#include "proto/support/median.h"
#include "proto/support/status_macros.h"
#include "server/action_key.h"
#include "server/canonical.h"
#include "server/queue/actions.h"
#include "server/queue/uses.h"
#include "server/workflows/choices.h"
#include "server/workflows/compile_steps.h"
#include "server/workflows/trial_records.h"
#include "server/workflows/tuning.h"
#include "server/workflows/tuning_progress.h"

namespace tessera::server {
namespace {

using Series = v1::ArtifactRollout;
using Tree = v1::ArtifactRollout::Tree;
using Trees = google::protobuf::RepeatedPtrField<Tree>;
using Workload = v1::TuneResult::Workload;

constexpr int kLookingRuns = 7;
constexpr double kAsFast = 0.99;  // of the speed of the version before; measurements of whole models differ by as much

/// Jobs that an earlier release created have no stored series.
absl::StatusOr<Series> seriesOf(QueueTransaction& queue, const v1::Action& tune) {
  auto series = queue.tx.getRollout(tune.job_id());
  if (!absl::IsNotFound(series.status())) {
    return series;
  }
  Series begun;
  begun.set_job_id(tune.job_id());
  begun.set_mode(v1::ASYNC);
  begun.set_stage(Series::IDLE);
  begun.set_artifact_id(tune.tune().default_artifact_id());
  *begun.mutable_artifact() = tune.tune().default_artifact();
  return begun;
}

/// Whether workload and schedule are equal.
bool sameTree(const Tree& one, const Tree& other) {
  return one.workload_hash() == other.workload_hash() &&
         canonicalBytes(one.schedule()) == canonicalBytes(other.schedule());
}

bool contains(const Trees& trees, const Tree& tree) {
  return std::any_of(trees.begin(), trees.end(), [&](const Tree& each) { return sameTree(each, tree); });
}

const Workload* workloadOf(const v1::TuneState& tune, const std::string& hash) {
  const auto found = std::find_if(tune.workloads().begin(), tune.workloads().end(),
                                  [&](const Workload& each) { return each.hash() == hash; });
  return found == tune.workloads().end() ? nullptr : &*found;
}

/// Trees to use, by workload: not dropped, and of a workload of the current plan (choices may have removed some).
Trees wanted(const Series& series, const v1::TuneState& tune) {
  Trees trees;
  for (const Tree& tree : series.trees()) {
    if (!tree.dropped() && workloadOf(tune, tree.workload_hash()) != nullptr) {
      *trees.Add() = tree;
    }
  }
  return trees;
}

/// Trees of the version being made that the newest version lacks.
std::vector<Tree> addedTrees(const Series& series) {
  std::vector<Tree> found;
  for (const Tree& tree : series.trying()) {
    if (!contains(series.published(), tree)) {
      found.push_back(tree);
    }
  }
  return found;
}

/// Gain of the model by the tree, as a fraction of its default time.
double gainOf(const v1::TuneState& tune, const Tree& tree) {
  const Workload* workload = workloadOf(tune, tree.workload_hash());
  return workload == nullptr || tree.speed() <= 0 ? 0 : workload->share() * (1 - 1 / tree.speed());
}

/// Appends to the note in the job's result.
void addNote(v1::TuneState& tune, const std::string& text) {
  tune.set_note(absl::StrCat(tune.note(), tune.note().empty() ? "" : "; ", text));
}

/// Marks trees of these workloads as dropped, with the reason in the job's note.
void drop(const std::vector<std::string>& hashes, const std::string& why, Series& series, v1::TuneState& tune) {
  std::vector<std::string> names;
  for (Tree& tree : *series.mutable_trees()) {
    if (std::find(hashes.begin(), hashes.end(), tree.workload_hash()) == hashes.end() || tree.dropped()) {
      continue;
    }
    tree.set_dropped(true);
    const Workload* workload = workloadOf(tune, tree.workload_hash());
    names.push_back(workload == nullptr || workload->summary().empty() ? tree.workload_hash().substr(0, 12)
                                                                       : workload->summary());
    // The newest version has an earlier tree of this workload, which stays.
    for (const Tree& earlier : series.published()) {
      if (earlier.workload_hash() == tree.workload_hash() && !sameTree(earlier, tree)) {
        tree = earlier;
      }
    }
  }
  addNote(tune, absl::StrCat("the tree of ", absl::StrJoin(names, ", "), " was dropped: ", why));
}

/// Workload of the tree with the smallest gain.
std::string leastUseful(const v1::TuneState& tune, const std::vector<Tree>& trees) {
  const auto least = std::min_element(trees.begin(), trees.end(), [&](const Tree& one, const Tree& other) {
    return gainOf(tune, one) != gainOf(tune, other) ? gainOf(tune, one) < gainOf(tune, other)
                                                    : one.workload_hash() < other.workload_hash();
  });
  return least->workload_hash();
}

/// Stores the next version, touches its artifact, and wakes watchers.
absl::Status appendVersion(QueueTransaction& queue, Series& series, v1::ArtifactVersion version) {
  series.set_versions(series.versions() + 1);
  version.set_job_id(series.job_id());
  version.set_number(series.versions());
  version.set_create_time_us(queue.now_us);
  TESSERA_RETURN_IF_ERROR(queue.tx.putVersion(version));
  TESSERA_ASSIGN_OR_RETURN(const v1::Job job, queue.tx.getJob(series.job_id()));
  TESSERA_RETURN_IF_ERROR(touchAll(queue, projectOf(job), digestsIn(version)));
  queue.effects.changed_jobs.insert(series.job_id());
  return queue.tx.putRollout(series);
}

/// Publishes the current artifact as the next version; held back if the user has chosen another one.
absl::Status publish(QueueTransaction& queue, Series& series) {
  v1::ArtifactVersion version;
  version.set_artifact_id(series.artifact_id());
  *version.mutable_artifact() = series.artifact();
  version.set_tuned_workloads(series.published_size());
  version.set_default_ms(series.default_ms());
  version.set_ms(series.ms());
  version.set_held(series.chosen() > 0);
  return appendVersion(queue, series, std::move(version));
}

absl::StatusOr<v1::ArtifactVersion> versionNumbered(storage::Reader& reader, const Series& series, int number) {
  TESSERA_ASSIGN_OR_RETURN(const std::vector<v1::ArtifactVersion> found,
                           reader.versionsAfter(series.job_id(), int64_t{number} - 1, 1));
  if (found.empty() || found[0].number() != number) {
    return absl::NotFoundError(
        absl::StrCat("tune job ", series.job_id(), " has no version ", number, "; it has ",
                     series.versions() == 0 ? "none yet" : absl::StrCat("1 to ", series.versions())));
  }
  return found[0];
}

/// The newest version for which `fits` holds.
absl::StatusOr<v1::ArtifactVersion> newestThat(bool (*fits)(const v1::ArtifactVersion&), storage::Reader& reader,
                                               const Series& series) {
  for (int number = series.versions(); number > 0; --number) {
    TESSERA_ASSIGN_OR_RETURN(v1::ArtifactVersion version, versionNumbered(reader, series, number));
    if (fits(version)) {
      return version;
    }
  }
  return versionNumbered(reader, series, 0).status();
}

bool isNotHeld(const v1::ArtifactVersion& version) { return !version.held(); }

/// Number of the version that this one repeats, or its own.
int originOf(const v1::ArtifactVersion& version) {
  return version.same_as() > 0 ? version.same_as() : version.number();
}

/// FAILED_PRECONDITION if the version's artifact was deleted. Touches it otherwise.
absl::Status requireArtifact(QueueTransaction& queue, const v1::ArtifactVersion& version) {
  TESSERA_ASSIGN_OR_RETURN(const v1::Job job, queue.tx.getJob(version.job_id()));
  absl::Status known = queue.tx.getArtifact(projectOf(job), version.artifact_id()).status();
  if (!known.ok() && !absl::IsNotFound(known)) {
    return known;
  }
  TESSERA_ASSIGN_OR_RETURN(const bool present, touchIfPresent(queue, version.artifact().sha256()));
  if (!known.ok() || !present) {
    return absl::FailedPreconditionError(
        absl::StrCat("version ", version.number(), " of tune job ", version.job_id(), ": its artifact ",
                     version.artifact_id(), " was collected or deleted; choose a version whose artifact is there"));
  }
  return absl::OkStatus();
}

/// Compiles the model with these trees and the choices taken. The job shows no progress of it while searches continue.
absl::Status beginVersion(QueueTransaction& queue, v1::Action& action, Series& series, const Trees& trees) {
  v1::Pins pins;
  pinTaken(action.tune(), pins);
  for (const Tree& tree : trees) {
    const Workload* workload = workloadOf(action.tune(), tree.workload_hash());
    compiler::pinWorkload(pins, tree.workload_hash(), workload == nullptr ? "" : workload->summary(), tree.schedule());
  }
  *series.mutable_trying() = trees;
  series.set_stage(Series::COMPILING);
  TESSERA_RETURN_IF_ERROR(queue.tx.putRollout(series));
  return compileTuned(queue, action, pins);
}

/// Ends the job with its current version.
absl::Status conclude(QueueTransaction& queue, v1::Action& action, Series& series) {
  v1::TuneState& tune = *action.mutable_tune();
  if (series.published().empty()) {
    addNote(tune, "no tree is faster than the default's");
    if (!tune.has_chosen_artifact()) {
      series.set_artifact_id(tune.default_artifact_id());
      *series.mutable_artifact() = tune.default_artifact();
      tune.mutable_compared()->set_best_ms(tune.compared().default_ms());
    }
  }
  if (series.versions() == 0) {
    TESSERA_RETURN_IF_ERROR(publish(queue, series));
  }
  for (Workload& workload : *tune.mutable_workloads()) {
    const auto used = std::find_if(series.published().begin(), series.published().end(),
                                   [&](const Tree& tree) { return tree.workload_hash() == workload.hash(); });
    workload.set_improved(used != series.published().end());
    if (workload.improved()) {
      *workload.mutable_best() = used->schedule();
    } else {
      workload.clear_best();
    }
  }
  setResult(series.artifact(), action);
  const v1::TuneResult result = tuneResult(action);
  return succeedAction(queue, action, [&](v1::Job& job) { *job.mutable_tune_result() = result; });
}

/// Gives up the current version and tries the remaining trees. drop() has noted the reasons.
absl::Status tryTheRest(QueueTransaction& queue, v1::Action& action, Series& series) {
  series.set_stage(Series::IDLE);
  series.clear_trying();
  TESSERA_RETURN_IF_ERROR(queue.tx.putRollout(series));
  TESSERA_RETURN_IF_ERROR(queue.tx.putAction(action));
  return dispatchSearches(queue, action.id());
}

/// Sets the job's artifact, with the measured times.
void take(const v1::Digest& artifact, const v1::MeasureTaskResult& result, v1::Action& action, Series& series) {
  const double default_ms = medianOf(result.baseline_ms()), ms = medianOf(result.candidate_ms());
  v1::TuneResult& report = *action.mutable_tune()->mutable_compared();
  report.set_default_ms(default_ms);
  report.set_best_ms(ms);
  report.set_noise(relativeMad(result.baseline_ms()));
  *report.mutable_host() = result.host();
  *series.mutable_artifact() = artifact;
  series.set_artifact_id(artifact.sha256());
  setResult(artifact, action);
  series.set_published_speed(ms > 0 ? default_ms / ms : 0);
  series.set_default_ms(default_ms);
  series.set_ms(ms);
}

/// Publishes the version if it is correct and fast enough; otherwise finds the tree at fault.
absl::Status compared(QueueTransaction& queue, v1::Action& action, Series& series, const v1::Task& task) {
  v1::TuneState& tune = *action.mutable_tune();
  const v1::MeasureTaskResult& result = task.result().measure();
  const double default_ms = medianOf(result.baseline_ms()), ms = medianOf(result.candidate_ms());
  const double speed = ms > 0 ? default_ms / ms : 0;
  const std::vector<Tree> added = addedTrees(series);
  const bool wrong = !result.wrong().empty();
  // Not slower than the default, and not slower than the previous version beyond the noise.
  if (wrong || speed < std::max(1.0, kAsFast * series.published_speed())) {
    const std::string why =
        wrong ? absl::StrCat("the model's results change with it: ", result.wrong())
              : absl::StrFormat("the model was not faster with it (%.4f ms, %.4f ms by default)", ms, default_ms);
    if (added.empty()) {
      return tryTheRest(queue, action, series);
    }
    if (wrong || added.size() < 2) {
      drop({leastUseful(tune, added)}, why, series, tune);
      return tryTheRest(queue, action, series);
    }
    // Several new trees: their steps' times show which one is slower.
    series.set_stage(Series::BISECTING);
    TESSERA_RETURN_IF_ERROR(queue.tx.putRollout(series));
    TESSERA_RETURN_IF_ERROR(measureModel(queue, action, {.baseline = task.spec().measure().candidate()}, kLookingRuns));
    return queue.tx.putAction(action);
  }
  take(task.spec().measure().candidate(), result, action, series);
  *tune.mutable_pins() = action.compile().pins();
  *series.mutable_published() = series.trying();
  TESSERA_RETURN_IF_ERROR(publish(queue, series));
  return tryTheRest(queue, action, series);
}

/// Times of the steps of a version that was slower. Drops every new tree whose steps became slower, at least the worst
/// one.
absl::Status stepTimesMeasured(QueueTransaction& queue, v1::Action& action, Series& series, const v1::Task& task) {
  v1::TuneState& tune = *action.mutable_tune();
  std::map<std::string, double> times_ms;
  for (const v1::MeasureTaskResult::StepTime& time : task.result().measure().steps()) {
    times_ms[time.workload_hash()] += time.median_ms();
  }
  std::vector<std::string> slower;
  std::string worst;
  double most = -1;
  for (const Tree& tree : addedTrees(series)) {
    const Workload* workload = workloadOf(tune, tree.workload_hash());
    const double before_ms = workload == nullptr ? 0 : workload->share() * tune.model_ms();
    const double ratio = before_ms > 0 ? times_ms[tree.workload_hash()] / before_ms : 0;
    if (ratio > 1) {
      slower.push_back(tree.workload_hash());
    }
    if (ratio > most) {
      most = ratio;
      worst = tree.workload_hash();
    }
  }
  drop(slower.empty() ? std::vector{worst} : slower,
       absl::StrFormat("the model was not faster, and there it takes %.2f times as long as by default", most), series,
       tune);
  return tryTheRest(queue, action, series);
}

}  // namespace

absl::Status beginVersions(QueueTransaction& queue, const v1::Job& job, v1::TuneMode mode) {
  Series series;
  series.set_job_id(job.id());
  series.set_mode(mode == v1::TUNE_MODE_UNSPECIFIED ? v1::ASYNC : mode);
  series.set_stage(Series::IDLE);
  return queue.tx.putRollout(series);
}

absl::Status defaultCompiled(QueueTransaction& queue, const v1::Action& tune) {
  TESSERA_ASSIGN_OR_RETURN(Series series, seriesOf(queue, tune));
  series.set_artifact_id(tune.tune().default_artifact_id());
  *series.mutable_artifact() = tune.tune().default_artifact();
  return series.mode() == v1::STATIC ? queue.tx.putRollout(series) : publish(queue, series);
}

absl::Status choicesConfirmed(QueueTransaction& queue, v1::Action& tune, const v1::MeasureTaskResult& result) {
  TESSERA_ASSIGN_OR_RETURN(Series series, seriesOf(queue, tune));
  take(tune.tune().chosen_artifact(), result, tune, series);
  return series.mode() == v1::STATIC ? queue.tx.putRollout(series) : publish(queue, series);
}

absl::StatusOr<bool> takesTreesEarly(QueueTransaction& queue, const std::string& tune_id) {
  TESSERA_ASSIGN_OR_RETURN(const v1::Action tune, queue.tx.getAction(tune_id));
  TESSERA_ASSIGN_OR_RETURN(const Series series, seriesOf(queue, tune));
  return isLiving(tune) && !isBeforeSearching(tune.tune()) && series.mode() != v1::STATIC;
}

absl::StatusOr<int> searchesToDispatch(QueueTransaction& queue, const v1::Action& tune, int waiting, int free_workers) {
  TESSERA_ASSIGN_OR_RETURN(const Series series, seriesOf(queue, tune));
  if (series.mode() != v1::SYNC) {
    return free_workers;
  }
  if (isBeforeSearching(tune.tune())) {
    return 0;
  }
  return waiting == tune.tune().searches_size() && series.stage() == Series::IDLE ? waiting : 0;
}

absl::Status treeConfirmed(QueueTransaction& queue, const std::string& tune_id, const std::string& workload_hash,
                           const v1::Schedule& schedule, double speed) {
  TESSERA_ASSIGN_OR_RETURN(const v1::Action tune, queue.tx.getAction(tune_id));
  TESSERA_ASSIGN_OR_RETURN(Series series, seriesOf(queue, tune));
  auto& trees = *series.mutable_trees();
  auto place =
      std::find_if(trees.begin(), trees.end(), [&](const Tree& tree) { return tree.workload_hash() == workload_hash; });
  Tree& tree = place == trees.end() ? *trees.Add() : *place;
  const bool known = canonicalBytes(tree.schedule()) == canonicalBytes(schedule);
  if (known || (!tree.dropped() && tree.speed() >= speed)) {
    return absl::OkStatus();
  }
  tree.set_workload_hash(workload_hash);
  *tree.mutable_schedule() = schedule;
  tree.set_speed(speed);
  tree.set_dropped(false);
  return queue.tx.putRollout(series);
}

absl::Status publishNextVersion(QueueTransaction& queue, const std::string& tune_id) {
  TESSERA_ASSIGN_OR_RETURN(v1::Action action, queue.tx.getAction(tune_id));
  v1::TuneState& tune = *action.mutable_tune();
  if (!isLiving(action) || isBeforeSearching(tune)) {
    return absl::OkStatus();
  }
  TESSERA_ASSIGN_OR_RETURN(Series series, seriesOf(queue, action));
  const bool over = tune.searches().empty();
  if (over && tune.stage() == v1::TuneState::SEARCHING) {
    showPhase(action, "search", static_cast<double>(queue.now_us - tune.search_start_us()) / 1000.0, 0, 0);
    tune.set_stage(v1::TuneState::COMPILING_TUNED);
    TESSERA_RETURN_IF_ERROR(queue.tx.putAction(action));
  }
  if (series.stage() != Series::IDLE || (!over && series.mode() == v1::STATIC)) {
    return absl::OkStatus();
  }
  // All searches must have completed their batches.
  if (!over && series.mode() == v1::SYNC) {
    for (const std::string& id : tune.searches()) {
      TESSERA_ASSIGN_OR_RETURN(const v1::Action search, queue.tx.getAction(id));
      if (search.search().stage() != v1::SearchState::WAITING) {
        return absl::OkStatus();
      }
    }
  }
  const Trees trees = wanted(series, tune);
  // Also if a tree was dropped: the next version is made without it.
  const bool news =
      trees.size() != series.published_size() ||
      std::any_of(trees.begin(), trees.end(), [&](const Tree& tree) { return !contains(series.published(), tree); });
  if (news) {
    return beginVersion(queue, action, series, trees);
  }
  return over ? conclude(queue, action, series) : absl::OkStatus();
}

absl::Status versionAssembled(QueueTransaction& queue, v1::Action& action) {
  TESSERA_ASSIGN_OR_RETURN(Series series, seriesOf(queue, action));
  const v1::Digest made = action.result().artifact();
  // Until the comparison, the previous version stays the job's artifact.
  setResult(series.artifact(), action);
  series.set_stage(Series::COMPARING);
  TESSERA_RETURN_IF_ERROR(queue.tx.putRollout(series));
  TESSERA_RETURN_IF_ERROR(showProgress(queue, action, phaseProgress("compare"), false));
  TESSERA_RETURN_IF_ERROR(
      measureModel(queue, action, {.baseline = action.tune().default_artifact(), .candidate = made}, kComparingRuns));
  return queue.tx.putAction(action);
}

absl::Status versionMeasured(QueueTransaction& queue, v1::Action& action, const v1::Task& task) {
  TESSERA_ASSIGN_OR_RETURN(Series series, seriesOf(queue, action));
  return series.stage() == Series::BISECTING ? stepTimesMeasured(queue, action, series, task)
                                             : compared(queue, action, series, task);
}

absl::Status versionFailed(QueueTransaction& queue, v1::Action& action, const v1::Failure& failure) {
  TESSERA_ASSIGN_OR_RETURN(Series series, seriesOf(queue, action));
  v1::TuneState& tune = *action.mutable_tune();
  const std::vector<Tree> added = addedTrees(series);
  if (added.empty()) {
    return tryTheRest(queue, action, series);
  }
  std::vector<std::string> blamed = {leastUseful(tune, added)};
  if (!outcomeOf(v1::MEASURE, failure.reason()) || failure.reason() == v1::Failure::RUN_DEADLINE_EXCEEDED) {
    blamed.clear();  // fewer of them would not help
    for (const Tree& tree : added) {
      blamed.push_back(tree.workload_hash());
    }
  }
  drop(blamed,
       absl::StrCat("the model could not be ", series.stage() == Series::COMPILING ? "compiled" : "run",
                    " with it: ", failure.message()),
       series, tune);
  return tryTheRest(queue, action, series);
}

absl::Status publishUnlessPublished(QueueTransaction& queue, const v1::Action& tune) {
  TESSERA_ASSIGN_OR_RETURN(Series series, seriesOf(queue, tune));
  return series.versions() == 0 ? publish(queue, series) : absl::OkStatus();
}

absl::StatusOr<v1::ArtifactVersion> versionToRun(storage::Reader& reader, const v1::Job& job, int number) {
  if (job.has_compile_result()) {
    if (number > 0) {
      return absl::NotFoundError(absl::StrCat("job ", job.id(), " is a compile job: it has one artifact, no versions"));
    }
    v1::ArtifactVersion only;
    only.set_job_id(job.id());
    only.set_artifact_id(job.compile_result().artifact_id());
    *only.mutable_artifact() = job.compile_result().artifact();
    return only;
  }
  const auto series = job.has_tune() ? reader.getRollout(job.id()) : absl::NotFoundError("");
  if (!series.ok() && !absl::IsNotFound(series.status())) {
    return series.status();
  }
  if (!series.ok() || series->versions() == 0) {
    const char* why =
        job.has_tune() || job.has_compile() ? " has no artifact yet" : " is no job that makes an artifact";
    return absl::FailedPreconditionError(
        absl::StrCat("job ", job.id(), why, "; it is ", v1::Job::State_Name(job.state())));
  }
  return number > 0 ? versionNumbered(reader, *series, number) : newestThat(isNotHeld, reader, *series);
}

absl::StatusOr<v1::ArtifactVersion> chooseVersion(QueueTransaction& queue, const std::string& job_id, int number) {
  TESSERA_ASSIGN_OR_RETURN(Series series, queue.tx.getRollout(job_id));
  const auto by_the_job = [](const v1::ArtifactVersion& version) { return version.same_as() == 0; };
  TESSERA_ASSIGN_OR_RETURN(v1::ArtifactVersion version, number > 0 ? versionNumbered(queue.tx, series, number)
                                                                   : newestThat(by_the_job, queue.tx, series));
  TESSERA_RETURN_IF_ERROR(requireArtifact(queue, version));
  TESSERA_ASSIGN_OR_RETURN(v1::ArtifactVersion current, newestThat(isNotHeld, queue.tx, series));
  series.set_chosen(number > 0 ? originOf(version) : 0);
  // Programs run it already.
  if (originOf(current) == originOf(version)) {
    TESSERA_RETURN_IF_ERROR(queue.tx.putRollout(series));
    return current;
  }
  if (series.versions() >= kMaxVersions) {
    return absl::ResourceExhaustedError(absl::StrCat("tune job ", job_id, " has ", series.versions(),
                                                     " versions, and choosing another adds one; at most ", kMaxVersions,
                                                     " are kept"));
  }
  version.set_same_as(originOf(version));
  version.set_held(false);
  TESSERA_RETURN_IF_ERROR(appendVersion(queue, series, version));
  return versionNumbered(queue.tx, series, series.versions());
}

}  // namespace tessera::server
