-- Rows that say what nothing else says tell whether they were damaged, too.

ALTER TABLE volume ADD COLUMN guard INTEGER;    -- a sum over id, name, uid, root and time; NULL: made before
ALTER TABLE branch ADD COLUMN guard INTEGER;    -- over all but when it ends; NULL: made before, or without a name
ALTER TABLE snapshot ADD COLUMN guard INTEGER;  -- over name, branch, version and time; NULL: made before, or deleted
ALTER TABLE taken ADD COLUMN guard INTEGER;     -- over all of it; NULL: made before
ALTER TABLE change ADD COLUMN guard INTEGER;    -- on the first row of a version, over who, when and how; NULL: made before
