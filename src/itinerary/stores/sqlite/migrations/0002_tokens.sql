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
