-- The task that waits longest of each project and priority, those that would begin a job apart: what a full project may not
-- begin now ages nobody's queue. In place of the index by kind alone: each one is written with every lease.
DROP INDEX tasks_ready_by_time;
CREATE INDEX tasks_ready_by_age ON tasks (kind, starting, project, priority DESC, ready_time) WHERE state = 1;
