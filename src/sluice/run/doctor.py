"""The facade behind `sluice doctor`: which protections this machine gives to commands, found by trying them (P8)."""

from __future__ import annotations

import asyncio
import os
import socket
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from sluice.errors import SluiceError
from sluice.limits import DEFAULT_LIMITS
from sluice.run.keeping import kept_lines, kept_now
from sluice.run.wiring import state_folder
from sluice.session.kept import Kept
from sluice.tools.allowed_hosts import Host
from sluice.tools.bubblewrap import bounds_processes, find_bubblewrap
from sluice.tools.keeper import landlock_version
from sluice.tools.process import environment
from sluice.tools.sandbox import Kind, Sandbox, available
from sluice.tools.tree_watch import TreeWatch

_SECONDS = 20.0
_A_SETTING = "/proc/sys/vm/swappiness"  # is written with the value that it has
# Asks the proxy that a command is given for a tunnel; succeeds if there is one.
_ASK = (
    "p=${{https_proxy##*/}}; exec 3<>/dev/tcp/${{p/:/\\/}}; printf 'CONNECT 127.0.0.1:{} HTTP/1.1\\r\\n\\r\\n' >&3; "
    "read -r -t 10 line <&3; [[ $line == *' 200 '* ]]"
)
_NO_SHELL = 127
_SHELL = "/bin/bash"  # without it nothing can be tried: no other shell opens a connection


class Protection(msgspec.Struct, frozen=True):
    """One protection: whether it was seen to hold; `None` where that could not be tried. `note` says more."""

    name: str
    holds: bool | None
    note: str = ""


class Report(msgspec.Struct, frozen=True):
    """What commands run in here (`bubblewrap`, `landlock` or `none`), and the protections that gives.

    The limits at its end are told by what the kernel is, all others by trying them. `kept` is what Sluice keeps on this
    disk, and `kept_bytes` how much that may be (bytes), if that was looked at.
    """

    sandbox: Kind
    bubblewrap: str | None
    landlock: int
    protections: tuple[Protection, ...]
    kept: Kept | None = None
    kept_bytes: int | None = None


def lines(report: Report) -> Iterator[str]:
    """The report to read, line by line."""
    landlock = f"version {report.landlock}" if report.landlock else "not here"
    yield f"sandbox: {report.sandbox}  (bubblewrap: {report.bubblewrap or 'not found'}; Landlock: {landlock})"
    for one in report.protections:
        mark = {True: "yes", False: "NO", None: "not known"}[one.holds]
        yield f"  {mark:<9}  {one.name}" + (f"  ({one.note})" if one.note else "")
    if report.sandbox == "none":
        yield "No sandbox works here: commands are refused unless you give --allow-unsandboxed."
    if report.kept is not None:
        yield from kept_lines(report.kept, report.kept_bytes)


def examine() -> Report:
    """As `examined`, with an event loop of its own."""
    return asyncio.run(examined())


def with_kept(report: Report, kept_bytes: int | None) -> Report:
    """The report with what is kept on this disk, which is found by looking at every file."""
    return msgspec.structs.replace(report, kept=kept_now(state_folder()), kept_bytes=kept_bytes)


async def examined() -> Report:
    """Tries each protection in folders of its own, which are removed again. Takes about a second.

    Being cancelled ends the command that is being tried, and leaves nothing.
    """
    kind = available()
    found: tuple[Protection, ...] = ()
    if kind != "none":
        with tempfile.TemporaryDirectory(prefix="sluice-doctor-", dir=_temporary()) as folder:
            found = await _try_all(kind, Path(folder))
    return Report(kind, find_bubblewrap(), landlock_version(), found)


def _temporary() -> str:
    return os.path.realpath(tempfile.gettempdir())


async def _try_all(kind: Kind, folder: Path) -> tuple[Protection, ...]:
    work, outside = folder / "work", folder / "outside"
    for made in (work / ".git" / "hooks", outside):
        made.mkdir(parents=True)
    secret = outside / "secret"
    secret.write_text("secret")
    (work / ".git" / "HEAD").write_text("ref: refs/heads/main\n")
    (work / ".git" / "config").write_text("")
    box = Sandbox(str(work), kind=kind, private=[str(outside)])
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        tries = (
            ("a command can write in the workspace", "echo x >made", True),
            ("writing outside is refused", f"echo x >{outside}/made", False),
            ("hidden files cannot be read", f"cat {secret}", False),
            ("no network", f"exec 3<>/dev/tcp/127.0.0.1/{port}", False),
            ("other processes are out of sight", f"kill -0 {os.getpid()}", False),
            ("settings of the kernel stay as they are", f"echo $(cat {_A_SETTING}) >{_A_SETTING}", False),
            ("hooks and configuration of git stay as they are", "echo x >.git/config", False),
        )
        try:
            found = [
                Protection(name, _as(wanted, await _succeeds(box, work, command))) for name, command, wanted in tries
            ]
        finally:
            box.close()
        if kind == "bubblewrap":
            found.append(await _a_list_of_hosts(work, port))
    return (*found, *_limits(kind))


async def _a_list_of_hosts(work: Path, port: int) -> Protection:
    """Whether a listed host is reached and no other: a port of this machine is listed, and another one asked for too."""
    box = Sandbox(str(work), kind="bubblewrap", hosts=[Host("127.0.0.1", port)])
    try:
        answers = [await _succeeds(box, work, _ASK.format(asked)) for asked in (port, port - 1)]
        direct = await _succeeds(box, work, f"exec 3<>/dev/tcp/127.0.0.1/{port}")
    finally:
        box.close()
    tried = (*answers, direct)
    return Protection(
        "a list of hosts is held to (--allow-host)", None if None in tried else tried == (True, False, False)
    )


def _limits(kind: Kind) -> Sequence[Protection]:
    by_kernel = kind == "bubblewrap" and (bounds_processes() or os.getuid() != 0)
    watched = "watched and ended, not held by the kernel" + (
        "" if kind != "bubblewrap" else "; for root that needs Linux 6.14"
    )
    return (
        Protection("the number of processes is bounded", True, "by the kernel" if by_kernel else watched),
        Protection("size of a file, memory and computing time are bounded", True, "of each process"),
        Protection(
            "memory of all commands together is bounded",
            True,
            f"watched ten times a second, not held by the kernel; at most {_gib(_memory_bound())} GiB",
        ),
        Protection(
            "everything ends with us", True, "process numbers of its own" if kind == "bubblewrap" else "a keeper"
        ),
    )


def _memory_bound() -> int:
    return TreeWatch(DEFAULT_LIMITS.max_run_memory_bytes, DEFAULT_LIMITS.max_command_processes).max_memory_bytes


def _gib(count: int) -> str:
    return f"{count / 2**30:.1f}"


async def _succeeds(box: Sandbox, work: Path, command: str) -> bool | None:
    fd = os.open(work, os.O_RDONLY | os.O_DIRECTORY)
    try:
        ran = await box.run(
            [_SHELL, "-c", command], folder=fd, env=environment(), timeout=_SECONDS, output=lambda data: None
        )
    except (SluiceError, OSError):
        return None
    finally:
        os.close(fd)
    code = ran.ended.exit_code
    return None if code is None or code == _NO_SHELL else code == 0


def _as(wanted: bool, succeeded: bool | None) -> bool | None:
    return None if succeeded is None else succeeded is wanted
