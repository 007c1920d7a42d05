-- A change knows the key under which it was asked for, so that whoever lost the answer is told of it.

ALTER TABLE change ADD COLUMN key BLOB;         -- on the first row of a version, where it was asked for under one
CREATE UNIQUE INDEX change_key ON change (volume, key) WHERE key IS NOT NULL;  -- done once, whoever tries again
