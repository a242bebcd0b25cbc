"""P8: what a command can reach, tried from inside, each with the same try outside as positive control."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from sluice.tools import sandbox
from sluice.tools.allowed_hosts import parse_host
from sluice.tools.process import environment
from sluice.tools.sandbox import Ran, Sandbox, SandboxError, available
from sluice.tools.tree_watch import TreeWatch

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="NOT CHECKED: sandboxes of Linux, on another system")
BASH = ("/bin/bash", "--noprofile", "--norc", "-c", "--")


class Box:
    """Runs commands in one workspace, in a sandbox of one kind."""

    def __init__(self, root: Path, kind: Any, **options: Any) -> None:
        self.root = root
        self.sandbox = Sandbox(str(root), kind=kind, **options)

    def __call__(self, command: str, *, timeout: float = 30.0, output: Any = None, **options: Any) -> tuple[Ran, str]:
        out: list[bytes] = []
        folder = os.open(self.root, os.O_RDONLY | os.O_DIRECTORY)
        options.setdefault("env", environment())
        try:
            ran = asyncio.run(
                self.sandbox.run(
                    [*BASH, command], folder=folder, timeout=timeout, output=output or out.append, **options
                )
            )
        finally:
            os.close(folder)
        return ran, b"".join(out).decode("utf-8", "replace")


@pytest.fixture
def work(tmp_path: Path) -> Path:
    root = tmp_path / "work"
    root.mkdir()
    return root


@pytest.fixture
def make(work: Path) -> Iterator[Callable[..., Box]]:
    made: list[Box] = []

    def new(kind: str = "bubblewrap", **options: Any) -> Box:
        if kind == "bubblewrap" and available() != "bubblewrap":
            pytest.skip("NOT CHECKED: bubblewrap gives no sandbox on this machine; its protections are not tested")
        if kind == "landlock" and not sandbox.keeper.landlock_version() >= sandbox.keeper.LEAST_LANDLOCK:
            pytest.skip("NOT CHECKED: this kernel has no Landlock; its protections are not tested")
        made.append(Box(work, kind, **options))
        return made[-1]

    yield new
    for box in made:
        box.sandbox.close()


CONFINED = pytest.mark.parametrize("kind", ["bubblewrap", "landlock"])


@CONFINED
def test_a_command_writes_in_the_workspace_and_its_own_temp(kind: str, make: Callable[..., Box], work: Path) -> None:
    ran, out = make(kind)("pwd; echo in >made && echo t >$TMPDIR/t && echo h >~/h && echo fine; exit 3")
    assert out == f"{work}\nfine\n"
    assert (ran.ended.exit_code, ran.planted) == (3, ())
    assert (work / "made").read_text() == "in\n"


def test_the_private_temp_lasts_from_command_to_command_and_goes_with_the_sandbox(make: Callable[..., Box]) -> None:
    box = make()
    box("echo kept >/tmp/f; mkdir -p /tmp/shut/deep; chmod 000 /tmp/shut/deep /tmp/shut; echo home >~/h")
    assert box("cat /tmp/f ~/h")[1] == "kept\nhome\n"
    box.sandbox.close()  # that nothing is left is checked after every test


@CONFINED
@pytest.mark.parametrize(
    "command", ["echo x >{outside}/made", "rm {outside}/secret", "ln -s {outside} l; echo x >l/made"]
)
def test_nothing_is_written_outside(kind: str, command: str, make: Callable[..., Box], tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    for box, harmed in ((make(kind), False), (make("off"), True)):
        outside.mkdir(exist_ok=True)
        (outside / "secret").write_text("s")
        (box.root / "l").unlink(missing_ok=True)
        box(command.format(outside=outside))
        assert ({p.name for p in outside.iterdir()} != {"secret"}) is harmed


@CONFINED
def test_no_folder_of_the_system_can_be_written(kind: str, make: Callable[..., Box]) -> None:
    command = (
        "for d in / /etc /usr /var /opt; do touch $d/.sluice-test 2>/dev/null && echo $d && rm $d/.sluice-test; done; :"
    )
    assert make(kind)(command)[1] == ""
    if os.getuid() == 0:
        assert make("off")(command)[1].split() == ["/", "/etc", "/usr", "/var", "/opt"]


@CONFINED
def test_keys_home_and_state_cannot_be_read(
    kind: str, make: Callable[..., Box], own_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (own_home / ".ssh").mkdir()
    (own_home / ".ssh" / "id").write_text("canary-home\n")
    state = tmp_path / "state"
    state.mkdir()
    (state / "audit").write_text("canary-state\n")
    monkeypatch.setenv("SOME_API_KEY", "canary-env")
    tries = f"cat {own_home}/.ssh/id {state}/audit; env; cat /proc/[0-9]*/environ /proc/self/environ; cat /etc/shadow"
    assert "canary" not in make(kind, private=[str(state)])(tries)[1]
    control = make("off", private=[str(state)])(tries)[1]
    assert "canary-home" in control
    assert "canary-state" in control
    assert "canary-env" not in control  # the environment is an allow-list everywhere
    assert "canary-env" in make("off")("env", env=dict(os.environ))[1]


def test_bubblewraps_own_environment_holds_no_key(make: Callable[..., Box], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_API_KEY", "canary-env")
    _, out = make()("for p in /proc/[0-9]*; do tr '\\0' '\\n' <$p/environ; tr '\\0' ' ' <$p/cmdline; done 2>&1")
    assert "canary" not in out
    assert "COMMAND_TREE" in out  # the control: its own can be read


@CONFINED
def test_no_listening_port_and_no_socket_can_be_reached(kind: str, make: Callable[..., Box], work: Path) -> None:
    path = work / "s"  # a place that is not hidden
    with socket.create_server(("127.0.0.1", 0)) as tcp, socket.socket(socket.AF_UNIX) as unix:
        unix.bind(str(path))
        unix.listen()
        port = tcp.getsockname()[1]
        script = (
            "import socket as s\n"
            f"for f, a in ((s.AF_INET, ('127.0.0.1', {port})), (s.AF_UNIX, {str(path)!r})):\n"
            "    try:\n        s.socket(f).connect(a); print('reached')\n    except OSError as e: print('not', e)\n"
        )
        command = f'{Path(sys.executable).resolve()} -I -S -c "{script}"'
        found = make(kind)(command)[1].splitlines()
        assert [line.split()[0] for line in found] == ["not", "not"], found
        assert make("off")(command)[1].split() == ["reached", "reached"]


def test_the_network_can_be_allowed(make: Callable[..., Box]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as tcp:
        command = f"exec 3<>/dev/tcp/127.0.0.1/{tcp.getsockname()[1]} && echo reached"
        assert make(network=True)(command)[1] == "reached\n"
        assert "reached" not in make()(command)[1]


def test_other_processes_rights_and_mounts_are_out_of_reach(make: Callable[..., Box]) -> None:
    tries = f"[ -d /proc/{os.getpid()} ] && echo seen; kill -0 {os.getpid()} 2>/dev/null && echo signalled; "
    _, out = make()(tries + "mount -t tmpfs t /mnt 2>/dev/null && echo mounted; unshare -Ur true 2>/dev/null && echo ns; "
                    "ls /proc/1/root/ >/dev/null 2>&1 && echo root; grep CapEff /proc/self/status")  # fmt: skip
    assert out.split() == ["CapEff:", "0" * 16]
    assert make("off")(tries)[1].split() == ["seen", "signalled"]


GIT = ("mkdir -p .git/hooks && echo x >.git/hooks/pre-commit", "mkdir -p .git; echo x >.git/config",
       "mv .git g; mkdir .git && echo x >.git/config",
       "mkdir -p .sluice && echo x >.sluice/config.toml", "rm -rf .git && mkdir .git && echo x >.git/config")  # fmt: skip


@pytest.mark.parametrize("there", [True, False], ids=["there", "not there yet"])
@pytest.mark.parametrize("command", GIT)
def test_what_git_and_we_obey_stays_as_it_is(command: str, there: bool, make: Callable[..., Box], work: Path) -> None:
    if there:
        (work / ".git" / "hooks").mkdir(parents=True)
        (work / ".git" / "config").write_text("[core]\n")
        (work / ".git" / "HEAD").write_text("ref: refs/heads/main\n")
        (work / ".sluice").mkdir()
        (work / ".sluice" / "config.toml").write_text("max_turns = 3\n")
    watched = [".git/config", ".git/hooks/pre-commit", ".sluice/config.toml"]
    before = {name: (work / name).read_text() for name in watched if (work / name).exists()}
    make()(command)
    assert {name: (work / name).read_text() for name in watched if (work / name).exists()} == before
    if not there:
        assert list(work.iterdir()) == []  # nor is anything of the protection left
    make("off")(command)  # the control
    assert {name: (work / name).read_text() for name in watched if (work / name).exists()} != before


def test_a_nested_repository_is_protected_and_a_new_one_is_told(make: Callable[..., Box], work: Path) -> None:
    nested = work / "a" / "b" / ".git"
    nested.mkdir(parents=True)
    (nested / "config").write_text("[core]\n")
    ran, _ = make()("echo x >a/b/.git/config; mv a z; mkdir -p a/b/.git; echo x >a/b/.git/config")
    assert (nested / "config").read_text() == "[core]\n"
    assert ran.planted == ()
    ran, _ = make()("mkdir -p new/.git && echo x >new/.git/config; mkdir -p bare/objects bare/refs; echo x >bare/HEAD")
    assert ran.planted == ("bare", "new/.git")


def test_work_in_a_repository_still_goes(make: Callable[..., Box], work: Path) -> None:
    git = "git -c user.name=a -c user.email=a@b"
    make("off")("git init -q . && mkdir -p .git/hooks")
    ran, out = make()(f"echo x >f && git add f && {git} commit -qm one && git log --format=%s")
    assert (ran.ended.exit_code, out, ran.planted) == (0, "one\n", ())


def test_a_link_in_place_of_what_is_protected_is_refused(make: Callable[..., Box], work: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (work / ".git").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(SandboxError, match="symbolic link"):
        make()("true")


def test_without_any_sandbox_nothing_runs(make: Callable[..., Box], work: Path) -> None:
    with pytest.raises(SandboxError, match="--allow-unsandboxed"):
        make("none")("touch ran")
    assert not (work / "ran").exists()


def test_only_the_users_words_let_commands_run_without(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox, "available", lambda: "none")
    assert Sandbox(str(work)).kind == "none"
    assert Sandbox(str(work), unsandboxed=True).kind == "off"
    assert Sandbox(str(work), mode="off").kind == "off"
    monkeypatch.setattr(sandbox, "available", lambda: "bubblewrap")
    assert Sandbox(str(work), unsandboxed=True).kind == "bubblewrap"


def test_a_sandbox_that_cannot_be_set_up_runs_nothing(make: Callable[..., Box], work: Path) -> None:
    box = make()
    folder = os.open("/dev/null", os.O_RDONLY)  # no folder that could be bound
    try:
        with pytest.raises(SandboxError, match="could not be set up"):
            asyncio.run(
                box.sandbox.run(
                    [*BASH, "touch ran"], folder=folder, env=environment(), timeout=20, output=lambda data: None
                )
            )
    finally:
        os.close(folder)
    assert not (work / "ran").exists()


NAP = os.environ.get("NAP_SECONDS") or str(900_000 + os.getpid())  # seconds by which our own sleepers are known
KINDS = pytest.mark.parametrize("kind", ["bubblewrap", "landlock", "off"])
ESCAPES = {
    "setsid": "setsid sleep NAP &",
    "nohup": "nohup sleep NAP >/dev/null 2>&1 &",
    "double fork": "(setsid bash -c 'sleep NAP &' &);",
    "ignores term": "(trap '' TERM; exec sleep NAP) &",
    "no environment": "env -i setsid sleep NAP >/dev/null 2>&1 </dev/null &",
    "no environment, twice": "env -i setsid bash -c 'setsid sleep NAP >/dev/null 2>&1 & exit' &",
}


PAUSE = "read -t 0.01 <> <(:)"


def until_asleep(many: int) -> str:
    """Words of bash that wait until so many sleepers are seen from where they run. Needs no `pgrep`."""
    words = "{ IFS= read -rd '' a; IFS= read -rd '' b; } 2>/dev/null <$f"
    count = f'for f in /proc/[0-9]*/cmdline; do {words}; [ "$a $b" = "sleep {NAP}" ] && let n+=1; done'
    return f"n=0; until {count}; [ $n -ge {many} ]; do n=0; {PAUSE}; done"


def sleepers() -> set[int]:
    found = set()
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            if Path(f"/proc/{name}/cmdline").read_bytes() == f"sleep\0{NAP}\0".encode():
                found.add(int(name))
        except OSError:
            continue
    return found


@KINDS
@pytest.mark.parametrize("how", ESCAPES)
@pytest.mark.parametrize("end", ["exit", "timeout"])
def test_nothing_of_a_tree_lives_on(kind: str, how: str, end: str, make: Callable[..., Box]) -> None:
    before, during = sleepers(), set()

    box = make(kind)

    def reader(data: bytes) -> None:
        during.update(sleepers() - before)
        (box.root / "seen").touch()

    wait = f"{until_asleep(1)}; echo up; until [ -e seen ]; do {PAUSE}; done"
    ran, _ = box(
        f"{ESCAPES[how].replace('NAP', NAP)} {wait}" + ("; sleep 1000" if end == "timeout" else ""),
        output=reader,
        timeout=30.0 if end == "exit" else 4.0,
    )
    assert ran.ended.timed_out == (end == "timeout")
    assert during  # the control: it did live
    assert sleepers() - before == set()


@KINDS
def test_a_cancelled_or_timed_out_command_may_clean_up(kind: str, make: Callable[..., Box]) -> None:
    script = "trap 'echo cleaned; exit 3' TERM; echo up; while :; do read -t 0.02 <> <(:); done"
    ran, out = make(kind)(script, timeout=1.5)
    assert ran.ended.timed_out
    assert "cleaned" in out


def test_a_fork_bomb_is_held_and_ended(make: Callable[..., Box]) -> None:
    limits = sandbox.DEFAULT_LIMITS.__class__(max_command_processes=40)
    box = make(limits=limits)
    box.sandbox.watch = TreeWatch(2**60, 2**30)  # the kernel's own bound is tried here
    bomb = (
        "f() { [ $1 -gt 0 ] && { f $(($1 - 1)) & f $(($1 - 1)) & }; sleep 600; }; f 9"  # 1,000 processes, and no more
    )
    ran, out = box(bomb, timeout=3.0)
    assert "Resource temporarily unavailable" in out  # the bound was met
    assert ran.ended.timed_out or ran.ended.exit_code is not None


HOST = """
import asyncio, os, sys
from sluice.tools.allowed_hosts import parse_host
from sluice.tools.process import environment
from sluice.tools.sandbox import Sandbox
async def main():
    box = Sandbox(sys.argv[1], kind=sys.argv[2])
    await box.run(["/bin/bash", "-c", sys.argv[3]], folder=os.open(sys.argv[1], os.O_RDONLY), env=environment(),
                  timeout=60, output=lambda d: print(d.decode(), end="", flush=True))
