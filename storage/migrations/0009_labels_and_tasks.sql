-- What jobs are found by that their clients wrote on them: labelsText() in storage/columns.h.
ALTER TABLE jobs ADD COLUMN labels TEXT NOT NULL DEFAULT '';

-- Tasks are listed. Those that were there are of the project of a job behind them; of none, of nobody's.
ALTER TABLE tasks ADD COLUMN project TEXT NOT NULL DEFAULT '';
ALTER TABLE tasks ADD COLUMN worker TEXT NOT NULL DEFAULT '';
ALTER TABLE tasks ADD COLUMN create_time INTEGER NOT NULL DEFAULT 0;
UPDATE tasks SET create_time = ready_time, project = coalesce(
  (SELECT jobs.project FROM action_tasks JOIN jobs ON jobs.action_id = action_tasks.action_id
   WHERE action_tasks.task_id = tasks.id LIMIT 1), '');
CREATE INDEX tasks_by_create_time ON tasks (create_time, id);
CREATE INDEX tasks_of_project ON tasks (project, create_time, id);

-- What workers made of one build unit, whoever's it was. Gone with the first object of it.
CREATE TABLE reproductions (
  key TEXT PRIMARY KEY NOT NULL,
  object TEXT NOT NULL,
  body BLOB NOT NULL
) WITHOUT ROWID;
CREATE INDEX reproductions_by_object ON reproductions (object);
CREATE TRIGGER reproductions_left AFTER DELETE ON blobs BEGIN
  DELETE FROM reproductions WHERE object = OLD.sha256;
END;
