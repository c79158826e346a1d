-- All items belong to a project. Existing ones belong to the default project.

ALTER TABLE jobs ADD COLUMN project TEXT NOT NULL DEFAULT 'default';
DROP INDEX jobs_by_request;
CREATE UNIQUE INDEX jobs_by_request ON jobs (project, request_id) WHERE request_id <> '';
CREATE INDEX jobs_of_project ON jobs (project, create_time, id);
CREATE INDEX jobs_of_project_by_request ON jobs (project, request_id, id);
CREATE INDEX jobs_of_project_by_state ON jobs (project, state, create_time, id);

ALTER TABLE action_components ADD COLUMN project TEXT NOT NULL DEFAULT 'default';
DROP INDEX action_components_by_hash;
CREATE INDEX action_components_by_hash ON action_components (project, name, hash, create_time);

-- Two projects may build equal bytes, and so artifacts with equal ids. The key is storedKey() of project and id
-- (storage/stored_key.h), which is the id alone in the default project.
ALTER TABLE artifacts ADD COLUMN project TEXT NOT NULL DEFAULT 'default';
ALTER TABLE artifacts ADD COLUMN artifact TEXT NOT NULL DEFAULT '';
UPDATE artifacts SET artifact = id;
DROP INDEX artifacts_by_create_time;
DROP INDEX artifacts_by_model;
CREATE INDEX artifacts_by_create_time ON artifacts (create_time, artifact, project);
CREATE INDEX artifacts_of_project ON artifacts (project, create_time, artifact);
CREATE INDEX artifacts_by_model ON artifacts (project, model, create_time, artifact);

-- Likewise for names of targets. Targets without a project are built in; the server stores them again at each start.
ALTER TABLE targets ADD COLUMN project TEXT NOT NULL DEFAULT 'default';
ALTER TABLE targets ADD COLUMN target TEXT NOT NULL DEFAULT '';
UPDATE targets SET target = name;
CREATE INDEX targets_by_name ON targets (target, project);

ALTER TABLE records ADD COLUMN project TEXT NOT NULL DEFAULT 'default';
DROP INDEX records_by_median;
DROP INDEX records_by_workload;
DROP INDEX records_by_job;
DROP INDEX records_best;
DROP INDEX records_by_content;
DROP INDEX records_by_summary;
DROP INDEX records_by_target;
DROP INDEX records_by_chip;
DROP INDEX records_by_host;
DROP INDEX records_by_artifact;
DROP INDEX records_by_mode;
DROP INDEX records_by_method;
DROP INDEX records_by_outcome;
DROP INDEX records_by_validation;
DROP INDEX records_by_threads;
DROP INDEX records_by_trial;
DROP INDEX records_by_speed;
CREATE INDEX records_of_project ON records (project, create_time, id);
CREATE INDEX records_by_median ON records (project, median_ms, id);
CREATE INDEX records_by_workload ON records (project, workload, target, median_ms, id);
CREATE INDEX records_by_job ON records (project, job, create_time, id);
CREATE INDEX records_best ON records (project, workload, target, chip, threads, median_ms, id)
  WHERE failed = 0 AND median_ms > 0;
CREATE INDEX records_by_content ON records (project, content);
CREATE INDEX records_by_summary ON records (project, summary, create_time, id);
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

-- Statistics by hand, as in 0005: half of the records belong to one project.
DELETE FROM sqlite_stat1 WHERE tbl = 'records' AND
  idx NOT IN ('sqlite_autoindex_records_1', 'records_by_create_time');
