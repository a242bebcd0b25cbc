"""The sandbox of one session's commands: which kind this machine gives, and the running of a command in it (P8).

With bubblewrap a command writes only in the workspace and in private folders that go with the session, sees no keys and no
other processes, and reaches no network unless allowed. Without it the Linux security module Landlock holds a part of that.
Where neither works, nothing runs, unless the user has said that commands may run without.
"""

from __future__ import annotations

import contextlib
import functools
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from sluice.errors import SluiceError
from sluice.limits import DEFAULT_LIMITS, Limits
from sluice.tools import keeper
from sluice.tools.bubblewrap import Network, find_bubblewrap, inner_words, outer_words
from sluice.tools.private_folders import make_private_folders, remove_folder
from sluice.tools.process import Ended, Reader, environment, run_command, succeeds
from sluice.tools.sandbox_places import Places, UnprotectableError, find_places, planted
from sluice.tools.sandbox_status import all_gone, read_status, status_pipe
from sluice.tools.tree_watch import TreeWatch
from sluice.values.ports import Cancel

if TYPE_CHECKING:
    from sluice.tools.allowed_hosts import Host
    from sluice.tools.host_proxy import Door, HostProxy

Mode = Literal["auto", "off"]
Kind = Literal["bubblewrap", "landlock", "none", "off"]

_TRY_SECONDS = 10.0  # for the first try of a sandbox; a busy machine has been seen to take one
_HOSTS_SHOWN = 8
_MESSAGE_BYTES = 400  # shown of what bubblewrap said

_HOW_ON_LINUX = (
    "install bubblewrap or use a kernel with Landlock (`sluice doctor` shows what this machine gives); "
    "or let commands run without a sandbox: --allow-unsandboxed"
)
_HOW_ELSEWHERE = (
    "Sluice has a sandbox on Linux only, so run it there, in a virtual machine or a container; "
    "or let commands run without a sandbox: --allow-unsandboxed"
)
HOW_TO_ALLOW = _HOW_ON_LINUX if sys.platform.startswith("linux") else _HOW_ELSEWHERE


class SandboxError(SluiceError):
    """A command was not run, because the sandbox it needs could not be had. The message says why, in one line."""


@dataclass(frozen=True)
class Ran:
    """How a command ended, and what it may have planted: repositories that were not there before, by relative path.

    `refused` are hosts that it asked for and may not reach, some of them.
    """

    ended: Ended
    planted: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()


@functools.cache
def available() -> Kind:
    """The best kind that works here, found by trying, once in a process."""
    program = find_bubblewrap()
    if program is not None and _bubblewrap_works(program):
        return "bubblewrap"
    return "landlock" if keeper.landlock_version() >= keeper.LEAST_LANDLOCK else "none"


