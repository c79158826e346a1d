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

/// Durable state of the service. `Store` provides entities and queries. Their meaning (states, leases, joins, retries)
/// is defined by server/queue and server/workflows, which compose the calls in transactions.
namespace tessera::storage {

/// Request for one page of a list: AIP-160 filter subset (storage/filter.h), AIP-132 order, opaque page token. The
/// fields of each entity are defined in storage/entity.cpp. Errors are INVALID_ARGUMENT with a v1::Failure. A page ends
/// early at 2 MiB. Items inserted between pages are never repeated and never hide others.
struct ListQuery {
  int page_size = 0;  ///< 0 = 50; values above 1000 are reduced to 1000
  std::string page_token;
  std::string filter;
  std::string order_by;
  /// Only items of this project, and those visible to all projects; empty: all. Does not restrict workers.
  std::string project = {};
};
template <typename T>
struct Page {
  std::vector<T> items;
  std::string next_page_token;  ///< empty on the last page
};

/// An access token with the SHA-256 of its secret, in hexadecimal, by which the service recognizes it.
struct StoredToken {
  v1::AccessToken token;
  std::string sha256;
};

/// A target with the project that registered it.
struct StoredTarget {
  v1::Target target;
  std::string project;  ///< empty: built in, visible to all projects
};

/// Resource usage of a project.
struct Usage {
  std::string project;
  int64_t queued_jobs = 0;
  int64_t running_jobs = 0;
  int64_t blobs = 0;
  int64_t blob_bytes = 0;
};

/// Kinds of items that are retained, pinned and deleted individually. The numbers are stored in the database.
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
  kBlobReference = 10  ///< a project's reference to a blob, by which the project may read it
};

/// One item as a garbage collection sees it.
struct Stored {
  Kind kind;
  /// By kind: build key of an object, SHA-256 of a blob, storedKey() of an artifact or target, blobReferenceKey() of a
  /// blob reference (storage/stored_key.h), otherwise the id.
  std::string id;
  /// By kind: end of a job (0: not ended), creation of a record, last use of an artifact, object, blob or blob
  /// reference.
  int64_t time_us = 0;
  /// The stored message; a v1::Digest for objects, blobs and blob references. Valid only during the visit.
  const google::protobuf::Message* message = nullptr;
};

/// Request for the fastest records. Records form a group if project, workload, chip and number of threads are equal.
struct BestQuery {
  std::string project = {};                 ///< empty: all projects; then `workloads` must be empty
  std::vector<std::string> workloads = {};  ///< workload hashes; empty: all, sorted by hash
  std::string target = {};                  ///< target name; empty: any
  std::string chip = {};                    ///< hash of the chip's description; empty: any
  int threads = 0;                          ///< 0: any
  int top = 1;                              ///< maximum number of records per group
  int page_size = 0;                        ///< groups per page; 0 = 50; values above 1000 are reduced to 1000
  std::string page_token = {};
};
struct BestGroup {
  std::string project, workload, target, chip;
  int64_t threads = 0;
  std::vector<v1::TuningRecord> records;  ///< fastest first
};

/// Counts and extremes of a group of records.
struct RecordGroup {
  std::string value;  ///< value of the grouping field; for an enum, its name
  int64_t records = 0;
  int64_t failed = 0;
  int64_t workloads = 0;
  double best_ms = 0;     ///< fastest successful record; 0: none
  double best_speed = 0;  ///< largest speedup over the default; 0: none was compared
  int64_t first_time_us = 0;
  int64_t last_time_us = 0;
};

/// Number of READY tasks of one kind.
struct QueueDepth {
  v1::TaskKind kind = v1::TASK_KIND_UNSPECIFIED;
  int64_t ready = 0;
  int64_t oldest_ready_us = 0;  ///< when the longest-waiting task became ready
};

/// Number of READY tasks of one kind and target.
struct TargetDepth {
  v1::TaskKind kind = v1::TASK_KIND_UNSPECIFIED;
  std::string target;  ///< Task.target
  int64_t ready = 0;
};

