-- compatible: 1
-- The schema of storage/migrations/ (SQLite) at its migration 18, which explains the columns. What differs:
-- texts are compared bytewise, as in SQLite, hence COLLATE "C"; the order of insertion is the column `rowid`;
-- the waiting and leased tasks are also in the narrow table `task_queue`, so that a lease touches neither the messages
-- nor the indices of `tasks`.
CREATE TABLE settings (
  name text COLLATE "C" PRIMARY KEY,
  value bytea NOT NULL
);
INSERT INTO settings VALUES
  ('token_key', sha256(convert_to(gen_random_uuid()::text || gen_random_uuid()::text || gen_random_uuid()::text, 'UTF8')));

-- The servers, each with the number of its last committed batch: tells whether a commit whose answer was lost happened.
CREATE TABLE store_writers (
  id text COLLATE "C" PRIMARY KEY,
  batch bigint NOT NULL,
  seen timestamptz NOT NULL
) WITH (fillfactor = 20);

CREATE TABLE actions (
  id text COLLATE "C" PRIMARY KEY,
  key text COLLATE "C" NOT NULL,
  state smallint NOT NULL,
  create_time bigint NOT NULL,
  body bytea NOT NULL
);
CREATE INDEX actions_living_by_key ON actions (key, create_time) WHERE state IN (1, 2) AND key <> '';

CREATE TABLE action_components (
  component text COLLATE "C" NOT NULL,
  create_time bigint NOT NULL,
  action_id text COLLATE "C" NOT NULL,
  PRIMARY KEY (component, create_time, action_id)
);

CREATE TABLE jobs (
  id text COLLATE "C" PRIMARY KEY,
  rowid bigint GENERATED ALWAYS AS IDENTITY,
  request_id text COLLATE "C" NOT NULL,
  request_hash text COLLATE "C" NOT NULL,
  action_id text COLLATE "C" REFERENCES actions (id),
  state smallint NOT NULL,
  kind bigint NOT NULL,
  target text COLLATE "C" NOT NULL,
  name text COLLATE "C" NOT NULL,
  action_key text COLLATE "C" NOT NULL,
  cached bigint NOT NULL,
  priority bigint NOT NULL,
  create_time bigint NOT NULL,
  end_time bigint NOT NULL,
  queue_deadline bigint NOT NULL,
  deadline bigint NOT NULL,
  project text COLLATE "C" NOT NULL,
  labels text COLLATE "C" NOT NULL,
  body bytea NOT NULL
) WITH (fillfactor = 80);
CREATE UNIQUE INDEX jobs_by_request ON jobs (project, request_id) WHERE request_id <> '';
CREATE INDEX jobs_by_action ON jobs (action_id);
CREATE INDEX jobs_living_by_action ON jobs (action_id, rowid) WHERE state IN (1, 2);
CREATE INDEX jobs_by_queue_deadline ON jobs (queue_deadline) WHERE state = 1 AND queue_deadline > 0;
CREATE INDEX jobs_by_deadline ON jobs (deadline) WHERE state IN (1, 2) AND deadline > 0;
CREATE INDEX jobs_by_create_time ON jobs (create_time, id);
CREATE INDEX jobs_of_project ON jobs (project, create_time, id);
CREATE INDEX jobs_by_state ON jobs (state, create_time, id) WHERE state <> 3;
CREATE INDEX jobs_of_project_by_state ON jobs (project, state, create_time, id) WHERE state <> 3;

CREATE TABLE events (
  job_id text COLLATE "C" NOT NULL REFERENCES jobs (id),
  sequence bigint NOT NULL,
  body bytea NOT NULL,
  PRIMARY KEY (job_id, sequence)
);

-- The columns that change with a lease have no index here, so an update stays within its page.
CREATE TABLE tasks (
  id text COLLATE "C" PRIMARY KEY,
  rowid bigint GENERATED ALWAYS AS IDENTITY,
  key text COLLATE "C" NOT NULL,
  state smallint NOT NULL,
  kind bigint NOT NULL,
  priority bigint NOT NULL,
  turn bigint NOT NULL,
  ready_time bigint NOT NULL,
  starting smallint NOT NULL,
  project text COLLATE "C" NOT NULL,
  worker text COLLATE "C" NOT NULL,
  create_time bigint NOT NULL,
  body bytea NOT NULL
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02);
CREATE INDEX tasks_by_create_time ON tasks (create_time, id);
CREATE INDEX tasks_of_project ON tasks (project, create_time, id);

