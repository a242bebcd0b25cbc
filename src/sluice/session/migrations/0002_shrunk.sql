-- What is sent in place of a conversation that outgrew the model's window; the conversation's own rows stay.

CREATE TABLE shrunk (
    session TEXT PRIMARY KEY REFERENCES session (id) ON DELETE CASCADE,
    upto INTEGER NOT NULL, -- the last message that it stands for
    body TEXT NOT NULL, -- JSON: the messages that are sent in place of those up to there
    crc INTEGER NOT NULL
) WITHOUT ROWID;
