"""P8, tried: every way out that we know, from inside each sandbox, as root and as another user.

Each way stands beside the same try without a sandbox, its positive control. What a kind of sandbox does not hold is written
down in `NOT_HELD` and is tested to be so; where a control does not work on this machine, the case says so loudly.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sluice.tools import keeper
from sluice.tools.allowed_hosts import parse_host
from sluice.tools.bubblewrap import find_bubblewrap
from sluice.tools.process import environment, run_command
from sluice.tools.sandbox import Sandbox

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="NOT CHECKED: sandboxes of Linux, on another system")
BASH = ("/bin/bash", "--noprofile", "--norc", "-c", "--")
NOBODY = 65534
PERL = shutil.which("perl")
CONNECT = "use Socket; socket(S, PF_UNIX, SOCK_STREAM, 0) && connect(S, sockaddr_un({})) or exit 1"
MACHINES = {"x86_64": 101, "aarch64": 117}  # the number of ptrace
# {out} is a folder of the user's beside the workspace, {port} and {sock} a server of theirs, {pid} a process of theirs.
WAYS = {
    "write outside": "echo x >{out}/made",
    "read a secret": "grep -q CANARY {out}/secret",
    "through a link that was there": "echo x >link/made",
    "read through a link that was there": "grep -q CANARY link/secret",
    "listening port": "exec 3<>/dev/tcp/127.0.0.1/{port}",
    "socket in a folder": f"{PERL} -e '{CONNECT.format('q({sock})')}'",
    "abstract socket": f"{PERL} -e '{CONNECT.format('qq(' + chr(92) + '0{abstract})')}'",
    "key in another's environment": "tr '\\0' '\\n' </proc/{pid}/environ | grep -q CANARY",
    "memory of another": ": </proc/{pid}/mem",
    "ptrace": f"{PERL} -e 'exit(syscall({MACHINES.get(os.uname().machine, -1)}, 16, {{pid}}, 0, 0) ? 1 : 0)'",
    "signal to another": "kill -CONT {pid}",
    "root of another": "grep -q CANARY /proc/{pid}/root{out}/secret",
    "folder of another": "grep -q CANARY /proc/{pid}/cwd/secret",
    "descriptor of another": "grep -q CANARY /proc/{pid}/fd/9",
    "mount": "mkdir -p m && mount -t tmpfs t m && umount m",
    "user namespace": "unshare -Ur true",
    "kernel settings": "echo $(cat /proc/sys/vm/swappiness) >/proc/sys/vm/swappiness",
    "settings of its modules": "f=/sys/module/kernel/parameters/panic; echo $(cat $f) >$f",
    "bound of process numbers": "echo $(cat /proc/sys/kernel/pid_max) >/proc/sys/kernel/pid_max",
    "kernel log": ": </dev/kmsg",
    "planted hook": "mkdir -p .git/hooks && echo x >.git/hooks/pre-commit && [ -s .git/hooks/pre-commit ]",
    "planted config": "mkdir -p .git && echo x >.git/config && [ -s .git/config ]",
    "our own config": "mkdir -p .sluice && echo x >.sluice/config.toml && [ -s .sluice/config.toml ]",
    "rights by a program": "grep -q NoNewPrivs:.0 /proc/self/status",
}
NOT_HELD = {
    "bubblewrap": set[str](),
    "door": set[str](),  # bubblewrap with a list of hosts
    # A rule of Landlock gives a folder with all below it.
    "landlock": {"planted hook", "planted config", "our own config"},
}
ROOTS_ONLY = {
    "mount",
    "kernel settings",
    "settings of its modules",
    "bound of process numbers",
    "kernel log",
}  # nobody else may do them, sandbox or not


def in_a_child(user: int, work: Path, run: Any) -> Any:
    """What `run()` returns, in a process of its own that is this user's."""
    read_end, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(read_end)
            own = {"HOME": f"{work}/../home", "TMPDIR": f"{work}/../tmp", "PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}
            os.environ.clear()
            os.environ.update(own)
            tempfile.tempdir = own["TMPDIR"]
            if user:
                sys.executable = python_for_all() or sys.executable
                os.setgroups([])
                os.setgid(user)
                os.setuid(user)
            os.write(write_end, json.dumps(run()).encode())
        except BaseException as error:
            os.write(write_end, json.dumps(repr(error)).encode())
        finally:
            os._exit(0)
    os.close(write_end)
    with os.fdopen(read_end, "rb") as file:
        said = file.read()
    os.waitpid(child, 0)
    return json.loads(said)


def ways_that_work(kind: Any, work: Path, words: dict[str, Any]) -> list[str]:
    """The ways that led out, all tried in one command."""
    lines = []
    for number, way in enumerate(WAYS.values()):
        command = way
        for name, word in words.items():
            command = command.replace("{" + name + "}", str(word))
        lines.append(f"( {command} ) >/dev/null 2>&1 </dev/null && echo GOT {number}")
    script = "\n".join([*lines, "echo END"])

    async def main() -> str:
        out: list[bytes] = []
        folder = os.open(work, os.O_RDONLY | os.O_DIRECTORY)
        try:
            if kind == "plain":
                await run_command([*BASH, script], cwd=folder, env=environment(), timeout=30, output=out.append)
            else:
                hosts = [parse_host("a.example")] if kind == "door" else []
                box = Sandbox(str(work), kind="bubblewrap" if kind == "door" else kind, hosts=hosts)
                await box.run([*BASH, script], folder=folder, env=environment(), timeout=30, output=out.append)
                box.close()
        finally:
            os.close(folder)
        return b"".join(out).decode("utf-8", "replace")

    said = asyncio.run(main()).splitlines()
    assert said[-1:] == ["END"], said
    names = list(WAYS)
    return [names[int(line.split()[1])] for line in said[:-1]]


class Place:
    """Folders, a server and a process of one user, and the ways that work for them, by kind of sandbox."""

    def __init__(self, folder: Path, user: int) -> None:
        self.user = user
        self.folder = folder
        self.found: dict[str, list[str]] = {}
        for name in ("work", "out", "home", "tmp"):
            (folder / name).mkdir()
        (folder / "out" / "secret").write_text("CANARY\n")
        (folder / "work" / "link").symlink_to(folder / "out")
        self.tcp = socket.create_server(("127.0.0.1", 0))
        self.unix, self.abstract = (socket.socket(socket.AF_UNIX) for _ in range(2))
        self.unix.bind(str(folder / "work" / "sock"))
        self.unix.listen()
        abstract = f"sluice-test-{os.getpid()}-{user}"
        self.abstract.bind("\0" + abstract)
        self.abstract.listen()
        for path in (folder, *folder.rglob("*")):
            os.chown(path, user, user, follow_symlinks=False)
        for path in folder.parents:
            if path != Path("/") and not path.stat().st_mode & 0o001:
                path.chmod(path.stat().st_mode | 0o011)
        self.victim = subprocess.Popen(
            ["/bin/bash", "-c", "exec 9<secret; exec sleep 1000"], cwd=folder / "out", env={"SOME_API_KEY": "CANARY"},
            user=user, group=user, extra_groups=[],
        )  # fmt: skip
        self.words = {"out": folder / "out", "port": self.tcp.getsockname()[1], "sock": folder / "work" / "sock",
                      "abstract": abstract, "pid": self.victim.pid}  # fmt: skip

    def __call__(self, kind: str) -> list[str]:
        if kind not in self.found:
            work = self.folder / "work"
            found = in_a_child(self.user, work, lambda: ways_that_work(kind, work, self.words))
            assert isinstance(found, list), found
            self.found[kind] = found
            for name in (".git", ".sluice"):
                shutil.rmtree(work / name, ignore_errors=True)
            (self.folder / "out" / "made").unlink(missing_ok=True)
            self.victim.send_signal(signal.SIGCONT)
        return self.found[kind]

    def close(self) -> None:
        self.victim.kill()
        self.victim.wait()
        for one in (self.tcp, self.unix, self.abstract):
            one.close()


@pytest.fixture(scope="module", params=[0, NOBODY], ids=["root", "nobody"])
def place(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    if os.getuid() != 0:
        pytest.skip("NOT CHECKED: only root can try the sandbox as root and as another user")
    made = Place(tmp_path_factory.mktemp("escapes"), request.param)
    yield made
    made.close()


@pytest.mark.parametrize("kind", NOT_HELD)
@pytest.mark.parametrize("way", WAYS)
def test_no_way_leads_out(way: str, kind: str, place: Place) -> None:
    if kind != "landlock" and find_bubblewrap() is None:
        pytest.skip("NOT CHECKED: there is no bubblewrap here")
    if kind == "landlock" and keeper.landlock_version() < keeper.LEAST_LANDLOCK:
        pytest.skip("NOT CHECKED: this kernel has no Landlock")
    if kind != "bubblewrap" and place.user and python_for_all() is None:
        pytest.skip("NOT CHECKED as another user, who may run no Python here: Landlock and a list of hosts")
    if way not in place("plain"):
        if place.user and way in ROOTS_ONLY:
            pytest.skip(f"NOT CHECKED as {NOBODY}: without a sandbox only root can do this: {way}")
        pytest.skip(f"NOT CHECKED: even without a sandbox this does not work on this machine: {way}")
    assert (way in place(kind)) is (way in NOT_HELD[kind])


def python_for_all() -> str | None:
    """A Python that every user may run: this one, or one of the system's, which is all that our small programs need."""
    for program in (sys.executable, "/usr/bin/python3", "/usr/local/bin/python3"):
        path = Path(program).resolve()
        with contextlib.suppress(OSError):
            if all(part.stat().st_mode & 0o001 for part in (path, *path.parents)):
                return str(path)
    return None


def test_nearly_all_controls_work(place: Place) -> None:
    """A machine on which the ways do not lead out without a sandbox either would prove nothing."""
    assert len(place("plain")) >= (len(WAYS) * 3) // 4


def test_a_hard_link_that_was_there_leads_out(tmp_path: Path) -> None:
    """What no sandbox of ours holds: two names of one file are one file. A command cannot make such a link, only use it."""
    if find_bubblewrap() is None:
        pytest.skip("NOT CHECKED: there is no bubblewrap here")
    (tmp_path / "work").mkdir()
    (tmp_path / "secret").write_text("s\n")
    os.link(tmp_path / "secret", tmp_path / "work" / "hard")
    box = Sandbox(str(tmp_path / "work"), kind="bubblewrap")

    async def main() -> None:
        folder = os.open(tmp_path / "work", os.O_RDONLY | os.O_DIRECTORY)
        try:
            script = f"echo x >hard; ln {tmp_path}/secret new; ln -L /etc/passwd new2"
            await box.run([*BASH, script], folder=folder, env=environment(), timeout=30, output=lambda data: None)
        finally:
            os.close(folder)
            box.close()

    asyncio.run(main())
    assert (tmp_path / "secret").read_text() == "x\n"
    assert sorted(path.name for path in (tmp_path / "work").iterdir()) == ["hard"]
