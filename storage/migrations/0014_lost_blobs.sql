-- Marks a blob whose bytes are missing or about to be removed: it counts as absent until it is put again.
ALTER TABLE blobs ADD COLUMN lost INTEGER NOT NULL DEFAULT 0;
