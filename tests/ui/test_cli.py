"""The command line over fakes of the rooms behind it: prompts, flags, exit codes, start order, one line for every error."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import msgspec
import pytest

from sluice import __version__
from sluice.errors import ConfigurationError, InternalError, TransportError
from sluice.run.config import Settings
from sluice.ui.cli import main
from sluice.values.messages import Usage
from sluice.values.notices import Notice, RunFinished, TextNotice
from sluice.values.results import ToolResult

KEY = "sk-" + "x" * 48


class Shown(NamedTuple):
    code: int
    out: str
    err: str


class Rooms:
    """Stands in for the rooms of `run`; keeps what it was asked."""

    def __init__(self) -> None:
        self.prompts: list[str] = []
        self.settings: Settings | None = None
        self.fault: BaseException | None = None
        self.exit_code = 0
        self.calls: list[tuple[Any, ...]] = []

    @asynccontextmanager
    async def open_agent(self, settings: Settings, *, intent: bool = False, **_more: Any) -> AsyncIterator[Rooms]:
        self.settings = settings
        self.intent = intent
        if self.fault is not None:
            raise self.fault
        yield self

    open_rescued = open_agent

    async def run(self, prompt: str) -> AsyncIterator[Notice]:
        self.prompts.append(prompt)
        yield TextNotice(turn=1, text="Hello")
        yield RunFinished(
            run="r",
            outcome="completed",
            exit_code=self.exit_code,
            message="",
            text="Hello",
            message_id="m",
            turns=1,
            tool_calls=0,
            usage=Usage(),
        )

    def cancel(self, reason: str) -> None:
        raise AssertionError(reason)

    def dry_run(self, settings: Settings, prompt: str, *_more: Any) -> dict[str, Any]:
        self.settings = settings
        return {"settings": settings.shown(), "request": {"prompt": prompt}}

    def decode_file(self, path: str, dialect: str, chunk_bytes: int) -> tuple[int, dict[str, Any], list[Any]]:
        self.calls.append((path, dialect, chunk_bytes))
        if path == "cut":
            return 1, {"error": {"kind": "incomplete"}}, []
        call = {"name": "read", "arguments": "{}", "status": "whole"}
        return 0, {"text": "Hi\x1b[2J", "tool_calls": [call]}, []

    def one_call(self, settings: Settings, name: str, arguments: str, seen: list[str]) -> tuple[int, ToolResult]:
        self.settings = settings
        self.calls.append((name, arguments, seen))
        return 4, ToolResult(ok=False, status="blocked", tool=name)

    def serve(self, files: list[str], **more: Any) -> int:
        self.calls.append((files, more))
        return 0

    def find_dialect(self, settings: Settings) -> None:
        if settings.dialect not in (None, "openai_chat"):
            raise ConfigurationError(f"no dialect is named {settings.dialect!r}")

    def find_inline(self, settings: Settings) -> None:
        if settings.inline is not None:
            raise ConfigurationError(f"no form of inline calls is named {settings.inline!r}")

    def make_transport(self, settings: Settings) -> None:
        if Path(settings.mock_fixture or "").suffix != ".json":
            raise ConfigurationError("the fixture is not JSON")

    def make_registry(self, settings: Settings) -> None:
        if "nonsense" in (settings.tools or ()):
            raise ConfigurationError("no tool is named 'nonsense'")


@pytest.fixture
def rooms(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Rooms:
    for name in list(os.environ):
        if name.startswith(("SLUICE_", "NCA_", "OPENAI_")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    rooms = Rooms()
    for module, names in {
        "sluice.run.wiring": (
            "open_agent",
            "dry_run",
            "find_dialect",
            "find_inline",
            "make_registry",
            "make_transport",
        ),
        "sluice.run.memory_copy": ("open_rescued",),
        "sluice.run.decoding": ("decode_file",),
        "sluice.run.one_call": ("one_call",),
        "sluice.testing.replay_server": ("serve",),
    }.items():
        fake = ModuleType(module)
        for name in names:
            setattr(fake, name, getattr(rooms, name))
        monkeypatch.setitem(sys.modules, module, fake)
    return rooms


Run = Callable[..., Shown]


@pytest.fixture
def run(rooms: Rooms, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    def call(*argv: str, stdin: bytes = b"", terminal: bool = False) -> Shown:
        stream = io.TextIOWrapper(io.BytesIO(stdin), encoding="utf-8")
        monkeypatch.setattr(stream, "isatty", lambda: terminal, raising=False)
        monkeypatch.setattr(sys, "stdin", stream)
        code = main(argv)
        out, err = capsys.readouterr()
        assert "Traceback" not in err or "--debug" in argv
        return Shown(code, out, err)

    return call


# -- the prompt


def test_a_prompt_runs_and_only_the_answer_is_on_standard_output(run: Run, rooms: Rooms, tmp_path: Path) -> None:
    shown = run("-e", "say hello", "--api-key", KEY)
    assert (shown.code, shown.out, rooms.prompts) == (0, "Hello\n", ["say hello"])
    assert rooms.settings is not None
    assert rooms.settings.workspace == str(tmp_path.resolve())


def test_the_exit_code_of_the_run_is_ours(run: Run, rooms: Rooms) -> None:
    rooms.exit_code = 4
    assert run("-e", "x", "--api-key", KEY).code == 4


def test_standard_input_is_the_prompt_only_when_it_is_no_terminal(run: Run, rooms: Rooms) -> None:
    assert run("--api-key", KEY, stdin="tell me — now\n".encode()).code == 0
    assert run("--api-key", KEY, "-e", "flag", stdin=b"not this").code == 0
    assert rooms.prompts == ["tell me — now\n", "flag"]
    shown = run("--api-key", KEY, terminal=True)
    assert shown.code == 2
    assert 'sluice -e "…"' in shown.err
    assert "interactive" in shown.err
    assert "interactive" not in run("--output", "json", terminal=True).err


@pytest.mark.parametrize(
    ("argv", "stdin"),
    [((), b""), ((), b" \n"), ((), b"\xff"), (("-e", ""), b"x"), (("-e", "  "), b"x"), (("-e", "\udcff"), b"")],
)
def test_a_prompt_that_is_empty_or_no_text_is_a_usage_error(run: Run, rooms: Rooms, argv: Any, stdin: bytes) -> None:
    shown = run(*argv, "-w", "made", stdin=stdin)
    assert shown.code == 2
    assert "prompt" in shown.err
    assert shown.out == ""
    assert rooms.prompts == []
    assert not Path("made").exists()


def test_a_prompt_without_end_is_refused(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sluice.ui.one_run.MAX_PROMPT_BYTES", 10)
    assert "larger than 10 bytes" in run(stdin=b"x" * 11).err


# -- flags


def test_every_flag_reaches_the_settings(run: Run, rooms: Rooms, tmp_path: Path) -> None:
    (tmp_path / "f.json").write_text("[]", encoding="utf-8")
    (tmp_path / "p.md").write_text("be brief", encoding="utf-8")
    (tmp_path / "c.conf").write_text("idle_seconds=7\nmodel=x y\n", encoding="utf-8")
    flags = {
        "--workspace": "work",
        "--config": "c.conf",
        "--model": "m",
        "--base-url": "http://127.0.0.1:1/v1",
        "--api-key": KEY,
        "--dialect": "openai_chat",
        "--temperature": "0.5",
        "--max-output-tokens": "64",
        "--system-prompt-file": "p.md",
        "--mode": "mock",
        "--mock-fixture": "f.json",
        "--tools": "a,b",
        "--exclude-tools": "b",
        "--max-turns": "1",
        "--max-tool-calls-per-turn": "2",
        "--max-total-tool-calls": "3",
        "--max-tool-output-bytes": "4KiB",
        "--max-context-bytes": "5",
        "--max-seconds": "6",
        "--set": "connect_seconds=8",
        "--output": "json",
    }
    argv = [part for pair in flags.items() for part in pair]
    shown = run("-e", "x", *argv, "--allow-mutating-tools", "--allow-execution-tools", "--no-tools", "--debug")
    assert shown.code == 0
    found = rooms.settings
    assert found is not None
    assert (found.model, found.base_url, found.api_key, found.mode) == ("m", "http://127.0.0.1:1/v1", KEY, "mock")
    assert (found.mock_fixture, found.system_prompt_file) == (str(tmp_path / "f.json"), str(tmp_path / "p.md"))
    assert (found.temperature, found.max_output_tokens) == (0.5, 64)
    assert (found.tools, found.exclude_tools, found.no_tools) == (("a", "b"), ("b",), True)
    assert (found.allow_mutating_tools, found.allow_execution_tools, found.debug) == (True, True, True)
    limits = found.limits
    assert (limits.max_turns, limits.max_tool_calls_per_turn, limits.max_total_tool_calls) == (1, 2, 3)
    assert (limits.max_tool_output_bytes, limits.max_context_bytes, limits.max_seconds) == (4096, 5, 6.0)
    assert (limits.connect_seconds, limits.idle_seconds) == (8.0, 7.0)
    assert found.workspace == str((tmp_path / "work").resolve())


def test_approvals_are_off_unless_asked_for(run: Run, rooms: Rooms) -> None:
    run("-e", "x", "--api-key", KEY)
    assert rooms.settings is not None
    assert not rooms.settings.allow_mutating_tools
    assert not rooms.settings.allow_execution_tools


@pytest.mark.parametrize("form", ["json", "stream-json"])
def test_in_json_forms_standard_output_is_json_alone(run: Run, rooms: Rooms, form: str) -> None:
    shown = run("-e", "x", "--api-key", KEY, "--output", form)
    assert rooms.intent is (form == "stream-json")
    found = [json.loads(line) for line in shown.out.splitlines()]
    assert found[-1]["type"] == "run_finished"
    assert len(found) == (1 if form == "json" else 2)
    assert shown.err == ""


def test_a_dry_run_sends_nothing_needs_no_key_and_makes_no_folder(run: Run, rooms: Rooms) -> None:
    shown = run("-e", "x", "--dry-run", "-w", "made")
    assert shown.code == 0
    assert json.loads(shown.out)["request"] == {"prompt": "x"}
    assert rooms.prompts == []
    assert not Path("made").exists()


# -- what goes wrong


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (("--nonsense",), "No such option"),
        (("-e",), "requires an argument"),
        (("-e", "x", "--max-turns", "lots"), "max_turns cannot be 'lots'"),
        (("-e", "x", "--output", "xml"), "text or json or stream-json"),
        (("-e", "x", "--config", "none.toml"), "none.toml"),
        (("-e", "x", "--mode", "mock"), "--mock-fixture"),
        (("-e", "x", "--set", "zzz=1"), "unknown key"),
        (("-e", "x", "--api-key", KEY, "--dialect", "nonsense"), "no dialect"),
        (("-e", "x", "--api-key", KEY, "--tools", "nonsense"), "no tool"),
        (("-e", "x", "--mode", "mock", "--mock-fixture", "/dev/null"), "not JSON"),
        (("nonsense",), "No such command"),
        (("-e", "x", "config", "show"), "-e goes with no command"),
        (("decode",), "FILE"),
        (("replay-server",), "FILE"),
    ],
)
def test_a_users_mistake_is_exit_code_2_and_leaves_nothing(run: Run, rooms: Rooms, argv: Any, words: str) -> None:
    shown = run("-w", "made", *argv)
    assert shown.code == 2
    assert words in shown.err
    assert len(shown.err.splitlines()) == 1
    assert shown.out == ""
    assert rooms.settings is None
    assert not Path("made").exists()


def test_the_start_order_is_configuration_then_workspace_then_key(run: Run, rooms: Rooms, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    shown = run("-e", "x", "-w", "file")
    assert (shown.code, "is not a folder" in shown.err) == (2, True)
    shown = run("-e", "x", "-w", "new")
    assert (shown.code, "no API key" in shown.err) == (2, True)
    assert shown.err.count("\n") == 1
    assert Path("new").is_dir()
    assert rooms.settings is None
    assert run("-e", "x", "--base-url", "http://localhost:1/v1").code == 0


@pytest.mark.parametrize(
    ("fault", "code", "words"),
    [
        (ConfigurationError("no tool named \x1b[2Jx"), 2, "error: no tool named ␛[2Jx"),
        (TransportError("connect", "connection refused"), 1, "error: connection refused"),
        (InternalError("a rule broke"), 1, "a rule broke"),
        (ValueError("odd"), 1, "error: this is a fault of Sluice: ValueError: odd (--debug shows more)"),
        (PermissionError(13, "Permission denied", "/x"), 1, "error: Permission denied: /x"),
        (KeyboardInterrupt(), 130, ""),
    ],
)
def test_an_error_is_one_line_and_its_exit_code(
    run: Run, rooms: Rooms, fault: BaseException, code: int, words: str
) -> None:
    rooms.fault = fault
    shown = run("-e", "x", "--api-key", KEY)
    assert shown.code == code
    assert words in shown.err
    assert len(shown.err.splitlines()) <= 1
    assert "\x1b" not in shown.err


def test_debug_shows_where_our_own_fault_was(run: Run, rooms: Rooms) -> None:
    rooms.fault = ValueError("odd")
    shown = run("-e", "x", "--api-key", KEY, "--debug")
    assert shown.code == 1
    assert "Traceback" in shown.err


def test_warnings_of_the_configuration_are_said_once_each(run: Run, tmp_path: Path) -> None:
    (tmp_path / "c.toml").write_text('"max_turn\\u001b" = 3\n', encoding="utf-8")
    shown = run("-e", "x", "--api-key", KEY, "--config", "c.toml")
    assert shown.code == 0
    assert "warning:" in shown.err
    assert "did you mean max_turns?" in shown.err
    assert "\x1b" not in shown.err


# -- the other commands


def test_config_show_says_where_each_value_came_from_and_no_secret(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLUICE_API_KEY", KEY)
    monkeypatch.setenv("NCA_MODEL", "m")
    shown = run("--max-turns", "3", "config", "show", "--set", "idle_seconds=5")
    assert shown.code == 0
    rows = {line.split()[0]: line.split(None, 1)[1] for line in shown.out.splitlines()}
    assert KEY not in shown.out
    assert rows["api_key"].startswith("set (51 characters)")
    assert rows["api_key"].endswith("environment SLUICE_API_KEY")
    assert rows["model"].split() == ["m", "environment", "NCA_MODEL"]
    assert rows["max_turns"].split() == ["3", "flag", "--max-turns"]
    assert rows["idle_seconds"].split() == ["5", "flag", "--set", "idle_seconds"]
    assert rows["max_event_bytes"].split() == ["262144", "default"]
    found = json.loads(run("config", "show", "--output", "json").out)
    assert found["model"] == {"value": "m", "from": "environment NCA_MODEL"}
    assert set(found) == set(rows)


def test_config_show_reads_the_users_file_in_the_platforms_folder(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    import platformdirs

    file = platformdirs.user_config_path("sluice", appauthor=False) / "config.toml"
    file.parent.mkdir(parents=True)
    file.write_text('model = "mine"', encoding="utf-8")
    shown = run("config", "show")
    assert "mine" in shown.out
    assert repr(str(file)) in shown.out


def test_decode_passes_on_and_answers_in_json(run: Run, rooms: Rooms) -> None:
    shown = run("decode", "f.sse", "--dialect", "openai_chat", "--chunk-bytes", "7", "--output", "json")
    assert (shown.code, json.loads(shown.out)["text"]) == (0, "Hi\x1b[2J")
    assert rooms.calls == [("f.sse", "openai_chat", 7)]
    shown = run("decode", "f.sse", "--output", "text")
    assert shown.out == "Hi␛[2J\n→ read {} (whole)\n"
    for form in ("json", "text"):
        shown = run("decode", "cut", "--output", form)
        assert (shown.code, json.loads(shown.out)) == (1, {"error": {"kind": "incomplete"}})


def test_tool_makes_one_call_and_prints_its_result(run: Run, rooms: Rooms) -> None:
    argv = ("tool", "edit", "--args", '{"a":1}', "-w", "made", "--allow-mutating-tools", "--seen", "x", "--seen", "y")
    shown = run("--allow-execution-tools", *argv)
    assert shown.code == 4
    assert json.loads(shown.out)["status"] == "blocked"
    assert rooms.calls == [("edit", '{"a":1}', ["x", "y"])]
    assert rooms.settings is not None
    assert rooms.settings.allow_mutating_tools
    assert rooms.settings.allow_execution_tools
    assert Path(rooms.settings.workspace).is_dir()
    run("tool", "edit", "--args", "-", stdin=b'{"b":"\xff"}')
    assert rooms.calls[-1] == ("edit", '{"b":"\udcff"}', [])


def test_replay_server_passes_everything_on(run: Run, rooms: Rooms) -> None:
    argv = ("a", "b", "--port", "5", "--pace", "2", "--split", "3", "--fault", "cut@9", "--once")
    assert run("replay-server", *argv).code == 0
    more = {"port": 5, "pace_ms": 2, "split": 3, "fault": "cut@9", "once": True}
    assert rooms.calls == [(["a", "b"], more)]


def test_help_names_every_flag_variable_and_exit_code(run: Run) -> None:
    shown = run("--help")
    assert shown.code == 0
    for word in (
        "-e, --execute",
        "-w, --workspace",
        "--allow-mutating-tools",
        "--allow-host",
        "--max-total-tool-calls",
        "SLUICE_<KEY>",
        "NCA_<KEY>",
        "OPENAI_API_KEY",
        ".sluice/config.toml",
        "130, 143",
        "replay-server",
        "-h, --help",
    ):
        assert word in shown.out
    assert run("-h").out == shown.out
    assert run("-v").out == run("--version").out == f"sluice {__version__}\n"


# -- the real process


def process(*argv: str, **more: Any) -> subprocess.CompletedProcess[str]:
    code = "import sys; from sluice.ui.cli import main; sys.exit(main())"
    command = [sys.executable, "-c", code, *argv]
    return subprocess.run(command, text=True, encoding="utf-8", timeout=30, check=False, **more)


def test_help_and_version_import_nothing_heavy(tmp_path: Path) -> None:
    code = "import sys; from sluice.ui.cli import main; main(sys.argv[1:]); print(sorted(sys.modules))"
    for flag in ("--help", "--version"):
        done = subprocess.run(
            [sys.executable, "-c", code, flag], capture_output=True, text=True, check=True, timeout=30
        )
        loaded = set(eval(done.stdout.strip().splitlines()[-1]))
        assert not loaded & {"asyncio", "pycurl", "sqlite3", "subprocess", "tomllib", "platformdirs"}
        assert not {name for name in loaded if name.startswith(("sluice.run", "sluice.wire", "sluice.tools"))}


def environment(tmp_path: Path) -> dict[str, str]:
    return {"XDG_CONFIG_HOME": str(tmp_path), "HOME": str(tmp_path), "PATH": os.environ["PATH"]}


@pytest.mark.parametrize("argv", [("config", "show"), ("--help",), ("decode", "--help"), ("--version",)])
def test_a_closed_pipe_is_no_error(tmp_path: Path, argv: tuple[str, ...]) -> None:
    read_end, write_end = os.pipe()
    os.close(read_end)
    try:
        done = process(*argv, stdout=write_end, stderr=subprocess.PIPE, cwd=tmp_path, env=environment(tmp_path))
    finally:
        os.close(write_end)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is full")
def test_a_full_device_is_one_line(tmp_path: Path) -> None:
    descriptor = os.open("/dev/full", os.O_WRONLY)
    try:
        done = process(
            "config", "show", stdout=descriptor, stderr=subprocess.PIPE, cwd=tmp_path, env=environment(tmp_path)
        )
    finally:
        os.close(descriptor)
    assert done.returncode == 1
    assert len(done.stderr.splitlines()) == 1
    assert "No space left" in done.stderr


def test_closed_standard_streams_are_no_trap(tmp_path: Path) -> None:
    code = "import os, sys; from sluice.ui.cli import main; raise SystemExit(main(['config', 'show']))"
    script = f'exec {sys.executable} -c "{code}" <&- >&-'
    done = subprocess.run(
        ["/bin/sh", "-c", script],
        stderr=subprocess.PIPE,
        text=True,
        check=False,
        cwd=tmp_path,
        env=environment(tmp_path),
        timeout=30,
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_settings_survive_a_round_trip_as_json() -> None:
    settings = Settings(model="m", tools=("a",))
    assert msgspec.json.decode(msgspec.json.encode(settings), type=Settings) == settings