INSERT INTO sqlite_stat1 (tbl, idx, stat) VALUES
  ('records', 'records_of_project', '1000000 500000 10 1'),
  ('records', 'records_by_median', '1000000 500000 10 1'),
  ('records', 'records_by_workload', '1000000 500000 200 150 2 1'),
  ('records', 'records_by_job', '1000000 500000 100 10 1'),
  ('records', 'records_best', '1000000 500000 200 150 140 120 2 1'),
  ('records', 'records_by_content', '1000000 500000 1'),
  ('records', 'records_by_summary', '1000000 500000 300 10 1'),
  ('records', 'records_by_target', '1000000 500000 200000 10 1'),
  ('records', 'records_by_chip', '1000000 500000 200000 10 1'),
  ('records', 'records_by_host', '1000000 500000 100000 10 1'),
  ('records', 'records_by_artifact', '1000000 500000 50 10 1'),
  ('records', 'records_by_mode', '1000000 500000 400000 10 1'),
  ('records', 'records_by_method', '1000000 500000 200000 10 1'),
  ('records', 'records_by_outcome', '1000000 500000 400000 10 1'),
  ('records', 'records_by_validation', '1000000 500000 400000 10 1'),
  ('records', 'records_by_threads', '1000000 500000 300000 10 1'),
  ('records', 'records_by_trial', '1000000 500000 2000 1'),
  ('records', 'records_by_speed', '1000000 500000 10 1');

-- Projects that may read a blob: those that sent its bytes, or for which a worker created it.
CREATE TABLE blob_holders (
  project TEXT NOT NULL,
  sha256 TEXT NOT NULL,
  size INTEGER NOT NULL,
  last_use INTEGER NOT NULL,
  PRIMARY KEY (project, sha256)
) WITHOUT ROWID;
CREATE INDEX blob_holders_by_blob ON blob_holders (sha256);

-- Usage of each project, maintained by triggers: quotas are checked with each request.
CREATE TABLE project_usage (
  project TEXT PRIMARY KEY NOT NULL,
  queued INTEGER NOT NULL DEFAULT 0,
  running INTEGER NOT NULL DEFAULT 0,
  blobs INTEGER NOT NULL DEFAULT 0,
  bytes INTEGER NOT NULL DEFAULT 0
) WITHOUT ROWID;

CREATE TRIGGER holders_came AFTER INSERT ON blob_holders BEGIN
  INSERT INTO project_usage (project, blobs, bytes) VALUES (NEW.project, 1, NEW.size)
    ON CONFLICT (project) DO UPDATE SET blobs = blobs + 1, bytes = bytes + NEW.size;
END;
CREATE TRIGGER holders_left AFTER DELETE ON blob_holders BEGIN
  UPDATE project_usage SET blobs = blobs - 1, bytes = bytes - OLD.size WHERE project = OLD.project;
END;
CREATE TRIGGER living_jobs_came AFTER INSERT ON jobs WHEN NEW.state IN (1, 2) BEGIN
  INSERT INTO project_usage (project, queued, running) VALUES (NEW.project, NEW.state = 1, NEW.state = 2)
    ON CONFLICT (project) DO UPDATE SET queued = queued + (NEW.state = 1), running = running + (NEW.state = 2);
END;
CREATE TRIGGER living_jobs_changed AFTER UPDATE OF state ON jobs WHEN OLD.state <> NEW.state BEGIN
  UPDATE project_usage SET queued = queued + (NEW.state = 1) - (OLD.state = 1),
    running = running + (NEW.state = 2) - (OLD.state = 2) WHERE project = NEW.project;
END;
CREATE TRIGGER living_jobs_left AFTER DELETE ON jobs WHEN OLD.state IN (1, 2) BEGIN
  UPDATE project_usage SET queued = queued - (OLD.state = 1), running = running - (OLD.state = 2)
    WHERE project = OLD.project;
END;

INSERT INTO blob_holders SELECT 'default', sha256, size, last_use FROM blobs;
INSERT INTO project_usage (project, queued, running)
  SELECT 'default', count(*) FILTER (WHERE state = 1), count(*) FILTER (WHERE state = 2) FROM jobs WHERE true
  ON CONFLICT (project) DO UPDATE SET queued = excluded.queued, running = excluded.running;
