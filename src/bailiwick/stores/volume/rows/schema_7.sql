-- Nodes know when they were made.

ALTER TABLE inode ADD COLUMN created_ns INTEGER;  -- the same in all rows of a node, and in its sum; NULL: made before
