-- What is large of a task and stays as it is, apart from what changes with every lease and heartbeat: part 1 the task's
-- specification, part 2 its result, each a serialized Task with that field alone. Tasks of before have both in their
-- row until they are put again.
CREATE TABLE task_parts (
  task_id TEXT NOT NULL REFERENCES tasks (id) ON DELETE CASCADE,
  part INTEGER NOT NULL,
  body BLOB NOT NULL,
  PRIMARY KEY (task_id, part)
) WITHOUT ROWID;
