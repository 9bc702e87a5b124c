-- The tables of itinerary.stores.tables.
--
-- A table whose key is one number has that as its rowid. The others are stored in the order of their key, WITHOUT ROWID:
-- a transition of an occurrence is found, and written, with one search instead of two.

CREATE TABLE itinerary_store_meta (
    one INTEGER PRIMARY KEY,
    revision INTEGER NOT NULL
) STRICT;

CREATE TABLE itinerary_sweep (
    one INTEGER PRIMARY KEY,
    watermark INTEGER NOT NULL,
    owner INTEGER,
    fence INTEGER NOT NULL,
    step INTEGER NOT NULL,
    plan_from INTEGER,
    plan_to INTEGER,
    cursor TEXT NOT NULL
) STRICT;

CREATE TABLE itinerary_notifications (
    topic TEXT NOT NULL,
    count INTEGER NOT NULL,
    PRIMARY KEY (topic)
) STRICT, WITHOUT ROWID;

CREATE TABLE itinerary_jobs (
    number INTEGER PRIMARY KEY,
    name TEXT NOT NULL,
    registered_at INTEGER NOT NULL,
    version INTEGER NOT NULL,
    history_floor INTEGER NOT NULL,
    last_run_at INTEGER,
    UNIQUE (name)
) STRICT;

CREATE TABLE itinerary_entries (
    revision INTEGER NOT NULL,
    line INTEGER NOT NULL,
    job INTEGER NOT NULL,
    kind TEXT NOT NULL,
    request TEXT NOT NULL,
    effective_from INTEGER NOT NULL,
    entered_at INTEGER NOT NULL,
    entered_by TEXT NOT NULL,
    version INTEGER NOT NULL,
    subject TEXT NOT NULL,
    body TEXT,
    reason TEXT,
    PRIMARY KEY (revision, line),
    UNIQUE (job, request)
) STRICT, WITHOUT ROWID;

CREATE TABLE itinerary_configs (
    number INTEGER PRIMARY KEY,
    digest TEXT NOT NULL,
    body TEXT NOT NULL,
    UNIQUE (digest)
) STRICT;

CREATE TABLE itinerary_occurrences (
    ref INTEGER PRIMARY KEY,
    instant INTEGER NOT NULL,
    job INTEGER NOT NULL,
    kind TEXT NOT NULL,
    request TEXT NOT NULL,
    version INTEGER NOT NULL,
    due_at INTEGER NOT NULL,
    is_recovery INTEGER NOT NULL,
    priority INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    created_by INTEGER,
    status TEXT NOT NULL,
    owner INTEGER,
    fence INTEGER NOT NULL,
    sequence INTEGER NOT NULL,
    adjustments INTEGER NOT NULL,
    started_at INTEGER,
    ended_at INTEGER,
    expires_at INTEGER,
    overrides TEXT,
    details TEXT,
    config INTEGER,
    own_config TEXT,
    window_start INTEGER,
    window_end INTEGER,
    window_count INTEGER,
    holds TEXT,
    cancelled_by TEXT,
    is_withdrawn INTEGER NOT NULL,
    reason TEXT,
    touched_by INTEGER,
    place INTEGER,
    UNIQUE (instant, job, kind, request)
) STRICT;

CREATE TABLE itinerary_tasks (
    ref INTEGER NOT NULL,
    place INTEGER NOT NULL,
    name TEXT NOT NULL,
    status TEXT NOT NULL,
    retries INTEGER NOT NULL,
    cancelled_by TEXT,
    reason TEXT,
    result TEXT,
    PRIMARY KEY (ref, place)
) STRICT, WITHOUT ROWID;

CREATE TABLE itinerary_attempts (
    ref INTEGER NOT NULL,
    place INTEGER NOT NULL,
    number INTEGER NOT NULL,
    status TEXT NOT NULL,
    started_at INTEGER,
    ended_at INTEGER,
    error TEXT,
    output TEXT,
    PRIMARY KEY (ref, place, number)
) STRICT, WITHOUT ROWID;

CREATE TABLE itinerary_transitions (
    ref INTEGER NOT NULL,
    sequence INTEGER NOT NULL,
    line INTEGER NOT NULL,
    before TEXT,
    after TEXT NOT NULL,
    at INTEGER NOT NULL,
    node INTEGER,
    why TEXT,
    PRIMARY KEY (ref, sequence, line)
) STRICT, WITHOUT ROWID;

CREATE TABLE itinerary_active (
    job INTEGER NOT NULL,
    ref INTEGER NOT NULL,
    due_at INTEGER NOT NULL,
    PRIMARY KEY (job, ref)
) STRICT, WITHOUT ROWID;

CREATE TABLE itinerary_overlap_queue (
    job INTEGER NOT NULL,
    rank INTEGER NOT NULL,
    instant INTEGER NOT NULL,
    ref INTEGER NOT NULL,
    PRIMARY KEY (job, rank, instant, ref)
) STRICT, WITHOUT ROWID;