CREATE TABLE task_parts (
  task_id text COLLATE "C" NOT NULL REFERENCES tasks (id) ON DELETE CASCADE,
  part bigint NOT NULL,
  body bytea NOT NULL,
  PRIMARY KEY (task_id, part)
);

-- The READY (1) and LEASED (2) tasks. Its rows live as long as a task waits and runs; vacuum must keep up with the rate
-- of leases, so it starts after 1,000 dead rows and never pauses.
CREATE TABLE task_queue (
  id text COLLATE "C" PRIMARY KEY,
  rowid bigint NOT NULL,
  state smallint NOT NULL,
  kind bigint NOT NULL,
  starting smallint NOT NULL,
  priority bigint NOT NULL,
  turn bigint NOT NULL,
  ready_time bigint NOT NULL,
  project text COLLATE "C" NOT NULL,
  key text COLLATE "C" NOT NULL
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000,
        autovacuum_vacuum_cost_delay = 0, autovacuum_analyze_scale_factor = 0, autovacuum_analyze_threshold = 10000);
CREATE INDEX task_queue_ready_by_kind ON task_queue (kind, priority DESC, turn, ready_time, rowid) WHERE state = 1;
CREATE INDEX task_queue_ready_by_project
  ON task_queue (kind, starting, project, priority DESC, turn, ready_time, rowid) WHERE state = 1;
CREATE INDEX task_queue_ready_by_age ON task_queue (kind, starting, project, priority DESC, ready_time, rowid)
  WHERE state = 1;
CREATE INDEX task_queue_leased ON task_queue (id) WHERE state = 2;
CREATE INDEX task_queue_by_key ON task_queue (key, ready_time) WHERE key <> '';

CREATE TABLE action_tasks (
  position bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  action_id text COLLATE "C" NOT NULL REFERENCES actions (id),
  task_id text COLLATE "C" NOT NULL REFERENCES tasks (id),
  UNIQUE (action_id, task_id)
);
CREATE INDEX action_tasks_by_action ON action_tasks (action_id, position);
CREATE INDEX action_tasks_by_task ON action_tasks (task_id, position);

CREATE TABLE queue_turns (
  priority bigint NOT NULL,
  client text COLLATE "C" NOT NULL,
  turn bigint NOT NULL,
  PRIMARY KEY (priority, client)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000,
        autovacuum_vacuum_cost_delay = 0);
CREATE TABLE queue_heads (
  priority bigint PRIMARY KEY,
  turn bigint NOT NULL
) WITH (fillfactor = 20, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000,
        autovacuum_vacuum_cost_delay = 0);
CREATE TABLE queue_lengths (
  priority bigint NOT NULL,
  kind bigint NOT NULL,
  ready integer NOT NULL,
  PRIMARY KEY (priority, kind)
) WITH (fillfactor = 20, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000,
        autovacuum_vacuum_cost_delay = 0);

CREATE FUNCTION count_ready(of_priority bigint, of_kind bigint, change integer) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO queue_lengths VALUES (of_priority, of_kind, change)
    ON CONFLICT (priority, kind) DO UPDATE SET ready = queue_lengths.ready + change;
  IF change < 0 THEN
    DELETE FROM queue_lengths WHERE priority = of_priority AND kind = of_kind AND ready = 0;
  END IF;
END $$;

CREATE FUNCTION follow_task() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
  was boolean := TG_OP <> 'INSERT' AND OLD.state IN (1, 2);
  will boolean := TG_OP <> 'DELETE' AND NEW.state IN (1, 2);
