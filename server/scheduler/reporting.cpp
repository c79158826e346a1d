#include <spdlog/spdlog.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/messages/project.h"
#include "proto/support/sha256.h"
#include "proto/support/status_macros.h"
#include "server/canonical.h"
#include "server/scheduler/actions.h"
#include "server/scheduler/candidates.h"
#include "server/scheduler/compile_steps.h"
#include "server/scheduler/jobs.h"
#include "server/scheduler/records.h"
#include "server/scheduler/scheduler.h"
#include "server/scheduler/search_log.h"
#include "server/scheduler/searches.h"
#include "server/scheduler/tasks.h"
#include "server/scheduler/tuning.h"
#include "server/scheduler/uses.h"
#include "server/scheduler/workers.h"

namespace tessera::server {
namespace {

/// Takes the outputs whose bytes came within the report out of it: they become rows with it.
std::vector<v1::OutputFile> takeEnclosed(v1::TaskResult& result) {
  std::vector<v1::OutputFile> enclosed;
  for (v1::OutputFile& file : *result.mutable_files()) {
    if (!file.data().empty()) {
      enclosed.push_back(file);
      file.clear_data();
    }
  }
  return enclosed;
}

absl::Status putEnclosed(storage::BlobStore& blobs, const std::vector<v1::OutputFile>& enclosed) {
  for (const v1::OutputFile& file : enclosed) {
    v1::Digest digest;
    digest.set_sha256(file.digest().sha256());
    digest.set_size_bytes(static_cast<int64_t>(file.data().size()));
    TESSERA_RETURN_IF_ERROR(blobs.put(digest, file.data()));
  }
  return absl::OkStatus();
}

/// Bytes of an output. What came within the report has no row yet that says it is there: then its bytes are asked,
/// which are durable or part of this, and that no collection removes them in between is the transaction's doing.
absl::StatusOr<int64_t> sizeOfOutput(Step& step, const std::string& sha256) {
  auto size = step.tx.blobSize(sha256);
  if (absl::IsNotFound(size.status())) {
    size = step.blobs.size(sha256);
  }
  if (absl::IsNotFound(size.status())) {
    return absl::FailedPreconditionError(
        absl::StrCat("output blob ", sha256, " is not on the server; upload it, then report again"));
  }
  return size;
}

/// Every blob the result names must have been uploaded before, and be of the size it says. They are the project's now.
absl::Status requireOutputs(Step& step, const std::string& project, const v1::TaskResult& result) {
  std::vector<v1::Digest> digests;
  for (const v1::OutputFile& file : result.files()) {
    digests.push_back(file.digest());
  }
  for (const v1::TensorValue& output : result.execute().outputs()) {
    if (output.has_blob()) {
      digests.push_back(output.blob());
    }
  }
  for (const v1::Digest& digest : digests) {
    TESSERA_RETURN_IF_ERROR(noteUse(step.tx, storage::Kind::kBlob, digest.sha256(), step.now_us));
    TESSERA_ASSIGN_OR_RETURN(const int64_t size, sizeOfOutput(step, digest.sha256()));
    if (size != digest.size_bytes()) {
      return absl::InvalidArgumentError(absl::StrCat("output blob ", digest.sha256(), " has ", size, " bytes, not ",
                                                     digest.size_bytes(), " as the result says"));
    }
    TESSERA_RETURN_IF_ERROR(step.tx.putBlob(digest, project, step.now_us));
  }
  return absl::OkStatus();
}

/// A run of an artifact, or a question about a model, is one task; its result is the job's.
absl::Status runDone(Step& step, v1::Action& action, const v1::Task& task) {
  notePhase(action, phaseOf(task.spec().kind()),
            static_cast<double>(task.end_time_us() - task.first_start_us()) / 1000.0, task.cpu_ms(), 1);
  action.mutable_progress()->set_done(1);
  if (task.spec().kind() == v1::PROFILE) {
    TESSERA_RETURN_IF_ERROR(fileProfileRecords(step, action, task));
  }
  return succeedAction(step, action, [&](v1::Job& job) {
    if (task.spec().kind() == v1::EXECUTE) {
      *job.mutable_execute_result() = task.result().execute();
    } else if (task.spec().kind() == v1::ANALYZE) {
      const v1::AnalyzeTaskResult& answer = task.result().analyze();
      *job.mutable_analyze_result()->mutable_report() = fileDigest(task.result(), answer.report_file());
      job.mutable_analyze_result()->set_problems(answer.problems());
    } else {
      *job.mutable_profile_result() = task.result().profile();
    }
  });
}

absl::Status advance(Step& step, v1::Action& action, const v1::Task& task) {
  if (action.has_search()) {
    return searchTaskDone(step, action, task);
  }
  switch (task.spec().kind()) {
    case v1::PLAN:
      return planDone(step, action, task);
    case v1::BUILD:
      return buildDone(step, action, task);
    case v1::ASSEMBLE:
      return assembleDone(step, action, task);
    case v1::MEASURE:
      return tuneMeasured(step, action, task);
    default:
      return runDone(step, action, task);
  }
}

/// What crashed on some workers and was then done by another was those workers' doing.
absl::Status blameCrashes(Step& step, const v1::Task& task) {
  for (const std::string& id : task.crashed_on()) {
    if (id != task.worker_id()) {
      TESSERA_RETURN_IF_ERROR(
          noteFault(step, id, absl::StrCat("task ", task.id(), " crashed there; ", task.worker_id(), " could do it")));
    }
  }
  return absl::OkStatus();
}

absl::Status attemptSucceeded(Step& step, v1::Task task, const v1::TaskResult& result) {
  TESSERA_RETURN_IF_ERROR(requireOutputs(step, projectOf(task), result));
  TESSERA_RETURN_IF_ERROR(blameCrashes(step, task));
  TESSERA_RETURN_IF_ERROR(announceAttempt(step, task, nullptr));
  TESSERA_RETURN_IF_ERROR(detachWorker(step, task));
  task.set_state(v1::Task::DONE);
  task.set_end_time_us(step.now_us);
  task.set_lease_expiry_us(0);
  task.clear_failure();
  *task.mutable_result() = result;
  TESSERA_RETURN_IF_ERROR(step.tx.putLeasedTask(task, task.fencing_token()));
  if (task.spec().kind() == v1::BUILD && !task.key().empty()) {
    const v1::Digest object = fileDigest(result, result.build().object_file());
    TESSERA_RETURN_IF_ERROR(fileObject(step, task.worker_id(), task.key(), task.spec().build().unit(), object));
  }
  TESSERA_ASSIGN_OR_RETURN(std::vector<v1::Action> actions, livingActionsOf(step, task.id()));
  for (v1::Action& action : actions) {
    TESSERA_RETURN_IF_ERROR(advance(step, action, task));
  }
  return absl::OkStatus();
}

absl::Status countForWorker(Step& step, const std::string& worker_id, bool failed) {
  auto worker = step.tx.getWorker(worker_id);
  if (!worker.ok()) {
    return absl::IsNotFound(worker.status()) ? absl::OkStatus() : worker.status();
  }
  worker->set_last_seen_us(step.now_us);
  if (failed) {
    worker->set_tasks_failed(worker->tasks_failed() + 1);
  } else {
    worker->set_tasks_done(worker->tasks_done() + 1);
    noteWork(*worker);
  }
  return step.tx.putWorker(*worker);
}

absl::Status file(Step& step, const v1::ReportTaskRequest& request, const v1::TaskResult& result,
                  const v1::Digest& reproducer) {
  TESSERA_ASSIGN_OR_RETURN(v1::Task task, step.tx.getTask(request.task_id()));
  const std::string hash = sha256Hex(canonicalBytes(request));
  if (task.last_report_hash() == hash) {
    return absl::OkStatus();
  }
  if (task.state() != v1::Task::LEASED || !showsNewestLease(task, request)) {
    spdlog::warn("task {}: the report of worker {} under token {} comes too late, the newest is {}", task.id(),
                 request.worker_id(), request.fencing_token(), task.fencing_token());
    return absl::AbortedError(absl::StrCat("the lease of task ", task.id(), " under token ", request.fencing_token(),
                                           " is over (state ", v1::Task::State_Name(task.state()), ", newest token ",
                                           task.fencing_token(), "); the result is discarded"));
  }
  task.set_last_report_hash(hash);
  task.set_cpu_ms(task.cpu_ms() + result.usage().cpu_ms());
  TESSERA_RETURN_IF_ERROR(countForWorker(step, request.worker_id(), result.has_failure()));
  return result.has_failure() ? attemptFailed(step, std::move(task), result.failure(), reproducer)
                              : attemptSucceeded(step, std::move(task), result);
}

}  // namespace

absl::Status Scheduler::reportTask(const v1::ReportTaskRequest& sent) {
  v1::ReportTaskRequest request = sent;
  std::vector<v1::OutputFile> enclosed = takeEnclosed(*request.mutable_result());
  v1::Task task;
  TESSERA_RETURN_IF_ERROR(store_.read([&](storage::Reader& reader) -> absl::Status {
    auto known = reader.getTask(request.task_id());
    if (absl::IsNotFound(known.status())) {
      return absl::AbortedError(absl::StrCat("there is no task ", request.task_id(),
                                             " any more: what it was for has ended; the result is discarded"));
    }
    TESSERA_RETURN_IF_ERROR(known.status());
    task = *std::move(known);
    return absl::OkStatus();
  }));
  v1::TaskResult result = request.result();
  if (task.spec().has_search() || isOfTrial(task.spec())) {
    // They are read before they are taken.
    TESSERA_RETURN_IF_ERROR(store_.transact([&](storage::Transaction&) { return putEnclosed(blobs_, enclosed); }));
    enclosed.clear();
  }
  if (task.spec().has_search()) {  // a row has no log: the lease had it
    TESSERA_RETURN_IF_ERROR(store_.read([&](storage::Reader& reader) -> absl::Status {
      TESSERA_ASSIGN_OR_RETURN(const std::vector<std::string> searches, reader.actionsOfTask(task.id()));
      if (!searches.empty()) {
        TESSERA_ASSIGN_OR_RETURN(*task.mutable_spec()->mutable_search()->mutable_log(),
                                 searchLogOf(reader, searches.front()));
      }
      return absl::OkStatus();
    }));
  }
  if (!result.has_failure()) {
    std::string problem = resultProblem(task.spec().kind(), result);
    const int proposed = result.search().proposals_size(), wanted = task.spec().search().wanted();
    if (problem.empty() && proposed > wanted) {
      problem = absl::StrCat("it proposes ", proposed, " trees, ", wanted, " were wanted");
    }
    if (!problem.empty()) {
      result.mutable_failure()->set_reason(v1::Failure::INTERNAL);
      result.mutable_failure()->set_message(
          absl::StrCat("the task process left a result that does not fit: ", problem));
    }
  }
  if (!result.has_failure()) {
    if (const std::string problem = foreignBlob(blobs_, task.spec(), result); !problem.empty()) {
      spdlog::warn("task {}: worker {} {}", task.id(), request.worker_id(), problem);
      result.Clear();
      result.mutable_failure()->set_reason(v1::Failure::WORKER_FAULT);
      result.mutable_failure()->set_message(absl::StrCat("the worker ", problem));
    }
  }
  v1::Digest reproducer;
  if (result.has_failure() && wantsReproducer(result.failure().reason()) && !isOfTrial(task.spec())) {
    reproducer = storeReproducer(task.spec());
  }
  return transact([&](Step& step) -> absl::Status {
    TESSERA_RETURN_IF_ERROR(putEnclosed(step.blobs, enclosed));
    return file(step, request, result, reproducer);
  });
}

}  // namespace tessera::server
