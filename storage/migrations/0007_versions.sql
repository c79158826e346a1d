-- History of a search, one entry per batch. Entries are appended, so that the cost of a batch does not grow with the
-- length of the search. Deleted with the search's action.
CREATE TABLE search_log (
  search_id TEXT NOT NULL REFERENCES actions (id),
  number INTEGER NOT NULL,
  body BLOB NOT NULL,
  PRIMARY KEY (search_id, number)
) WITHOUT ROWID;

-- State of a tune job's artifact versions, and the versions, numbered from 1 without gaps. Deleted with the job.
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

-- Rows that an upgrade could not parse.
CREATE TABLE IF NOT EXISTS set_aside (
  entity TEXT NOT NULL,
  id TEXT NOT NULL,
  body BLOB NOT NULL,
  PRIMARY KEY (entity, id)
) WITHOUT ROWID;
