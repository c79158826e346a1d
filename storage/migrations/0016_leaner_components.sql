-- Key components of actions took 24 rows of 130 bytes in two trees: 3.6 KB of the 8.5 KB of a queued job. Now they are
-- one tree with only the looked-up values, in reading order. A hash collision adds a candidate that shares one
-- component less.
CREATE TABLE leaner_components (
  component TEXT NOT NULL,  -- name, first 16 digits of the hash, project
  create_time INTEGER NOT NULL,
  action_id TEXT NOT NULL,
  PRIMARY KEY (component, create_time, action_id)
) WITHOUT ROWID;
INSERT INTO leaner_components
  SELECT name || ' ' || substr(hash, 1, 16) || ' ' || project, create_time, action_id FROM action_components;
DROP TABLE action_components;
ALTER TABLE leaner_components RENAME TO action_components;
