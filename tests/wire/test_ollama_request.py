"""Requests to Ollama: what is sent for which conversation, and that the official types take all of it.

The official types are a development dependency and slow to import, so they are imported inside of the fixture.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from ollama_streams import call, calls, end, reading_of
from ollama_streams import said as said_line
from request_conversations import SCHEMA, SPEC, conversations, options

from sluice.values.messages import (
    AssistantMessage,
    Conversation,
    ImagePart,
    Message,
    Reasoning,
    SystemMessage,
    TextPart,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from sluice.values.requests import ModelOptions
from sluice.wire import DIALECTS
from sluice.wire.dialects.ollama_request import messages_out


def body_of(*conversation: Message, specs: Any = (), **more: Any) -> dict[str, Any]:
    """The body of the request for this conversation."""
    request = DIALECTS["ollama"].request(conversation, specs, ModelOptions(model=more.pop("model", "m"), **more))
    body: dict[str, Any] = json.loads(request.body)
    return body


def test_what_every_request_has() -> None:
    request = DIALECTS["ollama"].request((UserMessage("Hi"),), (), ModelOptions(model="qwen3:4b"))
    assert (request.dialect, request.path, request.auth, request.headers) == ("ollama", "/api/chat", "bearer", ())
    assert json.loads(request.body) == {
        "model": "qwen3:4b",
        "messages": [{"role": "user", "content": "Hi"}],
        "stream": True,
    }


def test_what_is_set_is_sent() -> None:
    body = body_of(
        SystemMessage("Be brief."),
        SystemMessage(""),
        SystemMessage("Be kind."),
        UserMessage("Hi"),
        specs=(SPEC,),
        temperature=0.5,
        top_p=0.9,
        max_output_tokens=77,
        stop=("END",),
        seed=3,
        tool_choice="required",
        parallel_tool_calls=False,
        reasoning_effort="high",
    )
    assert body["messages"][0] == {"role": "system", "content": "Be brief.\n\nBe kind."}
    assert body["options"] == {"temperature": 0.5, "top_p": 0.9, "seed": 3, "num_predict": 77, "stop": ["END"]}
    roomy = json.loads(
        DIALECTS["ollama"].request((UserMessage("u"),), (), ModelOptions(model="m", window_tokens=32_768)).body
    )
    assert roomy["options"] == {"num_ctx": 32_768}  # else the server cuts the conversation to its own default, silently
    function = {"name": "read", "description": "Reads.", "parameters": SCHEMA}
    assert (body["tools"], body["think"]) == ([{"type": "function", "function": function}], "high")
    assert body.keys() == {"model", "messages", "stream", "tools", "options", "think"}
    assert "tools" not in body_of(UserMessage("x"), specs=(SPEC,), tool_choice="none"), "the API has no other way"


@pytest.mark.parametrize(
    ("effort", "think"),
    [("none", False), ("minimal", "low"), ("low", "low"), ("medium", "medium"), ("xhigh", "high"), ("other", None)],
)
def test_effort(effort: str, think: Any) -> None:
    assert body_of(UserMessage("x"), reasoning_effort=effort).get("think") == think


def test_messages() -> None:
    made = (
        ToolCall(id="a", name="f", arguments='{"x":1}'),
        ToolCall(id="b", name="g h", arguments='{"x', status="cut"),
    )
    out = messages_out(
        (
            UserMessage((TextPart("one"), ImagePart("image/png", "AAAA"), TextPart("two"))),
            AssistantMessage(tool_calls=made),
            ToolMessage("a", "f", "fine"),
            ToolMessage("b", "g h", "it broke", ok=False),
            AssistantMessage(content="Done."),
        )
    )
    assert out == [
        {"role": "user", "content": "one\n\ntwo", "images": ["AAAA"]},
        {
            "role": "assistant",
            "content": "",
            "tool_calls": [
                {"function": {"name": "f", "arguments": {"x": 1}}},
                {"function": {"name": "g_h", "arguments": {}}},
            ],
        },
        {"role": "tool", "content": "fine", "tool_name": "f"},
        {"role": "tool", "content": "it broke", "tool_name": "g_h"},
        {"role": "assistant", "content": "Done."},
    ]


def test_thoughts_go_back_only_to_where_they_came_from() -> None:
    message = reading_of([said_line("x", thinking="Hm."), calls(call("f", {})), end()]).reply.message()
    assert messages_out((message,))[0]["thinking"] == "Hm."
    foreign = AssistantMessage(content="x", reasoning=(Reasoning(text="t"),), dialect="gemini", native="[]")
    assert messages_out((foreign,)) == [{"role": "assistant", "content": "x"}]


@pytest.fixture(scope="module")
def accepted() -> Callable[[dict[str, Any]], None]:
    """Raises if the official types do not take a body, or have no place for something in it.

    They are open to other members, so what they kept is compared with what was sent.
    """
    from ollama._types import ChatRequest, Message, Options, Tool

    def check(body: dict[str, Any]) -> None:
        ChatRequest.model_validate(body)
        assert body.keys() <= ChatRequest.model_fields.keys()
        for message in body["messages"]:
            pictures = [{"value": picture} for picture in message.get("images", ())]  # sent as the bare value
            given_message = {**message, "images": pictures} if pictures else message
            assert Message.model_validate(given_message).model_dump(exclude_none=True) == message
        for tool in body.get("tools", ()):
            kept = Tool.model_validate(tool).model_dump(exclude_none=True)["function"]
            assert (kept["name"], kept["description"]) == (tool["function"]["name"], tool["function"]["description"])
        chosen = body.get("options", {})
        assert Options.model_validate(chosen).model_dump(exclude_none=True) == chosen

    return check


def test_the_check_itself_refuses(accepted: Callable[[dict[str, Any]], None]) -> None:
    good = body_of(UserMessage("x"))
    accepted(good)
    for bad in (
        {**good, "messages": [{"content": "x"}]},
        {**good, "messages": [{"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": "{}"}}]}]},
        {**good, "messages": [{"role": "tool", "content": "x", "tool_call_id": "x"}]},
        {**good, "news": 1},
    ):
        with pytest.raises((ValueError, AssertionError)):
            accepted(bad)


@settings(deadline=None, max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(conversations("ollama"), options(["qwen3:4b", "gpt-oss:20b"]))
def test_the_official_types_take_every_request(
    accepted: Callable[[dict[str, Any]], None], conversation: Conversation, given_options: dict[str, Any]
) -> None:
    accepted(body_of(*conversation, **given_options))
