"""The facade behind `sluice decode`: a recorded stream in, what it says out."""

from __future__ import annotations

import sys
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from sluice.errors import ConfigurationError, StreamError
from sluice.limits import DEFAULT_LIMITS, Limits
from sluice.values.deltas import Delta
from sluice.values.messages import Reply
from sluice.wire import DIALECTS, ReplyReader

Decoded = tuple[int, dict[str, Any], list[tuple[int, Delta]]]


def decode_file(path: str, dialect: str, chunk_bytes: int, limits: Limits = DEFAULT_LIMITS) -> Decoded:
    """Reads the reply recorded in `path` (`-`: standard input) in reads of `chunk_bytes`.

    Returns the exit code (0 whole, 1 not), the reply or the error with its partial reply as plain JSON, and the deltas,
    each with the number of bytes that had been read by then. Raises `ConfigurationError` for a file that cannot be read
    or a dialect that is not known.
    """
    if dialect != "auto" and dialect not in DIALECTS:
        raise ConfigurationError(f"no dialect is named {dialect!r}; there are: auto, {', '.join(DIALECTS)}")
    chunks = _chunks(path, chunk_bytes)
    first = next(chunks, b"")
    reader = ReplyReader(guess_dialect(first) if dialect == "auto" else dialect, limits=limits)
    deltas: list[tuple[int, Delta]] = []
    seen = 0
    try:
        while first and not reader.ended:
            seen += len(first)
            deltas.extend((seen, delta) for delta in reader.feed(first))
            first = next(chunks, b"")
        reply = reader.close()
    except StreamError as error:
        problem = {"kind": error.kind, "message": str(error)}
        for key in ("bound", "code"):
            if getattr(error, key) is not None:
                problem[key] = getattr(error, key)
        return 1, {"ok": False, "error": problem, "partial": _plain(error.partial)}, deltas
    finally:
        chunks.close()
    return 0, {"ok": True, **_plain(reply)}, deltas


def guess_dialect(first: bytes) -> str:
    """The dialect that the first bytes look like; Chat where nothing tells."""
    return "openai_chat"


def _chunks(path: str, size: int) -> Generator[bytes, None, None]:
    try:
        if path == "-":
            yield from _reads(sys.stdin.buffer, size)
        else:
            with Path(path).open("rb", buffering=max(size, 65536)) as file:
                yield from _reads(file, size)
    except OSError as error:
        raise ConfigurationError(f"{path!r} cannot be read: {error.strerror or error}") from None


def _reads(file: BinaryIO, size: int) -> Iterator[bytes]:
    while chunk := file.read(size):
        yield chunk


def _plain(reply: Reply) -> dict[str, Any]:
    plain: dict[str, Any] = msgspec.to_builtins(reply)
    return {key: value for key, value in plain.items() if value not in (None, "", 0, [], {}) or key == "text"}
