-- Labels of jobs as a text that filters search: labelsText() in storage/columns.h.
ALTER TABLE jobs ADD COLUMN labels TEXT NOT NULL DEFAULT '';

-- Tasks can be listed. Existing tasks belong to the project of a job that waits for them; without one, to no project.
ALTER TABLE tasks ADD COLUMN project TEXT NOT NULL DEFAULT '';
ALTER TABLE tasks ADD COLUMN worker TEXT NOT NULL DEFAULT '';
ALTER TABLE tasks ADD COLUMN create_time INTEGER NOT NULL DEFAULT 0;
UPDATE tasks SET create_time = ready_time, project = coalesce(
  (SELECT jobs.project FROM action_tasks JOIN jobs ON jobs.action_id = action_tasks.action_id
   WHERE action_tasks.task_id = tasks.id LIMIT 1), '');
CREATE INDEX tasks_by_create_time ON tasks (create_time, id);
CREATE INDEX tasks_of_project ON tasks (project, create_time, id);

-- Objects that workers of any project built from one build unit. Deleted with the first object.
CREATE TABLE reproductions (
  key TEXT PRIMARY KEY NOT NULL,
  object TEXT NOT NULL,
  body BLOB NOT NULL
) WITHOUT ROWID;
CREATE INDEX reproductions_by_object ON reproductions (object);
CREATE TRIGGER reproductions_left AFTER DELETE ON blobs BEGIN
  DELETE FROM reproductions WHERE object = OLD.sha256;
END;
