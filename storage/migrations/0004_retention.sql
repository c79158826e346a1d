-- When things were last wanted, so that what nobody wants can go. Of what was there before, nothing is known: wanted now.
ALTER TABLE artifacts ADD COLUMN last_use INTEGER NOT NULL DEFAULT 0;
ALTER TABLE objects ADD COLUMN last_use INTEGER NOT NULL DEFAULT 0;
ALTER TABLE blobs ADD COLUMN last_use INTEGER NOT NULL DEFAULT 0;
UPDATE artifacts SET last_use = unixepoch() * 1000000;
UPDATE objects SET last_use = unixepoch() * 1000000;
UPDATE blobs SET last_use = unixepoch() * 1000000;

-- What is kept whatever the policy says. Kinds are those of storage::Kind.
CREATE TABLE pins (
  kind INTEGER NOT NULL,
  id TEXT NOT NULL,
  PRIMARY KEY (kind, id)
) WITHOUT ROWID;

-- Whoever deletes a row asks who refers to it.
CREATE INDEX jobs_by_action ON jobs (action_id);
CREATE INDEX artifact_keys_by_artifact ON artifact_keys (artifact_id);
