"""Bad input: one clear line that says what and what to do, the right exit code, nothing lost or half-written."""

from __future__ import annotations

import os
import re
import ssl
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from program_world import (
    KEY,
    PROGRAM,
    EndlessServer,
    asks,
    closed_port,
    environment,
    says,
    sluice,
)

from sluice.testing.replay_server import Body, ReplayServer

PEM = Path(__file__).resolve().parent.parent / "transport" / "selfsigned.pem"


def _write(name: str, content: str | bytes) -> Callable[[Path], None]:
    def make(folder: Path) -> None:
        (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())

    return make


@pytest.mark.parametrize(
    ("argv", "make", "words"),
    [
        (["-e", "hi", "--no-such-flag"], None, ["--no-such-flag"]),
        (["-e"], None, ["-e"]),
        (["frobnicate"], None, ["frobnicate", "sluice -e"]),
        (["-e", "  "], None, ["empty"]),
        (["-e", "hi", "--max-turns", "many"], None, ["max_turns", "many"]),
        (["-e", "hi", "--max-turns", "-1"], None, ["max_turns"]),
        (["-e", "hi", "--output", "yaml"], None, ["output", "stream-json"]),
        (["-e", "hi", "--mode", "dream"], None, ["mode", "mock"]),
        (["-e", "hi", "--base-url", "nowhere"], None, ["base_url", "nowhere"]),
        (["-e", "hi", "--set", "colour=red"], None, ["colour"]),
        (["-e", "hi", "--set", "nonsense"], None, ["nonsense"]),
        (["-e", "hi", "--dialect", "klingon"], None, ["klingon", "openai_chat"]),
        (["-e", "hi", "--tools", "hammer"], None, ["hammer", "read_file_safe"]),
        (["-e", "hi", "--config", "absent.toml"], None, ["absent.toml", "No such file"]),
        (["-e", "hi", "--config", "."], None, ["is a folder"]),
        (["-e", "hi", "--config", "c.toml"], _write("c.toml", "[model\nx"), ["c.toml", "line"]),
        (["-e", "hi", "--config", "c.toml"], _write("c.toml", b"\xff\xfe\x00"), ["c.toml"]),
        (["-e", "hi", "--config", "c.toml"], _write("c.toml", "max_turns = 'x'\n"), ["c.toml", "max_turns"]),
        (["-e", "hi", "-w", "a-file"], _write("a-file", "x"), ["a-file", "not a folder"]),
        (["-e", "hi", "-w", "a-file/below"], _write("a-file", "x"), ["a-file"]),
        (["-e", "hi"], None, ["no API key", "SLUICE_API_KEY", "--model", "--base-url"]),
        (["-e", "hi", "--mode", "mock"], None, ["--mock-fixture"]),
        (["-e", "hi", "--mode", "mock", "--mock-fixture", "absent"], None, ["absent", "No such file"]),
        (["-e", "hi", "--mode", "mock", "--mock-fixture", "f"], _write("f", "not json"), ["f", "not JSON"]),
        (["-e", "hi", "--mode", "mock", "--mock-fixture", "f"], _write("f", '{"role": "x"}'), ["f", "array"]),
        (["-e", "hi", "--mode", "mock", "--mock-fixture", "f"], _write("f", '[{"role": "user"}]'), ["entry 0", "user"]),
        (["-e", "hi", "--mode", "mock", "--mock-fixture", "f"], _write("f", "[[[[[" * 5000), ["f", "JSON"]),
        (["-e", "hi", "--replay", "f"], _write("f", "no cassette\n"), ["f", "no cassette", "line 1"]),
        (["-e", "hi", "--replay", "f"], _write("f", ""), ["f", "empty"]),
        (["-e", "hi", "--system-prompt-file", "f"], _write("f", b"\xff"), ["system", "UTF-8"]),
        (["decode", "absent"], None, ["absent", "cannot be read"]),
        (["decode", "."], None, ["."]),
        (["replay-server", "absent"], None, ["absent", "cannot be read"]),
        (["replay-server", "f", "--fault", "fire"], _write("f", "x"), ["fire", "stall"]),
        (["tool"], None, ["NAME"]),
        (["tool", "read_file_safe", "-w", "a-file"], _write("a-file", "x"), ["a-file", "not a folder"]),
    ],
    ids=lambda value: " ".join(value)[:60] if isinstance(value, list) and value and value[0][:1] in "-dfrt" else "",
)
def test_a_mistake_of_the_users_is_one_line_and_exit_code_2(
    argv: list[str], make: Callable[[Path], None] | None, words: list[str], tmp_path: Path
) -> None:
    env = {"SLUICE_API_KEY": KEY} if "-w" in argv and argv[0] == "-e" else {}
    if "--replay" in argv or "--system-prompt-file" in argv:
        env = {"SLUICE_API_KEY": KEY}
    if make is not None:
        make(tmp_path)
    before = sorted(p.name for p in tmp_path.iterdir())
    shown = sluice(*argv, cwd=tmp_path, env=env)
    assert (shown.code, shown.out) == (2, "")
    said = [line for line in shown.err.splitlines() if line.lower().startswith("error: ")]
    assert len(said) == 1, shown.err
    for word in words:
        assert word in said[0]
    assert KEY not in shown.err
    assert sorted(p.name for p in tmp_path.iterdir()) == before


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything: unreadable files are not checked")
def test_a_config_file_that_may_not_be_read(tmp_path: Path) -> None:
    (tmp_path / "c.toml").write_text("")
    (tmp_path / "c.toml").chmod(0)
    shown = sluice("-e", "hi", "--config", "c.toml", cwd=tmp_path)
    assert shown.code == 2
    assert "Permission denied" in shown.err