struct BlobTotals {
  int64_t blobs = 0;
  int64_t bytes = 0;
};

/// A blob whose bytes are stored in the database.
struct RowBlob {
  std::string sha256;
  int64_t size = 0;
  int64_t time_s = 0;  ///< when it was stored
};

/// Selects the next READY task. Order: highest priority; then earliest fair-share ticket; then latest phase of a job
/// (ASSEMBLE before BUILD before PLAN, so that started jobs finish first); then earliest ready time; then order of
/// insertion.
struct QueueQuery {
  std::vector<v1::TaskKind> kinds = {};  ///< empty = all
  /// Whether the caller accepts this task; if not, the next one in order is tried. Empty: accepts any.
  std::function<bool(const v1::Task&)> accept = {};
  /// A task gains one priority level per `ageing_us` of waiting; 0: none. To bound the cost of a poll, `accept` is
  /// called for aged tasks only until it has rejected kMaxAgedRejections of them; the others get no ageing boost in
  /// that poll. The bound holds for each kind and project, and separately for tasks that would start a job; tasks are
  /// tried by priority, then oldest first.
  static constexpr int kMaxAgedRejections = 100;
  int64_t now_us = 0;
  int64_t ageing_us = 0;
  /// Whether the project may not start another job now. Its tasks that would start one (no attempt yet, no running
  /// action) are then skipped without reading them. Called once per project that has such tasks; empty: every project
  /// may.
  std::function<bool(const std::string& project)> may_not_start = {};
};

/// The QUEUED and RUNNING jobs that wait for a task.
struct LiveJobs {
  int64_t count = 0;
  std::vector<std::string> first;  ///< ids of some of them; for each action the earliest inserted ones
};

/// Sent when a transaction is durable, to say where to look for changes. It carries no state, so duplicates are
/// harmless.
struct Notice {
  int tasks_ready = 0;  ///< number of additional workers that could get a task
  std::set<std::string> changed_jobs = {};
  bool missed = false;  ///< notices of other servers were lost: anything may have changed
};

/// Read operations. Inside a transaction they see its own writes. Getters of one item return NOT_FOUND if it does not
/// exist.
class Reader {
 public:
  virtual ~Reader() = default;

  virtual absl::StatusOr<v1::Job> getJob(const std::string& id) = 0;
  virtual absl::StatusOr<v1::Job> getJobByRequestId(const std::string& project, const std::string& request_id) = 0;
  /// The `request_hash` passed to insertJob; distinguishes a repeated request from a conflicting one.
  virtual absl::StatusOr<std::string> getRequestHash(const std::string& job_id) = 0;
  /// Empty if the job has no action.
  virtual absl::StatusOr<std::string> getActionOfJob(const std::string& job_id) = 0;
  virtual absl::StatusOr<Page<v1::Job>> listJobs(const ListQuery& query) = 0;
  /// The QUEUED and RUNNING jobs of an action, in order of insertion.
  virtual absl::StatusOr<std::vector<v1::Job>> liveJobsOfAction(const std::string& action_id) = 0;
  /// Id of the first of them. NOT_FOUND if there is none.
  virtual absl::StatusOr<std::string> firstLiveJobOfAction(const std::string& action_id) = 0;
  /// Ids of QUEUED jobs whose queue deadline is at or before `now_us`.
  virtual absl::StatusOr<std::vector<std::string>> jobsPastQueueDeadline(int64_t now_us) = 0;
  /// Ids of QUEUED and RUNNING jobs whose total deadline is at or before `now_us`.
  virtual absl::StatusOr<std::vector<std::string>> jobsPastDeadline(int64_t now_us) = 0;
  /// Events with sequence > cursor, ascending, at most `limit`.
  virtual absl::StatusOr<std::vector<v1::JobEvent>> eventsAfter(const std::string& job_id, int64_t cursor,
                                                                int limit) = 0;

