-- What a search has proposed and heard, an entry for each batch: appended, so that a long search writes no more with each
-- than a short one. It goes with the search's action.
CREATE TABLE search_log (
  search_id TEXT NOT NULL REFERENCES actions (id),
  number INTEGER NOT NULL,
  body BLOB NOT NULL,
  PRIMARY KEY (search_id, number)
) WITHOUT ROWID;

-- The artifact of a tune job as it grows, and its versions, numbered from 1 without gaps. They go with the job.
CREATE TABLE artifact_series (
  job_id TEXT PRIMARY KEY NOT NULL REFERENCES jobs (id),
  body BLOB NOT NULL
) WITHOUT ROWID;
CREATE TABLE artifact_versions (
  job_id TEXT NOT NULL REFERENCES jobs (id),
  number INTEGER NOT NULL,
  body BLOB NOT NULL,
  PRIMARY KEY (job_id, number)
) WITHOUT ROWID;

-- Rows that no release can read, as an upgrade found them.
CREATE TABLE IF NOT EXISTS set_aside (
  entity TEXT NOT NULL,
  id TEXT NOT NULL,
  body BLOB NOT NULL,
  PRIMARY KEY (entity, id)
) WITHOUT ROWID;