@pytest.mark.parametrize(
    ("fault", "outcome", "words"),
    [
        ("401", "provider_error", ["401", "check the API key"]),
        ("404", "provider_error", ["404", "base URL", "model name"]),
        ("429", "provider_error", ["429", "too many requests"]),
        ("500", "provider_error", ["500", "try again later"]),
        ("302", "provider_error", ["302", "redirect", "base URL"]),
        ("html", "provider_error", ["web page"]),
        ("json", "provider_error", ["plain JSON", "replayed fault json"]),
        ("empty", "incomplete", ["empty"]),
        ("garbage", "provider_error", ["no event stream"]),
        ("cut@20", "provider_error", ["127.0.0.1"]),
        ("reset@20", "provider_error", ["127.0.0.1"]),
    ],
)
def test_a_server_that_gives_no_reply_is_said_in_one_line(
    fault: str, outcome: str, words: list[str], tmp_path: Path
) -> None:
    with ReplayServer([says("never")], fault=fault) as server:
        shown = sluice("-e", "hi", "--base-url", server.url, "--set", "max_attempts=1", cwd=tmp_path)
        asked = len(server.requests)
    assert (shown.code, shown.out) == (1, "")
    assert len(shown.lines) == 1, shown.err
    for word in words:
        assert word in shown.lines[0]
    assert f"✗ {outcome}" in shown.err
    assert asked == 1


def test_a_server_that_comes_back_is_waited_for_and_the_wait_is_shown(tmp_path: Path) -> None:
    with ReplayServer([says("late")], fault="429#1") as server:
        shown = sluice("-e", "hi", "--base-url", server.url, cwd=tmp_path)
        assert len(server.requests) == 2
    assert (shown.code, shown.out) == (0, "late\n")
    assert "429" in shown.err
    assert "trying again in" in shown.err


def test_a_refused_connection(tmp_path: Path) -> None:
    with closed_port() as url:
        shown = sluice("-e", "hi", "--base-url", url, "--set", "max_attempts=1", cwd=tmp_path)
    assert (shown.code, shown.out, len(shown.lines)) == (1, "", 1)
    assert "127.0.0.1" in shown.lines[0]
    assert "refused" in shown.lines[0]


def test_a_certificate_that_nobody_vouches_for(tmp_path: Path) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(PEM)
    with ReplayServer([says("never")], tls=context) as server:
        shown = sluice("-e", "hi", "--base-url", server.url, cwd=tmp_path, env={"SLUICE_API_KEY": KEY})
        assert server.requests == [], "not one byte of a request, and so no key, went out"
    assert (shown.code, shown.out, len(shown.lines)) == (1, "", 1)
    assert "certificate" in shown.lines[0]
    assert KEY not in shown.err


def test_a_stream_cut_after_text_keeps_the_text_and_goes_on_by_a_new_turn(tmp_path: Path) -> None:
    first = says("Half a ", finish=None, done=False)
    with ReplayServer([first, says("sentence.")]) as server:
        shown = sluice("-e", "hi", "--base-url", server.url, cwd=tmp_path)
    assert shown.code == 0
    assert shown.out.split() == ["Half", "a", "sentence."]
    assert shown.lines == [], "it did not end the run"
    assert shown.err.count("before its terminal mark; going on") == 1


def test_a_stream_cut_twice_is_incomplete_and_loses_no_text(tmp_path: Path) -> None:
    bodies = [says("one ", finish=None, done=False), says("two", finish=None, done=False)]
    with ReplayServer(bodies) as server:
        shown = sluice("-e", "hi", "--base-url", server.url, cwd=tmp_path)
    assert shown.code == 1
    assert shown.out.split() == ["one", "two"]
    assert "✗ incomplete" in shown.err


