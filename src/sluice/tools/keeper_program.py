"""The keeper of one command's tree where bubblewrap is not: a small program between us and the command (P7, P8).

It adopts every orphan below it, ends all of them when the command ends or when we do, and can put the command under
Landlock and a filter of system calls first. It is run by its path, in isolated mode and without our packages, so that it
starts quickly: a few quick modules of the standard library are all it imports. `tools/keeper.py` gives it its order.
"""

from __future__ import annotations

import ctypes
import errno
import json
import os
import resource
import signal
import struct
import sys
from collections.abc import Sequence
from typing import Any

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446  # the same on every architecture
_PR_SET_PDEATHSIG, _PR_SET_NO_NEW_PRIVS, _PR_CAPBSET_DROP, _PR_SET_SECCOMP, _PR_SET_CHILD_SUBREAPER = 1, 38, 24, 22, 36
_READ = 0b1101  # execute, read a file, list a folder
_WRITE_FILE = 0b10
_ALL = {1: (1 << 13) - 1, 2: (1 << 14) - 1, 3: (1 << 15) - 1, 5: (1 << 16) - 1}  # rights known since each version
_TCP, _SCOPES = 0b11, 0b11  # bind and connect; abstract sockets and signals of others
_DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty")
# By machine: its number for the audit, and of the calls socket, io_uring_setup, capset
_CALLS = {"x86_64": (0xC000003E, 41, 425, 126), "aarch64": (0xC00000B7, 198, 425, 91)}


def main(words: Sequence[str]) -> int:
    """Keeps the command `words[1:]` by the order on descriptor `words[0]`; returns its exit code, as a shell tells it."""
    order_fd = int(words[0])
    with os.fdopen(order_fd, "rb") as file:
        order = json.load(file)
    libc = _libc()
    signal.signal(signal.SIGTERM, _end_all)
    libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    libc.prctl(_PR_SET_PDEATHSIG, int(signal.SIGTERM), 0, 0, 0)
    if os.getppid() != order["parent"]:
        return 1  # whom we were started by has ended in the meantime
    child = os.fork()
    if child == 0:
        _become(list(words[1:]), order, libc)
    os.close(order["folder_fd"])
    code = 1
    while True:
        pid, status = os.waitpid(-1, 0)
        if pid == child:
            code = os.waitstatus_to_exitcode(status)
            break
    left = _kill_below()
    os.write(order["status_fd"], json.dumps({"exit-code": code, "left": left}).encode() + b"\n")
    return code if code >= 0 else 128 - code


def _end_all(number: int, frame: object) -> None:
    _kill_below()
    os._exit(128 + number)


def _kill_below() -> int:
    """Kills and reaps children until there are none: the orphans of each become our own. Returns how many there were."""
    killed: set[int] = set()
    while True:
        for pid in _children():
            killed.add(pid)
            os.kill(pid, signal.SIGKILL)  # not reaped yet, so the number is still its own
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            return len(killed)


def _landlock_version(libc: ctypes.CDLL) -> int:
    return max(int(libc.syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), 1)), 0)


def _children() -> list[int]:
    own = str(os.getpid())
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat", "rb") as file:
                    fields = file.read().rpartition(b")")[2].split()
            except OSError:
                continue
            if fields[1].decode() == own and fields[0] not in (b"Z", b"X"):
                found.append(int(name))
    return found


def _become(words: list[str], order: dict[str, Any], libc: ctypes.CDLL) -> None:
    """Turns this process into the command; tells a failure on the status pipe instead of returning."""
    try:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        _offer_to_the_kernel()
        os.fchdir(order["folder_fd"])
        for name, bound in order["limits"]:
            number = getattr(resource, name)
            hard = resource.getrlimit(number)[1]
            least = bound if hard == resource.RLIM_INFINITY else min(bound, hard)
            resource.setrlimit(number, (least, least))
        if order["writable"]:
            _confine(order, libc)
        for number in (order["folder_fd"], order["status_fd"]):
            os.set_inheritable(number, False)
        os.execve(words[0], words, os.environ)  # noqa: S606 - the words of a judged call
    except BaseException as error:
        os.write(order["status_fd"], json.dumps({"problem": f"{words[0]}: {error}"}).encode() + b"\n")
        os._exit(127)


