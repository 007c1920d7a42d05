-- What was changed through Bailiwick in a real directory, and what stood there before.
-- A version is the number of an entry. Numbers are even: the odd one below an entry's stands for the
-- places it touched as they were found just before.

CREATE TABLE counter (                         -- one row
    last        INTEGER NOT NULL,              -- the newest number that was given; none is given twice
    horizon     INTEGER NOT NULL               -- entries up to this are no longer kept
) STRICT;
INSERT INTO counter (last, horizon) VALUES (0, 0);

CREATE TABLE entry (                           -- one change
    id          INTEGER PRIMARY KEY,
    time_ns     INTEGER NOT NULL,
    verb        TEXT NOT NULL,
    subject     TEXT NOT NULL,                 -- on whose behalf, as the caller wrote it
    request     TEXT NOT NULL,
    owner       TEXT NOT NULL,                 -- who is making the change; empty once it is over
    missed      INTEGER NOT NULL               -- places it touched that are not listed: they were too many
) STRICT;
CREATE INDEX entry_request ON entry (request) WHERE request <> '';
CREATE INDEX entry_open ON entry (owner) WHERE owner <> '';

CREATE TABLE effect (                          -- one place that a change touched
    entry       INTEGER NOT NULL,
    seq         INTEGER NOT NULL,              -- in the order in which it was done
    path        TEXT NOT NULL,
    kind        INTEGER NOT NULL,              -- 0: set; 1: moved away to `other`; 2: moved here from it;
                                               -- 3: a directory, open while something is taken back
    other       TEXT NOT NULL,
    before      BLOB,                          -- what stood there; NULL: nothing
    after       BLOB,                          -- what stood there then; NULL: nothing, empty: not known
    before_sha  BLOB,                          -- the content of each, for whoever clears up
    after_sha   BLOB,
    PRIMARY KEY (entry, seq)
) STRICT, WITHOUT ROWID;
CREATE INDEX effect_path ON effect (path, entry);
CREATE INDEX effect_before ON effect (before_sha) WHERE before_sha IS NOT NULL;
CREATE INDEX effect_after ON effect (after_sha) WHERE after_sha IS NOT NULL;

CREATE TABLE content (                         -- content that is kept, by its SHA-256
    sha256      BLOB PRIMARY KEY,
    size        INTEGER NOT NULL,
    kept_ns     INTEGER NOT NULL,              -- when it was last asked for: what is new is not cleared up
    data        BLOB                           -- the bytes; NULL: they are in the volume, as `ab/cdef…`
) STRICT;
