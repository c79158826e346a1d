#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "google/protobuf/message.h"
#include "tessera/v1/admin_service.pb.h"
#include "tessera/v1/artifact.pb.h"
#include "tessera/v1/job.pb.h"
#include "tessera/v1/record.pb.h"
#include "tessera/v1/storage.pb.h"
#include "tessera/v1/target.pb.h"
#include "tessera/v1/tuning_state.pb.h"
#include "tessera/v1/worker_service.pb.h"

/// Durable state of the service. `Store` knows entities and queries; what they mean (states, leases,
/// joins, retries) is the scheduler's business (server/scheduler), which composes them in transactions.
namespace tessera::storage {

/// One page of a list: AIP-160 filter subset (storage/filter.h), AIP-132 order, opaque page token. The fields
/// of each entity are in storage/entity.cpp. A mistake in any of them is INVALID_ARGUMENT with a v1::Failure.
/// Pages end early at 2 MiB. Items inserted between pages neither repeat nor hide others.
struct ListQuery {
  int page_size = 0;  ///< 0 = 50; more than 1000 counts as 1000
  std::string page_token;
  std::string filter;
  std::string order_by;
  std::string project =
      {};  ///< whose things, and what is everybody's; empty: all there are. Of workers it says nothing.
};
template <typename T>
struct Page {
  std::vector<T> items;
  std::string next_page_token;  ///< empty: the last page
};

/// A token, and what the service knows it by: the SHA-256 of its secret, in hexadecimal.
struct StoredToken {
  v1::AccessToken token;
  std::string sha256;
};

/// A target and the project that registered it.
struct StoredTarget {
  v1::Target target;
  std::string project;  ///< empty: it comes with the service, for everybody
};

/// What a project has.
struct Usage {
  std::string project;
  int64_t queued_jobs = 0;
  int64_t running_jobs = 0;
  int64_t blobs = 0;
  int64_t blob_bytes = 0;
};

/// What is kept, pinned and deleted one by one. The numbers are stored.
enum class Kind {
  kJob = 1,
  kAction = 2,
  kTask = 3,
  kArtifact = 4,
  kObject = 5,
  kRecord = 6,
  kBlob = 7,
  kTarget = 8,
  kWorker = 9,
  kHold = 10  ///< a project's reference to a blob
};

/// One of them, as a collection sees it.
struct Stored {
  Kind kind;
  /// Of an object its build key, of a blob its SHA-256, of artifacts and targets their storedKey(), of a hold its
  /// holdKey() (storage/stored_key.h).
  std::string id;
  /// Of a job its end (0: it lives), of a record when it was made, of artifacts, objects, blobs and holds their last
  /// use.
  int64_t time_us = 0;
  /// The message; of objects, blobs and holds the v1::Digest. Valid during the visit.
  const google::protobuf::Message* message = nullptr;
};

/// Which records are the fastest: those of one project and workload on one chip with one number of threads are a group.
struct BestQuery {
  std::string project = {};                 ///< empty: of each; then no workloads are named
  std::vector<std::string> workloads = {};  ///< hashes; empty: all, by hash
  std::string target = {};                  ///< its name; empty: any
  std::string chip = {};                    ///< hash of its description; empty: any
  int threads = 0;                          ///< 0: any
  int top = 1;                              ///< records of each group, at most
  int page_size = 0;                        ///< groups; 0 = 50; more than 1000 counts as 1000
  std::string page_token = {};
};
struct BestGroup {
  std::string project, workload, target, chip;
  int64_t threads = 0;
  std::vector<v1::TuningRecord> records;  ///< the fastest first
};

/// Counts and extremes of records.
struct RecordGroup {
  std::string value;  ///< of the field they were grouped by; of an enum its name
  int64_t records = 0;
  int64_t failed = 0;
  int64_t workloads = 0;
  double best_ms = 0;     ///< of those that did not fail; 0: none
  double best_speed = 0;  ///< 0: none was compared with its default
  int64_t first_time_us = 0;
  int64_t last_time_us = 0;
};

/// READY tasks of one kind.
struct QueueDepth {
  v1::TaskKind kind = v1::TASK_KIND_UNSPECIFIED;
  int64_t ready = 0;
  int64_t oldest_ready_us = 0;  ///< when the one that waits longest became ready
};

struct BlobTotals {
  int64_t blobs = 0;
  int64_t bytes = 0;
};

/// A blob whose bytes are a row.
struct RowBlob {
  std::string sha256;
  int64_t size = 0;
  int64_t time_s = 0;  ///< when they came
};

/// Which READY task comes next: of the highest priority; there, the earliest turn; then the latest phase of a job
/// (ASSEMBLE before BUILD before PLAN, so that what was begun is finished first), the earliest ready time, and the one
/// that was put first.
struct QueueQuery {
  std::vector<v1::TaskKind> kinds = {};  ///< empty = all
  /// Whether the caller can have this one; else those behind it are asked about. Empty: any.
  std::function<bool(const v1::Task&)> accept = {};
  /// A task gains one priority for each `ageing_us` it is ready; 0: none. Of each kind and project, and of those that
  /// would begin a job apart, a look asks `accept` about old tasks, by priority and then the oldest first, until it has
  /// refused kRefusedForAge: those behind them gain nothing in this look.
  static constexpr int kRefusedForAge = 100;
  int64_t now_us = 0;
  int64_t ageing_us = 0;
  /// Whether this project may begin no job now: its tasks that would (no attempt, and of no action that runs) are left
  /// out, however many there are, without a look at any. Asked once of each project that has such; empty: all may.
  std::function<bool(const std::string& project)> may_not_begin = {};
};

/// The QUEUED and RUNNING jobs that wait for a task.
struct LivingJobs {
  int64_t count = 0;
  std::vector<std::string> first;  ///< of them, those that were inserted first for each action
};

/// Where to look, now that a transaction is durable. It says nothing else, so it may come twice.
struct Notice {
  int tasks_ready = 0;  ///< how many more workers have something to do
  std::set<std::string> changed_jobs = {};
};

/// Reads. Within a transaction they see its own writes. Single getters answer NOT_FOUND.
class Reader {
 public:
  virtual ~Reader() = default;