BEGIN
  IF was AND will THEN
    IF (OLD.state, OLD.kind, OLD.starting, OLD.priority, OLD.turn, OLD.ready_time, OLD.key) IS DISTINCT FROM
       (NEW.state, NEW.kind, NEW.starting, NEW.priority, NEW.turn, NEW.ready_time, NEW.key) THEN
      UPDATE task_queue SET state = NEW.state, kind = NEW.kind, starting = NEW.starting, priority = NEW.priority,
        turn = NEW.turn, ready_time = NEW.ready_time, key = NEW.key WHERE id = NEW.id;
    END IF;
  ELSIF will THEN
    INSERT INTO task_queue VALUES (NEW.id, NEW.rowid, NEW.state, NEW.kind, NEW.starting, NEW.priority, NEW.turn,
      NEW.ready_time, NEW.project, NEW.key);
  ELSIF was THEN
    DELETE FROM task_queue WHERE id = OLD.id;
  END IF;
  was := TG_OP <> 'INSERT' AND OLD.state = 1;
  will := TG_OP <> 'DELETE' AND NEW.state = 1;
  IF was AND will THEN
    IF (OLD.priority, OLD.kind) IS DISTINCT FROM (NEW.priority, NEW.kind) THEN
      PERFORM count_ready(OLD.priority, OLD.kind, -1);
      PERFORM count_ready(NEW.priority, NEW.kind, 1);
    END IF;
  ELSIF will THEN
    PERFORM count_ready(NEW.priority, NEW.kind, 1);
  ELSIF was THEN
    PERFORM count_ready(OLD.priority, OLD.kind, -1);
  END IF;
  RETURN NULL;
END $$;
CREATE TRIGGER tasks_followed AFTER INSERT OR UPDATE OR DELETE ON tasks FOR EACH ROW EXECUTE FUNCTION follow_task();

CREATE FUNCTION begin_tasks() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF TG_TABLE_NAME = 'actions' THEN
    UPDATE tasks SET starting = 0
      WHERE starting = 1 AND id IN (SELECT task_id FROM action_tasks WHERE action_id = NEW.id);
  ELSIF (SELECT state FROM actions WHERE id = NEW.action_id) = 2 THEN
    UPDATE tasks SET starting = 0 WHERE starting = 1 AND id = NEW.task_id;
  END IF;
  RETURN NULL;
END $$;
CREATE TRIGGER tasks_begun_by_action AFTER UPDATE ON actions FOR EACH ROW WHEN (NEW.state = 2 AND OLD.state <> 2)
  EXECUTE FUNCTION begin_tasks();
CREATE TRIGGER tasks_begun_by_link AFTER INSERT ON action_tasks FOR EACH ROW EXECUTE FUNCTION begin_tasks();

CREATE TABLE objects (
  build_key text COLLATE "C" PRIMARY KEY,
  sha256 text COLLATE "C" NOT NULL,
  size bigint NOT NULL,
  last_use bigint NOT NULL DEFAULT 0
);

CREATE TABLE reproductions (
  key text COLLATE "C" PRIMARY KEY,
  object text COLLATE "C" NOT NULL,
  body bytea NOT NULL
);
CREATE INDEX reproductions_by_object ON reproductions (object);

CREATE TABLE artifacts (
  id text COLLATE "C" PRIMARY KEY,
  artifact text COLLATE "C" NOT NULL,
  name text COLLATE "C" NOT NULL,
  target text COLLATE "C" NOT NULL,
  model text COLLATE "C" NOT NULL,
  job text COLLATE "C" NOT NULL,
  create_time bigint NOT NULL,
  project text COLLATE "C" NOT NULL,
  last_use bigint NOT NULL DEFAULT 0,
  body bytea NOT NULL
);
CREATE INDEX artifacts_by_create_time ON artifacts (create_time, artifact, project);
CREATE INDEX artifacts_of_project ON artifacts (project, create_time, artifact);
CREATE INDEX artifacts_by_model ON artifacts (project, model, create_time, artifact);
CREATE INDEX artifacts_by_job ON artifacts (job);

CREATE TABLE artifact_keys (
  action_key text COLLATE "C" PRIMARY KEY,
  artifact_id text COLLATE "C" NOT NULL REFERENCES artifacts (id),
  create_time bigint NOT NULL
);
CREATE INDEX artifact_keys_by_artifact ON artifact_keys (artifact_id);

