-- Whether a ready task would start a job: it has had no attempt, and no action that waits for it is running. If a
-- project may not start jobs, all of them are skipped at once. Existing tasks are examined individually.
ALTER TABLE tasks ADD COLUMN starting INTEGER NOT NULL DEFAULT 0;
-- Tasks of searches without a project belong to the default project, as in projectOf(); the walk over projects starts
-- after ''.
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