  virtual absl::StatusOr<v1::Job> getJob(const std::string& id) = 0;
  virtual absl::StatusOr<v1::Job> getJobByRequestId(const std::string& project, const std::string& request_id) = 0;
  /// `request_hash` of insertJob: tells a repeated request from a clash.
  virtual absl::StatusOr<std::string> getRequestHash(const std::string& job_id) = 0;
  /// Empty when the job has none.
  virtual absl::StatusOr<std::string> getActionOfJob(const std::string& job_id) = 0;
  virtual absl::StatusOr<Page<v1::Job>> listJobs(const ListQuery& query) = 0;
  /// Jobs of an action that are QUEUED or RUNNING, in the order they were inserted.
  virtual absl::StatusOr<std::vector<v1::Job>> livingJobsOfAction(const std::string& action_id) = 0;
  /// The first of them. NOT_FOUND when there is none.
  virtual absl::StatusOr<std::string> firstLivingJobOfAction(const std::string& action_id) = 0;
  /// QUEUED jobs whose queue deadline is at or before `now_us`.
  virtual absl::StatusOr<std::vector<std::string>> jobsPastQueueDeadline(int64_t now_us) = 0;
  /// QUEUED and RUNNING jobs whose total deadline is at or before `now_us`.
  virtual absl::StatusOr<std::vector<std::string>> jobsPastDeadline(int64_t now_us) = 0;
  /// Events with sequence > cursor, ascending, at most `limit`.
  virtual absl::StatusOr<std::vector<v1::JobEvent>> eventsAfter(const std::string& job_id, int64_t cursor,
                                                                int limit) = 0;

  virtual absl::StatusOr<v1::Action> getAction(const std::string& id) = 0;
  /// The QUEUED or RUNNING actions with this key, oldest first.
  virtual absl::StatusOr<std::vector<v1::Action>> livingActionsByKey(const std::string& key) = 0;
  /// The artifact most recently built under this action key.
  virtual absl::StatusOr<v1::Artifact> artifactByKey(const std::string& key) = 0;
  /// Up to `limit` actions of the project that share key component hashes with `components`, most shared first, then
  /// newest.
  virtual absl::StatusOr<std::vector<v1::Action>> nearestActions(const std::string& project,
                                                                 const std::vector<v1::KeyComponent>& components,
                                                                 int limit) = 0;

  /// What a search has done, in order.
  virtual absl::StatusOr<std::vector<v1::SearchEntry>> searchLog(const std::string& search_id) = 0;
  /// The artifact of a tune job as it grows.
  virtual absl::StatusOr<v1::ArtifactSeries> getSeries(const std::string& job_id) = 0;
  /// Its versions with number > cursor, ascending, at most `limit`.
  virtual absl::StatusOr<std::vector<v1::ArtifactVersion>> versionsAfter(const std::string& job_id, int64_t cursor,
                                                                         int limit) = 0;