CREATE TABLE records (
  id text COLLATE "C" PRIMARY KEY,
  workload text COLLATE "C" NOT NULL,
  summary text COLLATE "C" NOT NULL,
  operators text COLLATE "C" NOT NULL,
  target text COLLATE "C" NOT NULL,
  chip text COLLATE "C" NOT NULL,
  host text COLLATE "C" NOT NULL,
  job text COLLATE "C" NOT NULL,
  artifact text COLLATE "C" NOT NULL,
  mode text COLLATE "C" NOT NULL,
  method text COLLATE "C" NOT NULL,
  outcome bigint NOT NULL,
  validation text COLLATE "C" NOT NULL,
  threads bigint NOT NULL,
  trial bigint NOT NULL,
  median_ms double precision NOT NULL,
  speed double precision NOT NULL,
  create_time bigint NOT NULL,
  project text COLLATE "C" NOT NULL,
  failed smallint NOT NULL,
  content text COLLATE "C" NOT NULL,
  body bytea NOT NULL
);
CREATE INDEX records_by_create_time ON records (create_time, id);
CREATE INDEX records_of_project ON records (project, create_time, id);
CREATE INDEX records_by_median ON records (project, median_ms, id);
CREATE INDEX records_by_workload ON records (project, workload, target, median_ms, id);
CREATE INDEX records_by_job ON records (project, job, create_time, id);
CREATE INDEX records_best ON records (project, workload, target, chip, threads, median_ms, id)
  WHERE failed = 0 AND median_ms > 0;
CREATE INDEX records_by_summary ON records (project, summary, create_time, id);
CREATE INDEX records_by_operators ON records (project, operators, speed, id);
CREATE INDEX records_by_target ON records (project, target, create_time, id);
CREATE INDEX records_by_chip ON records (project, chip, create_time, id);
CREATE INDEX records_by_host ON records (project, host, create_time, id);
CREATE INDEX records_by_artifact ON records (project, artifact, create_time, id);
CREATE INDEX records_by_mode ON records (project, mode, create_time, id);
CREATE INDEX records_by_method ON records (project, method, create_time, id);
CREATE INDEX records_by_outcome ON records (project, outcome, create_time, id);
CREATE INDEX records_by_validation ON records (project, validation, create_time, id);
CREATE INDEX records_by_threads ON records (project, threads, create_time, id);
CREATE INDEX records_by_trial ON records (project, trial, id);
CREATE INDEX records_by_speed ON records (project, speed, id);

CREATE TABLE targets (
  name text COLLATE "C" PRIMARY KEY,
  target text COLLATE "C" NOT NULL,
  summary text COLLATE "C" NOT NULL,
  family bigint NOT NULL,
  project text COLLATE "C" NOT NULL,
  body bytea NOT NULL
);
CREATE INDEX targets_by_name ON targets (target, project);

CREATE TABLE workers (
  id text COLLATE "C" PRIMARY KEY,
  state bigint NOT NULL,
  host text COLLATE "C" NOT NULL,
  compiler_version text COLLATE "C" NOT NULL,
  last_seen_time bigint NOT NULL,
  body bytea NOT NULL
) WITH (fillfactor = 50);

CREATE TABLE tokens (
  id text COLLATE "C" PRIMARY KEY,
  sha256 text COLLATE "C" UNIQUE NOT NULL,
  body bytea NOT NULL
);

CREATE TABLE pins (
  kind bigint NOT NULL,
  id text COLLATE "C" NOT NULL,
  PRIMARY KEY (kind, id)
);

CREATE TABLE search_log (
  search_id text COLLATE "C" NOT NULL REFERENCES actions (id),
  number bigint NOT NULL,
  body bytea NOT NULL,
  PRIMARY KEY (search_id, number)
);
CREATE TABLE artifact_series (
  job_id text COLLATE "C" PRIMARY KEY REFERENCES jobs (id),
  body bytea NOT NULL
);
CREATE TABLE artifact_versions (
  job_id text COLLATE "C" NOT NULL REFERENCES jobs (id),
  number bigint NOT NULL,
  body bytea NOT NULL,
  PRIMARY KEY (job_id, number)
);

