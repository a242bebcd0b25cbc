"""Bad input of every kind to every file tool: a structured error, bounded work, nothing changed on disk."""

from __future__ import annotations

import asyncio
import json
import os
import socket
from pathlib import Path
from typing import Any

import pytest

from sluice.limits import DEFAULT_LIMITS
from sluice.tools.builtin import default_tools
from sluice.tools.registry import Executor, Registry
from sluice.values.calls import AllowedCall, CallKey, Verdict, call_digest
from sluice.values.results import ToolResult

NAMES = ["read_file_safe", "write_file_safe", "apply_patch", "list_files_bounded", "rg_search"]
REGISTRY = Registry(default_tools())
GOOD: dict[str, dict[str, Any]] = {
    "read_file_safe": {"path": "ok.txt"},
    "write_file_safe": {"path": "ok.txt", "content": "x"},
    "apply_patch": {"path": "ok.txt", "old_text": "no such text", "new_text": "x"},
    "list_files_bounded": {"directory": "."},
    "rg_search": {"query": "one"},
}
PATH = {"list_files_bounded": "directory", "rg_search": "directory"}

pytestmark = pytest.mark.parametrize("bench", ["openat2"], indirect=True)


def call(bench: Any, tool: str, text: str) -> ToolResult:
    def context(cancel: Any) -> Any:
        bench.context.cancel = cancel
        return bench.context

    executor = Executor(REGISTRY, context)
    checked = executor.check(tool, text)
    if isinstance(checked, ToolResult):
        return checked
    key = CallKey("run", 1, 0)
    verdict = Verdict(key=key, digest=call_digest(tool, text), decision="allow", rule="test")

    async def main() -> ToolResult:
        allowed = AllowedCall(key=key, tool=tool, arguments=text, verdict=verdict)
        return await executor.run(allowed, asyncio.Event())

    return asyncio.run(main())


def is_refusal(result: ToolResult) -> bool:
    """A structured error that the model can act on: a code, words within bounds, no fault of ours."""
    assert len(result.content.encode("utf-8", "replace")) <= DEFAULT_LIMITS.max_tool_output_bytes
    assert result.failure != "fatal"
    if result.ok:
        return False
    assert result.error is not None
    assert result.error.code
    assert result.error.message
    assert len(result.error.message) < 2_000
    return True


WRONG: list[Any] = [None, 0, -1, 1.5, True, [], {}, [1], [None], {"a": 1}, [[[]]], 2**70, "x", ["x"], [{}]]


@pytest.mark.parametrize("tool", NAMES)
def test_wrong_types_are_refused_before_anything_runs(tool: str, bench: Any, look: Any) -> None:
    before = look(bench.root)
    refused = 0
    for name, schema in REGISTRY.spec(tool).parameters["properties"].items():
        for value in WRONG:
            if value == "x" and name in ("path", "content"):
                continue  # nothing is wrong with it
            result = call(bench, tool, json.dumps({**GOOD[tool], name: value}))
            if isinstance(value, dict) or (
                schema.get("type") == "string" and not isinstance(value, str) and value is not None
            ):
                assert (result.status, result.error and result.error.code) == ("invalid", "invalid_arguments")
            refused += is_refusal(result)
            assert look(bench.root) == before, (name, value)
    assert refused > 10


@pytest.mark.parametrize("tool", NAMES)
def test_missing_and_unknown_keys(tool: str, bench: Any, look: Any) -> None:
    before = look(bench.root)
    unknown = call(bench, tool, json.dumps({**GOOD[tool], "x" * 1_000_000: 1}))
    assert unknown.error is not None
    assert unknown.error.code == "invalid_arguments"
    assert is_refusal(unknown)
    assert is_refusal(call(bench, tool, '{"path": "a", "path": "b"}'))
    if tool != "list_files_bounded":
        assert is_refusal(call(bench, tool, "{}"))
    assert look(bench.root) == before


