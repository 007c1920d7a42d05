-- Merges both ways, and what was let go of while somebody may still read it.

CREATE TABLE taken (                           -- which branches a branch holds, from one of its versions on
    volume      INTEGER NOT NULL,
    branch      INTEGER NOT NULL,
    version     INTEGER NOT NULL,              -- from this version of the branch on …
    source      INTEGER NOT NULL,              -- … the changes of this other one are in it …
    upto        INTEGER NOT NULL,              -- … up to this version of the other
    PRIMARY KEY (volume, branch, source, version)
) STRICT, WITHOUT ROWID;
CREATE INDEX taken_source ON taken (volume, source);  -- who holds a branch (gc)
INSERT INTO taken (volume, branch, version, source, upto)
    SELECT volume, branch, version, source, version FROM merged;
DROP TABLE merged;

ALTER TABLE branch ADD COLUMN ended INTEGER;    -- the number at which it was deleted; NULL: it was not
ALTER TABLE snapshot ADD COLUMN ended INTEGER;  -- the same; it is kept until nobody reads it any more
