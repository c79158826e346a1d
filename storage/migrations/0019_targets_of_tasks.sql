-- The target whose hosts can run a task (Task.target), and counts by it. Tasks from before this migration have none: they
-- count as tasks that every worker of their kind can run.
ALTER TABLE tasks ADD COLUMN target TEXT NOT NULL DEFAULT '';

DROP TRIGGER tasks_ready_inserted;
DROP TRIGGER tasks_ready_left;
DROP TRIGGER tasks_ready_came;
DROP TRIGGER tasks_ready_deleted;
DROP TABLE queue_lengths;
CREATE TABLE queue_lengths (
  priority INTEGER NOT NULL,
  kind INTEGER NOT NULL,
  target TEXT NOT NULL,
  ready INTEGER NOT NULL,
  PRIMARY KEY (priority, kind, target)
) WITHOUT ROWID;
INSERT INTO queue_lengths SELECT priority, kind, '', count(*) FROM tasks WHERE state = 1 GROUP BY priority, kind;

-- A task's target never changes.
CREATE TRIGGER tasks_ready_inserted AFTER INSERT ON tasks WHEN NEW.state = 1 BEGIN
  INSERT INTO queue_lengths VALUES (NEW.priority, NEW.kind, NEW.target, 1)
    ON CONFLICT (priority, kind, target) DO UPDATE SET ready = ready + 1;
END;
CREATE TRIGGER tasks_ready_left AFTER UPDATE OF state, priority, kind ON tasks
  WHEN OLD.state = 1 AND (NEW.state <> 1 OR NEW.priority <> OLD.priority OR NEW.kind <> OLD.kind) BEGIN
  UPDATE queue_lengths SET ready = ready - 1
    WHERE priority = OLD.priority AND kind = OLD.kind AND target = OLD.target;
  DELETE FROM queue_lengths WHERE priority = OLD.priority AND kind = OLD.kind AND target = OLD.target AND ready = 0;
END;
CREATE TRIGGER tasks_ready_came AFTER UPDATE OF state, priority, kind ON tasks
  WHEN NEW.state = 1 AND (OLD.state <> 1 OR NEW.priority <> OLD.priority OR NEW.kind <> OLD.kind) BEGIN
  INSERT INTO queue_lengths VALUES (NEW.priority, NEW.kind, NEW.target, 1)
    ON CONFLICT (priority, kind, target) DO UPDATE SET ready = ready + 1;
END;
CREATE TRIGGER tasks_ready_deleted AFTER DELETE ON tasks WHEN OLD.state = 1 BEGIN
  UPDATE queue_lengths SET ready = ready - 1
    WHERE priority = OLD.priority AND kind = OLD.kind AND target = OLD.target;
  DELETE FROM queue_lengths WHERE priority = OLD.priority AND kind = OLD.kind AND target = OLD.target AND ready = 0;
END;
