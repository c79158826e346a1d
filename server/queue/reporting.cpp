#include <spdlog/spdlog.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/messages/project.h"
#include "proto/support/sha256.h"
#include "proto/support/status_macros.h"
#include "server/canonical.h"
#include "server/queue/actions.h"
#include "server/queue/scheduler.h"
#include "server/queue/task_traits.h"
#include "server/queue/tasks.h"
#include "server/queue/uses.h"
#include "server/queue/workers.h"

namespace tessera::server {
namespace {

/// Removes the output files whose bytes came within the report, and returns them.
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

/// Stores files that came within the report. BlobStore checks their digests.
absl::Status putEnclosed(storage::BlobStore& blobs, const std::vector<v1::OutputFile>& enclosed) {
  for (const v1::OutputFile& file : enclosed) {
    v1::Digest digest;
    digest.set_sha256(file.digest().sha256());
    digest.set_size_bytes(static_cast<int64_t>(file.data().size()));
    TESSERA_RETURN_IF_ERROR(blobs.put(digest, file.data()));
  }
  return absl::OkStatus();
}

/// Size of an output blob. A blob that came within the report has no row yet, so the blob store is asked; its bytes are
/// durable or part of this transaction, which also keeps a collection from deleting them in between.
absl::StatusOr<int64_t> sizeOfOutput(QueueTransaction& queue, const std::string& sha256) {
  auto size = queue.tx.blobSize(sha256);
  if (absl::IsNotFound(size.status())) {
    size = queue.blobs.size(sha256);
  }
  if (absl::IsNotFound(size.status())) {
    return absl::FailedPreconditionError(
        absl::StrCat("output blob ", sha256, " is not on the server; upload it, then report again"));
  }
  return size;
}

/// Checks that every blob in the result is stored with the stated size, and makes the project their holder.
absl::Status requireOutputs(QueueTransaction& queue, const std::string& project, const v1::TaskResult& result) {
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
    TESSERA_RETURN_IF_ERROR(touch(queue.tx, storage::Kind::kBlob, digest.sha256(), queue.now_us));
    TESSERA_ASSIGN_OR_RETURN(const int64_t size, sizeOfOutput(queue, digest.sha256()));
    if (size != digest.size_bytes()) {
      return absl::InvalidArgumentError(absl::StrCat("output blob ", digest.sha256(), " has ", size, " bytes, not ",
                                                     digest.size_bytes(), " as the result says"));
    }
    TESSERA_RETURN_IF_ERROR(queue.tx.putBlob(digest, project, queue.now_us));
  }
  return absl::OkStatus();
}

/// Call it for a task that succeeded after crashes on other workers: counts each crash as a fault of its worker.
absl::Status blameCrashes(QueueTransaction& queue, const v1::Task& task) {
  for (const std::string& id : task.crashed_on()) {
    if (id != task.worker_id()) {
      TESSERA_RETURN_IF_ERROR(recordFault(
          queue, id, absl::StrCat("task ", task.id(), " crashed there; ", task.worker_id(), " could do it")));
    }
  }
  return absl::OkStatus();
}

/// Ends the task as DONE and continues its actions. One transaction, so that a result takes effect exactly once.
absl::Status attemptSucceeded(QueueTransaction& queue, v1::Task task, const v1::TaskResult& result) {
  TESSERA_RETURN_IF_ERROR(requireOutputs(queue, projectOf(task), result));
  TESSERA_RETURN_IF_ERROR(blameCrashes(queue, task));
  TESSERA_RETURN_IF_ERROR(announceAttempt(queue, task, nullptr));
  TESSERA_RETURN_IF_ERROR(detachWorker(queue, task));
  task.set_state(v1::Task::DONE);
  task.set_end_time_us(queue.now_us);
  task.set_lease_expiry_us(0);
  task.clear_failure();
  *task.mutable_result() = result;
  // Fails if another server on this store has granted a newer lease.
  TESSERA_RETURN_IF_ERROR(queue.tx.putLeasedTask(task, task.fencing_token()));
  TESSERA_ASSIGN_OR_RETURN(std::vector<v1::Action> actions, livingActionsOf(queue, task.id()));
  return queue.workflow.taskDone(queue, task, std::move(actions));
}

/// Updates the worker's counters; a success clears its faults.
absl::Status countForWorker(QueueTransaction& queue, const std::string& worker_id, bool failed) {
  auto worker = queue.tx.getWorker(worker_id);
  if (!worker.ok()) {
    return absl::IsNotFound(worker.status()) ? absl::OkStatus() : worker.status();
  }
  worker->set_last_seen_us(queue.now_us);
  if (failed) {
    worker->set_tasks_failed(worker->tasks_failed() + 1);
  } else {
    worker->set_tasks_done(worker->tasks_done() + 1);
    clearFaults(*worker);
  }
  return queue.tx.putWorker(*worker);
}

/// Stores a report, unless it repeats the accepted one (OK) or its lease is no longer the newest (ABORTED).
absl::Status file(QueueTransaction& queue, const v1::ReportTaskRequest& request, const v1::TaskResult& result,
                  const v1::Digest& reproducer) {
  TESSERA_ASSIGN_OR_RETURN(v1::Task task, queue.tx.getTask(request.task_id()));
  // A worker whose connection broke before the answer sends its report again.
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
  TESSERA_RETURN_IF_ERROR(countForWorker(queue, request.worker_id(), result.has_failure()));
  return result.has_failure() ? attemptFailed(queue, std::move(task), result.failure(), reproducer)
                              : attemptSucceeded(queue, std::move(task), result);
}

}  // namespace

absl::Status Scheduler::reportTask(const v1::ReportTaskRequest& sent) {
  v1::ReportTaskRequest request = sent;
  std::vector<v1::OutputFile> enclosed = takeEnclosed(*request.mutable_result());
  v1::Task task;
  TESSERA_RETURN_IF_ERROR(store_.read([&](storage::Reader& reader) -> absl::Status {
    auto known = reader.getTask(request.task_id());
    if (absl::IsNotFound(known.status())) {
      return absl::AbortedError(
          absl::StrCat("there is no task ", request.task_id(), ": its job has ended; the result is discarded"));
    }
    TESSERA_RETURN_IF_ERROR(known.status());
    task = *std::move(known);
    return absl::OkStatus();
  }));
  v1::TaskResult result = request.result();
  const TaskTraits traits = traitsOf(task.spec());
  if (traits.search) {  // checkResult() reads them
    TESSERA_RETURN_IF_ERROR(store_.transact([&](storage::Transaction&) { return putEnclosed(blobs_, enclosed); }));
    enclosed.clear();
  }
  if (!result.has_failure()) {
    TESSERA_RETURN_IF_ERROR(workflow_.checkResult(store_, blobs_, task, result));
  }
  v1::Digest reproducer;
  if (result.has_failure() && wantsReproducer(result.failure().reason()) && !traits.trial) {
    reproducer = storeReproducer(task.spec());
  }
  return transact([&](QueueTransaction& queue) -> absl::Status {
    TESSERA_RETURN_IF_ERROR(putEnclosed(queue.blobs, enclosed));
    return file(queue, request, result, reproducer);
  });
}

}  // namespace tessera::server
