#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "proto/messages/failure.h"
#include "proto/messages/project.h"
#include "proto/support/status_macros.h"
#include "server/access/quotas.h"
#include "server/action_key.h"
#include "server/canonical.h"
#include "server/scheduler/actions.h"
#include "server/scheduler/compile_steps.h"
#include "server/scheduler/holdings.h"
#include "server/scheduler/jobs.h"
#include "server/scheduler/scheduler.h"
#include "server/scheduler/tasks.h"
#include "server/scheduler/tuning.h"
#include "server/scheduler/uses.h"
#include "server/scheduler/versions.h"

namespace tessera::server {
namespace {

/// What createJob knows before it looks at the store.
struct Admission {
  v1::CreateJobRequest request;
  const v1::Target& target;
  const std::string project;
  std::string request_hash;
  v1::TuneMode mode = v1::TUNE_MODE_UNSPECIFIED;
  std::string key = {};              ///< compile only
  std::set<std::string> names = {};  ///< of blobs and artifacts; of a run of a job's artifact without that
};

Admission admissionOf(v1::CreateJobRequest request, const v1::Target& target, const std::string& project,
                      v1::TuneMode mode, const Rules& rules) {
  std::string hash = requestHash(request);
  if (mode != v1::TUNE_MODE_UNSPECIFIED) {
    hash = KeyHash().add(hash).add(v1::TuneMode_Name(mode)).finish();
  }
  Admission admission{std::move(request), target, project, std::move(hash), mode};
  if (admission.request.has_compile()) {
    admission.key = actionKey(project, admission.request.compile(), target, rules.compiler_version);
  }
  return admission;
}

/// The artifact of an earlier action with this key, if its bytes are there. `lookup`: what became of it.
absl::StatusOr<std::optional<v1::Artifact>> cachedArtifact(storage::Reader& reader, const std::string& key,
                                                           Lookup* lookup = nullptr) {
  const auto note = [lookup](Lookup outcome) {
    if (lookup != nullptr) {
      *lookup = outcome;
    }
  };
  auto artifact = reader.artifactByKey(key);
  if (absl::IsNotFound(artifact.status())) {
    note(Lookup::kNew);
    return std::nullopt;
  }
  TESSERA_RETURN_IF_ERROR(artifact.status());
  TESSERA_ASSIGN_OR_RETURN(const bool present, reader.hasBlob(artifact->blob().sha256()));
  note(present ? Lookup::kStored : Lookup::kDamaged);
  return present ? std::optional(*std::move(artifact)) : std::nullopt;
}

v1::Job newJob(const Admission& admission, int64_t now_us, const Rules& rules) {
  const auto given = [](int64_t wanted_us, int64_t otherwise_us) { return wanted_us > 0 ? wanted_us : otherwise_us; };
  const v1::CreateJobRequest& request = admission.request;
  v1::Job job;
  job.set_state(v1::Job::QUEUED);
  job.set_request_id(request.request_id());
  job.set_project(admission.project);
  job.set_action_key(admission.key);
  if (request.has_compile()) {
    *job.mutable_compile() = request.compile();
  } else if (request.has_execute()) {
    *job.mutable_execute() = request.execute();
  } else if (request.has_analyze()) {
    *job.mutable_analyze() = request.analyze();
  } else if (request.has_tune()) {
    *job.mutable_tune() = request.tune();
  } else {
    *job.mutable_profile() = request.profile();
  }
  job.set_create_time_us(now_us);
  job.set_queue_deadline_us(now_us + given(request.queue_timeout_us(), rules.queue_timeout_us));
  job.set_deadline_us(now_us + given(request.total_timeout_us(), rules.total_timeout_us));
  job.set_run_timeout_us(given(request.run_timeout_us(), rules.run_timeout_us));
  job.set_client(request.client());
  job.set_priority(request.priority());
  *job.mutable_labels() = request.labels();
  return job;
}

/// Stores a new job with the event of its first state; of one that ends as it begins eventsOf() knows it.
absl::Status insertJob(Step& step, const Admission& admission, const v1::Job& job, const std::string& action_id) {
  TESSERA_RETURN_IF_ERROR(step.tx.insertJob(job, admission.request_hash, action_id));
  if (isTerminal(job.state())) {
    return absl::OkStatus();
  }
  v1::JobEvent event;
  event.mutable_state()->set_state(job.state());
  return appendEvent(step, job.id(), std::move(event));
}

void fillFromCache(const v1::Artifact& artifact, v1::Job& job) {
  job.set_state(v1::Job::SUCCEEDED);
  job.set_cached(true);
  job.set_start_time_us(job.create_time_us());
  job.set_end_time_us(job.create_time_us());
  v1::CompileResult* result = job.mutable_compile_result();
  result->set_artifact_id(artifact.id());
  *result->mutable_artifact() = artifact.blob();
  result->set_workloads(artifact.manifest().kernels());  // one of each
  result->set_workloads_reused(artifact.manifest().kernels());
}

/// A finished job that points at the artifact an earlier one built.
absl::Status answerFromCache(Step& step, const Admission& admission, const v1::Artifact& artifact, v1::Job& job) {
  fillFromCache(artifact, job);
  std::string action_id;
  if (auto built_by = step.tx.getActionOfJob(artifact.job_id()); built_by.ok() && !built_by->empty()) {
    action_id = *std::move(built_by);
  }
  noteEnd(step, job);
  step.tx.announceLastWrite();
  return insertJob(step, admission, job, action_id);
}

/// Work in flight that the job may share: what was begun without the cache serves everybody, what was begun with it
/// only who allows that.
absl::StatusOr<std::optional<v1::Action>> shareable(Step& step, const Admission& admission) {
  TESSERA_ASSIGN_OR_RETURN(const std::vector<v1::Action> living, step.tx.livingActionsByKey(admission.key));
  for (const v1::Action& action : living) {
    if (action.skip_cache() || !admission.request.skip_cache()) {
      return action;
    }
  }
  return std::nullopt;
}

/// Raises the urgency and patience of work to what one more job asks for; false when it has that already.
absl::StatusOr<bool> raise(Step& step, v1::Action& action, const v1::Job& job) {
  if (job.priority() < action.priority() && job.run_timeout_us() <= action.run_timeout_us()) {
    return false;
  }
  bool raised = job.run_timeout_us() > action.run_timeout_us();
  action.set_run_timeout_us(std::max(action.run_timeout_us(), job.run_timeout_us()));
  if (job.priority() >= action.priority()) {
    TESSERA_ASSIGN_OR_RETURN(const int64_t turn,
                             step.tx.nextTurn(job.priority(), clientOf(job.project(), job.client())));
    if (job.priority() > action.priority() || turn < action.turn()) {
      TESSERA_RETURN_IF_ERROR(step.tx.takeTurn(job.priority(), clientOf(job.project(), job.client())).status());
      action.set_priority(job.priority());
      action.set_turn(turn);
      raised = true;
    }
  }
  return raised;
}

/// Adds the job to work in flight.
absl::Status join(Step& step, const Admission& admission, v1::Action action, v1::Job& job) {
  if (auto other = step.tx.firstLivingJobOfAction(action.id()); other.ok()) {
    job.set_joined_job_id(*other);
  } else if (!absl::IsNotFound(other.status())) {
    return other.status();
  }
  TESSERA_RETURN_IF_ERROR(insertJob(step, admission, job, action.id()));
  if (action.state() == v1::Job::RUNNING) {
    *job.mutable_progress() = action.progress();
    *job.mutable_phases() = action.phases();
    TESSERA_RETURN_IF_ERROR(changeState(step, job, v1::Job::RUNNING, nullptr));
    TESSERA_ASSIGN_OR_RETURN(job, step.tx.getJob(job.id()));
  }
  TESSERA_ASSIGN_OR_RETURN(const bool raised, raise(step, action, job));
  if (!raised) {
    return absl::OkStatus();
  }
  TESSERA_RETURN_IF_ERROR(step.tx.putAction(action));
  TESSERA_ASSIGN_OR_RETURN(const std::vector<v1::Task> tasks, step.tx.tasksOfAction(action.id()));
  for (const v1::Task& task : tasks) {
    TESSERA_RETURN_IF_ERROR(shareTask(step, action, task));
  }
  return absl::OkStatus();
}

/// EXECUTE or PROFILE: one task that reads the artifact and the large tensors.
template <typename Spec>
absl::Status beginRun(Step& step, const v1::Action& action, v1::TaskKind kind, const Spec& run, v1::TaskSpec spec) {
  spec.set_kind(kind);
  TESSERA_ASSIGN_OR_RETURN(const v1::Artifact artifact, step.tx.getArtifact(projectOf(action), run.artifact_id()));
  *spec.add_inputs() = artifact.blob();
  for (const v1::TensorValue& input : run.inputs()) {
    if (input.has_blob()) {
      *spec.add_inputs() = input.blob();
    }
  }
  return addTask(step, action, std::move(spec), "", &artifact.manifest().code()).status();
}

/// ANALYZE: one task that reads the model. Its answer is not kept for others: it costs less than a compilation and
/// is asked for by people.
absl::Status beginAnalysis(Step& step, const v1::Action& action, const v1::AnalyzeSpec& analyze,
                           const v1::Target& target) {
  v1::TaskSpec spec;
  spec.set_kind(v1::ANALYZE);
  *spec.mutable_analyze()->mutable_spec() = analyze;
  *spec.mutable_analyze()->mutable_target() = target;
  addModelInputs(analyze.compile(), spec);
  return addTask(step, action, std::move(spec), "").status();
}

absl::Status startNew(Step& step, const Admission& admission, const v1::Job& job) {
  v1::Action action;
  action.set_id(step.ids.next("act"));
  action.set_key(admission.key);
  action.set_project(admission.project);
  action.set_state(v1::Job::QUEUED);
  action.set_job_id(job.id());
  action.set_create_time_us(step.now_us);
  action.set_priority(job.priority());
  TESSERA_ASSIGN_OR_RETURN(const int64_t turn, step.tx.takeTurn(job.priority(), clientOf(job.project(), job.client())));
  action.set_turn(turn);
  action.set_run_timeout_us(job.run_timeout_us());
  action.set_skip_cache(admission.request.skip_cache());
  if (job.has_compile()) {
    *action.mutable_compile() = job.compile();
    *action.mutable_target() = admission.target;
    const std::vector<v1::KeyComponent> components =
        keyComponents(admission.project, job.compile(), admission.target, step.rules.compiler_version);
    action.mutable_components()->Assign(components.begin(), components.end());
  }
  if (job.has_tune()) {
    *action.mutable_compile() = job.tune().compile();
    *action.mutable_target() = admission.target;
  }
  TESSERA_RETURN_IF_ERROR(step.tx.putAction(action));
  TESSERA_RETURN_IF_ERROR(insertJob(step, admission, job, action.id()));
  v1::TaskSpec spec;
  if (job.has_compile()) {
    return beginCompile(step, action);
  }
  if (job.has_tune()) {
    return beginTuning(step, std::move(action), job, admission.mode);
  }
  if (job.has_analyze()) {
    return beginAnalysis(step, action, job.analyze(), admission.target);
  }
  if (job.has_execute()) {
    *spec.mutable_execute() = job.execute();
    return beginRun(step, action, v1::EXECUTE, job.execute(), std::move(spec));
  }
  *spec.mutable_profile() = job.profile();
  return beginRun(step, action, v1::PROFILE, job.profile(), std::move(spec));
}

/// How many may go before a queued job, told once at its start.
absl::Status announcePosition(Step& step, const std::string& action_id, const v1::Job& job) {
  if (job.state() != v1::Job::QUEUED) {
    return absl::OkStatus();
  }
  TESSERA_ASSIGN_OR_RETURN(const std::vector<v1::Task> tasks, step.tx.tasksOfAction(action_id));
  if (tasks.empty() || tasks.front().state() != v1::Task::READY) {
    return absl::OkStatus();
  }
  TESSERA_ASSIGN_OR_RETURN(const int position, step.tx.queuePosition(tasks.front().id()));
  v1::JobEvent event;
  event.mutable_queue()->set_position(position);
  return appendEvent(step, job.id(), std::move(event));
}

/// Whether the project may have one more job that begins in this state. How many run of those that wait is the leases'
/// to say; a job that joins what runs already does not wait.
absl::Status checkQuotas(Step& step, const std::string& project, v1::Job::State state) {
  if (!step.rules.quota_of) {
    return absl::OkStatus();
  }
  constexpr int64_t kSoonUs = 5'000'000;  // jobs end all the time
  const v1::Quota quota = step.rules.quota_of(project);
  TESSERA_ASSIGN_OR_RETURN(const storage::Usage usage, step.tx.usageOf(project));
  const char* fix = "wait for some of the project's jobs to end, or cancel some";
  if (quota.queued_jobs() > 0 && state == v1::Job::QUEUED && usage.queued_jobs >= quota.queued_jobs()) {
    return quotaExceeded(project, "queued_jobs", quota.queued_jobs(), static_cast<double>(usage.queued_jobs), kSoonUs,
                         fix);
  }
  if (quota.running_jobs() > 0 && state == v1::Job::RUNNING && usage.running_jobs >= quota.running_jobs()) {
    return quotaExceeded(project, "running_jobs", quota.running_jobs(), static_cast<double>(usage.running_jobs),
                         kSoonUs, fix);
  }
  if (quota.stored_bytes() > 0 && usage.blob_bytes >= quota.stored_bytes()) {
    return outOfBytes(project, quota.stored_bytes(), usage);  // what the job would make has no place
  }
  return absl::OkStatus();
}

/// requireInputs(), with what came along stored where the project lacks it.
absl::Status holdInputs(Step& step, const Admission& admission, const std::function<absl::Status()>& store_files) {
  const Holdings own{step.tx, admission.project};
  absl::Status status = requireInputs(own, admission.request);
  if (!store_files || failureOf(status).reason() != v1::Failure::MISSING_BLOB) {
    return status;
  }
  TESSERA_RETURN_IF_ERROR(store_files());
  return requireInputs(own, admission.request);
}

/// One step: repeat, hit, join or start. Fills `job` with what is stored.
absl::Status admit(Step& step, Admission& admission, const std::function<absl::Status()>& store_files, v1::Job& job) {
  auto earlier = step.tx.getJobByRequestId(admission.project, admission.request.request_id());
  if (earlier.ok()) {
    TESSERA_ASSIGN_OR_RETURN(const std::string hash, step.tx.getRequestHash(earlier->id()));
    if (hash != admission.request_hash) {
      return absl::AlreadyExistsError(absl::StrCat("request_id ", admission.request.request_id(), " made job ",
                                                   earlier->id(),
                                                   " from another request; use a new request_id for new content"));
    }
    job = *std::move(earlier);
    return absl::OkStatus();
  }
  if (!absl::IsNotFound(earlier.status())) {
    return earlier.status();
  }
  TESSERA_RETURN_IF_ERROR(nameArtifact(step.tx, admission.project, admission.request));
  const v1::CreateJobRequest& request = admission.request;
  const bool runs = request.has_execute() || request.has_profile();  // perhaps of an artifact that has a name only now
  TESSERA_RETURN_IF_ERROR(noteUses(step, admission.project, runs ? namedIn(request) : admission.names));
  TESSERA_RETURN_IF_ERROR(holdInputs(step, admission, store_files));
  job = newJob(admission, step.now_us, step.rules);
  job.set_id(step.ids.next("job"));
  if (job.has_compile()) {
    Lookup lookup = Lookup::kSkipped;
    if (!admission.request.skip_cache()) {
      TESSERA_ASSIGN_OR_RETURN(const std::optional<v1::Artifact> hit, cachedArtifact(step.tx, admission.key, &lookup));
      if (hit) {
        step.effects.seen.answers.push_back({Cache::kArtifact, lookup});
        TESSERA_RETURN_IF_ERROR(noteUses(step, admission.project, *hit));
        return answerFromCache(step, admission, *hit, job);
      }
    }
    TESSERA_ASSIGN_OR_RETURN(const std::optional<v1::Action> living, shareable(step, admission));
    step.effects.seen.answers.push_back({Cache::kArtifact, living ? Lookup::kInFlight : lookup});
    if (living) {
      TESSERA_RETURN_IF_ERROR(checkQuotas(step, admission.project, living->state()));
      return join(step, admission, *living, job);
    }
  }
  TESSERA_RETURN_IF_ERROR(checkQuotas(step, admission.project, v1::Job::QUEUED));
  TESSERA_RETURN_IF_ERROR(startNew(step, admission, job));
  TESSERA_ASSIGN_OR_RETURN(const std::string action_id, step.tx.getActionOfJob(job.id()));
  return announcePosition(step, action_id, job);
}

/// What the job would be; nothing is stored.
absl::StatusOr<v1::Job> tried(storage::Store& store, Admission& admission, int64_t now_us, const Rules& rules) {
  v1::Job job;
  TESSERA_RETURN_IF_ERROR(store.read([&](storage::Reader& reader) -> absl::Status {
    TESSERA_RETURN_IF_ERROR(nameArtifact(reader, admission.project, admission.request));
    TESSERA_RETURN_IF_ERROR(requireInputs({reader, admission.project}, admission.request));
    job = newJob(admission, now_us, rules);
    if (admission.request.has_compile() && !admission.request.skip_cache()) {
      TESSERA_ASSIGN_OR_RETURN(const auto hit, cachedArtifact(reader, admission.key));
      if (hit) {
        fillFromCache(*hit, job);
      }
    }
    return absl::OkStatus();
  }));
  return job;
}

/// What a job that will be stored needs besides.
void complete(Admission& admission, IdSource& ids) {
  if (admission.request.request_id().empty()) {
    admission.request.set_request_id(ids.next("req"));
  }
  admission.names = namedIn(admission.request);
}

}  // namespace

absl::StatusOr<v1::Job> Scheduler::createJob(v1::CreateJobRequest request, const v1::Target& target,
                                             const std::string& project, v1::TuneMode mode,
                                             const std::function<absl::Status()>& store_files) {
  Admission admission = admissionOf(std::move(request), target, project, mode, rules_);
  if (admission.request.validate_only()) {
    return tried(store_, admission, clock_.nowMicros(), rules_);
  }
  complete(admission, ids_);
  v1::Job job;
  TESSERA_RETURN_IF_ERROR(transact([&](Step& step) { return admit(step, admission, store_files, job); }));
  return job;
}

void Scheduler::createJobThen(v1::CreateJobRequest request, const v1::Target& target, const std::string& project,
                              std::function<absl::Status()> store_files, std::function<bool()> left, Executor& executor,
                              std::function<void(absl::StatusOr<v1::Job>)> done) {
  struct Kept {
    Admission admission;
    v1::Job job;
  };
  const auto kept = std::make_shared<Kept>(
      Kept{admissionOf(std::move(request), target, project, v1::TUNE_MODE_UNSPECIFIED, rules_), {}});
  if (kept->admission.request.validate_only()) {
    return done(tried(store_, kept->admission, clock_.nowMicros(), rules_));
  }
  complete(kept->admission, ids_);
  transactThen(
      [kept, store_files = std::move(store_files), left = std::move(left)](Step& step) {
        return left() ? absl::CancelledError("the client left") : admit(step, kept->admission, store_files, kept->job);
      },
      executor,
      [kept, done = std::move(done)](const absl::Status& status) {
        if (status.ok()) {
          done(std::move(kept->job));
        } else {
          done(status);
        }
      });
}

absl::StatusOr<v1::ArtifactVersion> Scheduler::chooseVersion(const std::string& job_id, int number) {
  v1::ArtifactVersion version;
  TESSERA_RETURN_IF_ERROR(transact([&](Step& step) -> absl::Status {
    TESSERA_ASSIGN_OR_RETURN(version, server::chooseVersion(step, job_id, number));
    return absl::OkStatus();
  }));
  return version;
}

absl::StatusOr<v1::ExplainKeyResponse> Scheduler::explainKey(const v1::CompileSpec& spec, const v1::Target& target,
                                                             const std::string& project) {
  const std::string key = actionKey(project, spec, target, rules_.compiler_version);
  const std::vector<v1::KeyComponent> components = keyComponents(project, spec, target, rules_.compiler_version);
  v1::ExplainKeyResponse response;
  response.set_action_key(key);
  response.mutable_components()->Assign(components.begin(), components.end());
  TESSERA_RETURN_IF_ERROR(store_.read([&](storage::Reader& reader) -> absl::Status {
    TESSERA_ASSIGN_OR_RETURN(const auto hit, cachedArtifact(reader, key));
    response.set_hit(hit.has_value());
    // Candidates share at least one component; compiler and schema are shared by nearly all.
    TESSERA_ASSIGN_OR_RETURN(const std::vector<v1::Action> actions, reader.nearestActions(project, components, 200));
    size_t fewest = components.size() + 1;
    for (const v1::Action& action : actions) {
      // By name: an action of an earlier release may lack a component.
      std::map<std::string, std::string> earlier;
      for (const v1::KeyComponent& component : action.components()) {
        earlier[component.name()] = component.hash();
      }
      std::vector<std::string> differing;
      for (const v1::KeyComponent& component : components) {
        if (const auto found = earlier.find(component.name());
            found == earlier.end() || found->second != component.hash()) {
          differing.push_back(component.name());
        }
      }
      if (differing.size() < fewest) {
        fewest = differing.size();
        response.set_nearest_job_id(action.job_id());
        response.mutable_differing()->Assign(differing.begin(), differing.end());
      }
    }
    return absl::OkStatus();
  }));
  return response;
}

}  // namespace tessera::server
