"""Reads a config file: TOML, or lines of `key=value`.

Every fault is a `ConfigurationError` that names the file and, where there is one, the line.
"""

from __future__ import annotations

import os
import re
import stat
import tomllib
from pathlib import Path
from typing import Any

import msgspec

from sluice.errors import ConfigurationError

MAX_CONFIG_BYTES = 1024 * 1024  # bytes of a config file; real ones have a few hundred


class ConfigFile(msgspec.Struct, frozen=True, kw_only=True):
    """What a file holds: values by key as written (keys in lower case with `_`), and what is odd about it."""

    path: Path
    values: dict[str, Any]
    warnings: tuple[str, ...] = ()
    open_to_others: bool = False


def read_config_file(path: Path, *, trusted: bool = True) -> ConfigFile:
    """Reads the file at `path`.

    A `.toml` file is TOML; any other is tried as TOML and then as `key=value` lines, where `#` and `;` begin comments.
    An untrusted file (one of the workspace) must be a regular file and no link. Raises `ConfigurationError`.
    """
    raw, mode = _read(path, trusted)
    if raw.startswith(b"\xef\xbb\xbf"):
        raw = raw[3:]
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise ConfigurationError(f"config file {str(path)!r}, line {line}: not UTF-8 text") from None
    pairs = _pairs(path, text.replace("\r\n", "\n"))
    values: dict[str, Any] = {}
    warnings = []
    for written, value in pairs:
        key = normal_key(written)
        if key in values:
            warnings.append(f"config file {str(path)!r} sets {key} twice; the last one counts")
        values[key] = value
    others = stat.S_ISREG(mode) and os.name == "posix" and bool(mode & 0o077)
    return ConfigFile(path=path, values=values, warnings=tuple(warnings), open_to_others=others)


def normal_key(written: str) -> str:
    """The key that a written key stands for: case does not count, `-` is `_`."""
    return written.strip().lower().replace("-", "_")


def _read(path: Path, trusted: bool) -> tuple[bytes, int]:
    flags = os.O_RDONLY | os.O_CLOEXEC
    if not trusted:
        # A link could lead out of the workspace; a FIFO would wait for ever.
        flags |= os.O_NOFOLLOW | os.O_NONBLOCK
    try:
        descriptor = os.open(path, flags)
        try:
            mode = os.fstat(descriptor).st_mode
            if stat.S_ISDIR(mode):
                raise ConfigurationError(f"config file {str(path)!r} is a folder")
            if not trusted and not stat.S_ISREG(mode):
                raise ConfigurationError(f"config file {str(path)!r} is no regular file")
            raw = _at_most(descriptor, MAX_CONFIG_BYTES + 1)
        finally:
            os.close(descriptor)
    except OSError as error:
        raise ConfigurationError(f"config file {str(path)!r} cannot be read: {error.strerror or error}") from None
    except ValueError:
        raise ConfigurationError(f"config file {str(path)!r} cannot be read: the path holds a NUL") from None
    if len(raw) > MAX_CONFIG_BYTES:
        raise ConfigurationError(f"config file {str(path)!r} is larger than {MAX_CONFIG_BYTES} bytes")
    return raw, mode


def _at_most(descriptor: int, count: int) -> bytes:
    pieces = []
    while count > 0:
        piece = os.read(descriptor, count)
        if not piece:
            break
        pieces.append(piece)
        count -= len(piece)
    return b"".join(pieces)


def _pairs(path: Path, text: str) -> list[tuple[str, Any]]:
    try:
        return list(tomllib.loads(text).items())
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        last = len(text.rstrip().split("\n"))
        reason = (str(error) or "nested too deeply").replace("at end of document", f"at line {last}, the end")
    if path.suffix.lower() == ".toml":
        raise ConfigurationError(f"config file {str(path)!r} is not TOML: {reason}")
    return [_pair(path, number, line) for number, line in _lines(text)]


def _lines(text: str) -> list[tuple[int, str]]:
    numbered = ((number, line.strip()) for number, line in enumerate(text.split("\n"), 1))
    return [(number, line) for number, line in numbered if line and line[0] not in "#;"]


def _pair(path: Path, number: int, line: str) -> tuple[str, str]:
    key, equals, value = line.partition("=")
    value = value.strip()
    if not equals or not re.fullmatch(r"[A-Za-z0-9_\-]+", key.strip()):
        raise ConfigurationError(f"config file {str(path)!r}, line {number}: expected key=value")
    if value[:1] in ("'", '"'):
        if len(value) < 2 or value[-1] != value[0] or value[0] in value[1:-1]:
            raise ConfigurationError(f"config file {str(path)!r}, line {number}: the quotes of the value do not close")
        value = value[1:-1]
    return key, value
