"""What holds for every built-in tool: schema, words, and a structured answer to bad input (P1, P2, P13)."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from sluice.limits import DEFAULT_LIMITS
from sluice.tools.builtin import default_tools
from sluice.tools.registry import Executor, Registry
from sluice.values.calls import AllowedCall, CallKey, ToolSpec, Verdict, call_digest
from sluice.values.results import ToolResult

REGISTRY = Registry(default_tools())
SPECS = {spec.name: spec for spec in REGISTRY.specs()}
TOOLS = pytest.mark.parametrize("name", SPECS)


def nodes(node: Any) -> Any:
    yield node
    for child in node.values() if isinstance(node, dict) else node if isinstance(node, list) else ():
        yield from nodes(child)


def check(name: str, arguments: str) -> ToolSpec | ToolResult:
    def never(cancel: Any) -> Any:
        raise AssertionError("a check touches nothing")

    return Executor(REGISTRY, never).check(name, arguments)


def test_the_tools_are_these() -> None:
    """Names, order and categories of P4."""
    files = {"read_file_safe": "read_only", "write_file_safe": "mutating", "apply_patch": "mutating"}
    searches = {"list_files_bounded": "read_only", "rg_search": "read_only"}
    readers = {"git_status": "read_only", "git_diff": "read_only", "git_show": "read_only"}
    writers = {"git_add": "mutating", "git_commit": "mutating"}
    commands = dict.fromkeys(("bash_execute_safe", "build_project_safe", "test_project_safe"), "execution")
    wanted = {**files, **searches, **readers, **writers, **commands}
    assert [(name, spec.category) for name, spec in SPECS.items() if name in wanted] == list(wanted.items())


def test_the_marks_say_which_tools_change_the_repository_and_which_run_its_code() -> None:
    changing = {name for name, spec in SPECS.items() if spec.risk.changes_repository}
    assert changing == {"write_file_safe", "apply_patch", "git_add", "git_commit"}
    running = {name for name, spec in SPECS.items() if spec.risk.runs_repository_code}
    assert running == {"bash_execute_safe", "build_project_safe", "test_project_safe"}


@TOOLS
def test_the_schema_is_one_object_that_refuses_unknown_keys(name: str) -> None:
    schema = SPECS[name].parameters
    assert schema["type"] == "object"
    for node in nodes(schema):
        if isinstance(node, dict):
            assert "$ref" not in node
            assert "$defs" not in node
            if node.get("type") == "object":
                assert node["additionalProperties"] is False
    for argument in schema["properties"].values():
        assert argument["description"].strip()


@TOOLS
def test_the_words_mention_every_argument(name: str) -> None:
    words = SPECS[name].description
    assert len(words) > 100
    for argument in SPECS[name].parameters["properties"]:
        assert f"`{argument}`" in words, argument


@TOOLS
def test_unknown_keys_and_wrong_types_are_told_with_their_place(name: str) -> None:
    schema = SPECS[name].parameters
    listed = {key for key, node in schema["properties"].items() if node.get("type") == "array"}
    right: dict[str, Any] = {key: ["x"] if key in listed else "x" for key in schema["required"]}
    bad = [({**right, "no_such_argument": 1}, "$.no_such_argument")]
    bad += [({**right, argument: {"a": [1]}}, f"$.{argument}") for argument in schema["properties"]]
    for arguments, path in bad:
        result = check(name, json.dumps(arguments))
        assert isinstance(result, ToolResult), arguments
        assert (result.ok, result.status, result.tool) == (False, "invalid", name)
        assert result.error is not None
        assert result.error.code == "invalid_arguments"
        assert result.error.path is not None
        assert result.error.path.startswith(path)


@TOOLS
@pytest.mark.parametrize("arguments", ["", "null", "[]", '"x"', "{", '{"a": NaN}', "[" * 200_000, "{" + '"a":{' * 999])
def test_what_is_no_strict_object_is_told(name: str, arguments: str) -> None:
    result = check(name, arguments)
    assert isinstance(result, ToolResult)
    assert result.status == "invalid"
    assert len(result.content) < 1000


@TOOLS
@pytest.mark.parametrize("value", ["a\0b", "\0", "x" * 10_000_000, "\x1b]0;x\x07", "../" * 1000, "\u202e"])
def test_hostile_text_in_any_argument_is_answered_within_bounds(name: str, value: str, bench: Any) -> None:
    schema = SPECS[name].parameters
    listed = {key for key, node in schema["properties"].items() if node.get("type") == "array"}
    wanted = schema["required"] or (["pathspecs"] if "pathspecs" in schema["properties"] else ["directory"])
    text = json.dumps({key: [value] if key in listed else value for key in wanted})
    if isinstance(check(name, text), ToolResult):
        return
    key = CallKey("run", 1, 0)
    verdict = Verdict(key=key, digest=call_digest(name, text), decision="allow", rule="test")
    call = AllowedCall(key=key, tool=name, arguments=text, verdict=verdict)

    def context(cancel: Any) -> Any:
        bench.context.cancel = cancel
        return bench.context

    async def main() -> ToolResult:
        return await Executor(REGISTRY, context).run(call, bench.context.cancel)

    result = asyncio.run(main())
    assert result.failure != "fatal"
    assert len(result.content.encode()) <= DEFAULT_LIMITS.max_tool_output_bytes
    if "\0" in value or len(value) > 10**6 or (value.startswith("..") and name != "rg_search"):
        assert not result.ok
        assert result.error is not None


def test_each_word_file_belongs_to_a_tool() -> None:
    folder = Path(__file__).parents[2] / "src/sluice/tools"
    words = {path.stem for path in folder.glob("*.md")}
    assert words == {tool.run.__module__.rpartition(".")[2] for tool in default_tools()}
