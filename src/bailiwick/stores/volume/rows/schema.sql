-- The volume store: many isolated trees with their whole history in one database.
--
-- The text is what SQLite and PostgreSQL agree on; where they do not, the word for SQLite stands
-- here and `schema.py` is the one place that would change it (WITHOUT ROWID, STRICT, BLOB).
-- The id of the volume leads every key: no statement touches the rows of two volumes, and the tables
-- can be divided by it.
--
-- Numbers come from one counter for each volume, `volume.last`: versions, and the ids of nodes,
-- branches, contents and chunks. A number is used once, so an id can never mean something else later,
-- and an id that was born in one branch cannot be mistaken for one of another when they are merged.
-- Version order is commit order, because a number is taken only while the write lock is held.
--
-- Infinity is 9223372036854775807, written out wherever it is compared: a partial index is used only
-- when the very same literal stands in the statement. A row is seen at a version when it was born at or
-- before it and died after it; the newest state is seen at infinity less one.
--
-- kind: 0 nothing (hides what an ancestor shows), 1 file, 2 directory, 3 link.

CREATE TABLE volume (
    id          INTEGER NOT NULL PRIMARY KEY,  -- small number, chosen when the volume is made
    name        TEXT NOT NULL UNIQUE,          -- what callers say; letters, digits, underscores
    uid         TEXT NOT NULL,                 -- random: the volume's name in a blob store that others share
    root        INTEGER NOT NULL,              -- the node that is the root directory of every branch
    last        INTEGER NOT NULL,              -- the last number that was given out
    horizon     INTEGER NOT NULL,              -- no version before this one can be looked at (but snapshots)
    locks       INTEGER NOT NULL,              -- leases there may be: 0 saves every change from looking
    drained     INTEGER NOT NULL,              -- notes of changes up to this version were taken over
    created_ns  INTEGER NOT NULL
) STRICT;

CREATE TABLE branch (                          -- a line of versions; the first is called main
    volume      INTEGER NOT NULL,
    id          INTEGER NOT NULL,
    name        TEXT,                          -- NULL: nobody can open it (a transaction, or deleted)
    parent      INTEGER NOT NULL,              -- the branch it was forked from; 0 for the first
    at          INTEGER NOT NULL,              -- the parent's version it was forked from
    expires_ms  INTEGER NOT NULL,              -- when a nameless one is abandoned; infinity: never
    created_ns  INTEGER NOT NULL,
    PRIMARY KEY (volume, id),
    UNIQUE (volume, name)
) STRICT, WITHOUT ROWID;

CREATE TABLE lineage (                         -- for each branch all branches it shows: itself, its parent, …
    volume      INTEGER NOT NULL,
    branch      INTEGER NOT NULL,
    depth       INTEGER NOT NULL,              -- 0 is the branch itself; the nearest that knows a key decides
    ancestor    INTEGER NOT NULL,
    bound       INTEGER NOT NULL,              -- the ancestor is seen as it was at this version, already the
                                               -- least of all bounds on the way; infinity less one
                                               -- for depth 0
    PRIMARY KEY (volume, branch, depth)
) STRICT, WITHOUT ROWID;
CREATE INDEX lineage_ancestor ON lineage (volume, ancestor, bound);  -- which versions others stand on (gc)

CREATE TABLE snapshot (                        -- a version with a name, kept for as long as it has it
    volume      INTEGER NOT NULL,
    name        TEXT NOT NULL,
    branch      INTEGER NOT NULL,
    version     INTEGER NOT NULL,
    created_ns  INTEGER NOT NULL,
    PRIMARY KEY (volume, name)
) STRICT, WITHOUT ROWID;

