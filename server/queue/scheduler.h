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
#include "server/queue/rules.h"
#include "server/queue/step.h"
#include "server/queue/workflow.h"
#include "storage/blob_store.h"
#include "storage/store.h"
#include "tessera/v1/job.pb.h"
#include "tessera/v1/worker_service.pb.h"

namespace tessera::server {

/// The state machine of jobs, actions, tasks and leases. Every call is one transaction of the store and
/// answers when it is durable; nothing but wakeups and what a sweep remembers is kept in memory, so a new Scheduler on
/// the same store goes on where the old one stopped, and several could share one. Thread-safe. Blocks for the length of
/// a commit.
class Scheduler {
 public:
  /// All but `rules` must outlive the scheduler.
  Scheduler(storage::Store& store, storage::BlobStore& blobs, Clock& clock, IdSource& ids, const Workflow& workflow,
            Rules rules);

  /// Creates a job from a checked request, answers it from the cache, or joins equal work in flight.
  /// `target` is the resolved one of a compile or analyze request. A repeated request_id answers the job it made;
  /// ALREADY_EXISTS when its content differs. MISSING_BLOB when a model, file or tensor is not uploaded.
  /// With validate_only the answer has no id and nothing is stored.
  /// The job is `project`'s: it finds, joins and reads nothing of another one's. RESOURCE_EXHAUSTED past its quotas.
  /// `mode`: of a tune job. `store_files`: stores what came with the request, within the transaction of the job, and is
  /// called where the project lacks something that the request names; its error is the answer. Not with validate_only.
  absl::StatusOr<v1::Job> createJob(v1::CreateJobRequest request, const v1::Target& target,
                                    const std::string& project = kDefaultProject,
                                    v1::TuneMode mode = v1::TUNE_MODE_UNSPECIFIED,
                                    const std::function<absl::Status()>& store_files = nullptr);

  /// createJob() of a caller that does not wait for the commit: `done` gets the answer on `executor`, or before this
  /// returns. `left`: whether the caller wants it no more; asked when its turn comes, and then CANCELLED and nothing is
  /// done. `target`, and what `store_files` reads, live until `done` was called.
  void createJobThen(v1::CreateJobRequest request, const v1::Target& target, const std::string& project,
                     std::function<absl::Status()> store_files, std::function<bool()> left, Executor& executor,
                     std::function<void(absl::StatusOr<v1::Job>)> done);

  /// Ends the job at once; the work behind it only when no other living job shares it. Idempotent.
  absl::StatusOr<v1::Job> cancelJob(const std::string& job_id);

  /// Announces a worker. A new process under a known id gives back what the old one held. PERMISSION_DENIED when the id
  /// is that of a worker that is there and registered with another credential than `owner`'s.
  absl::StatusOr<v1::RegisterWorkerResponse> registerWorker(const v1::RegisterWorkerRequest& request,
                                                            const std::string& owner = "");

  /// The next task for a worker, or an empty answer. FAILED_PRECONDITION: register first. `trouble`: what the worker's
  /// self-check found; with any, it gets nothing.
  absl::StatusOr<v1::LeaseTaskResponse> leaseTask(const std::string& worker_id, const std::string& trouble = "",
                                                  const std::string& owner = "");

  /// Whether any task is ready.
  bool tasksWait();

  absl::StatusOr<v1::HeartbeatResponse> heartbeat(const v1::HeartbeatRequest& request);

  /// Files a result. ABORTED for a lost lease, FAILED_PRECONDITION when an output blob is not uploaded;
  /// OK again for the repetition of an accepted report.
  absl::Status reportTask(const v1::ReportTaskRequest& sent);

  absl::StatusOr<v1::Worker> drainWorker(const std::string& worker_id, bool drain);

  /// The worker's process is known to be gone: its tasks go back to the queue now, not at lease expiry.
  absl::Status workerGone(const std::string& worker_id);

  /// After a start: workers whose id is `local_prefix` and a number died with the former server; the others
  /// could not reach it meanwhile, so their leases count anew from now.
  absl::Status recover(const std::string& local_prefix);

  /// Ends what is overdue: lost leases, queue deadlines, run deadlines a worker failed to enforce, silent
  /// workers. Call it a few times a second.
  absl::Status sweep();

  /// While draining no task is leased.
  void setDraining(bool draining) { draining_ = draining; }

  /// Who is told what happened; must outlive the scheduler. Before the first call, or never.
  void setObserver(Observer* observer) { observer_ = observer; }

  /// Runs `body` as one transaction and publishes its effects after the commit.
  absl::Status transact(const std::function<absl::Status(Step&)>& body);

  Notifier& notifier() { return notifier_; }
  const Rules& rules() const { return rules_; }

 private:
  /// The same, with what follows the commit on `executor`, `done` at its end.
  void transactThen(std::function<absl::Status(Step&)> body, Executor& executor,
                    std::function<void(const absl::Status&)> done);
  absl::Status runStep(storage::Transaction& tx, const std::function<absl::Status(Step&)>& body, Effects& effects);
  void becameDurable(const Effects& effects);
  absl::Status findStranded(storage::Reader& reader, int64_t now_us, std::vector<std::string>& ids);
  absl::Status endAll(const std::vector<std::string>& ids, absl::Status (*end)(Step&, const std::string&));
  /// Stores what is needed to run the task again; an empty digest when that is not possible.
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

  // What a sweep remembers of the ones before it. Lost with the process, which only makes it more patient.
  std::mutex sweeping_;
  int64_t last_sweep_us_ = 0;
  int64_t leases_stand_until_us_ = 0;
  int64_t next_stranded_look_us_ = 0;
  struct Stranded {
    int64_t since_us = 0;
    v1::Task task;  ///< of which only the kind and the needs are kept
  };
  std::map<std::string, Stranded> stranded_;  ///< ready tasks nobody can run

  /// What any scheduler on this store did wakes who waits here. The last member: it ends first.
  const std::shared_ptr<void> listening_;
};

}  // namespace tessera::server
