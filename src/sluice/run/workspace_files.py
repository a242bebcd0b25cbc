"""The names of a workspace's files, for a face that completes them."""

from __future__ import annotations

import asyncio

import msgspec

from sluice.errors import ConfigurationError, PathError
from sluice.run.config import Settings
from sluice.tools.registry import ToolContext
from sluice.tools.ripgrep import RipgrepMissing, run_ripgrep
from sluice.tools.seen import SeenFiles
from sluice.tools.spill import Spill
from sluice.tools.workspace import Workspace

MOST_FILES = 20_000  # more names than that are no help to anybody
_SECONDS = 5.0
_MAX_PATH_BYTES = 64 * 1024


class FileNames(msgspec.Struct, frozen=True, kw_only=True):
    """Paths relative to the workspace, in no order. `complete` is false where more files are there than were looked at."""

    paths: tuple[str, ...]
    complete: bool


async def workspace_files(settings: Settings) -> FileNames:
    """The files that `list_files_bounded` would name, up to `MOST_FILES` and for at most five seconds.

    A name that holds characters which cannot be seen is left out: nobody could type it. Nothing is found, and nothing
    raised, where the folder cannot be read or ripgrep is missing. Being cancelled ends the search.
    """
    names = _Names()
    cancel = asyncio.Event()
    try:
        with Workspace(settings.workspace) as workspace, Spill() as spill:
            context = ToolContext(
                workspace=workspace,
                limits=msgspec.structs.replace(settings.limits, search_seconds=_SECONDS),
                journal=None,
                seen=SeenFiles(),
                cancel=cancel,
                spill=spill,
            )
            ended, _messages = await run_ripgrep(["--files", "--null"], ".", context, names.feed)
    except (ConfigurationError, PathError, RipgrepMissing, OSError):
        return FileNames(paths=(), complete=False)
    return FileNames(paths=tuple(names.paths), complete=not names.more and not ended.timed_out)


class _Names:
    def __init__(self) -> None:
        self.paths: list[str] = []
        self.more = False
        self._rest = b""

    def feed(self, data: bytes) -> bool:
        """Takes output of ripgrep; true when no more is wanted."""
        *whole, self._rest = (self._rest + data).split(b"\0")
        for path in whole:
            try:
                name = path.removeprefix(b"./").decode("utf-8")
            except UnicodeDecodeError:
                continue
            if name.isprintable():
                self.paths.append(name)
        self.more = self.more or len(self.paths) > MOST_FILES
        del self.paths[MOST_FILES:]
        return self.more or len(self._rest) > _MAX_PATH_BYTES
