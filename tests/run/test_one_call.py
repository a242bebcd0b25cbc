"""The facade behind `sluice tool`: one call as in a run, its exit code and its one result."""

from __future__ import annotations

import json
import signal
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from sluice.run.config import Settings
from sluice.run.one_call import one_call
from sluice.run.wiring import state_folder


def _settings(workspace: Path, **more: Any) -> Settings:
    return Settings(workspace=str(workspace), **more)


def _args(**arguments: Any) -> str:
    return json.dumps(arguments)


def test_a_read_is_ok_and_audited(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("hello\n")
    code, result = one_call(_settings(tmp_path), "read_file_safe", _args(path="a.txt"))
    assert (code, result.ok, result.status) == (0, True, "ok")
    assert "hello" in result.content
    lines = [json.loads(line) for line in (state_folder() / "audit.jsonl").read_text().splitlines()]
    assert [line["event"] for line in lines] == ["call_started", "call_ended"]


@pytest.mark.parametrize(
    ("tool", "arguments", "code", "status", "error"),
    [
        ("read_file_safe", _args(path="absent"), 1, "failed", "not_found"),
        ("read_file_safe", _args(path="/etc/passwd"), 1, "failed", None),
        ("read_file_safe", _args(path="a", extra=1), 2, "invalid", "invalid_arguments"),
        ("read_file_safe", "{", 2, "invalid", "invalid_arguments"),
        ("read_file_safe", "[]", 2, "invalid", "invalid_arguments"),
        ("no_such_tool", "{}", 2, "invalid", "unknown_tool"),
        ("write_file_safe", _args(path="new.txt", content="x"), 4, "blocked", "blocked"),
        ("bash_execute_safe", _args(command="true"), 4, "blocked", "blocked"),
    ],
)
def test_exit_code_and_status(
    tmp_path: Path, tool: str, arguments: str, code: int, status: str, error: str | None
) -> None:
    found, result = one_call(_settings(tmp_path), tool, arguments)
    assert (found, result.status, result.ok) == (code, status, False)
    assert result.error is not None
    assert error is None or result.error.code == error
    assert list(tmp_path.iterdir()) == []


def test_an_allowed_write_is_made(tmp_path: Path) -> None:
    code, _ = one_call(
        _settings(tmp_path, allow_mutating_tools=True), "write_file_safe", _args(path="n/new.txt", content="x\n")
    )
    assert code == 0
    assert (tmp_path / "n" / "new.txt").read_bytes() == b"x\n"


def test_a_file_is_changed_only_if_it_counts_as_seen(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\n")
    settings = _settings(tmp_path, allow_mutating_tools=True)
    change = _args(path="a.txt", content="two\n", mode="replace")
    code, result = one_call(settings, "write_file_safe", change)
    assert (code, result.error.code if result.error else "") == (1, "unread")
    code, result = one_call(settings, "write_file_safe", change, seen=["absent"])
    assert code == 2
    assert result.error is not None
    assert "--seen" in result.error.message
    assert (tmp_path / "a.txt").read_text() == "one\n"
    assert one_call(settings, "write_file_safe", change, seen=["a.txt"])[0] == 0
    assert (tmp_path / "a.txt").read_text() == "two\n"


def test_without_an_audit_log_nothing_is_changed(tmp_path: Path) -> None:
    state_folder().parent.mkdir(parents=True, exist_ok=True)
    state_folder().write_text("a file where the folder should be")
    (tmp_path / "a.txt").write_text("one\n")
    settings = _settings(tmp_path, allow_mutating_tools=True)
    assert one_call(settings, "read_file_safe", _args(path="a.txt"))[0] == 0
    code, result = one_call(settings, "write_file_safe", _args(path="b.txt", content="x"))
    assert code == 1
    assert result.error is not None
    assert result.error.code == "audit_unavailable"
    assert not (tmp_path / "b.txt").exists()


def test_signals_are_heard_until_the_end_and_are_as_before_it(tmp_path: Path) -> None:
    """No moment between: the loop's own handlers are not used, because taking one away lets Ctrl-C raise for a moment."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    (tmp_path / "a.txt").write_text("x")
    seen: list[object] = []

    class Looking(AsyncExitStack):
        async def __aexit__(self, *details: Any) -> bool:
            seen.append(signal.getsignal(signal.SIGINT))
            return bool(await super().__aexit__(*details))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sluice.run.one_call.AsyncExitStack", Looking)
        one_call(_settings(tmp_path), "read_file_safe", _args(path="a.txt"))
    assert len(seen) == 1
    assert callable(seen[0])
    assert seen[0] not in (*before.values(), signal.SIG_DFL, signal.default_int_handler)
    assert {number: signal.getsignal(number) for number in before} == before