class Sandbox:
    """The sandbox for commands in `workspace`. Making one touches nothing; `close` removes the private folders.

    `private` are paths no command may see (state, configuration with keys). With mode `off`, or with `unsandboxed` where
    the machine gives no sandbox, commands run as the user and their tree is held all the same; only a user's own words
    set either. `kind` spares the try of the machine. `hosts` can be reached without `network`, in bubblewrap only: a
    sandbox of another kind keeps them shut.
    """

    def __init__(
        self,
        workspace: str,
        *,
        mode: Mode = "auto",
        unsandboxed: bool = False,
        network: bool = False,
        hosts: Sequence[Host] = (),
        private: Sequence[str] = (),
        limits: Limits = DEFAULT_LIMITS,
        kind: Kind | None = None,
    ) -> None:
        self._workspace = os.path.realpath(workspace)
        self._mode = mode
        self._unsandboxed = unsandboxed
        self._network: Network = "all" if network else "door" if hosts else "none"
        self._hosts = tuple(hosts)
        self._proxy: HostProxy | None = None
        self.watch = TreeWatch(limits.max_run_memory_bytes, limits.max_command_processes)
        self._private = tuple(private)
        self._limits = limits
        self._kind = kind
        self._temp: str | None = None
        self._absent: dict[str, int] = {}

    @property
    def kind(self) -> Kind:
        """What commands run in. Tries the machine when first asked."""
        if self._kind is None:
            found: Kind = "off" if self._mode == "off" else available()
            self._kind = "off" if found == "none" and self._unsandboxed else found
        return self._kind

    @property
    def words(self) -> str:
        """What commands run in and what they reach of the network, in one line. Tries the machine when first asked."""
        if self.kind == "none":
            return "none can be had on this machine, so commands are refused"
        if self.kind == "off":
            return "no sandbox: commands can do what the user can, and reach every host"
        name = "bubblewrap" if self.kind == "bubblewrap" else "Landlock (files of git are not protected)"
        if self._network == "all":
            return f"{name}, with the network"
        if self._network == "door" and self.kind == "bubblewrap":
            more = f" and {len(self._hosts) - _HOSTS_SHOWN} more" if len(self._hosts) > _HOSTS_SHOWN else ""
            return f"{name}, network: {', '.join(map(str, self._hosts[:_HOSTS_SHOWN]))}{more}"
        return f"{name}, no network" + (" (a list of hosts needs bubblewrap)" if self._network == "door" else "")

    async def run(
        self,
        argv: Sequence[str],
        *,
        folder: int,
        env: Mapping[str, str],
        timeout: float,
        output: Reader,
        cancel: Cancel | None = None,
        drain_seconds: float = DEFAULT_LIMITS.command_drain_seconds,
        max_output_bytes: int = DEFAULT_LIMITS.max_command_output_bytes,
    ) -> Ran:
        """Runs `argv` in the workspace, whose open descriptor is `folder`, as `run_command` does.

        Raises `SandboxError` if there is no sandbox or it could not be set up; the command has not run then. Otherwise
        raises what `run_command` raises.
        """
        kind = self.kind
        if kind == "none":
            raise SandboxError(f"this machine gives no sandbox, so no command is run; {HOW_TO_ALLOW}")
        if kind == "off" and not sys.platform.startswith("linux"):
            ended = await run_command(
                argv, cwd=folder, env=env, timeout=timeout, output=output, cancel=cancel,
                max_output_bytes=max_output_bytes, drain_seconds=drain_seconds,
            )  # fmt: skip
            return Ran(ended)
        try:
            places = find_places(self._workspace, self._private, os.environ)
        except UnprotectableError as error:
            if kind != "off":
                raise SandboxError(f"{error}; no command is run") from None
            places = Places(self._workspace)
        bounds = _Bounds(timeout, output, cancel, drain_seconds, max_output_bytes)
        refused: list[str] = []
        async with contextlib.AsyncExitStack() as stack:
            if kind == "bubblewrap":
                door = await stack.enter_async_context(self._way_out().door()) if self._network == "door" else None
                ended = await self._in_bubblewrap(argv, folder, env, bounds, places, stack, door)
                refused = door.refused if door is not None else []
            else:
                ended = await self._in_keeper(argv, folder, env, bounds, places, stack)
        return Ran(ended, () if kind == "off" else tuple(planted(places)), tuple(refused))

    def _way_out(self) -> HostProxy:
        """The proxy of this session, whose names keep their addresses."""
        if self._proxy is None:
            from sluice.tools.host_proxy import HostProxy  # few runs list hosts

            self._proxy = HostProxy(self._hosts)
        return self._proxy

    def close(self) -> None:
        """Removes the private folders with what commands left in them. Calling it twice is fine."""
        if self._temp is not None:
            remove_folder(self._temp)
            self._temp = None

    async def _in_bubblewrap(
        self,
        argv: Sequence[str],
        folder: int,
        env: Mapping[str, str],
        bounds: _Bounds,
        places: Places,
        stack: contextlib.AsyncExitStack,
        door: Door | None,
    ) -> Ended:
        program = find_bubblewrap()
        assert program is not None
        temp = self._private_folders()
        home = _real_home(env, temp)
        stack.callback(self._give_back, self._hold_absent(places))
        outer_read, outer_write = status_pipe(stack)
        inner_read, inner_write = status_pipe(stack)
        words = inner_words(places, folder_fd=folder, temp=temp, home=home, network=self._network)
        words_fd = os.memfd_create("sluice", os.MFD_CLOEXEC)
        stack.callback(os.close, words_fd)
        os.write(words_fd, b"\0".join(map(os.fsencode, words)) + b"\0")
        os.lseek(words_fd, 0, os.SEEK_SET)
        outer = outer_words(program, self._limits, outer_write, root=os.geteuid() == 0, network=self._network)
        inner = [program, "--json-status-fd", str(inner_write), "--args", str(words_fd), "--"]
        said = _Beginning(bounds.output)
        try:
            ended = await run_command(
                [*outer, *(door.words() if door is not None else ()), *inner, *argv],
                cwd="/",
                env={**env, "HOME": home, "TMPDIR": "/tmp"},  # noqa: S108 - the private one, by its name inside
                timeout=bounds.timeout,
                output=said,
                cancel=bounds.cancel,
                max_output_bytes=bounds.max_output_bytes,
                drain_seconds=bounds.drain_seconds,
                sweep=False,
                hold="leader",
                watch=self.watch,
                pass_fds=(outer_write, inner_write, words_fd, folder, *((door.child,) if door is not None else ())),
            )
        finally:
            await all_gone(read_status(outer_read))
        status = read_status(inner_read)
        whole = not (ended.timed_out or ended.cancelled or ended.overflowed or ended.stopped or ended.excess)
        begun = "child-pid" in status and "bwrap:" not in said.text()
        if whole and "exit-code" not in status and not begun:
            raise SandboxError(f"the sandbox could not be set up, no command was run: {said.text()}")
        return ended

    async def _in_keeper(
        self,
        argv: Sequence[str],
        folder: int,
        env: Mapping[str, str],
        bounds: _Bounds,
        places: Places,
        stack: contextlib.AsyncExitStack,
    ) -> Ended:
        status_read, status_write = status_pipe(stack)
        own: dict[str, str] = {}
        order = keeper.Order(parent=os.getpid(), status_fd=status_write, folder_fd=folder)
        if self.kind == "landlock":
            temp = self._private_folders()
            own = {"HOME": f"{temp}/home", "TMPDIR": f"{temp}/temp"}
            order = replace(
                order,
                readable=keeper.readable(
                    [*places.hidden, os.path.dirname(temp)], [self._workspace, temp, *places.readable]
                ),
                writable=(self._workspace, temp),
                network=self._network == "all",
                limits=keeper.kernel_limits(self._limits),
            )
        words_fd = os.memfd_create("sluice", os.MFD_CLOEXEC)
        stack.callback(os.close, words_fd)
        os.write(words_fd, order.encoded())
        os.lseek(words_fd, 0, os.SEEK_SET)
        ended = await run_command(
            [sys.executable, "-I", "-S", "-B", keeper.PROGRAM, str(words_fd), *argv],
            cwd="/",
            env={**env, **own},
            timeout=bounds.timeout,
            output=bounds.output,
            cancel=bounds.cancel,
            max_output_bytes=bounds.max_output_bytes,
            drain_seconds=bounds.drain_seconds,
            hold="reaper",
            watch=self.watch,
            pass_fds=(status_write, words_fd, folder),
        )
        status = read_status(status_read)
        problem = status.get("problem")
        if isinstance(problem, str):
            raise SandboxError(f"the sandbox could not be set up, no command was run: {problem}")
        code, left = status.get("exit-code"), status.get("left")
        if isinstance(code, int):
            ended = replace(
                ended,
                exit_code=code if code >= 0 else None,
                signal=-code if code < 0 else None,
                left_running=ended.left_running + (left if isinstance(left, int) else 0),
            )
        return ended

    def _private_folders(self) -> str:
        if self._temp is None:
            self._temp = make_private_folders()
        return self._temp

    def _hold_absent(self, places: Places) -> list[str]:
        """Counts who keeps a path from coming to be: the folder that stands there meanwhile goes with the last of them."""
        mine = [path for path in places.read_only if path in self._absent]
        places.read_only = [path for path in places.read_only if path not in mine]
        places.absent = sorted({*places.absent, *mine})
        for path in places.absent:
            self._absent[path] = self._absent.get(path, 0) + 1
        return list(places.absent)

    def _give_back(self, held: Sequence[str]) -> None:
        for path in held:
            self._absent[path] -= 1
            if not self._absent[path]:
                del self._absent[path]
                with contextlib.suppress(OSError):  # not empty, or never made
                    os.rmdir(path)