CREATE TABLE blobs (
  sha256 text COLLATE "C" PRIMARY KEY,
  size bigint NOT NULL,
  last_use bigint NOT NULL DEFAULT 0,
  lost smallint NOT NULL DEFAULT 0
);
CREATE FUNCTION drop_reproductions() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  DELETE FROM reproductions WHERE object = OLD.sha256;
  RETURN NULL;
END $$;
CREATE TRIGGER reproductions_left AFTER DELETE ON blobs FOR EACH ROW EXECUTE FUNCTION drop_reproductions();

CREATE TABLE blob_bytes (
  sha256 text COLLATE "C" PRIMARY KEY,
  size bigint NOT NULL,
  time_s bigint NOT NULL,
  bytes bytea NOT NULL
);
CREATE TABLE blob_bytes_total (bytes bigint NOT NULL) WITH (fillfactor = 20);
INSERT INTO blob_bytes_total VALUES (0);
CREATE FUNCTION count_blob_bytes() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  UPDATE blob_bytes_total SET bytes = bytes + CASE WHEN TG_OP = 'INSERT' THEN NEW.size ELSE -OLD.size END;
  RETURN NULL;
END $$;
CREATE TRIGGER blob_bytes_counted AFTER INSERT OR DELETE ON blob_bytes FOR EACH ROW
  EXECUTE FUNCTION count_blob_bytes();

CREATE TABLE blob_holders (
  project text COLLATE "C" NOT NULL,
  sha256 text COLLATE "C" NOT NULL,
  size bigint NOT NULL,
  last_use bigint NOT NULL,
  PRIMARY KEY (project, sha256)
);
CREATE INDEX blob_holders_by_blob ON blob_holders (sha256);

CREATE TABLE project_usage (
  project text COLLATE "C" PRIMARY KEY,
  queued bigint NOT NULL DEFAULT 0,
  running bigint NOT NULL DEFAULT 0,
  blobs bigint NOT NULL DEFAULT 0,
  bytes bigint NOT NULL DEFAULT 0
) WITH (fillfactor = 20, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000,
        autovacuum_vacuum_cost_delay = 0);
CREATE FUNCTION count_holders() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF TG_OP = 'INSERT' THEN
    INSERT INTO project_usage (project, blobs, bytes) VALUES (NEW.project, 1, NEW.size)
      ON CONFLICT (project) DO UPDATE SET blobs = project_usage.blobs + 1, bytes = project_usage.bytes + NEW.size;
  ELSE
    UPDATE project_usage SET blobs = blobs - 1, bytes = bytes - OLD.size WHERE project = OLD.project;
  END IF;
  RETURN NULL;
END $$;
CREATE TRIGGER holders_counted AFTER INSERT OR DELETE ON blob_holders FOR EACH ROW EXECUTE FUNCTION count_holders();

-- Jobs that are inserted as QUEUED or RUNNING are counted by the statement kCountLivingJob.
CREATE FUNCTION count_living_jobs() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF TG_OP = 'UPDATE' THEN
    UPDATE project_usage SET queued = queued + (NEW.state = 1)::int - (OLD.state = 1)::int,
      running = running + (NEW.state = 2)::int - (OLD.state = 2)::int WHERE project = NEW.project;
  ELSE
    UPDATE project_usage SET queued = queued - (OLD.state = 1)::int, running = running - (OLD.state = 2)::int
      WHERE project = OLD.project;
  END IF;
  RETURN NULL;
END $$;
CREATE TRIGGER living_jobs_changed AFTER UPDATE ON jobs FOR EACH ROW WHEN (OLD.state <> NEW.state)
  EXECUTE FUNCTION count_living_jobs();
CREATE TRIGGER living_jobs_left AFTER DELETE ON jobs FOR EACH ROW WHEN (OLD.state IN (1, 2))
  EXECUTE FUNCTION count_living_jobs();
