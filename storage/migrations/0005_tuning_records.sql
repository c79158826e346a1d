-- All listed columns of records. For existing rows, refileRecords() (storage/sqlite/migrate.cpp) fills them in from the
-- messages, in this migration's transaction.
ALTER TABLE records ADD COLUMN chip TEXT NOT NULL DEFAULT '';
ALTER TABLE records ADD COLUMN method TEXT NOT NULL DEFAULT '';
ALTER TABLE records ADD COLUMN outcome INTEGER NOT NULL DEFAULT 0;
ALTER TABLE records ADD COLUMN trial INTEGER NOT NULL DEFAULT 0;
ALTER TABLE records ADD COLUMN speed REAL NOT NULL DEFAULT 0;
-- Whether the trial failed; and the SHA-256 of all but the id, by which equal records of two databases are recognized.
ALTER TABLE records ADD COLUMN failed INTEGER NOT NULL DEFAULT 0;
ALTER TABLE records ADD COLUMN content TEXT NOT NULL DEFAULT '';

-- The fastest records of a workload, a chip and a number of threads; a list of all groups steps from one to the next.
CREATE INDEX records_best ON records (workload, target, chip, threads, median_ms, id)
  WHERE failed = 0 AND median_ms > 0;
CREATE INDEX records_by_content ON records (content);
CREATE INDEX records_by_summary ON records (summary, create_time, id);
CREATE INDEX records_by_target ON records (target, create_time, id);
CREATE INDEX records_by_chip ON records (chip, create_time, id);
CREATE INDEX records_by_host ON records (host, create_time, id);
CREATE INDEX records_by_artifact ON records (artifact, create_time, id);
CREATE INDEX records_by_mode ON records (mode, create_time, id);
CREATE INDEX records_by_method ON records (method, create_time, id);
CREATE INDEX records_by_outcome ON records (outcome, create_time, id);
CREATE INDEX records_by_validation ON records (validation, create_time, id);
CREATE INDEX records_by_threads ON records (threads, create_time, id);
CREATE INDEX records_by_trial ON records (trial, id);
CREATE INDEX records_by_speed ON records (speed, id);

-- The planner has no statistics, because nothing runs ANALYZE, and would treat a mode as selective as a job id. These
-- rows give the number of rows that share a value, of a million: orders of magnitude that hold for any large database.
ANALYZE sqlite_schema;
INSERT INTO sqlite_stat1 (tbl, idx, stat) VALUES
  ('records', 'sqlite_autoindex_records_1', '1000000 1'),
  ('records', 'records_by_create_time', '1000000 10 1'),
  ('records', 'records_by_median', '1000000 10 1'),
  ('records', 'records_by_workload', '1000000 200 150 2 1'),
  ('records', 'records_by_job', '1000000 100 10 1'),
  ('records', 'records_best', '1000000 200 150 140 120 2 1'),
  ('records', 'records_by_content', '1000000 1'),
  ('records', 'records_by_summary', '1000000 300 10 1'),
  ('records', 'records_by_target', '1000000 200000 10 1'),
  ('records', 'records_by_chip', '1000000 200000 10 1'),
  ('records', 'records_by_host', '1000000 100000 10 1'),
  ('records', 'records_by_artifact', '1000000 50 10 1'),
  ('records', 'records_by_mode', '1000000 500000 10 1'),
  ('records', 'records_by_method', '1000000 200000 10 1'),
  ('records', 'records_by_outcome', '1000000 400000 10 1'),
  ('records', 'records_by_validation', '1000000 400000 10 1'),
  ('records', 'records_by_threads', '1000000 300000 10 1'),
  ('records', 'records_by_trial', '1000000 2000 1'),
  ('records', 'records_by_speed', '1000000 10 1');
