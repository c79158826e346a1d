#pragma once

/// All fixed statements of the SQL stores, in SQLite's dialect; storage/postgres/dialect.cpp has what differs in
/// PostgreSQL's. They are data, so that a test can check the query plan of each: no read may scan a table or sort.
namespace tessera::storage::sql {

// Numbers of states in partial indices: jobs and actions QUEUED = 1, RUNNING = 2; tasks READY = 1, LEASED = 2. INDEXED
// BY is used where the planner, without statistics, would choose another index.

inline constexpr char kJob[] = "SELECT body FROM jobs WHERE id = ?";
inline constexpr char kJobByRequest[] =
    "SELECT body FROM jobs WHERE project = ? AND request_id = ? AND request_id <> ''";
inline constexpr char kRequestHash[] = "SELECT request_hash FROM jobs WHERE id = ?";
inline constexpr char kActionOfJob[] = "SELECT action_id FROM jobs WHERE id = ?";
inline constexpr char kLivingJobsOfAction[] =
    "SELECT body FROM jobs WHERE action_id = ? AND state IN (1, 2) ORDER BY rowid";
inline constexpr char kFirstLivingJobOfAction[] =
    "SELECT id FROM jobs WHERE action_id = ? AND state IN (1, 2) ORDER BY rowid LIMIT 1";
inline constexpr char kJobsPastQueueDeadline[] =
    "SELECT id FROM jobs INDEXED BY jobs_by_queue_deadline WHERE state = 1 AND queue_deadline > 0 AND queue_deadline "
    "<= ? ORDER BY queue_deadline";
inline constexpr char kSearchLog[] = "SELECT body FROM search_log WHERE search_id = ? ORDER BY number";
inline constexpr char kSeries[] = "SELECT body FROM artifact_series WHERE job_id = ?";
inline constexpr char kVersionsAfter[] =
    "SELECT body FROM artifact_versions WHERE job_id = ? AND number > ? ORDER BY number LIMIT ?";
inline constexpr char kEventsAfter[] =
    "SELECT body FROM events WHERE job_id = ? AND sequence > ? ORDER BY sequence LIMIT ?";
inline constexpr char kJobsPastDeadline[] =
    "SELECT id FROM jobs INDEXED BY jobs_by_deadline WHERE state IN (1, 2) AND deadline > 0 AND deadline <= ? ORDER BY "
    "deadline";
inline constexpr char kLastSequence[] = "SELECT max(sequence) FROM events WHERE job_id = ?";

inline constexpr char kAction[] = "SELECT body FROM actions WHERE id = ?";
inline constexpr char kLivingActionsByKey[] =
    "SELECT body FROM actions WHERE key = ? AND key <> '' AND state IN (1, 2) ORDER BY create_time";
inline constexpr char kArtifactByKey[] =
    "SELECT body FROM artifact_keys JOIN artifacts ON artifacts.id = artifact_id WHERE action_key = ?";
inline constexpr char kActionsByComponent[] =
    "SELECT action_id, create_time FROM action_components WHERE component = ? ORDER BY create_time DESC LIMIT ?";

inline constexpr char kTask[] = "SELECT body FROM tasks WHERE id = ?";
inline constexpr char kTaskParts[] = "SELECT body FROM task_parts WHERE task_id = ?";
inline constexpr char kLivingTaskByKey[] =
    "SELECT body FROM tasks WHERE key = ? AND key <> '' AND state IN (1, 2) ORDER BY ready_time LIMIT 1";
inline constexpr char kActionsOfTask[] = "SELECT action_id FROM action_tasks WHERE task_id = ? ORDER BY position";
inline constexpr char kLivingJobsOfTask[] =
    "SELECT jobs.id FROM action_tasks INDEXED BY action_tasks_by_task CROSS JOIN jobs INDEXED BY jobs_living_by_action "
    "ON jobs.action_id = action_tasks.action_id WHERE task_id = ? AND jobs.state IN (1, 2) LIMIT ?";
inline constexpr char kLivingJobCountOfTask[] =
    "SELECT count(*) FROM action_tasks INDEXED BY action_tasks_by_task CROSS JOIN jobs INDEXED BY "
    "jobs_living_by_action "
    "ON jobs.action_id = action_tasks.action_id WHERE task_id = ? AND jobs.state IN (1, 2)";
inline constexpr char kTasksOfAction[] =
    "SELECT body FROM action_tasks INDEXED BY action_tasks_by_action CROSS JOIN tasks ON tasks.id = task_id WHERE "
    "action_id = ? ORDER BY position";
inline constexpr char kReadyTasks[] =
    "SELECT body, priority, turn, ready_time, rowid FROM tasks INDEXED BY tasks_ready_by_kind WHERE state = 1 AND "
    "kind = ? AND priority <= ? ORDER BY priority DESC, turn, ready_time, rowid";
// Likewise for one project, separately for tasks that would start a job; kNextReadyProject steps to the next project.
inline constexpr char kReadyOfProject[] =
    "SELECT body, priority, turn, ready_time, rowid FROM tasks INDEXED BY tasks_ready_by_project WHERE state = 1 AND "
    "kind = ? AND starting = ? AND project = ? AND priority <= ? ORDER BY priority DESC, turn, ready_time, rowid";
inline constexpr char kNextReadyProject[] =
    "SELECT project FROM tasks INDEXED BY tasks_ready_by_project WHERE state = 1 AND kind = ? AND starting = ? AND "
    "project > ? ORDER BY project LIMIT 1";
// Of these, kNextReadyPriority steps to the next lower priority with its oldest ready time; kOldestReady returns the
// tasks of one priority by age.
inline constexpr char kNextReadyPriority[] =
    "SELECT priority, ready_time FROM tasks INDEXED BY tasks_ready_by_age WHERE state = 1 AND kind = ? AND "
    "starting = ? AND project = ? AND priority < ? ORDER BY priority DESC, ready_time LIMIT 1";
inline constexpr char kOldestReady[] =
    "SELECT body, ready_time FROM tasks INDEXED BY tasks_ready_by_age WHERE state = 1 AND kind = ? AND starting = ? "
    "AND "
    "project = ? AND priority = ? AND ready_time <= ? ORDER BY ready_time, rowid";
// For engines with several writers: locks a waiting task, unless another transaction has locked it.
inline constexpr char kLockReadyTask[] = "SELECT 1 FROM task_queue WHERE id = ? AND state = 1 FOR UPDATE SKIP LOCKED";
inline constexpr char kTaskRank[] = "SELECT state, priority FROM tasks WHERE id = ?";
inline constexpr char kReadyFrom[] = "SELECT sum(ready) FROM queue_lengths WHERE priority >= ?";
inline constexpr char kTurnOfClient[] = "SELECT turn FROM queue_turns WHERE priority = ? AND client = ?";
inline constexpr char kTurnServed[] = "SELECT turn FROM queue_heads WHERE priority = ?";
inline constexpr char kLeasedTasks[] = "SELECT body FROM tasks WHERE state = 2 ORDER BY id";
// queue_lengths has one row per priority, kind and target with waiting tasks.
inline constexpr char kQueueDepths[] = "SELECT kind, sum(ready) FROM queue_lengths GROUP BY kind ORDER BY kind";
inline constexpr char kTargetDepths[] =
    "SELECT kind, target, sum(ready) FROM queue_lengths GROUP BY kind, target ORDER BY kind, target";
inline constexpr char kBlobTotals[] = "SELECT count(*), coalesce(sum(size), 0) FROM blobs";

inline constexpr char kObject[] = "SELECT sha256, size FROM objects WHERE build_key = ?";
inline constexpr char kReproduction[] = "SELECT body FROM reproductions WHERE key = ?";
inline constexpr char kArtifact[] = "SELECT body FROM artifacts WHERE id = ?";
inline constexpr char kRecord[] = "SELECT body FROM records WHERE id = ?";
// Records with equal content have equal creation times; those without a time are found by workload, target and median.
inline constexpr char kRecordByContent[] =
    "SELECT 1 FROM records INDEXED BY records_of_project WHERE project = ? AND create_time = ? AND content = ? LIMIT 1";
inline constexpr char kTimelessRecordByContent[] =
    "SELECT 1 FROM records INDEXED BY records_by_workload WHERE project = ? AND workload = ? AND target = ? AND "
    "median_ms = ? AND content = ? LIMIT 1";
// Steps to the next group after a key.
inline constexpr char kNextRecordGroup[] =
    "SELECT project, workload, target, chip, threads FROM records INDEXED BY records_best WHERE failed = 0 AND "
    "median_ms > 0 AND (project, workload, target, chip, threads) > (?, ?, ?, ?, ?) "
    "ORDER BY project, workload, target, chip, threads LIMIT 1";
inline constexpr char kBestRecords[] =
    "SELECT body FROM records INDEXED BY records_best WHERE failed = 0 AND median_ms > 0 AND "
    "project = ? AND workload = ? AND target = ? AND chip = ? AND threads = ? ORDER BY median_ms, id LIMIT ?";
inline constexpr char kTarget[] = "SELECT body FROM targets WHERE name = ? AND project = ?";
inline constexpr char kWorker[] = "SELECT body FROM workers WHERE id = ?";
inline constexpr char kBlobSize[] = "SELECT size FROM blobs WHERE sha256 = ? AND lost = 0";
inline constexpr char kBlobBytes[] = "SELECT bytes FROM blob_bytes WHERE sha256 = ?";
inline constexpr char kBlobBytesSize[] = "SELECT size FROM blob_bytes WHERE sha256 = ?";
inline constexpr char kRowBlobsAfter[] =
    "SELECT sha256, size, time_s FROM blob_bytes WHERE sha256 > ? ORDER BY sha256 LIMIT ?";
inline constexpr char kRowBlobBytes[] = "SELECT bytes FROM blob_bytes_total";
inline constexpr char kBlobReference[] = "SELECT last_use FROM blob_holders WHERE project = ? AND sha256 = ?";
// Matches the name as a blob, a hold and an artifact; the last three parameters are the numbers of these kinds.
inline constexpr char kUsedBefore[] =
    "SELECT CAST(?5 AS INTEGER) FROM blobs WHERE sha256 = ?1 AND last_use < ?4 UNION ALL "
    "SELECT CAST(?6 AS INTEGER) FROM blob_holders WHERE project = ?2 AND sha256 = ?1 AND last_use < ?4 UNION ALL "
    "SELECT CAST(?7 AS INTEGER) FROM artifacts WHERE id = ?3 AND last_use < ?4";
inline constexpr char kUsage[] = "SELECT project, queued, running, blobs, bytes FROM project_usage WHERE project = ?";
inline constexpr char kUsages[] = "SELECT project, queued, running, blobs, bytes FROM project_usage ORDER BY project";

inline constexpr char kSetting[] = "SELECT value FROM settings WHERE name = ?";
inline constexpr char kBlobLost[] = "SELECT lost FROM blobs WHERE sha256 = ?";
inline constexpr char kTokens[] = "SELECT body, sha256 FROM tokens ORDER BY id";

inline constexpr char kInsertJob[] =
    "INSERT INTO jobs (id, request_id, request_hash, action_id, state, kind, target, name, action_key, cached, "
    "priority, create_time, end_time, queue_deadline, deadline, body, project, labels) "
    "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)";
// Counts a job that is inserted as QUEUED or RUNNING.
inline constexpr char kCountLivingJob[] =
    "INSERT INTO project_usage (project, queued, running) VALUES (?, ?, ?) ON CONFLICT (project) DO UPDATE SET "
    "queued = project_usage.queued + excluded.queued, running = project_usage.running + excluded.running";
inline constexpr char kUpdateJob[] =
    "UPDATE jobs SET state = ?, kind = ?, target = ?, name = ?, action_key = ?, cached = ?, priority = ?, "
    "create_time = ?, end_time = ?, queue_deadline = ?, deadline = ?, body = ? WHERE id = ?";
inline constexpr char kLastEntry[] = "SELECT max(number) FROM search_log WHERE search_id = ?";
inline constexpr char kAppendEntry[] = "INSERT INTO search_log (search_id, number, body) VALUES (?, ?, ?)";
inline constexpr char kPutSeries[] =
    "INSERT INTO artifact_series (job_id, body) VALUES (?, ?) ON CONFLICT (job_id) DO UPDATE SET body = excluded.body";
inline constexpr char kPutVersion[] =
    "INSERT INTO artifact_versions (job_id, number, body) VALUES (?, ?, ?) "
    "ON CONFLICT (job_id, number) DO UPDATE SET body = excluded.body";
inline constexpr char kInsertEvent[] = "INSERT INTO events (job_id, sequence, body) VALUES (?, ?, ?)";
inline constexpr char kUpdateAction[] =
    "UPDATE actions SET key = ?2, state = ?3, create_time = ?4, body = ?5 WHERE id = ?1";
inline constexpr char kInsertAction[] =
    "INSERT INTO actions (id, key, state, create_time, body) VALUES (?, ?, ?, ?, ?)";
inline constexpr char kPutComponent[] =
    "INSERT INTO action_components (component, create_time, action_id) VALUES (?, ?, ?) ON CONFLICT DO NOTHING";
inline constexpr char kPutTask[] =
    "INSERT INTO tasks (id, key, state, kind, priority, turn, ready_time, project, worker, create_time, starting, "
    "target, body) "
    "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) "
    "ON CONFLICT (id) DO UPDATE SET key = excluded.key, state = excluded.state, kind = excluded.kind, "
    "priority = excluded.priority, turn = excluded.turn, ready_time = excluded.ready_time, worker = excluded.worker, "
    "starting = CASE WHEN excluded.starting < tasks.starting THEN excluded.starting ELSE tasks.starting END, "
    "body = excluded.body";
inline constexpr char kPutTaskPart[] =
    "INSERT INTO task_parts (task_id, part, body) VALUES (?, ?, ?) ON CONFLICT (task_id, part) DO UPDATE SET "
    "body = excluded.body WHERE task_parts.body <> excluded.body";
inline constexpr char kEraseTaskPart[] = "DELETE FROM task_parts WHERE task_id = ? AND part = ?";
inline constexpr char kPutTurn[] =
    "INSERT INTO queue_turns (priority, client, turn) VALUES (?, ?, ?) ON CONFLICT (priority, client) DO UPDATE SET "
    "turn = excluded.turn";
inline constexpr char kPutServed[] =
    "INSERT INTO queue_heads (priority, turn) VALUES (?, ?) ON CONFLICT (priority) DO UPDATE SET turn = excluded.turn "
    "WHERE excluded.turn > queue_heads.turn";
inline constexpr char kForgetTurns[] = "DELETE FROM queue_turns WHERE priority = ? AND turn <= ?";
inline constexpr char kLinkTask[] =
    "INSERT INTO action_tasks (action_id, task_id) VALUES (?, ?) ON CONFLICT (action_id, task_id) DO NOTHING";
inline constexpr char kPutObject[] =
    "INSERT INTO objects (build_key, sha256, size) VALUES (?, ?, ?) ON CONFLICT (build_key) DO UPDATE SET "
    "sha256 = excluded.sha256, size = excluded.size";
inline constexpr char kPutReproduction[] =
    "INSERT INTO reproductions (key, object, body) VALUES (?, ?, ?) ON CONFLICT (key) DO UPDATE SET "
    "object = excluded.object, body = excluded.body";
inline constexpr char kPutArtifact[] =
    "INSERT INTO artifacts (id, artifact, name, target, model, job, create_time, project, body) VALUES (?, ?, ?, ?, ?, "
    "?, ?, ?, ?) ON CONFLICT (id) DO UPDATE SET name = excluded.name, target = excluded.target, model = "
    "excluded.model, "
    "job = excluded.job, create_time = excluded.create_time, body = excluded.body";
inline constexpr char kPutArtifactKey[] =
    "INSERT INTO artifact_keys (action_key, artifact_id, create_time) VALUES (?, ?, ?) "
    "ON CONFLICT (action_key) DO UPDATE SET artifact_id = excluded.artifact_id, create_time = excluded.create_time "
    "WHERE excluded.create_time >= artifact_keys.create_time";
inline constexpr char kPutRecord[] =
    "INSERT INTO records (id, workload, summary, operators, target, chip, host, job, artifact, mode, method, outcome, "
    "validation, threads, trial, median_ms, speed, create_time, project, failed, content, body) "
    "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO UPDATE SET "
    "workload = excluded.workload, summary = excluded.summary, operators = excluded.operators, target = "
    "excluded.target, chip = excluded.chip, "
    "host = excluded.host, job = excluded.job, artifact = excluded.artifact, mode = excluded.mode, "
    "method = excluded.method, outcome = excluded.outcome, validation = excluded.validation, "
    "threads = excluded.threads, trial = excluded.trial, median_ms = excluded.median_ms, speed = excluded.speed, "
    "create_time = excluded.create_time, project = excluded.project, failed = excluded.failed, content = "
    "excluded.content, body = excluded.body";
inline constexpr char kPutTarget[] =
    "INSERT INTO targets (name, target, summary, family, project, body) VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (name) "
    "DO "
    "UPDATE SET project = excluded.project, summary = excluded.summary, family = excluded.family, body = excluded.body";
inline constexpr char kPutWorker[] =
    "INSERT INTO workers (id, state, host, compiler_version, last_seen_time, body) VALUES (?, ?, ?, ?, ?, ?) "
    "ON CONFLICT (id) DO UPDATE SET state = excluded.state, host = excluded.host, "
    "compiler_version = excluded.compiler_version, last_seen_time = excluded.last_seen_time, body = excluded.body";
inline constexpr char kPutBlob[] =
    "INSERT INTO blobs (sha256, size) VALUES (?, ?) ON CONFLICT (sha256) DO UPDATE SET size = excluded.size, lost = 0 "
    "WHERE blobs.size <> excluded.size OR blobs.lost <> 0";
inline constexpr char kLoseBlob[] = "UPDATE blobs SET lost = 1 WHERE sha256 = ? AND lost <> 1";
// lost = 2: the bytes are being removed.
inline constexpr char kBeginBlobRemoval[] = "UPDATE blobs SET lost = 2 WHERE sha256 = ? AND lost <> 2";
inline constexpr char kPutSetting[] =
    "INSERT INTO settings (name, value) VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value";
inline constexpr char kPutBlobBytes[] =
    "INSERT INTO blob_bytes (sha256, size, time_s, bytes) SELECT ?1, ?2, ?3, ?4 WHERE NOT EXISTS (SELECT 1 FROM "
    "blob_bytes WHERE sha256 = ?1)";
inline constexpr char kEraseBlobBytes[] = "DELETE FROM blob_bytes WHERE sha256 = ?";
inline constexpr char kPutHold[] =
    "INSERT INTO blob_holders (project, sha256, size, last_use) VALUES (?, ?, ?, ?) ON CONFLICT (project, sha256) DO "
    "UPDATE SET last_use = excluded.last_use WHERE excluded.last_use > blob_holders.last_use";
inline constexpr char kPutToken[] =
    "INSERT INTO tokens (id, sha256, body) VALUES (?, ?, ?) ON CONFLICT (id) DO UPDATE SET sha256 = excluded.sha256, "
    "body = excluded.body";

// A collection visits all rows, and deletes by key.
inline constexpr char kAllJobs[] = "SELECT id, end_time, body FROM jobs";
inline constexpr char kAllActions[] = "SELECT id, create_time, body FROM actions";
inline constexpr char kAllTasks[] = "SELECT id, ready_time, body FROM tasks";
inline constexpr char kAllArtifacts[] = "SELECT id, last_use, body FROM artifacts";
inline constexpr char kAllObjects[] = "SELECT build_key, last_use, sha256, size FROM objects";
inline constexpr char kAllRecords[] = "SELECT id, create_time, body FROM records";
inline constexpr char kAllBlobs[] = "SELECT sha256, last_use, sha256, size FROM blobs";
inline constexpr char kAllHolds[] = "SELECT project || '/' || sha256, last_use, sha256, size FROM blob_holders";
inline constexpr char kArtifactUse[] = "SELECT last_use FROM artifacts WHERE id = ?";
inline constexpr char kObjectUse[] = "SELECT last_use FROM objects WHERE build_key = ?";
inline constexpr char kBlobUse[] = "SELECT last_use FROM blobs WHERE sha256 = ?";
inline constexpr char kPin[] = "SELECT 1 FROM pins WHERE kind = ? AND id = ?";
inline constexpr char kEventCount[] = "SELECT count(*) FROM events WHERE job_id = ?";
inline constexpr char kAnyJobOfAction[] = "SELECT 1 FROM jobs INDEXED BY jobs_by_action WHERE action_id = ? LIMIT 1";
inline constexpr char kTouchArtifact[] = "UPDATE artifacts SET last_use = ? WHERE id = ? AND last_use < ?";
inline constexpr char kTouchObject[] = "UPDATE objects SET last_use = ? WHERE build_key = ? AND last_use < ?";
inline constexpr char kTouchBlob[] = "UPDATE blobs SET last_use = ? WHERE sha256 = ? AND last_use < ?";
inline constexpr char kEraseVersions[] = "DELETE FROM artifact_versions WHERE job_id = ?";
inline constexpr char kEraseSeries[] = "DELETE FROM artifact_series WHERE job_id = ?";
inline constexpr char kEraseLog[] = "DELETE FROM search_log WHERE search_id = ?";
inline constexpr char kTouchHold[] =
    "UPDATE blob_holders SET last_use = ? WHERE project = ? AND sha256 = ? AND last_use < ?";
inline constexpr char kEraseEvents[] = "DELETE FROM events WHERE job_id = ?";
inline constexpr char kEraseJob[] = "DELETE FROM jobs WHERE id = ?";
inline constexpr char kEraseLinks[] = "DELETE FROM action_tasks WHERE action_id = ?";
inline constexpr char kEraseTask[] = "DELETE FROM tasks WHERE id = ?";
inline constexpr char kEraseComponent[] =
    "DELETE FROM action_components WHERE component = ? AND create_time = ? AND action_id = ?";
inline constexpr char kEraseAction[] = "DELETE FROM actions WHERE id = ?";
inline constexpr char kEraseArtifactKeys[] = "DELETE FROM artifact_keys WHERE artifact_id = ?";
inline constexpr char kEraseArtifact[] = "DELETE FROM artifacts WHERE id = ?";
inline constexpr char kEraseObject[] = "DELETE FROM objects WHERE build_key = ?";
inline constexpr char kEraseRecord[] = "DELETE FROM records WHERE id = ?";
inline constexpr char kEraseBlob[] = "DELETE FROM blobs WHERE sha256 = ?";
inline constexpr char kEraseHold[] = "DELETE FROM blob_holders WHERE project = ? AND sha256 = ?";
inline constexpr char kEraseHolds[] = "DELETE FROM blob_holders WHERE sha256 = ?";
inline constexpr char kEraseTarget[] = "DELETE FROM targets WHERE name = ?";
inline constexpr char kEraseWorker[] = "DELETE FROM workers WHERE id = ?";
inline constexpr char kPutPin[] = "INSERT INTO pins (kind, id) VALUES (?, ?) ON CONFLICT DO NOTHING";
inline constexpr char kErasePin[] = "DELETE FROM pins WHERE kind = ? AND id = ?";

/// The reads whose plans are tested.
inline constexpr const char* kReads[] = {kUsedBefore,
                                         kJob,
                                         kJobByRequest,
                                         kRequestHash,
                                         kActionOfJob,
                                         kLivingJobsOfAction,
                                         kFirstLivingJobOfAction,
                                         kJobsPastQueueDeadline,
                                         kSearchLog,
                                         kLastEntry,
                                         kSeries,
                                         kVersionsAfter,
                                         kEventsAfter,
                                         kJobsPastDeadline,
                                         kLastSequence,
                                         kAction,
                                         kArtifactByKey,
                                         kLivingActionsByKey,
                                         kActionsByComponent,
                                         kTask,
                                         kTaskParts,
                                         kLivingTaskByKey,
                                         kActionsOfTask,
                                         kTasksOfAction,
                                         kLivingJobsOfTask,
                                         kLivingJobCountOfTask,
                                         kReadyTasks,
                                         kReadyOfProject,
                                         kNextReadyProject,
                                         kNextReadyPriority,
                                         kOldestReady,
                                         kTaskRank,
                                         kReadyFrom,
                                         kTurnOfClient,
                                         kTurnServed,
                                         kLeasedTasks,
                                         kObject,
                                         kReproduction,
                                         kArtifact,
                                         kRecord,
                                         kRecordByContent,
                                         kTimelessRecordByContent,
                                         kNextRecordGroup,
                                         kBestRecords,
                                         kTarget,
                                         kWorker,
                                         kBlobSize,
                                         kBlobLost,
                                         kSetting,
                                         kBlobBytes,
                                         kBlobBytesSize,
                                         kRowBlobsAfter,
                                         kBlobReference,
                                         kUsage,
                                         kArtifactUse,
                                         kObjectUse,
                                         kBlobUse,
                                         kPin,
                                         kEventCount,
                                         kAnyJobOfAction};

}  // namespace tessera::storage::sql
