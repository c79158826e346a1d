#include "server/workflows/compile_steps.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/messages/project.h"
#include "proto/support/sha256.h"
#include "proto/support/status_macros.h"
#include "server/action_key.h"
#include "server/queue/actions.h"
#include "server/queue/tasks.h"
#include "server/queue/uses.h"
#include "server/workflows/choices.h"
#include "server/workflows/knowledge.h"
#include "server/workflows/sharing.h"
#include "server/workflows/tuning.h"
#include "server/workflows/tuning_progress.h"
#include "storage/stored_key.h"

namespace tessera::server {
namespace {

/// Progress of a phase, in steps.
v1::Progress progressOf(const std::string& phase, int done, int total) {
  v1::Progress progress;
  progress.set_phase(phase);
  progress.set_done(done);
  progress.set_total(total);
  return progress;
}

/// Adds the build phase: from the first start to the last end of the BUILD tasks of this compilation. A task that
/// another action started earlier counts from this action's own start.
absl::Status noteBuildPhase(QueueTransaction& queue, v1::Action& action) {
  int64_t first = 0;
  int64_t last = 0;
  double cpu_ms = 0;
  int count = 0;
  for (const v1::Action::BuildRef& build : action.builds()) {
    if (build.task_id().empty()) {
      continue;
    }
    TESSERA_ASSIGN_OR_RETURN(const v1::Task task, queue.tx.getTask(build.task_id()));
    const int64_t start = std::max(task.first_start_us(), action.start_time_us());
    first = count == 0 ? start : std::min(first, start);
    last = std::max(last, task.end_time_us());
    cpu_ms += task.cpu_ms();
    ++count;
  }
  if (count > 0) {
    showPhase(action, "build", millis(last - first), cpu_ms, count);
  }
  return absl::OkStatus();
}

/// Equal compile requests share an action already. Tune jobs of one model have separate actions with equal tasks, which
/// are shared here.
absl::Status addOrJoin(QueueTransaction& queue, const v1::Action& action, v1::TaskSpec spec) {
  const bool may_share = action.has_tune() && action.state() == v1::Job::RUNNING;
  return may_share ? shareEqualTask(queue, action, std::move(spec))
                   : addTask(queue, action, std::move(spec), "").status();
}

/// Adds the ASSEMBLE task. All objects exist.
absl::Status beginAssembly(QueueTransaction& queue, v1::Action& action) {
  TESSERA_RETURN_IF_ERROR(noteBuildPhase(queue, action));
  v1::TaskSpec spec;
  spec.set_kind(v1::ASSEMBLE);
  v1::AssembleTask* assemble = spec.mutable_assemble();
  assemble->set_name(action.compile().name());
  *assemble->mutable_plan() = action.plan();
  *spec.add_inputs() = action.plan();
  if (action.has_weights()) {
    *assemble->mutable_weights() = action.weights();
    *spec.add_inputs() = action.weights();
  }
  for (const v1::Action::BuildRef& build : action.builds()) {
    TESSERA_ASSIGN_OR_RETURN(const v1::Digest object, queue.tx.getObject(build.build_key()));
    *assemble->add_objects() = object;
    *spec.add_inputs() = object;
  }
  TESSERA_RETURN_IF_ERROR(addOrJoin(queue, action, std::move(spec)));
  return showProgress(queue, action, progressOf("assemble", 0, 1), false);
}

/// Whether an object of an earlier compilation can be used: kStored, or the reason against it.
absl::StatusOr<Lookup> findObject(QueueTransaction& queue, const v1::Action& action, const std::string& key) {
  if (action.skip_cache()) {
    return Lookup::kSkipped;
  }
  auto object = queue.tx.getObject(key);
  if (absl::IsNotFound(object.status())) {
    return Lookup::kNew;
  }
  TESSERA_RETURN_IF_ERROR(object.status());
  TESSERA_RETURN_IF_ERROR(touch(queue.tx, storage::Kind::kObject, key, queue.now_us));
  TESSERA_ASSIGN_OR_RETURN(const bool whole, touchIfPresent(queue, object->sha256()));
  return whole ? Lookup::kStored : Lookup::kDamaged;
}

/// Uses the object that other projects have built of this unit, if sharing permits it and there is one.
absl::StatusOr<bool> takeShared(QueueTransaction& queue, const v1::Action& action, const std::string& key,
                                const v1::Digest& unit) {
  TESSERA_ASSIGN_OR_RETURN(const std::optional<v1::Digest> object, reproducedObject(queue, unit));
  if (!object) {
    return false;
  }
  TESSERA_ASSIGN_OR_RETURN(const bool whole, touchIfPresent(queue, object->sha256()));
  if (!whole) {
    return false;
  }
  TESSERA_RETURN_IF_ERROR(queue.tx.putBlob(*object, projectOf(action), queue.now_us));
  TESSERA_RETURN_IF_ERROR(queue.tx.putObject(key, *object));
  TESSERA_RETURN_IF_ERROR(queue.tx.touch(storage::Kind::kObject, key, queue.now_us));
  return true;
}

/// Finds, joins or adds the build of one unit.
absl::Status requestObject(QueueTransaction& queue, v1::Action& action, v1::Action::BuildRef build,
                           const v1::Digest& unit) {
  TESSERA_ASSIGN_OR_RETURN(Lookup lookup, findObject(queue, action, build.build_key()));
  // Not if the request skips the cache.
  if (lookup == Lookup::kNew || lookup == Lookup::kDamaged) {
    TESSERA_ASSIGN_OR_RETURN(const bool shared, takeShared(queue, action, build.build_key(), unit));
    lookup = shared ? Lookup::kShared : lookup;
  }
  if (lookup == Lookup::kStored || lookup == Lookup::kShared) {
    queue.effects.seen.answers.push_back({Cache::kObject, lookup});
    action.set_builds_reused(action.builds_reused() + 1);
    action.set_builds_done(action.builds_done() + 1);
    *action.add_builds() = std::move(build);
    return absl::OkStatus();
  }
  v1::TaskSpec spec;
  spec.set_kind(v1::BUILD);
  *spec.mutable_build()->mutable_unit() = unit;
  *spec.add_inputs() = unit;
  bool joined = false;
  TESSERA_ASSIGN_OR_RETURN(const v1::Task task,
                           shareOrAddTask(queue, action, std::move(spec), build.build_key(), nullptr, joined));
  lookup = joined ? Lookup::kInFlight : lookup;
  build.set_task_id(task.id());
  queue.effects.seen.answers.push_back({Cache::kObject, lookup});
  *action.add_builds() = std::move(build);
  return absl::OkStatus();
}

/// Sets the decisions as suggestions for the action's next plan.
absl::Status suggest(QueueTransaction& queue, v1::Action& action, const v1::Pins& pins) {
  TESSERA_ASSIGN_OR_RETURN(*action.mutable_compile()->mutable_pins(), printedPins(queue, action, pins));
  action.mutable_compile()->set_pin_use(v1::SUGGESTIONS);
  return absl::OkStatus();
}

/// Adds decisions from records to the action, as suggestions for a further plan: first graph choices, then trees of the
/// resulting workloads. Returns whether the action continues with the present plan. Otherwise it has started another
/// plan, or was answered by an artifact of the same request and records.
absl::StatusOr<bool> takeKnowledge(QueueTransaction& queue, v1::Action& action, const v1::PlanTaskResult& plan) {
  v1::CompileSpec& compile = *action.mutable_compile();
  const v1::Knowledge& knowledge = compile.options().knowledge();
  v1::Pins pins;
  // First plan: choices change the workloads, so trees are looked up for the plan with them.
  if (action.known_choices().empty()) {
    TESSERA_ASSIGN_OR_RETURN(const std::vector<v1::Choice> choices,
                             knownChoices(queue.tx, projectOf(action), knowledge, action.target(), plan));
    if (!choices.empty()) {
      action.mutable_known_choices()->Assign(choices.begin(), choices.end());
      *pins.mutable_choices() = action.known_choices();
      TESSERA_RETURN_IF_ERROR(suggest(queue, action, pins));
      TESSERA_RETURN_IF_ERROR(queue.tx.putAction(action));
      TESSERA_RETURN_IF_ERROR(beginCompile(queue, action));
      return false;
    }
  }
  TESSERA_ASSIGN_OR_RETURN(pins, knownTrees(queue.tx, projectOf(action), knowledge, action.target(), plan));
  *pins.mutable_choices() = action.known_choices();
  action.set_records_looked_up(true);
  compile.mutable_options()->clear_knowledge();
  if (!pins.workloads().empty()) {
    TESSERA_RETURN_IF_ERROR(suggest(queue, action, pins));
  }
  if (!action.skip_cache()) {
    // The key of the request with these suggestions instead of the instruction to look for some.
    const std::string key = actionKey(projectOf(action), compile, action.target(), queue.rules.compiler_version);
    auto artifact = queue.tx.artifactByKey(key);
    if (artifact.ok()) {
      TESSERA_RETURN_IF_ERROR(touch(queue.tx, storage::Kind::kArtifact,
                                    storage::storedKey(projectOf(action), artifact->id()), queue.now_us));
      TESSERA_ASSIGN_OR_RETURN(const bool whole, touchIfPresent(queue, artifact->blob().sha256()));
      if (whole) {
        action.mutable_result()->set_artifact_id(artifact->id());
        *action.mutable_result()->mutable_artifact() = artifact->blob();
        action.mutable_result()->set_workloads(plan.units_size());
        action.mutable_result()->set_workloads_reused(plan.units_size());
        TESSERA_RETURN_IF_ERROR(
            succeedAction(queue, action, [&](v1::Job& job) { *job.mutable_compile_result() = action.result(); }));
        return false;
      }
    } else if (!absl::IsNotFound(artifact.status())) {
      return artifact.status();
    }
  }
  // No tree to suggest: the present plan is final.
  if (pins.workloads().empty()) {
    return true;
  }
  TESSERA_RETURN_IF_ERROR(queue.tx.putAction(action));
  TESSERA_RETURN_IF_ERROR(beginCompile(queue, action));
  return false;
}

/// Stores the artifact of an action, and continues with whatever waits for it.
absl::Status publish(QueueTransaction& queue, v1::Action& action, const v1::TaskResult& files,
                     const v1::AssembleTaskResult& assembled) {
  const v1::Digest blob = fileDigest(files, assembled.artifact_file());
  const bool tunes = action.has_tune();
  v1::Artifact artifact;
  artifact.set_id(blob.sha256());
  *artifact.mutable_blob() = blob;
  *artifact.mutable_manifest() = assembled.manifest();
  artifact.set_job_id(action.job_id());
  artifact.set_project(projectOf(action));
  artifact.set_action_key(tunes                        ? tunedKey(action)
                          : action.records_looked_up() ? actionKey(projectOf(action), action.compile(), action.target(),
                                                                   queue.rules.compiler_version)
                                                       : action.key());
  artifact.set_create_time_us(queue.now_us);
  TESSERA_RETURN_IF_ERROR(queue.tx.putArtifact(artifact));
  TESSERA_RETURN_IF_ERROR(
      queue.tx.touch(storage::Kind::kArtifact, storage::storedKey(artifact.project(), artifact.id()), queue.now_us));
  v1::CompileResult* result = action.mutable_result();
  result->set_artifact_id(artifact.id());
  *result->mutable_artifact() = blob;
  result->set_workloads(action.builds_size());
  result->set_workloads_reused(action.builds_reused());
  *action.mutable_progress() = progressOf("assemble", 1, 1);
  if (tunes) {
    return tuneAssembled(queue, action);
  }
  return succeedAction(queue, action, [&](v1::Job& job) { *job.mutable_compile_result() = action.result(); });
}

/// Stores the object that the planning attempt built of a unit, or that its worker had. The attempt cannot know whether
/// the service has one already; if so, that one is kept. Either way the unit counts as reused.
absl::Status takeObject(QueueTransaction& queue, v1::Action& action, v1::Action::BuildRef build,
                        const std::string& worker_id, const v1::Digest& object, bool known) {
  TESSERA_ASSIGN_OR_RETURN(const Lookup lookup, findObject(queue, action, build.build_key()));
  queue.effects.seen.answers.push_back({Cache::kObject, lookup});
  if (known || lookup == Lookup::kStored) {
    action.set_builds_reused(action.builds_reused() + 1);
  }
  if (lookup != Lookup::kStored) {
    TESSERA_RETURN_IF_ERROR(storeObject(queue, worker_id, build.build_key(), build.unit(), object));
  }
  action.set_builds_done(action.builds_done() + 1);
  *action.add_builds() = std::move(build);
  return absl::OkStatus();
}

}  // namespace

absl::Status storeObject(QueueTransaction& queue, const std::string& worker_id, const std::string& build_key,
                         const v1::Digest& unit, const v1::Digest& object) {
  TESSERA_RETURN_IF_ERROR(queue.tx.putObject(build_key, object));
  TESSERA_RETURN_IF_ERROR(noteReproduction(queue, worker_id, unit, object));
  return queue.tx.touch(storage::Kind::kObject, build_key, queue.now_us);
}

v1::Digest fileDigest(const v1::TaskResult& result, const std::string& name) {
  for (const v1::OutputFile& file : result.files()) {
    if (file.name() == name) {
      return file.digest();
    }
  }
  return {};
}

std::string resultProblem(v1::TaskKind kind, const v1::TaskResult& result) {
  static const std::map<v1::TaskKind, v1::TaskResult::PayloadCase> kPayloads = {
      {v1::PLAN, v1::TaskResult::kPlan},         {v1::BUILD, v1::TaskResult::kBuild},
      {v1::ASSEMBLE, v1::TaskResult::kAssemble}, {v1::EXECUTE, v1::TaskResult::kExecute},
      {v1::PROFILE, v1::TaskResult::kProfile},   {v1::ANALYZE, v1::TaskResult::kAnalyze},
      {v1::SEARCH, v1::TaskResult::kSearch},     {v1::MEASURE, v1::TaskResult::kMeasure},
  };
  const auto payload = kPayloads.find(kind);
  if (payload == kPayloads.end() || payload->second != result.payload_case()) {
    return absl::StrCat("the result of a ", v1::TaskKind_Name(kind), " task carries payload ",
                        static_cast<int>(result.payload_case()));
  }
  for (const v1::OutputFile& file : result.files()) {
    if (!isSha256(file.digest().sha256())) {
      return absl::StrCat("output file ", file.name(), " has no digest");
    }
  }
  std::vector<std::string> names;
  if (kind == v1::PLAN) {
    names.push_back(result.plan().plan_file());
    if (!result.plan().weights_file().empty()) {
      names.push_back(result.plan().weights_file());
    }
    for (const auto& unit : result.plan().units()) {
      names.push_back(unit.file());
      if (!unit.object_file().empty()) {
        names.push_back(unit.object_file());
      } else if (result.plan().has_assembled()) {
        return absl::StrCat("an artifact was assembled without the object of unit ", unit.file());
      }
    }
    if (std::any_of(result.plan().ambiguous_choices().begin(), result.plan().ambiguous_choices().end(),
                    [](const v1::AmbiguousChoice& open) { return open.choices().empty(); })) {
      return "an open choice has no place";
    }
    // The artifact of the same attempt is a file too.
    if (result.plan().has_assembled()) {
      names.push_back(result.plan().assembled().artifact_file());
    }
  } else if (kind == v1::BUILD) {
    names.push_back(result.build().object_file());
  } else if (kind == v1::ASSEMBLE) {
    names.push_back(result.assemble().artifact_file());
  } else if (kind == v1::SEARCH) {
    const v1::SearchLog::Batch& batch = result.search().batch();
    // Each tree that the batch does not refuse must be proposed, and the server alone adds outcomes.
    const auto tried = std::count(batch.refused().begin(), batch.refused().end(), false);
    if (tried != result.search().proposals_size() || !batch.speeds().empty()) {
      return absl::StrCat("its batch has ", tried, " trees to try and ", batch.speeds_size(), " outcomes, with ",
                          result.search().proposals_size(), " proposals");
    }
    for (const auto& proposal : result.search().proposals()) {
      names.push_back(proposal.unit_file());
    }
  } else if (kind == v1::ANALYZE) {
    names.push_back(result.analyze().report_file());
  }
  std::map<std::string, int> files;
  for (const v1::OutputFile& file : result.files()) {
    ++files[file.name()];
  }
  for (const std::string& name : names) {
    if (files[name] != 1) {
      return absl::StrCat("the result refers to file '", name, "', of which there are ", files[name]);
    }
  }
  return "";
}

void addModelInputs(const v1::CompileSpec& compile, v1::TaskSpec& spec) {
  *spec.add_inputs() = compile.model();
  // In the order of names, so that equal requests give equal specifications.
  const std::map<std::string, v1::Digest> external(compile.external_data().begin(), compile.external_data().end());
  for (const auto& [location, digest] : external) {
    *spec.add_inputs() = digest;
  }
  if (compile.has_pins()) {
    *spec.add_inputs() = compile.pins();
  }
}

absl::Status beginCompile(QueueTransaction& queue, const v1::Action& action) {
  v1::TaskSpec spec;
  spec.set_kind(v1::PLAN);
  *spec.mutable_plan()->mutable_spec() = action.compile();
  *spec.mutable_plan()->mutable_target() = action.target();
  spec.mutable_plan()->set_finish_small(true);
  const bool measures = action.has_tune() && action.tune().stage() == v1::TuneState::COMPILING;
  spec.mutable_plan()->set_report_ambiguous_choices(measures || usesRecords(action.compile()));
  addModelInputs(action.compile(), spec);
  return addOrJoin(queue, action, std::move(spec));
}

absl::Status planDone(QueueTransaction& queue, v1::Action& action, const v1::Task& task) {
  const v1::PlanTaskResult& plan = task.result().plan();
  if (usesRecords(action.compile())) {
    TESSERA_ASSIGN_OR_RETURN(const bool goes_on, takeKnowledge(queue, action, plan));
    if (!goes_on) {
      return absl::OkStatus();
    }
  }
  if (action.has_tune() && action.tune().stage() == v1::TuneState::COMPILING) {
    TESSERA_RETURN_IF_ERROR(noteOpenChoices(queue, plan, action));
  }
  // One process does both, and the remaining steps of a small model; its CPU time is reported as "plan".
  const double wall_ms = millis(task.end_time_us() - task.first_start_us());
  showPhase(action, "import", plan.import_ms(), 0, 1);
  // The attempt's time less the other steps' own times.
  const double behind_ms = plan.build_ms() + plan.assemble_ms();
  showPhase(action, "plan", std::max(0.0, wall_ms - plan.import_ms() - behind_ms), task.cpu_ms(), 1);
  *action.mutable_plan() = fileDigest(task.result(), plan.plan_file());
  if (!plan.weights_file().empty()) {
    *action.mutable_weights() = fileDigest(task.result(), plan.weights_file());
  }
  std::map<std::string, v1::Digest> units;
  for (const auto& unit : plan.units()) {
    const v1::Digest digest = fileDigest(task.result(), unit.file());
    v1::Action::BuildRef build;
    build.set_build_key(buildKey(projectOf(action), digest.sha256(), queue.rules.compiler_version));
    build.set_workload_hash(unit.workload_hash());
    build.set_summary(unit.summary());
    *build.mutable_shape() = unit.shape();
    *build.mutable_unit() = digest;
    // Equal units of one plan are built once.
    if (!units.emplace(build.build_key(), digest).second) {
      continue;
    }
    if (unit.object_file().empty()) {
      TESSERA_RETURN_IF_ERROR(requestObject(queue, action, std::move(build), digest));
    } else {
      TESSERA_RETURN_IF_ERROR(takeObject(queue, action, std::move(build), task.worker_id(),
                                         fileDigest(task.result(), unit.object_file()), unit.object_known()));
    }
  }
  // A small model: this attempt has built and assembled it.
  if (plan.has_assembled()) {
    showPhase(action, "build", plan.build_ms(), 0, action.builds_size());
    showPhase(action, "assemble", plan.assemble_ms(), 0, 1);
    TESSERA_RETURN_IF_ERROR(
        showProgress(queue, action, progressOf("build", action.builds_done(), action.builds_size()), false));
    TESSERA_RETURN_IF_ERROR(showProgress(queue, action, progressOf("assemble", 0, 1), false));
    return publish(queue, action, task.result(), plan.assembled());
  }
  if (action.builds_done() == action.builds_size()) {
    return beginAssembly(queue, action);
  }
  return showProgress(queue, action, progressOf("build", action.builds_done(), action.builds_size()), false);
}

absl::Status buildDone(QueueTransaction& queue, v1::Action& action, const v1::Task& task) {
  action.set_builds_done(action.builds_done() + 1);
  if (action.builds_done() == action.builds_size()) {
    return beginAssembly(queue, action);
  }
  v1::Progress progress = progressOf("build", action.builds_done(), action.builds_size());
  for (const v1::Action::BuildRef& build : action.builds()) {
    if (build.task_id() == task.id()) {
      progress.set_detail(build.summary());
    }
  }
  return showProgress(queue, action, progress, true);
}

absl::Status assembleDone(QueueTransaction& queue, v1::Action& action, const v1::Task& task) {
  showPhase(action, "assemble", millis(task.end_time_us() - task.first_start_us()), task.cpu_ms(), 1);
  return publish(queue, action, task.result(), task.result().assemble());
}

}  // namespace tessera::server
