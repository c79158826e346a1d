-- Most jobs are answered from the cache: they end as they begin, in one INSERT.
--
-- Nearly all end as SUCCEEDED (3), in no order worth an index: those of a project by time say as much, and each job was
-- written into two trees more. Whoever looks for others finds them as before.
DROP INDEX jobs_by_state;
DROP INDEX jobs_of_project_by_state;
CREATE INDEX jobs_by_state ON jobs (state, create_time, id) WHERE state <> 3;
CREATE INDEX jobs_of_project_by_state ON jobs (project, state, create_time, id) WHERE state <> 3;
-- For an INSERT with a trigger, whether it fires or not, SQLite keeps a copy of each page that it changes. Who inserts a
-- job that lives counts it (kCountLivingJob); how it changes and goes is still for triggers.
DROP TRIGGER living_jobs_came;
