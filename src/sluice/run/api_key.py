"""Where the API key of a run comes from, when it does not stand in the settings: a file of the user's, or a command.

Neither is ever taken from a file of the workspace (`config_keys`: `never`), and what they say is shown nowhere.
"""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Sequence
from pathlib import Path

import msgspec

from sluice.errors import ConfigurationError
from sluice.run.config_keys import keys
from sluice.run.settings import Settings
from sluice.tools.process import run_command

COMMAND_SECONDS = 30.0  # for a key_command: a password store that must be unlocked takes a while
MAX_KEY_BYTES = 64 * 1024  # of a key file, or of what a command prints; keys have a few hundred


async def with_key(settings: Settings) -> Settings:
    """The settings with the key of a file or a command, if a key is needed and none is there.

    The provider's own `key_file` and `key_command` go before `api_key_file` and `key_command` of the settings. A file in
    the workspace is refused. None of them is asked where requests are not sent, or go to an address that needs no key. A
    command runs without a shell and without a terminal, in the home folder, for at most 30 seconds. Raises
    `ConfigurationError`. Being cancelled ends the command.
    """
    offline = settings.mode == "mock" or settings.replay is not None
    if settings.api_key or offline or not settings.route().needs_key:
        return settings
    way = settings.route()
    for file, command in ((way.key_file, way.key_command), (settings.api_key_file, settings.key_command)):
        if file is not None or command:
            return msgspec.structs.replace(settings, api_key=await key_by(file, command or (), settings.workspace))
    return settings


async def key_by(file: str | None, command: Sequence[str], workspace: str) -> str:
    """The key of the file, or without one of the command. Raises `ConfigurationError`, also for a file in the workspace."""
    if file is None:
        return await key_from_command(command, workspace)
    _outside(file, workspace)
    return key_from_file(file)


def _lies_in(path: str, workspace: str) -> bool:
    try:
        return Path(os.path.realpath(os.path.expanduser(path))).is_relative_to(os.path.realpath(workspace))
    except ValueError:  # a NUL: opening it says so
        return False


def _outside(path: str, workspace: str) -> None:
    """Raises `ConfigurationError` for a file that lies where tools may read."""
    if _lies_in(path, workspace):
        raise ConfigurationError(
            f"api_key_file {path!r} lies in the workspace, where the model can read it; keep it somewhere else"
        )


def key_from_file(path: str) -> str:
    """The key that a file holds, trimmed. Raises `ConfigurationError` for one that others on this machine may read."""
    named = f"api_key_file {path!r}"
    try:
        descriptor = os.open(os.path.expanduser(path), os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            found = os.fstat(descriptor)
            if not stat.S_ISREG(found.st_mode):
                raise ConfigurationError(f"{named} is no file")
            if os.name == "posix" and found.st_mode & 0o077:
                raise ConfigurationError(f"others on this machine can read {named}; run chmod 600 on it")
            raw = os.read(descriptor, MAX_KEY_BYTES)
        finally:
            os.close(descriptor)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ConfigurationError(f"{named} cannot be read: {reason}") from None
    return _key(raw, named)


async def key_from_command(words: Sequence[str], workspace: str) -> str:
    """The key that a command prints, trimmed. Raises `ConfigurationError`, which shows nothing of what it printed.

    It runs with the user's rights, so neither it nor what it calls by name is looked for in the workspace.
    """
    named = f"key_command {words[0]!r}"
    folders = _folders(workspace)
    program = _program(words[0], folders)
    if program is None and (_program(words[0], _folders(None)) is None):
        raise ConfigurationError(f"{named} is not found; name a program in your PATH, or one by its absolute path")
    if program is None or _lies_in(program, workspace):
        raise ConfigurationError(f"{named} lies in the workspace, where the model could have written it; it is not run")
    printed = bytearray()

    def take(piece: bytes) -> bool:
        printed.extend(piece)
        return len(printed) > MAX_KEY_BYTES

    try:
        ended = await run_command(
            [program, *words[1:]],
            cwd=_home(),
            env={**os.environ, "PATH": ":".join(folders)},
            timeout=COMMAND_SECONDS,
            output=take,
            errors=lambda _piece: None,
        )
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ConfigurationError(f"{named} cannot be run: {reason}") from None
    if ended.timed_out:
        raise ConfigurationError(f"{named} did not end within {COMMAND_SECONDS:g} s")
    if ended.stopped:
        raise ConfigurationError(f"{named} prints more than {MAX_KEY_BYTES} bytes, which is no key")
    if ended.exit_code != 0:
        how = f"exit code {ended.exit_code}" if ended.signal is None else f"signal {ended.signal}"
        raise ConfigurationError(f"{named} failed ({how}); run it by hand to see why")
    return _key(bytes(printed), f"what {named} prints")


def _key(raw: bytes, named: str) -> str:
    try:
        return str(keys()["api_key"].parse(raw.decode("ascii")) or "") or _no_key(named)
    except ValueError:
        return _no_key(named)


def _no_key(named: str) -> str:
    raise ConfigurationError(f"{named} is no key; expected {keys()['api_key'].expected()}")


def _folders(workspace: str | None) -> list[str]:
    """The folders of PATH that count: absolute ones, and none in the workspace."""
    absolute = [folder for folder in os.environ.get("PATH", "").split(":") if os.path.isabs(folder)]
    return [folder for folder in absolute if workspace is None or not _lies_in(folder, workspace)]


def _program(word: str, folders: Sequence[str]) -> str | None:
    """The program's absolute path. A relative one could be a file of the workspace, and is none."""
    if "/" in word:
        path = os.path.expanduser(word)
        return path if os.path.isabs(path) else None
    return shutil.which(word, path=":".join(folders))


def _home() -> str:
    home = str(Path("~").expanduser())
    return home if os.path.isdir(home) else "/"