LONG, MANY = 10_000_000, 1_000_000
HOSTILE = {
    "empty": "",
    "NUL": "a\0b",
    "half of a pair": "a\ud800",
    "10 MB": "x" * LONG,
    "10 MB of lines": "x\n" * (LONG // 2),
    "a million NUL": "\0" * MANY,
    "a million slashes": "/" * MANY,
    "a million dots": "../" * MANY,
    "5,000 parts": "d/" * 5_000 + "f",
    "200 parts": "d/" * 200 + "f",
    "a million brackets": "(" * MANY,
    "sections": "*** Begin Patch\n" + "*** Delete File: a\n" * (MANY // 19) + "*** End Patch",
    "hunks": "*** Begin Patch\n*** Update File: ok.txt\n" + "@@\n-one\n+one\n" * (MANY // 13) + "*** End Patch",
    "a hunk": "*** Begin Patch\n*** Update File: ok.txt\n@@\n" + "-one\n" * (MANY // 5) + "*** End Patch",
    "headers": "*** Begin Patch\n*** Update File: ok.txt\n" + "@@ one\n" * (MANY // 7) + "-x\n*** End Patch",
}


@pytest.mark.parametrize("tool", NAMES)
@pytest.mark.parametrize("kind", HOSTILE)
def test_hostile_text_in_every_argument(tool: str, kind: str, bench: Any, look: Any) -> None:
    before = look(bench.root)
    value = HOSTILE[kind]
    for name, schema in REGISTRY.spec(tool).parameters["properties"].items():
        if schema.get("type") != "string":
            continue
        arguments = {name: value} if name == "patch" else {**GOOD[tool], name: value}
        result = call(bench, tool, json.dumps(arguments))
        allowed = tool in ("list_files_bounded", "rg_search") or name in ("new_text", "content")
        assert is_refusal(result) or allowed, (name, result.content[:200])
        if kind in ("NUL", "a million NUL", "a million dots", "half of a pair") and name in ("path", "directory"):
            assert is_refusal(result)
        assert look(bench.root) == before


@pytest.mark.parametrize("tool", NAMES)
@pytest.mark.parametrize("kind", ["fifo", "socket", "device", "sparse terabyte", "folder", "loop", "gone folder"])
def test_things_that_are_no_file(tool: str, kind: str, bench: Any, look: Any, tmp_path: Path, monkeypatch: Any) -> None:
    place = bench.root / "odd"
    monkeypatch.chdir(tmp_path)
    path = "odd"
    if kind == "fifo":
        os.mkfifo(place)
    elif kind == "socket":
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(os.path.relpath(place))
    elif kind == "device":
        if os.geteuid() != 0:
            pytest.skip("only root makes devices")
        os.mknod(place, 0o020666, os.makedev(1, 5))  # /dev/zero never ends
    elif kind == "sparse terabyte":
        with open(place, "wb") as file:
            file.truncate(2**40)
    elif kind == "folder":
        place.mkdir()
    elif kind == "loop":
        place.symlink_to("odd")
    else:
        path = "gone/odd"
    before = look(bench.root)
    mutating = tool in ("write_file_safe", "apply_patch")
    if kind == "gone folder" and tool == "write_file_safe":
        assert call(bench, tool, json.dumps({"path": path, "content": "x", "mode": "replace"})).error is not None
    else:
        result = call(bench, tool, json.dumps({**GOOD[tool], PATH.get(tool, "path"): path}))
        assert is_refusal(result) or (kind == "folder" and not mutating and tool != "read_file_safe")
    if tool == "apply_patch":
        for section in ("*** Delete File: {}", "*** Update File: {}\n*** Move to: new", "*** Update File: {}\n-a\n+b"):
            patch = "*** Begin Patch\n" + section.format(path) + "\n*** End Patch"
            assert is_refusal(call(bench, tool, json.dumps({"patch": patch})))
    assert look(bench.root) == before


def test_the_costly_shapes_together(bench: Any) -> None:
    """Files of nothing but line ends, and hunks as many as fit in the arguments of a call: each bound says so."""

    def patch(path: str, lines: str) -> ToolResult:
        return call(
            bench,
            "apply_patch",
            json.dumps({"patch": f"*** Begin Patch\n*** Update File: {path}\n{lines}*** End Patch"}),
        )

    (bench.root / "many").write_bytes(b"\n" * DEFAULT_LIMITS.max_file_bytes)
    (bench.root / "half").write_bytes(b"\n" * 1_000_000)
    found = [
        patch("many", "@@\n \n+x\n"),
        patch("half", "@@\n \n+x\n" * 100_000),
        patch("half", "@@\n \n+x\n" * 19_000),
    ]
    assert [result.error and result.error.code for result in found] == [
        "truncated_file",
        "invalid_batch_entry",
        "multiple_matches",
    ]
    miss = patch("half", " \n" * 100_000 + "-x\n")
    assert miss.error is not None
    assert miss.error.code == "no_match"
    exact = {"path": "many", "old_text": "\n" * 100_000 + "x", "new_text": ""}
    edit = call(bench, "apply_patch", json.dumps(exact))
    assert edit.error is not None
    assert edit.error.code == "no_match"
