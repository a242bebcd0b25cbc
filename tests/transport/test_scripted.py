from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.errors import ConfigurationError, TransportError
from sluice.transport.scripted import ScriptedTransport
from sluice.values.requests import Request

REQUEST = Request(dialect="openai_chat", path="/chat/completions", body=b"{}")


async def reads(transport: ScriptedTransport) -> list[bytes]:
    exchange = await transport.send(REQUEST)
    assert exchange.status == 200
    assert exchange.headers["content-type"] == "text/event-stream"
    got = []
    while data := await exchange.read():
        got.append(data)
    await exchange.close()
    return got


def chunks(message: dict[str, Any]) -> list[dict[str, Any]]:
    """The events of a rendered message, decoded without any code of ours."""
    body = b"".join(asyncio.run(reads(ScriptedTransport([message])))).decode()
    events = body.split("\n\n")
    assert events.pop() == ""
    assert events.pop() == "data: [DONE]"
    return [json.loads(event.removeprefix("data: ")) for event in events]


@given(
    st.text(st.characters(exclude_categories=["Cs"])),
    st.dictionaries(st.text("ab", max_size=3), st.text("xé\n", max_size=40)),
)
def test_text_and_arguments_come_out_as_they_went_in(text: str, arguments: dict[str, str]) -> None:
    raw = json.dumps(arguments)
    message = {
        "role": "assistant",
        "content": text,
        "tool_calls": [
            {"id": "a", "type": "function", "function": {"name": "one", "arguments": raw}},
            {"function": {"name": "two", "arguments": arguments}},
        ],
    }
    deltas = [chunk["choices"][0]["delta"] for chunk in chunks(message)]
    assert "".join(delta.get("content", "") for delta in deltas) == text
    parts = [call for delta in deltas for call in delta.get("tool_calls", [])]
    joined = ["".join(p["function"]["arguments"] for p in parts if p["index"] == index) for index in (0, 1)]
    assert joined[0] == raw
    assert json.loads(joined[1]) == arguments
    assert [p["id"] for p in parts if "id" in p] == ["a", "call_1_1"]


@pytest.mark.parametrize(
    ("extra", "reason"),
    [
        ({}, "stop"),
        ({"tool_calls": [{"function": {"name": "x"}}]}, "tool_calls"),
        ({"finish_reason": "length"}, "length"),
    ],
)
def test_a_reply_ends_with_its_reason(extra: dict[str, Any], reason: str) -> None:
    reasons = [chunk["choices"][0]["finish_reason"] for chunk in chunks({"content": "hi"} | extra)]
    assert reasons[-1] == reason
    assert set(reasons[:-1]) == {None}


def test_usage_and_reasoning_are_played() -> None:
    found = chunks({"content": "hi", "reasoning_content": "hm", "usage": {"prompt_tokens": 3}})
    assert found[-1]["usage"] == {"prompt_tokens": 3}
    assert found[-1]["choices"] == []
    assert any(c["choices"][0]["delta"].get("reasoning_content") == "hm" for c in found[:-1])


def test_the_bytes_are_torn_inside_events_and_arguments_are_in_fragments() -> None:
    message = {"tool_calls": [{"function": {"name": "x", "arguments": {"text": "y" * 100}}}]}
    got = asyncio.run(reads(ScriptedTransport([message])))
    assert len(got) > 5
    assert not got[0].endswith(b"\n")
    fragments = [c for chunk in chunks(message) for c in chunk["choices"][0]["delta"].get("tool_calls", [])]
    assert len(fragments) > 5


def test_request_k_gets_message_k_and_then_there_is_no_more(tmp_path: Path) -> None:
    path = tmp_path / "fixture.json"
    path.write_text(json.dumps([{"role": "assistant", "content": "first"}, {"role": "assistant", "content": "second"}]))

    async def run() -> None:
        transport = ScriptedTransport(path)
        assert b"first" in b"".join(await reads(transport))
        assert b"second" in b"".join(await reads(transport))
        with pytest.raises(TransportError, match=r"fixture\.json holds 2 message\(s\)") as caught:
            await transport.send(REQUEST)
        assert caught.value.kind == "no_recording"

    asyncio.run(run())


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("no json", "is not JSON"),
        ("", "is not JSON"),
        ('{"role": "assistant"}', "must be a JSON array"),
        ("[3]", "entry 0"),
        ('[{"content": "x"}, {"content": 5}]', r"entry 1 .*\$\.content"),
        ('[{"role": "user", "content": "x"}]', "only assistant messages"),
        ('[{"tool_calls": [{"function": {}}]}]', "name"),
        ('[{"tool_calls": [{"function": {"name": ""}}]}]', "without a name"),
        ('[{"tool_calls": [{"function": {"name": "x", "arguments": 5}}]}]', "arguments"),
        ('[{"content": "\\ud800"}]', "is not JSON"),
        ("[" * 100000, "is not JSON"),
    ],
)
def test_a_bad_fixture_says_what_and_where(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "fixture.json"
    path.write_text(text)
    with pytest.raises(ConfigurationError, match=words) as caught:
        ScriptedTransport(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_missing_fixture_and_another_dialect_are_said(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="No such file"):
        ScriptedTransport(tmp_path / "none.json")
    with pytest.raises(ConfigurationError, match="gemini"):
        ScriptedTransport([], "gemini")
    with pytest.raises(ConfigurationError, match="entry 0"):
        ScriptedTransport([{"content": "\ud800"}])


def test_a_closed_exchange_is_over() -> None:
    async def run() -> None:
        exchange = await ScriptedTransport([{"content": "x"}]).send(REQUEST)
        await exchange.close()
        with pytest.raises(TransportError):
            await exchange.read()

    asyncio.run(run())
