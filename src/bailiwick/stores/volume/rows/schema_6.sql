-- Leases end by a count that nobody sets, and their tokens are remembered when they have ended.

ALTER TABLE lease ADD COLUMN boot TEXT NOT NULL DEFAULT '';       -- which start of which machine …
ALTER TABLE lease ADD COLUMN ends_ms INTEGER NOT NULL DEFAULT 0;  -- … counts until then; `expires_ms` is what the
                                                                  -- clock said, and 0 once the lease has ended
UPDATE lease SET ends_ms = expires_ms;
CREATE INDEX lease_token ON lease (volume, branch, token);        -- is a token the newest
CREATE INDEX lease_ended ON lease (volume, token) WHERE expires_ms = 0;  -- which to forget first