def _bubblewrap_works(program: str) -> bool:
    """Whether a command can be run in both layers, by running one."""
    read_end, write_end = os.pipe()
    try:
        words = outer_words(program, DEFAULT_LIMITS, write_end, root=os.geteuid() == 0)
        inner = [
            *(program, "--unshare-user", "--disable-userns", "--unshare-net", "--unshare-ipc", "--cap-drop", "ALL"),
            *("--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--tmpfs", "/tmp", "--", "/bin/sh", "-c", ":"),  # noqa: S108 - inside the sandbox
        ]
        return succeeds([*words, *inner], env=environment(), seconds=_TRY_SECONDS, pass_fds=(write_end,))
    finally:
        os.close(read_end)
        os.close(write_end)


@dataclass(frozen=True)
class _Bounds:
    timeout: float
    output: Reader
    cancel: Cancel | None
    drain_seconds: float
    max_output_bytes: int


class _Beginning:
    """Hands output on and keeps its beginning: what bubblewrap says if it cannot do its work."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._kept = b""

    def __call__(self, data: bytes) -> bool | None:
        if len(self._kept) < _MESSAGE_BYTES:
            self._kept += data[: _MESSAGE_BYTES - len(self._kept)]
        return self._reader(data)

    def text(self) -> str:
        return " ".join(self._kept.decode("utf-8", "replace").split()) or "it said nothing"


def _real_home(env: Mapping[str, str], temp: str) -> str:
    return os.path.realpath(env.get("HOME") or f"{temp}/home")
