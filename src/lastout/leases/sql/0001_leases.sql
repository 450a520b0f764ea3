-- One row a key. Processes and verdicts are JSON: nothing searches inside them. Above `doubt` the
-- store cannot answer for older epochs (a restored backup did not know them).
CREATE TABLE lease (
    key           TEXT PRIMARY KEY,
    epoch         INTEGER NOT NULL CHECK (epoch > 0),
    state         TEXT NOT NULL CHECK (state IN ('free', 'reserved', 'committed', 'proven', 'unproven')),
    holder        TEXT,
    verdict       TEXT,
    since_ns      INTEGER NOT NULL,
    since         TEXT NOT NULL,
    doubt         INTEGER,
    CHECK ((state = 'free') = (holder IS NULL))
) WITHOUT ROWID;

-- An epoch never falls, whatever the program does.
CREATE TRIGGER lease_epoch_only_grows BEFORE UPDATE OF epoch ON lease
WHEN new.epoch < old.epoch
BEGIN
    SELECT raise(ABORT, 'an epoch only grows');
END;

CREATE TABLE history (
    number      INTEGER PRIMARY KEY,
    key         TEXT NOT NULL,
    epoch       INTEGER NOT NULL,
    event       TEXT NOT NULL,
    run         TEXT,
    boottime_ns INTEGER NOT NULL,
    time        TEXT NOT NULL,
    detail      TEXT NOT NULL
);

CREATE INDEX history_of_key ON history (key, number);

-- Who waits for what: for people only. A waiter that died is told by its identity.
CREATE TABLE waiter (
    number   INTEGER PRIMARY KEY,
    key      TEXT NOT NULL,
    identity TEXT NOT NULL,
    since    TEXT NOT NULL
);

-- The epoch above which every new key starts; raised when a backup was restored.
CREATE TABLE floor (epoch INTEGER NOT NULL);

INSERT INTO floor (epoch) VALUES (0);
