-- Large constant parts of a task, separate from the fields that each lease and heartbeat changes: part 1 is the
-- specification, part 2 the result, each a serialized Task with only that field. Existing tasks keep both in their row
-- until they are put again.
CREATE TABLE task_parts (
  task_id TEXT NOT NULL REFERENCES tasks (id) ON DELETE CASCADE,
  part INTEGER NOT NULL,
  body BLOB NOT NULL,
  PRIMARY KEY (task_id, part)
) WITHOUT ROWID;