  virtual absl::StatusOr<v1::Action> getAction(const std::string& id) = 0;
  /// The QUEUED and RUNNING actions with this key, oldest first.
  virtual absl::StatusOr<std::vector<v1::Action>> liveActionsByKey(const std::string& key) = 0;
  /// The artifact most recently built for this action key.
  virtual absl::StatusOr<v1::Artifact> artifactByKey(const std::string& key) = 0;
  /// Returns up to `limit` actions of the project that share hashes of key components with `components`; those with the
  /// most equal components first, then the newest.
  virtual absl::StatusOr<std::vector<v1::Action>> nearestActions(const std::string& project,
                                                                 const std::vector<v1::KeyComponent>& components,
                                                                 int limit) = 0;

  /// History of a search, in order.
  virtual absl::StatusOr<std::vector<v1::SearchEntry>> searchLog(const std::string& search_id) = 0;
  /// State of the artifact versions of a tune job.
  virtual absl::StatusOr<v1::ArtifactRollout> getRollout(const std::string& job_id) = 0;
  /// Versions with number > cursor, ascending, at most `limit`.
  virtual absl::StatusOr<std::vector<v1::ArtifactVersion>> versionsAfter(const std::string& job_id, int64_t cursor,
                                                                         int limit) = 0;

  virtual absl::StatusOr<v1::Task> getTask(const std::string& id) = 0;
  /// The READY or LEASED task with this key.
  virtual absl::StatusOr<v1::Task> liveTaskByKey(const std::string& key) = 0;
  virtual absl::StatusOr<std::vector<std::string>> actionsOfTask(const std::string& task_id) = 0;
  virtual absl::StatusOr<std::vector<v1::Task>> tasksOfAction(const std::string& action_id) = 0;
  /// Returns the count and at most `most` ids. Reads no job messages.
  virtual absl::StatusOr<LiveJobs> liveJobsOfTask(const std::string& task_id, int most) = 0;
  /// The next READY task that matches `query`. NOT_FOUND if there is none.
  virtual absl::StatusOr<v1::Task> nextReadyTask(const QueueQuery& query) = 0;
  /// Up to `limit` READY tasks of a kind that became ready at or before `since_us`, oldest first.
  virtual absl::StatusOr<std::vector<v1::Task>> readySince(v1::TaskKind kind, int64_t since_us, int limit) = 0;
  /// Number of other READY tasks with at least this task's priority: an upper bound of those served before it. 0 if the
  /// task is not READY.
  virtual absl::StatusOr<int> queuePosition(const std::string& task_id) = 0;
  /// Number of READY tasks.
  virtual absl::StatusOr<int64_t> queueLength() = 0;
  virtual absl::StatusOr<std::vector<v1::Task>> leasedTasks() = 0;
  /// Depths of all kinds that have READY tasks, sorted by kind. The cost depends on kinds and priorities, not on tasks.
  virtual absl::StatusOr<std::vector<QueueDepth>> queueDepths() = 0;
  /// READY tasks by kind and target, sorted by both. The cost depends on kinds, targets and priorities, not on tasks.
  virtual absl::StatusOr<std::vector<TargetDepth>> targetDepths() = 0;

