-- compatible: 1
-- The target whose hosts can run a task (Task.target), and counts by it. Tasks from before this migration, and those of
-- servers of former releases, have none: they count as tasks that every worker of their kind can run.
ALTER TABLE tasks ADD COLUMN target text COLLATE "C" NOT NULL DEFAULT '';
ALTER TABLE queue_lengths ADD COLUMN target text COLLATE "C" NOT NULL DEFAULT '';
ALTER TABLE queue_lengths DROP CONSTRAINT queue_lengths_pkey;
ALTER TABLE queue_lengths ADD PRIMARY KEY (priority, kind, target);

CREATE FUNCTION count_ready(of_priority bigint, of_kind bigint, of_target text, change integer) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO queue_lengths (priority, kind, target, ready) VALUES (of_priority, of_kind, of_target, change)
    ON CONFLICT (priority, kind, target) DO UPDATE SET ready = queue_lengths.ready + change;
  IF change < 0 THEN
    DELETE FROM queue_lengths
      WHERE priority = of_priority AND kind = of_kind AND target = of_target AND ready = 0;
  END IF;
END $$;

-- As before, with the target of the task, which never changes.
CREATE OR REPLACE FUNCTION follow_task() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
  was boolean := TG_OP <> 'INSERT' AND OLD.state IN (1, 2);
  will boolean := TG_OP <> 'DELETE' AND NEW.state IN (1, 2);
BEGIN
  IF was AND will THEN
    IF (OLD.state, OLD.kind, OLD.starting, OLD.priority, OLD.turn, OLD.ready_time, OLD.key) IS DISTINCT FROM
       (NEW.state, NEW.kind, NEW.starting, NEW.priority, NEW.turn, NEW.ready_time, NEW.key) THEN
      UPDATE task_queue SET state = NEW.state, kind = NEW.kind, starting = NEW.starting, priority = NEW.priority,
        turn = NEW.turn, ready_time = NEW.ready_time, key = NEW.key WHERE id = NEW.id;
    END IF;
  ELSIF will THEN
    INSERT INTO task_queue VALUES (NEW.id, NEW.rowid, NEW.state, NEW.kind, NEW.starting, NEW.priority, NEW.turn,
      NEW.ready_time, NEW.project, NEW.key);
  ELSIF was THEN
    DELETE FROM task_queue WHERE id = OLD.id;
  END IF;
  was := TG_OP <> 'INSERT' AND OLD.state = 1;
  will := TG_OP <> 'DELETE' AND NEW.state = 1;
  IF was AND will THEN
    IF (OLD.priority, OLD.kind) IS DISTINCT FROM (NEW.priority, NEW.kind) THEN
      PERFORM count_ready(OLD.priority, OLD.kind, OLD.target, -1);
      PERFORM count_ready(NEW.priority, NEW.kind, NEW.target, 1);
    END IF;
  ELSIF will THEN
    PERFORM count_ready(NEW.priority, NEW.kind, NEW.target, 1);
  ELSIF was THEN
    PERFORM count_ready(OLD.priority, OLD.kind, OLD.target, -1);
  END IF;
  RETURN NULL;
END $$;
DROP FUNCTION count_ready(bigint, bigint, integer);
