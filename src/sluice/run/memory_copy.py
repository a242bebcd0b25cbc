"""A conversation out of memory, for what a store could not keep: in the form of an export, in a file of the user's own."""

from __future__ import annotations

import contextlib
import os
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator
from contextlib import aclosing, asynccontextmanager
from typing import Any, BinaryIO, Literal

import msgspec

from sluice.run.agent import Agent
from sluice.run.settings import Settings
from sluice.run.shielding import in_thread
from sluice.run.wiring import open_agent
from sluice.session.unsaved import Unsaved
from sluice.values import notices as n
from sluice.values.messages import UserMessage


def from_memory(agent: Agent, form: Literal["json", "md"]) -> Callable[[], Iterator[bytes]]:
    """What makes the pieces of an export of all that is in memory now, in any thread. The store is not asked."""
    session, project = agent.session, agent.parts.workspace
    messages, unsaved = agent.messages, agent.unsaved

    def pieces() -> Iterator[bytes]:
        from sluice.session.export import memory_as_json, memory_as_markdown  # loads SQLite

        if form == "json":
            yield from memory_as_json(session, project, messages, unsaved)
        else:
            for piece in memory_as_markdown(session, project, messages, unsaved):
                yield piece.encode("utf-8")

    return pieces


class Rescued:
    """An agent whose session nobody can ask any more once the run has ended: what its store refused then goes into a file.

    There is none where only the prompt was refused: whoever gave it has it. The file is in the folder for temporary files,
    or, where that is full, in a folder that is kept in memory; only the user can read it.
    `RunFinished.extra["copy"]` names it; if none can be written, `unsaved` says that too.
    """

    def __init__(self, agent: Agent) -> None:
        self._agent = agent

    async def run(self, prompt: str | UserMessage) -> AsyncGenerator[n.Notice, None]:
        """See `Agent.run`."""
        async with aclosing(self._agent.run(prompt)) as notices:
            async for notice in notices:
                if isinstance(notice, n.RunFinished) and any(map(_is_new, self._agent.unsaved)):
                    notice = await self._with_copy(notice)
                yield notice

    def cancel(self, reason: Literal["cancelled", "terminated"]) -> None:
        """See `Agent.cancel`."""
        self._agent.cancel(reason)

    async def _with_copy(self, end: n.RunFinished) -> n.RunFinished:
        pieces = from_memory(self._agent, "json")
        try:
            path = await in_thread(lambda: _written_somewhere(pieces))
        except OSError as error:
            words = f"{end.unsaved}; no copy could be written either: {error.strerror or error}"
            return msgspec.structs.replace(end, unsaved=words)
        return msgspec.structs.replace(end, extra={**end.extra, "copy": path})


def _is_new(one: Unsaved) -> bool:
    return not isinstance(one.message, UserMessage)


@asynccontextmanager
async def open_rescued(settings: Settings, **wanted: Any) -> AsyncIterator[Rescued]:
    """See `open_agent`."""
    async with open_agent(settings, **wanted) as agent:
        yield Rescued(agent)


def _written_somewhere(pieces: Callable[[], Iterator[bytes]]) -> str:
    """The path of a new file with these pieces. Raises the first `OSError` where it can be written nowhere."""
    import tempfile  # wanted here only

    failed: OSError | None = None
    for folder in (None, os.environ.get("XDG_RUNTIME_DIR"), "/dev/shm"):  # noqa: S108 -- mkstemp makes it, for us alone
        if folder is not None and not os.path.isabs(folder):
            continue
        try:
            fd, path = tempfile.mkstemp(prefix="sluice-unsaved-", suffix=".json", dir=folder)
        except OSError as error:
            failed = failed or error
            continue
        try:
            with open(fd, "wb") as file:
                write_pieces(file, pieces())
            return path
        except BaseException as error:
            with contextlib.suppress(OSError):
                os.unlink(path)
            if not isinstance(error, OSError):
                raise
            failed = failed or error
    assert failed is not None
    raise failed


def write_pieces(file: BinaryIO, pieces: Iterator[bytes]) -> None:
    """Writes all of them. Raises `OSError`, and what making them raises."""
    for piece in pieces:
        file.write(piece)
