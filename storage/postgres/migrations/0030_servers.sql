-- compatible: 1
-- What servers on one database agree on apart from jobs (storage/server_registry.h). Servers of former releases neither
-- read nor write these tables; the trigger counts their changes of tokens as well.
CREATE TABLE servers (
  id text COLLATE "C" PRIMARY KEY,
  home text COLLATE "C" NOT NULL,      -- machine and data folder, which one process at a time uses
  instance text COLLATE "C" NOT NULL,  -- the process
  seen timestamptz NOT NULL,
  body bytea NOT NULL
) WITH (fillfactor = 20);

-- Periodic work that one server does for all. `token` rises whenever another process takes the duty.
CREATE TABLE server_duties (
  name text COLLATE "C" PRIMARY KEY,
  holder text COLLATE "C" NOT NULL DEFAULT '',
  instance text COLLATE "C" NOT NULL DEFAULT '',
  token bigint NOT NULL DEFAULT 0,
  expires timestamptz NOT NULL DEFAULT '-infinity',
  done timestamptz
) WITH (fillfactor = 20);

-- Calls of each project that a server admitted since its start, for calls_per_second.
CREATE TABLE server_calls (
  server text COLLATE "C" REFERENCES servers (id) ON DELETE CASCADE,
  project text COLLATE "C",
  calls bigint NOT NULL,
  PRIMARY KEY (server, project)
) WITH (fillfactor = 20);

-- Values that all servers use, such as the signing key.
CREATE TABLE server_values (
  name text COLLATE "C" PRIMARY KEY,
  value bytea NOT NULL
);

CREATE TABLE change_counts (
  name text COLLATE "C" PRIMARY KEY,
  changes bigint NOT NULL
);
INSERT INTO change_counts VALUES ('tokens', 0);
CREATE FUNCTION count_token_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  UPDATE change_counts SET changes = changes + 1 WHERE name = 'tokens';
  RETURN NULL;
END $$;
CREATE TRIGGER token_changes AFTER INSERT OR UPDATE OR DELETE ON tokens
  FOR EACH STATEMENT EXECUTE FUNCTION count_token_change();