def _offer_to_the_kernel() -> None:
    """When the machine's memory runs out, the kernel is to end commands before whoever started them."""
    try:
        with open("/proc/self/oom_score_adj", "w") as file:
            file.write("1000")
    except OSError:
        return


def _confine(order: dict[str, Any], libc: ctypes.CDLL) -> None:
    version = _landlock_version(libc)
    every = next(rights for since, rights in sorted(_ALL.items(), reverse=True) if version >= since)
    tcp = _TCP if version >= 4 and not order["network"] else 0
    scopes = _SCOPES if version >= 6 else 0
    size = 24 if version >= 6 else 16 if version >= 4 else 8
    attributes = struct.pack("=QQQ", every, tcp, scopes)[:size]
    rules = _checked(libc.syscall(_CREATE_RULESET, attributes, ctypes.c_size_t(size), 0), "landlock_create_ruleset")
    for path in order["writable"]:
        _allow(libc, rules, path, every)
    for path in order["readable"]:
        _allow(libc, rules, path, _READ)
    for path in _DEVICES:
        _allow(libc, rules, path, _READ | _WRITE_FILE)
    _drop_rights(libc)
    _checked(libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no_new_privs")
    _checked(libc.syscall(_RESTRICT_SELF, rules, 0), "landlock_restrict_self")
    os.close(rules)
    if not order["network"]:
        _filter_sockets(libc)


def _allow(libc: ctypes.CDLL, rules: int, path: str, rights: int) -> None:
    try:
        fd = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return  # gone meanwhile, or never there
    try:
        if not os.path.isdir(f"/proc/self/fd/{fd}"):
            rights &= 0b1100_0000_0000_0111  # the rights that a file can have: execute, write, read, truncate, ioctl
        libc.syscall(_ADD_RULE, rules, 1, struct.pack("=Qi", rights, fd), 0)
    finally:
        os.close(fd)


def _drop_rights(libc: ctypes.CDLL) -> None:
    """Takes every capability away: root without them can do what its files let it do."""
    for number in range(64):
        libc.prctl(_PR_CAPBSET_DROP, number, 0, 0, 0)
    calls = _CALLS.get(os.uname().machine)
    if calls is not None:
        _checked(libc.syscall(calls[3], struct.pack("=Ii", 0x20080522, 0), bytes(24)), "capset")


def _filter_sockets(libc: ctypes.CDLL) -> None:
    """Refuses every new socket (a pair stays possible), by a filter that this process and its children cannot drop."""
    machine = _CALLS.get(os.uname().machine)
    if machine is None:
        raise OSError(errno.ENOSYS, f"no filter of sockets is known for {os.uname().machine}")
    arch, socket, ring, _ = machine
    load, equal, above, give = 0x20, 0x15, 0x35, 0x06
    denied, kill, allowed = 0x00050000 | errno.EACCES, 0x80000000, 0x7FFF0000
    program = (
        (load, 0, 0, 4),  # the architecture: another one has other numbers
        (equal, 1, 0, arch),
        (give, 0, 0, kill),
        (load, 0, 0, 0),  # the call
        (above, 2, 0, 0x40000000),  # numbers of the x32 interface
        (equal, 1, 0, socket),
        (equal, 0, 1, ring),
        (give, 0, 0, denied),
        (give, 0, 0, allowed),
    )
    code = b"".join(struct.pack("=HBBI", *step) for step in program)
    held = ctypes.create_string_buffer(code, len(code))
    filter_ = struct.pack("@HxxxxxxP", len(program), ctypes.addressof(held))
    _checked(libc.prctl(_PR_SET_SECCOMP, 2, filter_, 0, 0), "seccomp")


def _checked(result: int, what: str) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
    return result


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
