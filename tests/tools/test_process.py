"""P7: a command is bounded in time and output, and nothing of it lives on.

Liveness is never judged by time: children tell their pid, and a look at the process table says whether they live.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from sluice.tools import process
from sluice.tools.process import TREE_MARK, Ended, environment, run_command

BASH = "/bin/bash"
linux_only = pytest.mark.skipif(sys.platform != "linux", reason="other sessions are found through /proc")


class Wish:
    """A cancel that is set by hand."""

    def __init__(self) -> None:
        self.event = asyncio.Event()

    def is_set(self) -> bool:
        return self.event.is_set()

    async def wait(self) -> bool:
        return await self.event.wait()


def alive(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] not in "ZX"
    except FileNotFoundError:
        return False


def descriptors() -> set[str]:
    return set(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else set()


@pytest.fixture(autouse=True)
def no_child_left() -> Iterator[None]:
    before, threads = descriptors(), threading.active_count()
    yield
    assert descriptors() == before
    assert threading.active_count() == threads
    with pytest.raises(ChildProcessError):  # no child of ours, not even a zombie
        os.waitpid(-1, os.WNOHANG)


def run(script: str, tmp_path: Path, **options: Any) -> tuple[Ended, bytes]:
    out: list[bytes] = []
    options.setdefault("timeout", 30.0)
    options.setdefault("env", environment())
    options.setdefault("output", out.append)

    async def main() -> Ended:
        return await run_command([BASH, "-c", script], cwd=str(tmp_path), **options)

    return asyncio.run(main(), debug=True), b"".join(out)


def test_exit_code_and_both_streams_in_order(tmp_path: Path) -> None:
    ended, out = run("echo one; echo two >&2; echo three; exit 7", tmp_path)
    assert out == b"one\ntwo\nthree\n"
    assert ended == Ended(7, None, output_bytes=14)


def test_streams_can_be_kept_apart(tmp_path: Path) -> None:
    errors: list[bytes] = []
    _, out = run("echo one; echo two >&2", tmp_path, errors=errors.append)
    assert (out, b"".join(errors)) == (b"one\n", b"two\n")


def test_both_pipes_are_drained_at_once(tmp_path: Path) -> None:
    errors: list[bytes] = []
    script = "head -c 1000000 /dev/zero >&2; head -c 1000000 /dev/zero; head -c 1000000 /dev/zero >&2"
    _, out = run(script, tmp_path, errors=errors.append)
    assert (len(out), len(b"".join(errors))) == (1_000_000, 2_000_000)


def test_a_signal_is_told_apart_from_an_exit_code(tmp_path: Path) -> None:
    ended, _ = run("kill -SEGV $$", tmp_path)
    assert (ended.exit_code, ended.signal) == (None, signal.SIGSEGV)


def test_input_is_empty_and_the_session_is_its_own(tmp_path: Path) -> None:
    _, out = run("cat; ps -o sid= -p $$ 2>/dev/null || cut -d' ' -f6 /proc/$$/stat; echo $$", tmp_path)
    session, pid = out.split()
    assert session == pid
    assert int(session) != os.getsid(0)


def test_the_folder_may_be_an_open_descriptor(tmp_path: Path) -> None:
    (tmp_path / "inside").mkdir()
    fd = os.open(tmp_path / "inside", os.O_RDONLY | os.O_DIRECTORY)
    out: list[bytes] = []
    (tmp_path / "inside").rename(tmp_path / "moved")
    (tmp_path / "inside").symlink_to("/")
    try:
        asyncio.run(run_command([BASH, "-c", "pwd -P"], cwd=fd, env=environment(), timeout=30, output=out.append))
    finally:
        os.close(fd)
    assert b"".join(out).decode() == f"{tmp_path.resolve()}/moved\n"


def test_a_timeout_ends_the_command_and_says_so(tmp_path: Path) -> None:
    ended, out = run("echo begun; sleep 1000", tmp_path, timeout=0.2)
    assert ended.timed_out
    assert ended.signal == signal.SIGTERM
    assert out == b"begun\n"


def test_a_command_may_clean_up_on_term_within_the_grace(tmp_path: Path) -> None:
    ended, out = run("trap 'echo cleaned; exit 3' TERM; while :; do read -t 0.05 <> <(:); done", tmp_path, timeout=0.2)
    assert ended.timed_out
    assert ended.exit_code == 3
    assert out.endswith(b"cleaned\n")


def test_a_command_that_ignores_term_is_killed(tmp_path: Path) -> None:
    ended, _ = run("trap '' TERM; while :; do read -t 0.05 <> <(:); done", tmp_path, timeout=0.2)
    assert ended.timed_out
    assert ended.signal == signal.SIGKILL


def on_output(act: Callable[[bytes], Any]) -> Callable[[bytes], bool | None]:
    def reader(data: bytes) -> bool | None:
        result: bool | None = act(data)
        return result

    return reader


def test_a_cancel_ends_the_command(tmp_path: Path) -> None:
    async def main() -> Ended:
        wish = Wish()
        return await run_command(
            [BASH, "-c", "echo begun; sleep 1000"],
            cwd=str(tmp_path),
            env=environment(),
            timeout=30,
            output=on_output(lambda data: wish.event.set()),
            cancel=wish,
        )

    ended = asyncio.run(main(), debug=True)
    assert ended.cancelled
    assert not ended.timed_out


def test_a_cancel_before_the_start_starts_nothing(tmp_path: Path) -> None:
    async def main() -> Ended:
        wish = Wish()
        wish.event.set()
        return await run_command(
            [BASH, "-c", "touch made"],
            cwd=str(tmp_path),
            env=environment(),
            timeout=30,
            output=lambda data: None,
            cancel=wish,
        )

    assert asyncio.run(main()).cancelled
    assert list(tmp_path.iterdir()) == []


def test_a_cancelled_coroutine_leaves_nothing_running(tmp_path: Path) -> None:
    seen: list[bytes] = []

    async def main() -> None:
        task = asyncio.current_task()
        assert task is not None

        def reader(data: bytes) -> None:
            seen.append(data)
            task.cancel()

        await run_command(
            [BASH, "-c", "echo $$; sleep 1000 & wait"], cwd=str(tmp_path), env=environment(), timeout=30, output=reader
        )

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(main(), debug=True)
    assert not alive(int(b"".join(seen)))


ESCAPES = {
    "background": "sleep 1000 & echo $!",
    "nohup": "nohup sleep 1000 >/dev/null 2>&1 & echo $!",
    "ignores term": "(trap '' TERM; exec sleep 1000) & echo $!",
    "setsid": "setsid sleep 1000 & echo $!",
    "double fork": "(setsid bash -c 'sleep 1000 & echo $!' &)",
    "pipe closed": "(setsid sleep 1000 >/dev/null 2>&1 & echo $!)",
}


@linux_only
@pytest.mark.parametrize("how", ESCAPES)
@pytest.mark.parametrize("end", ["exit", "timeout"])
def test_nothing_lives_on(how: str, end: str, tmp_path: Path) -> None:
    born: list[int] = []

    def reader(data: bytes) -> None:
        born.extend(int(word) for word in data.split())
        assert all(alive(pid) for pid in born)  # the positive control: it did live

    script = ESCAPES[how] + ("; sleep 1000" if end == "timeout" else "; sleep 0.1")
    ended, _ = run(script, tmp_path, output=reader, timeout=0.4 if end == "timeout" else 30.0)
    assert len(born) == 1
    assert not alive(born[0])
    assert ended.timed_out == (end == "timeout")
    assert ended.left_running == (1 if end == "exit" else 0)


@linux_only
def test_a_child_that_holds_the_pipe_does_not_hold_the_answer(tmp_path: Path) -> None:
    ended, out = run("(sleep 1000; echo late) & echo done", tmp_path, timeout=900.0, drain_seconds=0.05)
    assert out == b"done\n"  # had the answer waited for the pipe, the test's own timeout would have struck
    assert ended.exit_code == 0
    assert ended.left_running == 2


def test_what_was_printed_before_the_exit_is_all_there(tmp_path: Path) -> None:
    _, out = run("head -c 3000000 /dev/zero", tmp_path)
    assert len(out) == 3_000_000


def test_endless_output_ends_the_command_in_bounded_memory(tmp_path: Path) -> None:
    ended, _ = run("yes", tmp_path, max_output_bytes=5_000_000, output=on_output(lambda data: None))
    assert ended.overflowed
    assert ended.output_bytes <= 5_000_000 + 64 * 1024


def test_a_reader_that_has_enough_ends_the_command(tmp_path: Path) -> None:
    ended, _ = run("yes", tmp_path, output=on_output(lambda data: True))
    assert ended.stopped
    assert not ended.overflowed


def test_a_reader_that_raises_ends_the_command_and_is_heard(tmp_path: Path) -> None:
    def reader(data: bytes) -> None:
        raise RuntimeError("reader")

    with pytest.raises(RuntimeError, match="reader"):
        run("yes", tmp_path, output=reader)


@pytest.mark.parametrize(
    ("argv", "error"),
    [
        (["/no/such/program"], FileNotFoundError),
        (["/etc/passwd"], PermissionError),
        ([BASH, "-c", "x" * 200_000], OSError),
        ([BASH, "-c", "a\0b"], ValueError),
    ],
)
def test_what_cannot_start_raises_and_leaves_nothing(argv: list[str], error: type[Exception], tmp_path: Path) -> None:
    with pytest.raises(error):
        asyncio.run(run_command(argv, cwd=str(tmp_path), env=environment(), timeout=5, output=lambda data: None))


def test_a_missing_folder_raises(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        run("true", tmp_path / "missing")


def test_without_a_pidfd_the_end_is_seen_all_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "_LINUX", False)
    ended, out = run("sleep 1000 & echo $!; exit 4", tmp_path)
    assert ended.exit_code == 4
    assert not alive(int(out))  # ended with its group


def test_the_environment_is_an_allow_list() -> None:
    source = {
        "HOME": "/home/a", "LANG": "C.UTF-8", "LC_TIME": "de_DE", "TZ": "UTC", "PATH": "/opt/x/bin:.:bin::/usr/bin",
        "OPENAI_API_KEY": "k", "GITHUB_TOKEN": "t", "SLUICE_MODEL": "m", "NCA_API_KEY": "k", "GIT_DIR": "/x",
        "LD_PRELOAD": "/x.so", "PYTHONPATH": "/x", "BASH_ENV": "/x", "ENV": "/x", "BASH_FUNC_ls%%": "() { :; }",
        "IFS": "x", "PS4": "$(x)", "EDITOR": "vi", "SSH_AUTH_SOCK": "/s", "LC_KEY": "k", "CARGO_HOME": "/c",
    }  # fmt: skip
    assert environment(source) == {
        "HOME": "/home/a",
        "LANG": "C.UTF-8",
        "LC_TIME": "de_DE",
        "TZ": "UTC",
        "PATH": "/opt/x/bin:/usr/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/sbin:/bin",
        "TERM": "dumb",
        "PAGER": "cat",
    }
    wanted = environment(
        source, extra=("CARGO_HOME", "OPENAI_API_KEY", "LD_PRELOAD", "BASH_ENV", "ENV", "IFS", "MISSING")
    )
    assert set(wanted) - set(environment(source)) == {"CARGO_HOME"}


def test_a_command_sees_that_environment_and_its_mark_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    monkeypatch.setenv("BASH_ENV", str(tmp_path / "evil"))
    (tmp_path / "evil").write_text("touch ran\n")
    _, out = run("env", tmp_path)
    names = {line.partition("=")[0] for line in out.decode().splitlines()}
    assert names <= {*environment(), TREE_MARK, "PWD", "OLDPWD", "SHLVL", "_"}
    assert b"sk-secret" not in out
    assert not (tmp_path / "ran").exists()
