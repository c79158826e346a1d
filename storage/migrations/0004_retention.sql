-- Time of last use, for retention. Existing rows have no known use: they count as used now.
ALTER TABLE artifacts ADD COLUMN last_use INTEGER NOT NULL DEFAULT 0;
ALTER TABLE objects ADD COLUMN last_use INTEGER NOT NULL DEFAULT 0;
ALTER TABLE blobs ADD COLUMN last_use INTEGER NOT NULL DEFAULT 0;
UPDATE artifacts SET last_use = unixepoch() * 1000000;
UPDATE objects SET last_use = unixepoch() * 1000000;
UPDATE blobs SET last_use = unixepoch() * 1000000;

-- Items that are kept regardless of the retention policy. Kinds are the numbers of storage::Kind.
CREATE TABLE pins (
  kind INTEGER NOT NULL,
  id TEXT NOT NULL,
  PRIMARY KEY (kind, id)
) WITHOUT ROWID;

-- Indices for the check whether a row to be deleted is still referenced.
CREATE INDEX jobs_by_action ON jobs (action_id);
CREATE INDEX artifact_keys_by_artifact ON artifact_keys (artifact_id);
