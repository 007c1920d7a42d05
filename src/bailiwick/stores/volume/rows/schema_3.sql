-- Rows tell whether they were damaged, and a tree's directories are found past all its files.

ALTER TABLE dentry ADD COLUMN guard INTEGER;   -- a sum over what never changes of the row; NULL: made before
ALTER TABLE inode ADD COLUMN guard INTEGER;    -- the same over all but the data, which has its hash

CREATE INDEX dentry_inner ON dentry (volume, branch, parent, node)
    WHERE died = 9223372036854775807 AND kind = 2;  -- how much lies in a tree