  /// The object blob of an earlier build with this key.
  virtual absl::StatusOr<v1::Digest> getObject(const std::string& build_key) = 0;
  /// Objects that workers built from a unit, by a key that the caller computes.
  virtual absl::StatusOr<v1::Reproduction> getReproduction(const std::string& key) = 0;
  virtual absl::StatusOr<v1::Artifact> getArtifact(const std::string& project, const std::string& id) = 0;
  virtual absl::StatusOr<Page<v1::Artifact>> listArtifacts(const ListQuery& query) = 0;
  virtual absl::StatusOr<Page<v1::TuningRecord>> listRecords(const ListQuery& query) = 0;
  virtual absl::StatusOr<v1::TuningRecord> getRecord(const std::string& id) = 0;
  /// Returns the fastest records of each group, without failed and untimed ones (storage/record_properties.h). A page
  /// ends early at 2 MiB. Its cost depends on the records returned, not on those stored.
  virtual absl::StatusOr<Page<BestGroup>> bestRecords(const BestQuery& query) = 0;
  /// Groups the records of a project (empty: of all projects) that match `filter` by a text, number or enum field
  /// (empty: one group). Returns the largest groups first, at most `limit`. Reads all matching records.
  virtual absl::StatusOr<std::vector<RecordGroup>> recordStatistics(const std::string& project,
                                                                    const std::string& filter,
                                                                    const std::string& group_by, int limit) = 0;
  /// A target of the project; with an empty project, a built-in target.
  virtual absl::StatusOr<v1::Target> getTarget(const std::string& project, const std::string& name) = 0;
  virtual absl::StatusOr<Page<StoredTarget>> listTargets(const ListQuery& query) = 0;
  virtual absl::StatusOr<v1::Worker> getWorker(const std::string& id) = 0;
  virtual absl::StatusOr<Page<v1::Worker>> listWorkers(const ListQuery& query) = 0;
  virtual absl::StatusOr<Page<v1::Task>> listTasks(const ListQuery& query) = 0;
  /// Whether the blob exists: it has a row that is not marked lost (Transaction::markBlobLost). The rows are
  /// authoritative; files only hold the bytes.
  virtual absl::StatusOr<bool> hasBlob(const std::string& sha256) = 0;
  /// Size in bytes of an existing blob; NOT_FOUND otherwise.
  virtual absl::StatusOr<int64_t> blobSize(const std::string& sha256) = 0;
  /// Whether the project may read the blob.
  virtual absl::StatusOr<bool> mayReadBlob(const std::string& project, const std::string& sha256) = 0;
  virtual absl::StatusOr<Usage> usageOf(const std::string& project) = 0;
  /// Usage of all projects that have or had items, sorted by name.
  virtual absl::StatusOr<std::vector<Usage>> usages() = 0;
  /// Number and size of all blobs. Scans the blob rows.
  virtual absl::StatusOr<BlobTotals> blobTotals() = 0;
  /// The bytes of a blob stored in the database (storage/blob_rows.h), even if it is marked lost. NOT_FOUND if the
  /// bytes are not in the database.
  virtual absl::StatusOr<std::string> blobBytes(const std::string& sha256) = 0;
  /// Size of those bytes, without reading them.
  virtual absl::StatusOr<int64_t> blobBytesSize(const std::string& sha256) = 0;
  /// At most `limit` such blobs with names after `sha256`, in order. Reads no bytes.
  virtual absl::StatusOr<std::vector<RowBlob>> rowBlobsAfter(const std::string& sha256, int limit) = 0;
  /// Total size of all such blobs. Maintained by triggers, not counted.
  virtual absl::StatusOr<int64_t> rowBlobBytes() = 0;
  /// Visits all items of a kind (except targets and workers) in unspecified order; stops at the first error.
  virtual absl::Status forEach(Kind kind, const std::function<absl::Status(const Stored&)>& visit) = 0;
  /// Visits the items of a kind whose ids follow `after`, in a fixed order of the ids, at most `limit`. Returns their
  /// number. For visits of all items in several snapshots, which other transactions need not wait for
  /// (storage/snapshots.h).
  virtual absl::StatusOr<int> forEachAfter(Kind kind, const std::string& after, int limit,
                                           const std::function<absl::Status(const Stored&)>& visit) = 0;
  /// Stored::time_us of an artifact, object, blob or blob reference.
  virtual absl::StatusOr<int64_t> lastUse(Kind kind, const std::string& id) = 0;
  /// The kinds (kBlob, kBlobReference, kArtifact) under which the project has an item of this name with a last use
  /// before `time_us`.
  virtual absl::StatusOr<std::vector<Kind>> usedBefore(const std::string& project, const std::string& name,
                                                       int64_t time_us) = 0;
  virtual absl::StatusOr<bool> isPinned(Kind kind, const std::string& id) = 0;
  /// Number of events of a job.
  virtual absl::StatusOr<int64_t> eventCount(const std::string& job_id) = 0;
  /// All tokens, sorted by id; their number is small.
  virtual absl::StatusOr<std::vector<StoredToken>> tokens() = 0;
  /// A value that the service keeps in this database under a name; empty if there is none.
  virtual absl::StatusOr<std::string> setting(const std::string& name) = 0;
  /// Whether the bytes of a blob are being removed (Transaction::beginBlobRemoval).
  virtual absl::StatusOr<bool> isBlobBeingRemoved(const std::string& sha256) = 0;
};

