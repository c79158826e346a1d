-- Fair share of clients: `turn` orders the ready tasks of one priority (see queue_turns).
ALTER TABLE tasks ADD COLUMN turn INTEGER NOT NULL DEFAULT 0;
DROP INDEX tasks_ready;
DROP INDEX tasks_ready_by_kind;
-- Ends in the rowid: equal rows keep the order of insertion.
CREATE INDEX tasks_ready_by_kind ON tasks (kind, priority DESC, turn, ready_time) WHERE state = 1;
CREATE INDEX tasks_ready_by_time ON tasks (kind, ready_time) WHERE state = 1;

-- The last turn that a client has taken at a priority, while it is after the turn served last.
CREATE TABLE queue_turns (
  priority INTEGER NOT NULL,
  client TEXT NOT NULL,
  turn INTEGER NOT NULL,
  PRIMARY KEY (priority, client)
) WITHOUT ROWID;
-- The turn of a priority that was served last.
CREATE TABLE queue_heads (
  priority INTEGER PRIMARY KEY NOT NULL,
  turn INTEGER NOT NULL
);

-- Number of ready tasks, maintained by triggers: counting costs as much as there are tasks.
CREATE TABLE queue_lengths (
  priority INTEGER NOT NULL,
  kind INTEGER NOT NULL,
  ready INTEGER NOT NULL,
  PRIMARY KEY (priority, kind)
) WITHOUT ROWID;
INSERT INTO queue_lengths SELECT priority, kind, count(*) FROM tasks WHERE state = 1 GROUP BY priority, kind;

CREATE TRIGGER tasks_ready_inserted AFTER INSERT ON tasks WHEN NEW.state = 1 BEGIN
  INSERT INTO queue_lengths VALUES (NEW.priority, NEW.kind, 1)
    ON CONFLICT (priority, kind) DO UPDATE SET ready = ready + 1;
END;
CREATE TRIGGER tasks_ready_left AFTER UPDATE OF state, priority, kind ON tasks
  WHEN OLD.state = 1 AND (NEW.state <> 1 OR NEW.priority <> OLD.priority OR NEW.kind <> OLD.kind) BEGIN
  UPDATE queue_lengths SET ready = ready - 1 WHERE priority = OLD.priority AND kind = OLD.kind;
  DELETE FROM queue_lengths WHERE priority = OLD.priority AND kind = OLD.kind AND ready = 0;
END;
CREATE TRIGGER tasks_ready_came AFTER UPDATE OF state, priority, kind ON tasks
  WHEN NEW.state = 1 AND (OLD.state <> 1 OR NEW.priority <> OLD.priority OR NEW.kind <> OLD.kind) BEGIN
  INSERT INTO queue_lengths VALUES (NEW.priority, NEW.kind, 1)
    ON CONFLICT (priority, kind) DO UPDATE SET ready = ready + 1;
END;
CREATE TRIGGER tasks_ready_deleted AFTER DELETE ON tasks WHEN OLD.state = 1 BEGIN
  UPDATE queue_lengths SET ready = ready - 1 WHERE priority = OLD.priority AND kind = OLD.kind;
  DELETE FROM queue_lengths WHERE priority = OLD.priority AND kind = OLD.kind AND ready = 0;
END;

-- The total deadline of a job, whether it waits or runs.
ALTER TABLE jobs ADD COLUMN deadline INTEGER NOT NULL DEFAULT 0;
CREATE INDEX jobs_by_deadline ON jobs (deadline) WHERE state IN (1, 2) AND deadline > 0;
