-- Of which folder a pre-image is, where the session was gone on with in another one than its own project; and what was
-- taken back.

ALTER TABLE preimage ADD COLUMN workspace TEXT;
ALTER TABLE preimage ADD COLUMN undone INTEGER NOT NULL DEFAULT 0;
