-- The bytes of small blobs, in a table of their own: what is asked about them without reading any is in its index.
CREATE TABLE blob_bytes (
  sha256 TEXT NOT NULL,
  size INTEGER NOT NULL,
  time_s INTEGER NOT NULL,
  bytes BLOB NOT NULL
);
CREATE INDEX blob_bytes_by_sha256 ON blob_bytes (sha256, size, time_s);

-- How many they are in all, for quotas.
CREATE TABLE blob_bytes_total (bytes INTEGER NOT NULL);
INSERT INTO blob_bytes_total VALUES (0);
CREATE TRIGGER blob_bytes_come AFTER INSERT ON blob_bytes BEGIN
  UPDATE blob_bytes_total SET bytes = bytes + NEW.size;
END;
CREATE TRIGGER blob_bytes_go AFTER DELETE ON blob_bytes BEGIN
  UPDATE blob_bytes_total SET bytes = bytes - OLD.size;
END;
