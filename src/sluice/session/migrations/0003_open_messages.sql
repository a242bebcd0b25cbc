-- The reply that is still arriving is found at once, however long its session is.

CREATE INDEX IF NOT EXISTS open_message ON message (session, seq) WHERE state = 'open';
