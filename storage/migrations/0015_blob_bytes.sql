-- Bytes of small blobs in a separate table. Its index answers queries that do not need the bytes.
CREATE TABLE blob_bytes (
  sha256 TEXT NOT NULL,
  size INTEGER NOT NULL,
  time_s INTEGER NOT NULL,
  bytes BLOB NOT NULL
);
CREATE INDEX blob_bytes_by_sha256 ON blob_bytes (sha256, size, time_s);

-- Total size of these blobs, for quotas.
CREATE TABLE blob_bytes_total (bytes INTEGER NOT NULL);
INSERT INTO blob_bytes_total VALUES (0);
CREATE TRIGGER blob_bytes_come AFTER INSERT ON blob_bytes BEGIN
  UPDATE blob_bytes_total SET bytes = bytes + NEW.size;
END;
CREATE TRIGGER blob_bytes_go AFTER DELETE ON blob_bytes BEGIN
  UPDATE blob_bytes_total SET bytes = bytes - OLD.size;
END;