  virtual absl::StatusOr<v1::Task> getTask(const std::string& id) = 0;
  /// The READY or LEASED task with this key.
  virtual absl::StatusOr<v1::Task> livingTaskByKey(const std::string& key) = 0;
  virtual absl::StatusOr<std::vector<std::string>> actionsOfTask(const std::string& task_id) = 0;
  virtual absl::StatusOr<std::vector<v1::Task>> tasksOfAction(const std::string& action_id) = 0;
  /// With at most `most` ids. Reads no job.
  virtual absl::StatusOr<LivingJobs> livingJobsOfTask(const std::string& task_id, int most) = 0;
  /// The next READY task that `query` asks for. NOT_FOUND when there is none.
  virtual absl::StatusOr<v1::Task> nextReadyTask(const QueueQuery& query) = 0;
  /// Up to `limit` READY tasks of a kind that are ready since `since_us` or longer, the oldest first.
  virtual absl::StatusOr<std::vector<v1::Task>> readySince(v1::TaskKind kind, int64_t since_us, int limit) = 0;
  /// Other READY tasks of this one's priority and above: at most so many go before it. 0 when it is not READY.
  virtual absl::StatusOr<int> queuePosition(const std::string& task_id) = 0;
  /// All READY tasks.
  virtual absl::StatusOr<int64_t> queueLength() = 0;
  virtual absl::StatusOr<std::vector<v1::Task>> leasedTasks() = 0;
  /// Of every kind that has READY tasks, by kind. Costs by kinds and priorities, not by tasks.
  virtual absl::StatusOr<std::vector<QueueDepth>> queueDepths() = 0;