CREATE TABLE dentry (                          -- which node has a name, from one version to another
    volume      INTEGER NOT NULL,
    branch      INTEGER NOT NULL,
    parent      INTEGER NOT NULL,              -- the node of the directory
    name        TEXT NOT NULL,                 -- valid text; sorted by its bytes
    born        INTEGER NOT NULL,              -- the version that gave the name
    died        INTEGER NOT NULL,              -- the version that took it; infinity while it has it
    node        INTEGER NOT NULL,              -- 0 where kind is 0
    kind        INTEGER NOT NULL,              -- never changes for a node, so it is repeated here
    PRIMARY KEY (volume, branch, parent, name, born)
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX dentry_live ON dentry (volume, branch, parent, name)
    WHERE died = 9223372036854775807;          -- one node for a name
CREATE UNIQUE INDEX dentry_one ON dentry (volume, branch, node)
    WHERE died = 9223372036854775807 AND kind <> 0;  -- one name for a node
CREATE INDEX dentry_node ON dentry (volume, branch, node, born);  -- from a node to its names
CREATE INDEX dentry_died ON dentry (volume, branch, died)
    WHERE died < 9223372036854775807;          -- what gc looks at

CREATE TABLE inode (                           -- what a node is, from a version until its next row
    volume      INTEGER NOT NULL,
    branch      INTEGER NOT NULL,
    id          INTEGER NOT NULL,
    born        INTEGER NOT NULL,              -- the newest row that is not too new decides
    kind        INTEGER NOT NULL,              -- 0: the node is removed
    mode        INTEGER NOT NULL,              -- permission bits
    size        INTEGER NOT NULL,              -- bytes of content, or of a link's text
    mtime_ns    INTEGER NOT NULL,              -- a directory's is kept up in place, without a version
    edition     INTEGER NOT NULL,              -- the version that last changed the content: what callers
                                               -- compare, so that a mode set does not break their swap
    sha256      BLOB,                          -- of the whole content; NULL for a directory or link
    content     INTEGER,                       -- larger content: the row of `content`
    data        BLOB,                          -- small content itself, or a link's text; last, so that
                                               -- nothing behind it has to be read past it
    PRIMARY KEY (volume, branch, id, born)
) STRICT;                                      -- has a rowid: new rows are wide, and go to the end together
CREATE INDEX inode_content ON inode (volume, content) WHERE content IS NOT NULL;  -- is a content in use

CREATE TABLE content (                         -- a list of pieces, never changed once it is referred to
    volume      INTEGER NOT NULL,
    id          INTEGER NOT NULL,
    size        INTEGER NOT NULL,
    base        INTEGER,                       -- begins like this other content …
    keep        INTEGER NOT NULL,              -- … for so many bytes; own pieces follow
    depth       INTEGER NOT NULL,              -- how many bases follow one another beneath this one
    PRIMARY KEY (volume, id)
) STRICT, WITHOUT ROWID;
CREATE INDEX content_base ON content (volume, base) WHERE base IS NOT NULL;

CREATE TABLE manifest (                        -- the pieces of a content
    volume      INTEGER NOT NULL,
    content     INTEGER NOT NULL,
    start       INTEGER NOT NULL,              -- where in the file the piece begins
    size        INTEGER NOT NULL,              -- so many bytes from the beginning of the chunk
    chunk       INTEGER NOT NULL,              -- 0: zeros, stored nowhere
    PRIMARY KEY (volume, content, start)
) STRICT, WITHOUT ROWID;
CREATE INDEX manifest_chunk ON manifest (volume, chunk);  -- is a chunk in use

CREATE TABLE chunk (                           -- bytes by their hash. Has a rowid: wide rows want one
    volume      INTEGER NOT NULL,
    id          INTEGER NOT NULL,
    hash        BLOB NOT NULL,                 -- BLAKE3, checked whenever the bytes are read
    size        INTEGER NOT NULL,
    shared      INTEGER NOT NULL,              -- 1: whoever has the same bytes uses this chunk
    data        BLOB,                          -- the bytes, or NULL where …
    blob        TEXT,                          -- … they are in the blob store under this key
    PRIMARY KEY (volume, id)
) STRICT;
CREATE UNIQUE INDEX chunk_shared ON chunk (volume, hash) WHERE shared = 1;

CREATE TABLE upload (                          -- contents that nothing refers to: on their way in, or left over
    volume      INTEGER NOT NULL,
    content     INTEGER NOT NULL,
    expires_ms  INTEGER NOT NULL,              -- gc takes the content away after this
    PRIMARY KEY (volume, content)
) STRICT, WITHOUT ROWID;

CREATE TABLE doomed (                          -- blobs that no chunk names any more, still to be deleted
    volume      INTEGER NOT NULL,
    blob        TEXT NOT NULL,
    PRIMARY KEY (volume, blob)
) STRICT, WITHOUT ROWID;

CREATE TABLE fallen (                          -- removed directories whose contents still look alive
    volume      INTEGER NOT NULL,
    branch      INTEGER NOT NULL,
    node        INTEGER NOT NULL,
    version     INTEGER NOT NULL,              -- the version that removed them
    after       TEXT NOT NULL,                 -- how far gc has come with its names
    PRIMARY KEY (volume, branch, node)
) STRICT, WITHOUT ROWID;
CREATE INDEX fallen_version ON fallen (volume, version);

CREATE TABLE change (                          -- what each version touched: one row for each key
    volume      INTEGER NOT NULL,
    branch      INTEGER NOT NULL,
    version     INTEGER NOT NULL,
    seq         INTEGER NOT NULL,
    time_ns     INTEGER NOT NULL,
    parent      INTEGER NOT NULL,              -- a name was given or taken: (parent, name); 0: an inode
    name        TEXT NOT NULL,
    node        INTEGER NOT NULL,              -- the node that has the name now (0: none), or the inode
    was         INTEGER NOT NULL,              -- the node that had the name before (0: none)
    verb        TEXT,                          -- of the operation, on its first row only, like the rest:
    subject     TEXT,                          -- who asked, as the caller wrote it
    request     TEXT,                          -- the caller's request id, for undo
    note        BLOB,                          -- opaque: drained by whoever keeps a ledger
    PRIMARY KEY (volume, branch, version, seq)
) STRICT, WITHOUT ROWID;
CREATE INDEX change_request ON change (volume, branch, request) WHERE request IS NOT NULL;

CREATE INDEX change_note ON change (volume, version) WHERE note IS NOT NULL;

CREATE TABLE lease (                           -- locks that callers took, until they expire
    volume      INTEGER NOT NULL,
    branch      INTEGER NOT NULL,
    parent      INTEGER NOT NULL,              -- the place that is locked: a name in a directory
    name        TEXT NOT NULL,
    token       INTEGER NOT NULL,              -- from the counter: a later lease has a greater one
    owner       TEXT NOT NULL,
    expires_ms  INTEGER NOT NULL,
    PRIMARY KEY (volume, branch, parent, name)
) STRICT, WITHOUT ROWID;

CREATE TABLE pin (                             -- processes that read, and the oldest version they may look at
    volume      INTEGER NOT NULL,
    session     TEXT NOT NULL,
    version     INTEGER NOT NULL,
    expires_ms  INTEGER NOT NULL,
    PRIMARY KEY (volume, session)
) STRICT, WITHOUT ROWID;

CREATE TABLE mark (                            -- which version it was at some times: from days to versions
    volume      INTEGER NOT NULL,
    time_ns     INTEGER NOT NULL,
    version     INTEGER NOT NULL,
    PRIMARY KEY (volume, time_ns)
) STRICT, WITHOUT ROWID;

CREATE TABLE merged (                          -- how far a branch has taken over another
    volume      INTEGER NOT NULL,
    branch      INTEGER NOT NULL,
    source      INTEGER NOT NULL,
    version     INTEGER NOT NULL,              -- the source as it was at this version is in the branch
    PRIMARY KEY (volume, branch, source)
) STRICT, WITHOUT ROWID;
