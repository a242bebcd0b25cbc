-- The session store as it is now. A new database is made from this file, an old one by the steps in migrations/;
-- a test holds the two equal. Order is always by sequence numbers; times of day are for people only.

CREATE TABLE migration (
    version INTEGER PRIMARY KEY,
    name TEXT NOT NULL,
    applied_at REAL NOT NULL
);

CREATE TABLE session (
    id TEXT PRIMARY KEY,
    project TEXT NOT NULL,
    created_at REAL NOT NULL,
    parent TEXT, -- message id that this session was forked at
    last INTEGER NOT NULL DEFAULT 0 -- rises with every run of the store: which session was used last
);
CREATE INDEX session_by_project ON session (project, last);

-- `chunks` takes in the rows of a reply when that ends, not one by one while it arrives.
CREATE TABLE run (
    id TEXT PRIMARY KEY,
    session TEXT NOT NULL REFERENCES session (id) ON DELETE CASCADE,
    number INTEGER NOT NULL,
    started_at REAL NOT NULL,
    began_ns INTEGER NOT NULL, -- of the monotonic clock of the process that ran it
    duration_ns INTEGER,
    chunks INTEGER NOT NULL DEFAULT 0, -- how many deltas rows were ever written
    outcome TEXT, -- set once, by the end or by recovery
    UNIQUE (session, number)
);

CREATE TABLE message (
    session TEXT NOT NULL REFERENCES session (id) ON DELETE CASCADE,
    seq INTEGER NOT NULL,
    run TEXT REFERENCES run (id) ON DELETE SET NULL, -- none in what a fork took over
    turn INTEGER,
    role TEXT NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('open', 'whole', 'interrupted', 'dropped')),
    head TEXT NOT NULL DEFAULT '{}', -- JSON of all that is no part
    first_chunk INTEGER, -- the run's chunk rows that were folded into this message: first, and one past the last
    next_chunk INTEGER,
    told_crc INTEGER, -- CRC-32 of the text that had been told while it arrived
    PRIMARY KEY (session, seq)
) WITHOUT ROWID;
CREATE INDEX open_message ON message (session, seq) WHERE state = 'open';
CREATE INDEX message_by_run ON message (run);

CREATE TABLE part (
    session TEXT NOT NULL,
    seq INTEGER NOT NULL,
    position INTEGER NOT NULL,
    kind TEXT NOT NULL CHECK (kind IN ('text', 'image', 'reasoning', 'call', 'result')),
    body TEXT NOT NULL,
    crc INTEGER NOT NULL, -- CRC-32 of the body in UTF-8
    answers_seq INTEGER, -- of a result: the message and the position of the call it answers
    answers_position INTEGER,
    PRIMARY KEY (session, seq, position),
    FOREIGN KEY (session, seq) REFERENCES message (session, seq) ON DELETE CASCADE
) WITHOUT ROWID;
CREATE UNIQUE INDEX one_result ON part (session, answers_seq, answers_position) WHERE answers_seq IS NOT NULL;

CREATE TABLE chunk (
    run TEXT NOT NULL REFERENCES run (id) ON DELETE CASCADE,
    seq INTEGER NOT NULL,
    kind TEXT NOT NULL CHECK (kind IN ('text', 'reasoning', 'call')),
    body TEXT NOT NULL,
    crc INTEGER NOT NULL,
    PRIMARY KEY (run, seq)
) WITHOUT ROWID;

CREATE TABLE call (
    run TEXT NOT NULL REFERENCES run (id) ON DELETE CASCADE,
    turn INTEGER NOT NULL,
    position INTEGER NOT NULL,
    tool TEXT NOT NULL,
    digest TEXT NOT NULL,
    rule TEXT NOT NULL,
    started_at REAL NOT NULL,
    status TEXT, -- set once, when it ended; 'unknown_outcome' by recovery
    result TEXT,
    PRIMARY KEY (run, turn, position)
) WITHOUT ROWID;

CREATE TABLE approval (
    run TEXT NOT NULL REFERENCES run (id) ON DELETE CASCADE,
    turn INTEGER NOT NULL,
    position INTEGER NOT NULL,
    tool TEXT NOT NULL,
    digest TEXT NOT NULL,
    granted INTEGER, -- none: pending
    PRIMARY KEY (run, turn, position)
) WITHOUT ROWID;

CREATE TABLE usage (
    run TEXT NOT NULL REFERENCES run (id) ON DELETE CASCADE,
    number INTEGER NOT NULL,
    turn INTEGER NOT NULL,
    usage TEXT NOT NULL,
    cost REAL,
    PRIMARY KEY (run, number)
) WITHOUT ROWID;

CREATE TABLE notice (
    run TEXT NOT NULL REFERENCES run (id) ON DELETE CASCADE,
    number INTEGER NOT NULL,
    body TEXT NOT NULL,
    PRIMARY KEY (run, number)
) WITHOUT ROWID;

-- `workspace` is the folder that the file is in, where that is not the session's project. `undone` is 1 once the change was
-- taken back. (A column that was added later stands where SQLite puts it.)
CREATE TABLE preimage (
    handle TEXT PRIMARY KEY, -- the id of the line in the journal of pre-images
    run TEXT NOT NULL REFERENCES run (id) ON DELETE CASCADE,
    turn INTEGER NOT NULL,
    position INTEGER NOT NULL,
    number INTEGER NOT NULL, -- order within the run
    path TEXT NOT NULL,
    sha256 TEXT, -- none: there was no file
    mode INTEGER,
    ended INTEGER NOT NULL DEFAULT 0, -- 1 once it is known what the call left
    after TEXT -- SHA-256 of what it left; none: no file
, workspace TEXT, undone INTEGER NOT NULL DEFAULT 0) WITHOUT ROWID;
CREATE INDEX preimage_by_run ON preimage (run, number);

CREATE TABLE seen (
    session TEXT NOT NULL REFERENCES session (id) ON DELETE CASCADE,
    path TEXT NOT NULL,
    sha256 TEXT NOT NULL,
    PRIMARY KEY (session, path)
) WITHOUT ROWID;

CREATE TABLE shrunk (
    session TEXT PRIMARY KEY REFERENCES session (id) ON DELETE CASCADE,
    upto INTEGER NOT NULL, -- the last message that it stands for
    body TEXT NOT NULL, -- JSON: the messages that are sent in place of those up to there
    crc INTEGER NOT NULL
) WITHOUT ROWID;
