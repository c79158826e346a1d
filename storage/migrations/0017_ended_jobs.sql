-- Most jobs are answered from the cache: they end when they are inserted.
--
-- Nearly all jobs end as SUCCEEDED (3), so an index by that state selects nothing that the project's index by time does
-- not, and cost two more trees per job. Jobs in other states are found as before.
-- written into two trees more. Whoever looks for others finds them as before.
DROP INDEX jobs_by_state;
DROP INDEX jobs_of_project_by_state;
CREATE INDEX jobs_by_state ON jobs (state, create_time, id) WHERE state <> 3;
CREATE INDEX jobs_of_project_by_state ON jobs (project, state, create_time, id) WHERE state <> 3;
-- If a table has a trigger on INSERT, SQLite copies each page that an INSERT changes, whether the trigger fires or not.
-- So the code that inserts a live job counts it (kCountLivingJob); triggers handle updates and deletions.
DROP TRIGGER living_jobs_came;
