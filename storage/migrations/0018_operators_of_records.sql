-- The operators of a record's workload, by which a search finds records of workloads of other sizes. Empty in records of
-- earlier releases.
ALTER TABLE records ADD COLUMN operators TEXT NOT NULL DEFAULT '';
CREATE INDEX records_by_operators ON records (project, operators, speed, id);
INSERT INTO sqlite_stat1 (tbl, idx, stat) VALUES ('records', 'records_by_operators', '1000000 500000 300 10 1');