def test_a_finish_and_then_a_cut_connection_is_no_error(tmp_path: Path) -> None:
    body = says("all there", done=False)
    with ReplayServer([body + b": more\n\n" * 10], fault=f"cut@{len(body)}") as server:
        shown = sluice("-e", "hi", "--base-url", server.url, cwd=tmp_path)
    assert (shown.code, shown.out) == (0, "all there\n")


def test_a_cut_write_leaves_no_file(tmp_path: Path) -> None:
    write = ("write_file_safe", '{"path": "a.txt", "content": "half of it')
    with ReplayServer([asks(write, finish="length"), says("I stop here.")]) as server:
        shown = sluice("-e", "hi", "--base-url", server.url, "--allow-mutating-tools", cwd=tmp_path)
    assert shown.code == 0
    assert list(tmp_path.iterdir()) == []


def test_an_event_that_is_no_json_in_mid_stream(tmp_path: Path) -> None:
    with ReplayServer([says("so far", finish=None, done=False) + b"data: {nonsense\n\n"]) as server:
        shown = sluice("-e", "hi", "--base-url", server.url, cwd=tmp_path)
    assert (shown.code, shown.out) == (1, "so far\n")
    assert len(shown.lines) == 1
    assert "{nonsense" in shown.lines[0]


def test_words_of_a_server_cannot_steer_a_terminal(tmp_path: Path) -> None:
    body = Body((b'{"error": {"message": "\\u001b[2J\\u001b]0;owned\\u0007 no"}}',), "application/json", 400)
    with ReplayServer([body]) as server:
        shown = sluice("-e", "hi", "--base-url", server.url, cwd=tmp_path)
    assert shown.code == 1
    assert not set(shown.err) & {"\x1b", "\x07"}
    with ReplayServer([says("\x1b[2Jboo\x07")]) as server:
        shown = sluice("-e", "hi", "--base-url", server.url, cwd=tmp_path)
    assert not set(shown.out) & {"\x1b", "\x07"}
    assert "boo" in shown.out


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc: peak memory is checked on Linux only")
@pytest.mark.parametrize(
    ("piece", "outcome"),
    [
        (b'data: {"choices":[{"index":0,"delta":{"content":"' + b"x" * 2000 + b'"}}]}\n\n', "limit:stream_bytes"),
        (b'data: {"choices":[{"index":0,"delta":{"content":"x"}}]}\n\n', "limit:stream_bytes"),
        (b": still here\n\n", "no stream of events"),
        (b"data: x", "limit:event_bytes"),
        (b"<p>", "provider_error"),
        (b"\0" * 63 + b"\n", "no stream of events"),
    ],
    ids=["text", "small", "comments", "one event", "html", "garbage"],
)
def test_a_server_that_never_stops_is_stopped_in_bounded_memory(piece: bytes, outcome: str, tmp_path: Path) -> None:
    bound = 16 * 1024 * 1024
    argv = ["-e", "hi", "--set", f"max_stream_bytes={bound}", "--output", "json"]
    with EndlessServer(piece) as server:
        code, found, peak = _measured(*argv, "--base-url", server.url, cwd=tmp_path)
        sent = server.sent
    assert (code, outcome in found) == (3 if outcome.startswith("limit") else 1, True), found[-400:]
    assert sent < 3 * bound
    # The program itself takes about 45 MiB; its text is held as pieces, as one string, as a message, as JSON.
    assert peak < 60 * 1024 * 1024 + 6 * bound, f"{peak / 1e6:.0f} MB"


_MEASURED = """
import sys
from sluice.ui.cli import main
code = main()
sys.stderr.write(open("/proc/self/status").read())
sys.exit(code)
"""


def _measured(*argv: str, cwd: Path) -> tuple[int, str, int]:
    """Exit code, standard output and peak memory in bytes of one run.

    The peak is that of the program's own memory (VmHWM): `ru_maxrss` would count what the test process held when it forked.
    """
    done = subprocess.run(
        [sys.executable, "-c", _MEASURED, *argv],
        cwd=cwd,
        env=environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=50,
        check=False,
    )
    peak = re.search(rb"VmHWM:\s*(\d+) kB", done.stderr)
    assert peak is not None, done.stderr
    return done.returncode, done.stdout.decode(), int(peak[1]) * 1024


def test_a_full_disk_under_standard_output_is_said(tmp_path: Path) -> None:
    if not os.path.exists("/dev/full"):
        pytest.skip("no /dev/full here: a full disk under standard output is not checked")
    with ReplayServer([says("hello")]) as server, open("/dev/full", "wb") as full:
        done: Any = subprocess.run(
            [*PROGRAM, "-e", "hi", "--base-url", server.url],
            cwd=tmp_path,
            env=environment(),
            stdin=subprocess.DEVNULL,
            stdout=full,
            stderr=subprocess.PIPE,
            timeout=40,
        )
    assert done.returncode == 1
    assert b"Traceback" not in done.stderr
    assert b"No space left" in done.stderr
