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
from sluice.wire.recognise import recognise

_HEAD_BYTES = 64 * 1024  # looked at to tell the dialect; a first event may repeat a long request

Decoded = tuple[int, dict[str, Any], list[tuple[int, Delta]]]


def decode_file(path: str, dialect: str, chunk_bytes: int, limits: Limits = DEFAULT_LIMITS) -> Decoded:
    """Reads the reply recorded in `path` (`-`: standard input) in reads of `chunk_bytes`.

    `auto` takes the dialect that the bytes look like, and Chat where they do not tell. Returns the exit code (0 whole, 1
    not), the reply or the error with its partial reply as plain JSON, and the deltas, each with the number of bytes that
    had been read by then. Raises `ConfigurationError` for a file that cannot be read or is plainly of another dialect, and
    for a dialect that is not known.
    """
    if dialect != "auto" and dialect not in DIALECTS:
        raise ConfigurationError(f"no dialect is named {dialect!r}; there are: auto, {', '.join(DIALECTS)}")
    chunks = _chunks(path, max(chunk_bytes, _HEAD_BYTES))
    first = next(chunks, b"")
    looks_like = recognise(first[:_HEAD_BYTES])
    reader = ReplyReader(looks_like or "openai_chat" if dialect == "auto" else dialect, limits=limits)
    deltas: list[tuple[int, Delta]] = []
    seen = 0
    try:
        for chunk in _sized(first, chunks, chunk_bytes):
            seen += len(chunk)
            deltas.extend((seen, delta) for delta in reader.feed(chunk))
            if reader.ended:
                break
        reply = reader.close()
    except StreamError as error:
        if not deltas and dialect != "auto" and looks_like not in (None, dialect):
            raise ConfigurationError(
                f"{path!r} is no stream of {dialect}: its bytes look like {looks_like}; use --dialect {looks_like}"
            ) from None
        problem = {"kind": error.kind, "message": str(error)}
        for key in ("bound", "code"):
            if getattr(error, key) is not None:
                problem[key] = getattr(error, key)
        return 1, {"ok": False, "error": problem, "partial": _plain(error.partial)}, deltas
    finally:
        chunks.close()
    return 0, {"ok": True, **_plain(reply)}, deltas


def _sized(first: bytes, more: Iterator[bytes], size: int) -> Iterator[bytes]:
    """The bytes in pieces of `size`: all pieces but the last one of each read are full."""
    while first:
        yield from (first[at : at + size] for at in range(0, len(first), size))
        first = next(more, b"")


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
