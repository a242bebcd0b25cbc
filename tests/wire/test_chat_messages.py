"""A conversation in Chat's words: what is there, what is absent, and that a past mistake never spoils a request."""

from __future__ import annotations

import json

import pytest

from sluice.values.messages import (
    AssistantMessage,
    ImagePart,
    Reasoning,
    SystemMessage,
    TextPart,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from sluice.wire.dialects.chat_messages import GIVEN_BACK, messages_out


def call(arguments: str, name: str = "f", status: str = "whole") -> ToolCall:
    return ToolCall(id="a", name=name, arguments=arguments, status=status)  # type: ignore[arg-type]


def test_system_text_stands_first_and_only_if_there_is_any() -> None:
    assert messages_out((UserMessage("u"), SystemMessage("a"), SystemMessage(""), SystemMessage("b"))) == [
        {"role": "system", "content": "a\n\nb"},
        {"role": "user", "content": "u"},
    ]
    assert messages_out((SystemMessage(""), UserMessage("u"))) == [{"role": "user", "content": "u"}]
    assert messages_out(()) == []


def test_a_plain_string_stays_a_string_and_parts_stay_parts() -> None:
    parts = (TextPart("look"), ImagePart("image/png", "aGk="))
    assert messages_out((UserMessage("plain"), UserMessage(parts), UserMessage("note", origin="host"))) == [
        {"role": "user", "content": "plain"},
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "look"},
                {"type": "image_url", "image_url": {"url": "data:image/png;base64,aGk="}},
            ],
        },
        {"role": "user", "content": "note"},
    ]


def test_content_is_null_beside_calls_and_empty_without_them() -> None:
    wire_call = {"id": "a", "type": "function", "function": {"name": "f", "arguments": '{"x" : 1}'}}
    assert messages_out(
        (
            AssistantMessage(tool_calls=(call('{"x" : 1}'),)),
            AssistantMessage(content="t", tool_calls=(call('{"x" : 1}'),)),
            AssistantMessage(),
            AssistantMessage(content="t", reasoning=(Reasoning(text="kept here"),)),
        )
    ) == [
        {"role": "assistant", "content": None, "tool_calls": [wire_call]},
        {"role": "assistant", "content": "t", "tool_calls": [wire_call]},
        {"role": "assistant", "content": ""},
        {"role": "assistant", "content": "t"},
    ]


def test_results_are_one_message_each_in_the_order_of_the_conversation() -> None:
    out = messages_out((ToolMessage("a", "f", "one"), ToolMessage("b", "g", "two", ok=False), UserMessage("u")))
    assert out == [
        {"role": "tool", "tool_call_id": "a", "content": "one"},
        {"role": "tool", "tool_call_id": "b", "content": "two"},
        {"role": "user", "content": "u"},
    ]


@pytest.mark.parametrize(
    ("arguments", "status", "sent"),
    [
        ('{"x":"half', "cut", "{}"),
        ("", "cut", "{}"),
        ("[]", "malformed", "{}"),
        ('{"x":1,"x":2}', "malformed", "{}"),
        ('{"x":"\ufffd"}', "malformed", '{"x":"\ufffd"}'),
        ('{"x":1}', "cut", '{"x":1}'),
        ('{"x":1}', "whole", '{"x":1}'),
    ],
)
def test_history_holds_an_object_where_an_object_must_stand(arguments: str, status: str, sent: str) -> None:
    (out,) = messages_out((AssistantMessage(tool_calls=(call(arguments, status=status),)),))
    assert out["tool_calls"][0]["function"]["arguments"] == sent
    json.loads(sent)


@pytest.mark.parametrize(
    ("name", "status", "sent"),
    [
        ("", "malformed", "unnamed"),
        ("f<|channel|>x", "malformed", "f__channel__x"),
        ("é🍸", "malformed", "__"),
        ("x" * 500, "malformed", "x" * 64),
        ("mcp.read", "whole", "mcp.read"),
    ],
)
def test_history_holds_a_name_that_a_server_can_take(name: str, status: str, sent: str) -> None:
    (out,) = messages_out((AssistantMessage(tool_calls=(call("{}", name, status),)),))
    assert out["tool_calls"][0]["function"]["name"] == sent


def thinker(
    text: str = "hm", *, calls: bool = True, native: str | None = GIVEN_BACK, dialect: str = "openai_chat"
) -> AssistantMessage:
    thoughts = (Reasoning(text=text),) if text else ()
    return AssistantMessage(
        content="t", reasoning=thoughts, tool_calls=(call("{}"),) if calls else (), native=native, dialect=dialect
    )


def given(*conversation: object) -> list[str | None]:
    return [m.get("reasoning_content") for m in messages_out(conversation) if m["role"] == "assistant"]  # type: ignore[arg-type]


def test_reasoning_content_goes_back_in_a_turn_that_calls_tools_also_when_it_is_empty() -> None:
    result = ToolMessage("a", "f", "done")
    assert given(UserMessage("u"), thinker(), result, thinker(""), result, thinker("end", calls=False)) == [
        "hm",
        "",
        "end",
    ]
    assert given(UserMessage("u"), thinker(calls=False), UserMessage("v"), thinker(), result) == [None, "hm"]
    note = UserMessage("go on", origin="host")
    assert given(UserMessage("u"), thinker(), result, note, thinker("x", calls=False)) == ["hm", "x"]
    assert given(UserMessage("u"), thinker(), result, UserMessage("v"), thinker("x", calls=False)) == ["hm", None]


def test_it_goes_back_only_where_it_came_under_that_name() -> None:
    assert given(UserMessage("u"), thinker(native=None)) == [None]
    assert given(UserMessage("u"), thinker(dialect="anthropic_messages")) == [None]


def test_what_was_sent_of_it_stays_as_it_was_when_the_conversation_grows() -> None:
    """A prefix that changes is paid for again."""
    result = ToolMessage("a", "f", "done")
    talk = (
        UserMessage("u"),
        thinker(calls=False),
        thinker(),
        result,
        thinker("b", calls=False),
        UserMessage("v"),
        thinker(),
    )
    whole = messages_out(talk)
    for size in range(len(talk)):
        assert whole[:size] == messages_out(talk[:size])
