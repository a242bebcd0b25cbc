-- A run that is removed or checked finds its messages at once, however many others there are.

CREATE INDEX IF NOT EXISTS message_by_run ON message (run);
