-- Access tokens, identified by the SHA-256 of their secrets.
CREATE TABLE tokens (
  id TEXT PRIMARY KEY NOT NULL,
  sha256 TEXT UNIQUE NOT NULL,
  body BLOB NOT NULL
) WITHOUT ROWID;