CREATE TABLE itinerary_waiting (
    due_at INTEGER NOT NULL,
    ref INTEGER NOT NULL,
    PRIMARY KEY (due_at, ref)
) STRICT, WITHOUT ROWID;

CREATE TABLE itinerary_windows (
    end INTEGER NOT NULL,
    ref INTEGER NOT NULL,
    PRIMARY KEY (end, ref)
) STRICT, WITHOUT ROWID;

CREATE TABLE itinerary_overlap_slots (
    job INTEGER PRIMARY KEY,
    ref INTEGER,
    fence INTEGER NOT NULL,
    has_queue INTEGER NOT NULL,
    count INTEGER NOT NULL,
    recent BLOB NOT NULL,
    last_run_at INTEGER
) STRICT;

CREATE TABLE itinerary_history_chunks (
    job INTEGER NOT NULL,
    number INTEGER NOT NULL,
    refs BLOB NOT NULL,
    PRIMARY KEY (job, number)
) STRICT, WITHOUT ROWID;

CREATE TABLE itinerary_limits (
    name TEXT NOT NULL,
    PRIMARY KEY (name)
) STRICT, WITHOUT ROWID;

CREATE TABLE itinerary_shares (
    name TEXT NOT NULL,
    ref INTEGER NOT NULL,
    PRIMARY KEY (name, ref)
) STRICT, WITHOUT ROWID;

CREATE TABLE itinerary_nodes (
    number INTEGER PRIMARY KEY,
    incarnation TEXT NOT NULL,
    name TEXT NOT NULL,
    about TEXT NOT NULL,
    joined_at INTEGER NOT NULL,
    counter INTEGER NOT NULL,
    beat_at INTEGER NOT NULL,
    left_at INTEGER,
    UNIQUE (incarnation)
) STRICT;

CREATE TABLE itinerary_mail (
    node INTEGER NOT NULL,
    ref INTEGER NOT NULL,
    PRIMARY KEY (node, ref)
) STRICT, WITHOUT ROWID;

CREATE TABLE itinerary_statistics (
    node INTEGER NOT NULL,
    at INTEGER NOT NULL,
    iterations INTEGER NOT NULL,
    longest_us INTEGER NOT NULL,
    total_us INTEGER NOT NULL,
    active INTEGER NOT NULL,
    index_size INTEGER NOT NULL,
    inbox_depth INTEGER NOT NULL,
    messages INTEGER NOT NULL,
    PRIMARY KEY (node, at)
) STRICT, WITHOUT ROWID;

CREATE TABLE itinerary_streams (
    stream TEXT NOT NULL,
    last INTEGER NOT NULL,
    PRIMARY KEY (stream)
) STRICT, WITHOUT ROWID;

CREATE TABLE itinerary_partitions (
    stream TEXT NOT NULL,
    partition TEXT NOT NULL,
    holder INTEGER,
    fence INTEGER NOT NULL,
    lease_until INTEGER NOT NULL,
    PRIMARY KEY (stream, partition)
) STRICT, WITHOUT ROWID;

CREATE TABLE itinerary_events (
    stream TEXT NOT NULL,
    partition TEXT NOT NULL,
    sequence INTEGER NOT NULL,
    kind TEXT NOT NULL,
    record TEXT NOT NULL,
    at INTEGER NOT NULL,
    data TEXT,
    entered_by TEXT,
    PRIMARY KEY (stream, partition, sequence),
    UNIQUE (stream, sequence)
) STRICT, WITHOUT ROWID;

CREATE TABLE itinerary_idempotency_keys (
    stream TEXT NOT NULL,
    cause TEXT NOT NULL,
    sequence INTEGER NOT NULL,
    PRIMARY KEY (stream, cause)
) STRICT, WITHOUT ROWID;

-- The last number given out in each serial table. Numbers are never given out twice, so the highest that is still there
-- does not do; SQLite's own AUTOINCREMENT would write this down for every row, and this is written once for many.
CREATE TABLE itinerary_numbers (
    title TEXT PRIMARY KEY NOT NULL,
    last INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

INSERT INTO itinerary_numbers (title, last) VALUES
    ('jobs', 0),
    ('configs', 0),
    ('occurrences', 0),
    ('nodes', 0);

-- Tokens for the web server, by name; the hash of a token's text leads to it as well.

CREATE TABLE itinerary_tokens (
    name TEXT NOT NULL,
    hash TEXT NOT NULL,
    scope TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    created_by TEXT NOT NULL,
    expires_at INTEGER,
    revoked_at INTEGER,
    revoked_by TEXT,
    reason TEXT,
    PRIMARY KEY (name),
    UNIQUE (hash)
) STRICT, WITHOUT ROWID;