asyncio.run(main())
"""


@KINDS
def test_nothing_outlives_our_own_sigkill(kind: str, make: Callable[..., Box], work: Path) -> None:
    make(kind)
    before = sleepers()

    async def go() -> None:
        host = await asyncio.create_subprocess_exec(
            sys.executable, "-c", HOST, str(work), kind,
            f"env -i setsid sleep {NAP} & nohup sleep {NAP} >/dev/null 2>&1 & "
            f"{until_asleep(2)}; echo up; wait",
            stdout=asyncio.subprocess.PIPE,
        )  # fmt: skip
        assert host.stdout is not None
        assert await host.stdout.readline() == b"up\n"
        assert len(sleepers() - before) == 2
        host.send_signal(signal.SIGKILL)
        await host.wait()
        async with asyncio.timeout(20):
            while sleepers() - before:
                await asyncio.sleep(0.01)

    asyncio.run(go())
    for folder in Path(os.environ["TMPDIR"]).glob("sluice-box-*"):
        sandbox.remove_folder(str(folder))


def test_it_works_as_another_user_too(make: Callable[..., Box], work: Path) -> None:
    """The same words, started as nobody by root: the limit on processes and the wall hold there as well."""
    make()
    if os.getuid() != 0:
        pytest.skip("NOT CHECKED: only root can start a command as another user")
    program = sandbox.find_bubblewrap()
    assert program is not None
    places = sandbox.find_places(str(work), [], os.environ)
    places.readable = []  # root's own compilers
    temp = work.parent / "private"
    for folder in (work, temp, temp / "temp", temp / "home"):
        folder.mkdir(exist_ok=True)
        os.chown(folder, 65534, 65534)
    for folder in work.parents:
        if folder != Path("/"):
            folder.chmod(folder.stat().st_mode | 0o011)
    read_end, write_end = os.pipe()
    opened = os.open(work, os.O_RDONLY)
    try:
        done = subprocess.run(
            [*sandbox.outer_words(program, sandbox.DEFAULT_LIMITS, write_end, root=False), program,
             *sandbox.inner_words(places, folder_fd=opened, temp=str(temp), home="/nonexistent", network="none"),
             "--", "/bin/bash", "-c", "id -u; echo in >made; echo x >/var/made 2>/dev/null || echo wall; ulimit -u"],
            user=65534, group=65534, extra_groups=[], pass_fds=(write_end, opened), capture_output=True, env=environment(),
        )  # fmt: skip
    finally:
        for fd in (read_end, write_end, opened):
            os.close(fd)
    assert done.stdout.decode().split() == ["65534", "wall", "1024"], done.stderr
    assert (work / "made").read_text() == "in\n"


def test_what_commands_run_in_is_told_in_words(work: Path) -> None:
    hosts = [parse_host(f"h{number}.example") for number in range(10)]
    told = {
        ("bubblewrap", False, ()): "bubblewrap, no network",
        ("bubblewrap", True, ()): "bubblewrap, with the network",
        (
            "landlock",
            False,
            tuple(hosts),
        ): "Landlock (files of git are not protected), no network (a list of hosts needs bubblewrap)",
        ("off", False, ()): "no sandbox: commands can do what the user can, and reach every host",
        ("none", False, ()): "none can be had on this machine, so commands are refused",
    }
    for (kind, network, listed), words in told.items():
        assert Sandbox(str(work), kind=kind, network=network, hosts=listed).words == words  # type: ignore[arg-type]
    words = Sandbox(str(work), kind="bubblewrap", hosts=hosts).words
    assert words.startswith("bubblewrap, network: h0.example, ")
    assert words.endswith("h7.example and 2 more")


def test_another_system_is_not_sent_after_what_it_cannot_have(work: Path) -> None:
    """macOS, as a process of its own that takes itself for it: the refusal names what helps there."""
    code = (
        "import sys; sys.platform = 'darwin'\n"
        "from sluice.tools.sandbox import HOW_TO_ALLOW, available\n"
        "print(available(), HOW_TO_ALLOW)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("none ")
    assert "on Linux only" in done.stdout
    assert "--allow-unsandboxed" in done.stdout
    assert "Landlock" not in done.stdout
