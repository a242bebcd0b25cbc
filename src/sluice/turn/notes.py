"""What the model is told by the host between two turns. Stored as the host's words, never the user's."""

from __future__ import annotations

GO_ON_NOTE = (
    "Your last reply broke off before its end, and no call of it was run. "
    "Go on from where it stopped; do not repeat what is there."
)
CONTINUE_NOTE = (
    "Your last reply was cut at its length limit. Go on exactly where it stopped, "
    "without a word about it and without repeating what is there."
)
LOOP_NOTE = (
    "You have made the same call with the same result again and again. One time more ends the run. "
    "Do something else, or say what keeps you from going on."
)
REPEATED_NOTE = "Your last reply said the same thing over and over. Say it once and go on with the task."
