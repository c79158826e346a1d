-- Each entity is a serialized message (`body`) and the columns that are looked up, filtered or ordered by. Columns are
-- never NULL, except the reference to an action, so that comparisons have two outcomes and a keyset page has a definite
-- end. Times are microseconds since the Unix epoch; states and kinds are the numbers of the protobuf enums.

-- Settings of this database; token_key signs page tokens.
CREATE TABLE settings (
  name TEXT PRIMARY KEY NOT NULL,
  value BLOB NOT NULL
) WITHOUT ROWID;
INSERT INTO settings VALUES ('token_key', randomblob(32));

CREATE TABLE actions (
  id TEXT PRIMARY KEY NOT NULL,
  key TEXT NOT NULL,
  state INTEGER NOT NULL,
  create_time INTEGER NOT NULL,
  body BLOB NOT NULL
);
CREATE INDEX actions_living_by_key ON actions (key, create_time) WHERE state IN (1, 2) AND key <> '';

-- Components of action keys, by which similar earlier actions are found.
CREATE TABLE action_components (
  action_id TEXT NOT NULL REFERENCES actions (id),
  name TEXT NOT NULL,
  hash TEXT NOT NULL,
  create_time INTEGER NOT NULL,
  PRIMARY KEY (action_id, name)
) WITHOUT ROWID;
CREATE INDEX action_components_by_hash ON action_components (name, hash, create_time);

CREATE TABLE jobs (
  id TEXT PRIMARY KEY NOT NULL,
  request_id TEXT NOT NULL,
  request_hash TEXT NOT NULL,
  action_id TEXT REFERENCES actions (id),
  state INTEGER NOT NULL,
  kind INTEGER NOT NULL,
  target TEXT NOT NULL,
  name TEXT NOT NULL,
  action_key TEXT NOT NULL,
  cached INTEGER NOT NULL,
  priority INTEGER NOT NULL,
  create_time INTEGER NOT NULL,
  end_time INTEGER NOT NULL,
  queue_deadline INTEGER NOT NULL,
  body BLOB NOT NULL
);
CREATE UNIQUE INDEX jobs_by_request ON jobs (request_id) WHERE request_id <> '';
CREATE INDEX jobs_living_by_action ON jobs (action_id) WHERE state IN (1, 2);
CREATE INDEX jobs_by_queue_deadline ON jobs (queue_deadline) WHERE state = 1 AND queue_deadline > 0;
CREATE INDEX jobs_by_create_time ON jobs (create_time, id);
CREATE INDEX jobs_by_state ON jobs (state, create_time, id);

-- Numbered from 1 without gaps within a job.
CREATE TABLE events (
  job_id TEXT NOT NULL REFERENCES jobs (id),
  sequence INTEGER NOT NULL,
  body BLOB NOT NULL,
  PRIMARY KEY (job_id, sequence)
) WITHOUT ROWID;

CREATE TABLE tasks (
  id TEXT PRIMARY KEY NOT NULL,
  key TEXT NOT NULL,
  state INTEGER NOT NULL,
  kind INTEGER NOT NULL,
  priority INTEGER NOT NULL,
  ready_time INTEGER NOT NULL,
  body BLOB NOT NULL
);
CREATE INDEX tasks_living_by_key ON tasks (key, ready_time) WHERE state IN (1, 2) AND key <> '';
-- Both indices end in the rowid: rows with equal times keep the order of insertion.
CREATE INDEX tasks_ready_by_kind ON tasks (kind, priority DESC, ready_time) WHERE state = 1;
CREATE INDEX tasks_ready ON tasks (priority, ready_time) WHERE state = 1;
CREATE INDEX tasks_leased ON tasks (id) WHERE state = 2;

-- Actions that wait for a task. `position` is the order in which an action got its tasks.
CREATE TABLE action_tasks (
  position INTEGER PRIMARY KEY,
  action_id TEXT NOT NULL REFERENCES actions (id),
  task_id TEXT NOT NULL REFERENCES tasks (id),
  UNIQUE (action_id, task_id)
);
CREATE INDEX action_tasks_by_action ON action_tasks (action_id);
CREATE INDEX action_tasks_by_task ON action_tasks (task_id);

CREATE TABLE objects (
  build_key TEXT PRIMARY KEY NOT NULL,
  sha256 TEXT NOT NULL,
  size INTEGER NOT NULL
) WITHOUT ROWID;

CREATE TABLE artifacts (
  id TEXT PRIMARY KEY NOT NULL,
  name TEXT NOT NULL,
  target TEXT NOT NULL,
  model TEXT NOT NULL,
  job TEXT NOT NULL,
  create_time INTEGER NOT NULL,
  body BLOB NOT NULL
);
CREATE INDEX artifacts_by_create_time ON artifacts (create_time, id);
CREATE INDEX artifacts_by_model ON artifacts (model, create_time, id);
CREATE INDEX artifacts_by_job ON artifacts (job);

-- Builds are reproducible, so two keys may lead to the same file; hence a separate table.
CREATE TABLE artifact_keys (
  action_key TEXT PRIMARY KEY NOT NULL,
  artifact_id TEXT NOT NULL REFERENCES artifacts (id),
  create_time INTEGER NOT NULL
) WITHOUT ROWID;

CREATE TABLE records (
  id TEXT PRIMARY KEY NOT NULL,
  workload TEXT NOT NULL,
  summary TEXT NOT NULL,
  target TEXT NOT NULL,
  host TEXT NOT NULL,
  job TEXT NOT NULL,
  artifact TEXT NOT NULL,
  mode TEXT NOT NULL,
  validation TEXT NOT NULL,
  threads INTEGER NOT NULL,
  median_ms REAL NOT NULL,
  create_time INTEGER NOT NULL,
  body BLOB NOT NULL
);
CREATE INDEX records_by_create_time ON records (create_time, id);
CREATE INDEX records_by_median ON records (median_ms, id);
CREATE INDEX records_by_workload ON records (workload, target, median_ms, id);
CREATE INDEX records_by_job ON records (job, create_time, id);

CREATE TABLE targets (
  name TEXT PRIMARY KEY NOT NULL,
  summary TEXT NOT NULL,
  family INTEGER NOT NULL,
  body BLOB NOT NULL
);

CREATE TABLE workers (
  id TEXT PRIMARY KEY NOT NULL,
  state INTEGER NOT NULL,
  host TEXT NOT NULL,
  compiler_version TEXT NOT NULL,
  last_seen_time INTEGER NOT NULL,
  body BLOB NOT NULL
);

CREATE TABLE blobs (
  sha256 TEXT PRIMARY KEY NOT NULL,
  size INTEGER NOT NULL
) WITHOUT ROWID;