/// After this time a server that removes a blob is taken for dead.
inline constexpr int64_t kLongestRemovalUs = int64_t{600} * 1'000'000;

/// Reads and writes that become durable atomically. `put` inserts, or replaces by id. References must point to stored
/// items: a job's action, and both ends of a link; otherwise FAILED_PRECONDITION. A body may continue after
/// ALREADY_EXISTS, NOT_FOUND and FAILED_PRECONDITION. After a disk error the whole transaction fails, whatever the body
/// returns.
class Transaction : public Reader {
 public:
  /// ALREADY_EXISTS if the id or a non-empty request_id is taken. `action_id` may be empty.
  virtual absl::Status insertJob(const v1::Job& job, const std::string& request_hash, const std::string& action_id) = 0;
  /// Request id and action are not changed. NOT_FOUND if there is no such job.
  virtual absl::Status updateJob(const v1::Job& job) = 0;
  /// Assigns and returns the job's next sequence number (from 1 without gaps). NOT_FOUND if there is no such job.
  /// Counters belong to one job or search, whose row the transaction holds exclusively; there is no store-wide counter.
  virtual absl::StatusOr<int64_t> appendEvent(v1::JobEvent event) = 0;
  virtual absl::Status putAction(const v1::Action& action) = 0;
  /// Appends an entry to a search's history, which is deleted with its action.
  virtual absl::Status appendToSearch(const std::string& search_id, const v1::SearchEntry& entry) = 0;
  /// Series and versions are deleted with their job.
  virtual absl::Status putRollout(const v1::ArtifactRollout& series) = 0;
  virtual absl::Status putVersion(const v1::ArtifactVersion& version) = 0;
  virtual absl::Status putTask(const v1::Task& task) = 0;
  /// Returns the task that nextReadyTask() returns, and reserves it for this transaction until it ends. Stores with a
  /// single writer need no reservation.
  virtual absl::StatusOr<v1::Task> claimReadyTask(const QueueQuery& query) { return nextReadyTask(query); }
  /// Calls putTask() if the stored task is LEASED with `token`; otherwise ABORTED, and nothing changes.
  virtual absl::Status putLeasedTask(const v1::Task& task, int64_t token);
  /// The client's next fair-share ticket among tasks of a priority: one more than its last ticket and than all served
  /// tickets.
  virtual absl::StatusOr<int64_t> nextTicket(int priority, const std::string& client) = 0;
  /// Like nextTicket(), and marks the ticket as taken.
  virtual absl::StatusOr<int64_t> takeTicket(int priority, const std::string& client) = 0;
  /// Records that a task with the ticket `turn` was leased.
  virtual absl::Status ticketServed(int priority, int64_t turn) = 0;
  virtual absl::Status linkTask(const std::string& action_id, const std::string& task_id) = 0;
  virtual absl::Status putObject(const std::string& build_key, const v1::Digest& object) = 0;
  /// Deleted with the blob of its first witness.
  virtual absl::Status putReproduction(const std::string& key, const v1::Reproduction& reproduction) = 0;
  virtual absl::Status putArtifact(const v1::Artifact& artifact) = 0;
  virtual absl::Status putRecord(const v1::TuningRecord& record) = 0;
  /// Imports a record of another database. Returns false, without a change, if the project has a record with equal
  /// content under any id. If the record's id is empty or taken, it gets a new one derived from its content.
  virtual absl::StatusOr<bool> mergeRecord(v1::TuningRecord record) = 0;
  /// An empty project makes the target visible to all; projects cannot register its name.
  virtual absl::Status putTarget(const std::string& project, const v1::Target& target) = 0;
  virtual absl::Status putWorker(const v1::Worker& worker) = 0;
  /// Records that a blob exists and that the project may read it (empty: none yet). Call only after the file is durable
  /// or the bytes are put.
  virtual absl::Status putBlob(const v1::Digest& digest, const std::string& project, int64_t time_us = 0) = 0;
  /// Marks a blob as lost, because its bytes are missing, wrong, or about to be removed. It does not exist until it is
  /// put again; rows that refer to it, its last use and its blob references remain. No effect if it has no row.
  virtual absl::Status markBlobLost(const std::string& sha256) = 0;
  /// Marks a blob as lost, and announces that its object is removed after this transaction. Until its row is erased or
  /// marked as lost again, but at most for kLongestRemovalUs after its last use, nobody may store the object. No effect
  /// if it has no row.
  virtual absl::Status beginBlobRemoval(const std::string& sha256) = 0;
  /// Stores the bytes of a small blob; no effect if there are some. The caller has verified the digest.
  virtual absl::Status putBlobBytes(const std::string& sha256, std::string_view bytes, int64_t time_s) = 0;
  virtual absl::Status eraseBlobBytes(const std::string& sha256) = 0;
  virtual absl::Status putToken(const StoredToken& token) = 0;
  virtual absl::Status putSetting(const std::string& name, std::string_view value) = 0;

