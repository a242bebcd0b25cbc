"""The commands that begin with a slash: their names and words, and what a typed line means."""

from __future__ import annotations

import difflib
import re
from typing import NamedTuple


class SlashCommand(NamedTuple):
    """`argument` is how what may follow is written, empty if nothing does; `words` say what it does."""

    name: str
    argument: str
    words: str


COMMANDS = (
    SlashCommand("help", "", "keys and commands"),
    SlashCommand("model", "[MODEL]", "show the models, or use another from the next turn on"),
    SlashCommand("tools", "", "the tools, and what happens to a call of each"),
    SlashCommand("policy", "", "what is allowed, asked about and denied now, and why"),
    SlashCommand("sessions", "", "choose a session of this workspace"),
    SlashCommand("resume", "[SESSION]", "go on with the last session, or with this one"),
    SlashCommand("new", "", "begin a new session"),
    SlashCommand("fork", "[MESSAGE]", "go on with a copy of this session, up to a message number"),
    SlashCommand("undo", "", "take back the file changes of the last run; again, of the one before"),
    SlashCommand("export", "[FILE]", "write the session to a new file: Markdown, or JSON if it ends in .json"),
    SlashCommand("cost", "", "tokens and money, by turn, run and session"),
    SlashCommand("compact", "", "shrink what the model is sent of this session"),
    SlashCommand("queue", "", "edit or take back the prompts that wait"),
    SlashCommand("doctor", "", "what this machine gives: sandbox, tools, store"),
    SlashCommand("quit", "", "end what runs, store it, and leave"),
)
NAMES = tuple(command.name for command in COMMANDS)
_COMMAND = re.compile(r"/([A-Za-z][\w-]*)(?:\s+(.*))?", re.DOTALL)
_ALIASES = {"exit": "quit", "q": "quit", "continue": "resume", "clear": "new", "models": "model", "?": "help"}


class Given(NamedTuple):
    """A command of ours with what follows it, or `problem`, one line for the person."""

    name: str
    argument: str = ""
    problem: str = ""


def given(text: str) -> Given | None:
    """What a typed text means as a command; `None` if it is a prompt.

    A path such as `/etc/hosts` is a prompt, and so is anything behind a space.
    """
    if text.rstrip() in ("/", "/?"):
        return Given("help")
    found = _COMMAND.fullmatch(text.rstrip())
    if found is None:
        return None
    name, argument = found[1].lower(), (found[2] or "").strip()
    name = _ALIASES.get(name, name)
    if name not in NAMES:
        near = difflib.get_close_matches(name, NAMES, n=1, cutoff=0.5)
        hint = f"did you mean /{near[0]}?" if near else "/help lists the commands."
        return Given(
            name, argument, f"There is no command /{name[:40]}; {hint} A space in front sends the line as a prompt."
        )
    if argument and not COMMANDS[NAMES.index(name)].argument:
        return Given(name, argument, f"/{name} takes nothing behind it.")
    return Given(name, argument)


def help_lines() -> tuple[str, ...]:
    """The table, one command a line."""
    width = max(len(f"/{command.name} {command.argument}") for command in COMMANDS)
    return tuple(f"{f'/{command.name} {command.argument}':<{width}}  {command.words}" for command in COMMANDS)
