-- The longest-waiting task of each project and priority, separately for tasks that would start a job, so that tasks a
-- project may not start do not age the queue. Replaces the index by kind: each index is written with every lease.
DROP INDEX tasks_ready_by_time;
CREATE INDEX tasks_ready_by_age ON tasks (kind, starting, project, priority DESC, ready_time) WHERE state = 1;
