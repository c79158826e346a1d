-- Whether a ready task would begin a job: it had no attempt, and no action that it is for runs. Of a project that may begin
-- none now all of them are left out at once, however many there are. Those that were there are asked about one by one.
ALTER TABLE tasks ADD COLUMN starting INTEGER NOT NULL DEFAULT 0;
-- Nobody's, searches of before, are the default project's, as projectOf() has it: the walk begins behind ''.
UPDATE tasks SET project = 'default' WHERE project = '';
CREATE INDEX tasks_ready_by_project ON tasks (kind, starting, project, priority DESC, turn, ready_time) WHERE state = 1;

CREATE TRIGGER tasks_begun_by_action AFTER UPDATE OF state ON actions WHEN NEW.state = 2 AND OLD.state <> 2 BEGIN
  UPDATE tasks SET starting = 0
    WHERE starting = 1 AND id IN (SELECT task_id FROM action_tasks WHERE action_id = NEW.id);
END;
CREATE TRIGGER tasks_begun_by_link AFTER INSERT ON action_tasks
  WHEN (SELECT state FROM actions WHERE id = NEW.action_id) = 2 BEGIN
  UPDATE tasks SET starting = 0 WHERE starting = 1 AND id = NEW.task_id;
END;
