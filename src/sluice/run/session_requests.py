"""What a person asks of stored sessions while one is open: the list of them, an undo, an export."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Literal

from sluice.errors import ConfigurationError, StoreError
from sluice.run.interaction import SessionRow
from sluice.run.memory_copy import from_memory, write_pieces
from sluice.run.open_session import OpenSession
from sluice.run.sessions import exported, listed
from sluice.run.settings import Settings
from sluice.run.shielding import in_thread
from sluice.run.store_places import store_path
from sluice.run.undoing import AS_BEFORE, undone
from sluice.run.wiring import state_folder

MOST_SESSIONS = 200  # in one list
_NAMED = 20  # files in the note about an undo
_NOT_STORED = "nothing of this session is stored yet"


def sessions(settings: Settings) -> tuple[SessionRow, ...]:
    """The sessions of this workspace, the one used last first. Raises `StoreError`."""
    return tuple(
        SessionRow(
            session=one.id,
            title=one.title,
            used=one.last_run_at,
            messages=one.messages,
            held=one.held_by is not None and one.held_by != os.getpid(),
            waits=bool(one.pending),
        )
        for one in listed(settings, False, MOST_SESSIONS)
    )


async def undo(settings: Settings, session: OpenSession) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Takes back the last changing run of the session, or the one before if that was taken back: files restored, and lines
    about those that were not touched."""
    if store_path(settings) is None or not session.begun:
        return (), ()
    id = session.agent.session
    done = await in_thread(lambda: undone(settings, id, state_folder(), holding=True))
    left = [f"{step.path}: {step.refusal}" for step in done.left]
    left += [f"{step.path} {AS_BEFORE}" for step in done.unchanged]
    if done.left and not done.restored and done.earlier is not None:
        left.append(
            f"when this session is closed, `sluice sessions undo {id} --run {done.earlier}` undoes the run before"
        )
    left += [*done.others(), *([done.unmarked] if done.unmarked else [])]
    return tuple(step.path for step in done.restored), tuple(left)


def undo_note(restored: tuple[str, ...]) -> str:
    """What the model is told with the next prompt: what it believes of these files is not so any more."""
    names = ", ".join(restored[:_NAMED])
    more = f" and {len(restored) - _NAMED} more" if len(restored) > _NAMED else ""
    return (
        "[Added by Sluice: the user took back what was done to these files, and they hold again what they held "
        "before, or are gone where they were new: "
        f"{names}{more}. Read them before you change them.]\n\n"
    )


async def export(settings: Settings, session: OpenSession, form: Literal["json", "md"], path: str) -> tuple[str, str]:
    """Writes the session to a new file, which only the user can read; returns its absolute path.

    What the store refused of it is written too, and marked. Where the store cannot be read, what is in memory is written,
    and the second text says why. Raises `ConfigurationError` where there is nothing yet or the file cannot be made or
    written; none is left then.
    """
    id, unsaved = session.agent.session, session.agent.unsaved
    if store_path(settings) is None or not (session.begun or unsaved):
        raise ConfigurationError(_NOT_STORED)
    memory = from_memory(session.agent, form)

    def write() -> tuple[str, str]:
        why = ""
        try:
            target = Path.cwd() / Path(path).expanduser()
            fd = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        except (OSError, ValueError, RuntimeError) as error:
            reason = getattr(error, "strerror", None) or error
            raise ConfigurationError(f"{path!r} cannot be made: {reason}") from None
        try:
            with open(fd, "wb") as file:
                try:
                    write_pieces(file, exported(settings, id, form, unsaved=unsaved))
                except StoreError as error:
                    file.seek(0)
                    file.truncate()
                    write_pieces(file, memory())
                    why = f"this is what is in memory; of the store nothing could be read: {error}"
        except BaseException as error:
            target.unlink(missing_ok=True)
            if isinstance(error, OSError):
                raise ConfigurationError(f"{str(target)!r} cannot be written: {error.strerror or error}") from None
            raise
        return str(target), why

    return await in_thread(write)
