#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "proto/messages/project.h"
#include "server/clock.h"
#include "server/executor.h"
#include "server/queue/notifier.h"
#include "server/queue/queue_transaction.h"
#include "server/queue/rules.h"
#include "server/queue/workflow.h"
#include "storage/blob_store.h"
#include "storage/store.h"
#include "tessera/v1/job.pb.h"
#include "tessera/v1/worker_service.pb.h"

namespace tessera::server {

/// State machine of jobs, actions, tasks and leases. Each call is one transaction of the store and returns once it is
/// durable. Only waiting calls and the memory of the sweep are in the process, so a new Scheduler on the same store
/// continues where the previous one stopped, and several may share a store. Thread-safe. Blocks for the duration of a
/// commit.
class Scheduler {
 public:
  /// Everything but `rules` must outlive the scheduler.
  Scheduler(storage::Store& store, storage::BlobStore& blobs, Clock& clock, IdSource& ids, const Workflow& workflow,
            Rules rules);

  /// Creates a job from a validated request, answers it from the cache, or joins equal work in progress. `target` is
  /// the resolved target of a compile, tune or analyze request. A repeated request_id returns the job that it created;
  /// ALREADY_EXISTS if the content differs. MISSING_BLOB if a model, file or tensor is not uploaded; RESOURCE_EXHAUSTED
  /// beyond the project's quotas. With validate_only the result has no id and nothing is stored. The job never finds,
  /// joins or reads anything of another project. `mode`: of a tune job.
  ///
  /// `store_files` stores files that came with the request, within the job's transaction. It is called if the project
  /// lacks a file that the request names; its error is returned. Not called with validate_only.
  absl::StatusOr<v1::Job> createJob(v1::CreateJobRequest request, const v1::Target& target,
                                    const std::string& project = kDefaultProject,
                                    v1::TuneMode mode = v1::TUNE_MODE_UNSPECIFIED,
                                    const std::function<absl::Status()>& store_files = nullptr);

  /// Asynchronous createJob(): calls `done` with the result on `executor`, or before this function returns. `left` says
  /// whether the caller has disconnected; it is asked when the transaction begins, and if so nothing is stored and the
  /// result is CANCELLED. `target`, and the data that `store_files` reads, must live until `done` has been called.
  void createJobThen(v1::CreateJobRequest request, const v1::Target& target, const std::string& project,
                     std::function<absl::Status()> store_files, std::function<bool()> left, Executor& executor,
                     std::function<void(absl::StatusOr<v1::Job>)> done);

  /// Ends the job at once, and its work if no other living job shares it. Idempotent.
  absl::StatusOr<v1::Job> cancelJob(const std::string& job_id);

  /// Registers a worker. A new process under a known id returns the tasks of the old one to the queue.
  /// PERMISSION_DENIED if a live worker with another `owner` (credential) has this id. FAILED_PRECONDITION if its
  /// compiler or sandbox does not fit.
  absl::StatusOr<v1::RegisterWorkerResponse> registerWorker(const v1::RegisterWorkerRequest& request,
                                                            const std::string& owner = "");

  /// Leases the next task to a worker; an empty response if there is none. FAILED_PRECONDITION if the worker is not
  /// registered. `trouble`: the finding of the worker's self-check; a worker with any gets no task.
  absl::StatusOr<v1::LeaseTaskResponse> leaseTask(const std::string& worker_id, const std::string& trouble = "",
                                                  const std::string& owner = "");

  /// Whether any task is ready.
  bool tasksWait();

  absl::StatusOr<v1::HeartbeatResponse> heartbeat(const v1::HeartbeatRequest& request);

  /// Stores a result. ABORTED if the lease is lost, FAILED_PRECONDITION if an output blob is not uploaded. A repetition
  /// of an accepted report returns OK.
  absl::Status reportTask(const v1::ReportTaskRequest& sent);

  absl::StatusOr<v1::Worker> drainWorker(const std::string& worker_id, bool drain);

  /// The worker's process has ended: returns its tasks to the queue at once, without waiting for the leases to expire.
  absl::Status workerGone(const std::string& worker_id);

  /// Call once after a start. Workers whose id is `local_prefix` and a number ended with the previous server, so their
  /// tasks are returned to the queue. The others could not reach the server meanwhile, so their leases start again from
  /// now, unless `others_serve`: other servers on the store have answered them.
  absl::Status recover(const std::string& local_prefix, bool others_serve = false);

  /// Ends overdue leases, jobs and tasks, and marks silent workers as lost. Call it several times a second.
  absl::Status sweep();
  /// Call it instead of sweep() while another server sweeps. It keeps the time until this server's next sweep from
  /// counting as a standstill.
  void skipSweep();

  /// While draining, no task is leased, and lease calls do not wait.
  void setDraining(bool draining);
  bool draining() const { return draining_; }

  /// `observer` must outlive the scheduler. Call before the first other call, or never.
  void setObserver(Observer* observer) { observer_ = observer; }

  /// Runs `body` as one transaction and publishes its effects after the commit.
  absl::Status transact(const std::function<absl::Status(QueueTransaction&)>& body);

  Notifier& notifier() { return notifier_; }
  const Rules& rules() const { return rules_; }

 private:
  /// Asynchronous transact(): continues after the commit on `executor`, with `done` last.
  void transactAsync(std::function<absl::Status(QueueTransaction&)> body, Executor& executor,
                     std::function<void(const absl::Status&)> done);
  absl::Status runInTransaction(storage::Transaction& tx, const std::function<absl::Status(QueueTransaction&)>& body,
                                Effects& effects);
  void becameDurable(const Effects& effects);
  absl::Status findStranded(storage::Reader& reader, int64_t now_us, std::vector<std::string>& ids);
  absl::Status endAll(const std::vector<std::string>& ids, absl::Status (*end)(QueueTransaction&, const std::string&));
  /// Stores the task's specification, by which it can be run again. Empty digest if that fails.
  v1::Digest storeReproducer(const v1::TaskSpec& spec);

  storage::Store& store_;
  storage::BlobStore& blobs_;
  Clock& clock_;
  IdSource& ids_;
  const Workflow& workflow_;
  Rules rules_;
  Notifier notifier_;
  std::atomic<bool> draining_ = false;
  Observer* observer_ = nullptr;

  // Memory of the sweep. If it is lost with the process, the next sweeps only wait longer.
  std::mutex sweeping_;
  int64_t last_sweep_us_ = 0;  ///< 0: none yet
  int64_t leases_stand_until_us_ =
      0;  ///< no lease expires before, since this process stood still and missed heartbeats
  int64_t next_stranded_look_us_ = 0;  ///< next search for stranded tasks, which is too expensive for every sweep
  struct Stranded {
    int64_t since_us = 0;  ///< first sweep that found no worker
    v1::Task task;         ///< only its kind and needs are set
  };
  std::map<std::string, Stranded> stranded_;  ///< ready tasks that no live worker can run

  /// Wakes local waiters after changes by any scheduler on this store. Last member, so that it ends first.
  const std::shared_ptr<void> listening_;
};

}  // namespace tessera::server