  /// Deletes one item; no effect if it does not exist. Deletes dependent items as well: a job's events and versions,
  /// its action if no other job has it, the action's history, and its tasks if no other action has them; an artifact's
  /// keys; a blob's references. FAILED_PRECONDITION for a task, and for an action that a job has.
  virtual absl::Status erase(Kind kind, const std::string& id) = 0;
  virtual absl::Status eraseEvents(const std::string& job_id) = 0;
  /// Sets the last use of an artifact, object, blob or blob reference, if that is later. No effect if it does not
  /// exist.
  virtual absl::Status touch(Kind kind, const std::string& id, int64_t time_us) = 0;
  virtual absl::Status setPin(Kind kind, const std::string& id, bool pinned) = 0;

  /// Announces that the next call writes one row, that it is the last write of the body, and that the body succeeds if
  /// it does. The store then needs no savepoint for it. If the body writes again or fails afterwards, it and all
  /// transactions that share its commit fail with INTERNAL. Ignored in a nested transaction.
  virtual void announceLastWrite() {}

  /// Sends the notice to all listeners, in this process and others on the same store, once the transaction is durable;
  /// not if it fails.
  virtual void notify(Notice notice) = 0;
};

/// A transactional store with one writer and concurrent snapshot reads. Thread-safe.
class Store {
 public:
  virtual ~Store() = default;

  /// Runs `body` in a transaction on the writer's thread, and returns when the commit is durable; several callers may
  /// share one commit. If `body` returns an error, its changes are rolled back and the error is returned.
  ///
  /// A transact() or read() that `body` calls on the same store and thread is nested: it sees the changes so far, is
  /// rolled back alone if it fails, and becomes durable with `body`.
  virtual absl::Status transact(const std::function<absl::Status(Transaction&)>& body) = 0;

  /// Asynchronous transact(): calls `done` with the result, before the call returns or on a thread of the store. `done`
  /// must not block.
  virtual void transactAsync(std::function<absl::Status(Transaction&)> body,   // NOLINT: stores keep them
                             std::function<void(const absl::Status&)> done) {  // NOLINT: stores keep them
    done(transact(body));
  }

  /// Runs `body` on a consistent read-only snapshot. A nested read sees the same snapshot; a nested transaction is
  /// INTERNAL.
  virtual absl::Status read(const std::function<absl::Status(Reader&)>& body) = 0;

  /// Differs between a database and a copy of it that was restored elsewhere, as far as the engine can tell; empty: it
  /// cannot.
  virtual std::string origin() const { return ""; }

  /// Calls `listener` for each notice until the returned handle is destroyed. The listener must return at once and must
  /// not call listen().
  [[nodiscard]] virtual std::shared_ptr<void> listen(std::function<void(const Notice&)> listener) = 0;
};

}  // namespace tessera::storage
