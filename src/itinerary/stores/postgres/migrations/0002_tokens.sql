-- Tokens for the web server, by name; the hash of a token's text leads to it as well.

CREATE TABLE tokens (
    name text COLLATE "C" NOT NULL,
    hash text COLLATE "C" NOT NULL,
    scope text COLLATE "C" NOT NULL,
    created_at bigint NOT NULL,
    created_by text COLLATE "C" NOT NULL,
    expires_at bigint,
    revoked_at bigint,
    revoked_by text COLLATE "C",
    reason text COLLATE "C",
    PRIMARY KEY (name),
    UNIQUE (hash)
);