  /// The object blob of an earlier build with this key.
  virtual absl::StatusOr<v1::Digest> getObject(const std::string& build_key) = 0;
  /// What workers made of a unit, by a key that the caller makes.
  virtual absl::StatusOr<v1::Reproduction> getReproduction(const std::string& key) = 0;
  virtual absl::StatusOr<v1::Artifact> getArtifact(const std::string& project, const std::string& id) = 0;
  virtual absl::StatusOr<Page<v1::Artifact>> listArtifacts(const ListQuery& query) = 0;
  virtual absl::StatusOr<Page<v1::TuningRecord>> listRecords(const ListQuery& query) = 0;
  virtual absl::StatusOr<v1::TuningRecord> getRecord(const std::string& id) = 0;
  /// The fastest records of each group, those that failed or were not timed left out (storage/record_facts.h). Pages
  /// end early at 2 MiB. A page costs by what it shows, not by what is stored.
  virtual absl::StatusOr<Page<BestGroup>> bestRecords(const BestQuery& query) = 0;
  /// Of the project's records (empty: of all) that `filter` selects, by a field of text, number or enum (empty: all in
  /// one group), the most frequent value first, at most `limit`. Reads all that the filter selects.
  virtual absl::StatusOr<std::vector<RecordGroup>> recordStatistics(const std::string& project,
                                                                    const std::string& filter,
                                                                    const std::string& group_by, int limit) = 0;
  /// One that the project has registered; with an empty project one that comes with the service.
  virtual absl::StatusOr<v1::Target> getTarget(const std::string& project, const std::string& name) = 0;
  virtual absl::StatusOr<Page<StoredTarget>> listTargets(const ListQuery& query) = 0;
  virtual absl::StatusOr<v1::Worker> getWorker(const std::string& id) = 0;
  virtual absl::StatusOr<Page<v1::Worker>> listWorkers(const ListQuery& query) = 0;
  virtual absl::StatusOr<Page<v1::Task>> listTasks(const ListQuery& query) = 0;
  /// Rows are the truth about blobs; files hold their bytes. Whether the blob is there: it has a row, and was not lost
  /// (Transaction::loseBlob).
  virtual absl::StatusOr<bool> hasBlob(const std::string& sha256) = 0;
  /// The bytes of one that is there. NOT_FOUND of any other.
  virtual absl::StatusOr<int64_t> blobSize(const std::string& sha256) = 0;
  /// Whether the project may read the blob.
  virtual absl::StatusOr<bool> holdsBlob(const std::string& project, const std::string& sha256) = 0;
  virtual absl::StatusOr<Usage> usageOf(const std::string& project) = 0;
  /// Of all projects that have, or had, something; by name.
  virtual absl::StatusOr<std::vector<Usage>> usages() = 0;
  /// Of all blobs' rows, which it walks.
  virtual absl::StatusOr<BlobTotals> blobTotals() = 0;
  /// The bytes of a small blob (storage/blob_rows.h), as they were put, be it there or lost. NOT_FOUND where they are
  /// no row.
  virtual absl::StatusOr<std::string> blobBytes(const std::string& sha256) = 0;
  /// How many those are. Reads none.
  virtual absl::StatusOr<int64_t> blobBytesSize(const std::string& sha256) = 0;
  /// The next such blobs behind `sha256` by their names, at most `limit`. Reads no bytes.
  virtual absl::StatusOr<std::vector<RowBlob>> rowBlobsAfter(const std::string& sha256, int limit) = 0;
  /// Of all of them together. Kept, not counted.
  virtual absl::StatusOr<int64_t> rowBlobBytes() = 0;
  /// Visits all of a kind (but targets and workers), in no order; ends with the first error.
  virtual absl::Status forEach(Kind kind, const std::function<absl::Status(const Stored&)>& visit) = 0;
  /// Stored::time_us of one artifact, object, blob or hold.
  virtual absl::StatusOr<int64_t> lastUse(Kind kind, const std::string& id) = 0;
  /// As what (kBlob, kHold, kArtifact) something of this name is there for the project, last used before then.
  virtual absl::StatusOr<std::vector<Kind>> usedBefore(const std::string& project, const std::string& name,
                                                       int64_t time_us) = 0;
  virtual absl::StatusOr<bool> isPinned(Kind kind, const std::string& id) = 0;
  /// How many events a job has.
  virtual absl::StatusOr<int64_t> eventCount(const std::string& job_id) = 0;
  /// All of them, by id: there are few.
  virtual absl::StatusOr<std::vector<StoredToken>> tokens() = 0;
};

/// Reads and writes that become durable together, or not at all. `put` inserts or replaces by id.
/// What refers to something comes after it: a job's action and a link's two ends must be stored, else
/// FAILED_PRECONDITION. A body may go on after ALREADY_EXISTS, NOT_FOUND and FAILED_PRECONDITION; after an
/// error of the disk the whole transaction fails, whatever the body answers.
class Transaction : public Reader {
 public:
  /// ALREADY_EXISTS when the id or a non-empty request_id is taken. `action_id` may be empty.
  virtual absl::Status insertJob(const v1::Job& job, const std::string& request_hash, const std::string& action_id) = 0;
  /// NOT_FOUND when there is no such job. Its request_id and its action stay.
  virtual absl::Status updateJob(const v1::Job& job) = 0;
  /// Assigns the job's next sequence number (from 1, no gaps) and answers it. NOT_FOUND without the job. Such counters
  /// are of one job or search, whose row a transaction has to itself anyway; none is of the whole store.
  virtual absl::StatusOr<int64_t> appendEvent(v1::JobEvent event) = 0;
  virtual absl::Status putAction(const v1::Action& action) = 0;
  /// The next entry of a search's log; they go with its action.
  virtual absl::Status appendToSearch(const std::string& search_id, const v1::SearchEntry& entry) = 0;
  /// These two go with their job.
  virtual absl::Status putSeries(const v1::ArtifactSeries& series) = 0;
  virtual absl::Status putVersion(const v1::ArtifactVersion& version) = 0;
  virtual absl::Status putTask(const v1::Task& task) = 0;
  /// The task that nextReadyTask() answers, for this transaction alone: until it ends no other one is offered it.
  /// Stores with one writer have nothing to add.
  virtual absl::StatusOr<v1::Task> claimReadyTask(const QueueQuery& query) { return nextReadyTask(query); }
  /// putTask() of one that is LEASED under `token`, in the store as it is now; else ABORTED and nothing is done.
  virtual absl::Status putLeasedTask(const v1::Task& task, int64_t token);
  /// The next turn of a client among the tasks of a priority: one past its last, and past all that were served.
  virtual absl::StatusOr<int64_t> nextTurn(int priority, const std::string& client) = 0;
  /// The same, and it is taken.
  virtual absl::StatusOr<int64_t> takeTurn(int priority, const std::string& client) = 0;
  /// A task with this turn has been given away.
  virtual absl::Status turnServed(int priority, int64_t turn) = 0;
  virtual absl::Status linkTask(const std::string& action_id, const std::string& task_id) = 0;
  virtual absl::Status putObject(const std::string& build_key, const v1::Digest& object) = 0;
  /// Goes when the blob of its first witness does.
  virtual absl::Status putReproduction(const std::string& key, const v1::Reproduction& reproduction) = 0;
  virtual absl::Status putArtifact(const v1::Artifact& artifact) = 0;
  virtual absl::Status putRecord(const v1::TuningRecord& record) = 0;
  /// Takes a record of another database in. False: its project has a record with this content, under whatever id, and
  /// nothing was done. Under an id that is taken or empty it gets a new one, made of its content.
  virtual absl::StatusOr<bool> mergeRecord(v1::TuningRecord record) = 0;
  /// With an empty project: for everybody. Those names no project may register.
  virtual absl::Status putTarget(const std::string& project, const v1::Target& target) = 0;
  virtual absl::Status putWorker(const v1::Worker& worker) = 0;
  /// Only after the blob's file is durable, or its bytes are put. From now on it is there, and the project may read it;
  /// empty: nobody does yet.
  virtual absl::Status putBlob(const v1::Digest& digest, const std::string& project, int64_t time_us = 0) = 0;
  /// The blob's bytes are gone or wrong, or are about to be removed: it is not there any more, until it is put again.
  /// What names it stays, as do its last use and who may read it. Nothing when it has no row.
  virtual absl::Status loseBlob(const std::string& sha256) = 0;
  /// The bytes of a small blob; nothing where it has some. Whoever calls this has compared them with its name.
  virtual absl::Status putBlobBytes(const std::string& sha256, std::string_view bytes, int64_t time_s) = 0;
  virtual absl::Status eraseBlobBytes(const std::string& sha256) = 0;
  virtual absl::Status putToken(const StoredToken& token) = 0;

