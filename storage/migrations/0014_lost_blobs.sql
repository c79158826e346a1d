-- A blob whose bytes are gone, or about to be removed: it counts as absent, whatever its file does, until it is put again.
ALTER TABLE blobs ADD COLUMN lost INTEGER NOT NULL DEFAULT 0;