  /// Deletes one; nothing when it is not there. With a job go its events and its versions, and its action when no other
  /// job has it; with the action its tasks when no other action has them, and its log. With an artifact goes what finds
  /// it by key, with a blob who may read it. FAILED_PRECONDITION for a task by itself, and for an action that a job
  /// has.
  virtual absl::Status erase(Kind kind, const std::string& id) = 0;
  virtual absl::Status eraseEvents(const std::string& job_id) = 0;
  /// An artifact, object, blob or hold is wanted now. Nothing when it is not there.
  virtual absl::Status touch(Kind kind, const std::string& id, int64_t time_us) = 0;
  virtual absl::Status setPin(Kind kind, const std::string& id, bool pinned) = 0;

  /// The next call writes one row, the body's last one, and the body succeeds if that does: so a store need not be
  /// ready to undo it. A body that writes or fails after it is INTERNAL, and so are those that share its commit. Means
  /// nothing in a transaction within another.
  virtual void announceLastWrite() {}

  /// Told to all who listen, in this process and others on the same store, once the transaction is durable; to nobody
  /// if it is not.
  virtual void notify(Notice notice) = 0;
};

/// Thread-safe. There is one writer; reads run beside it on their own snapshots.
class Store {
 public:
  virtual ~Store() = default;

  /// Runs `body` in a transaction on the writer's thread and answers after the commit is durable
  /// (several callers may share one commit). A non-OK answer of `body` rolls back all it did and is
  /// returned as is.
  ///
  /// A transaction or a read that `body` asks of this store on its own thread is part of this one: it sees what was
  /// done so far, a failed one is undone alone, and what another one did becomes durable with `body`.
  virtual absl::Status transact(const std::function<absl::Status(Transaction&)>& body) = 0;

  /// The same for a caller that goes on meanwhile: `done` gets the answer, before this returns or on a thread of the
  /// store's, which must not wait for the store or for anything else.
  virtual void transactThen(std::function<absl::Status(Transaction&)> body,   // NOLINT: stores keep them
                            std::function<void(const absl::Status&)> done) {  // NOLINT: stores keep them
    done(transact(body));
  }

  /// Runs `body` on a consistent read-only snapshot. A read within one sees the same; a transaction within one is
  /// INTERNAL.
  virtual absl::Status read(const std::function<absl::Status(Reader&)>& body) = 0;

  /// Calls `listener` for every notice until the answer is destroyed. It must return at once, and not call this again.
  [[nodiscard]] virtual std::shared_ptr<void> listen(std::function<void(const Notice&)> listener) = 0;
};

}  // namespace tessera::storage
