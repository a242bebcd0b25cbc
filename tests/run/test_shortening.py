"""Messages made shorter without a model: what changes, what stays, and that calls stay calls."""

from __future__ import annotations

import json

import pytest

from sluice.run.shortening import short_results, short_words
from sluice.values.messages import (
    AssistantMessage,
    Conversation,
    ImagePart,
    Reasoning,
    TextPart,
    ToolCall,
    ToolMessage,
    UserMessage,
)

LONG = "a" * 50 + "b" * 50
SHORT = "a" * 10 + "\n[80 characters left out]\n" + "b" * 10
ALL = slice(None)


def test_results_keep_their_beginning_and_their_end() -> None:
    messages: Conversation = (UserMessage(LONG), ToolMessage(call_id="1", name="t", content=LONG))
    assert short_results(messages, ALL, 20) == (messages[0], ToolMessage(call_id="1", name="t", content=SHORT))
    assert short_results(messages, ALL, 100) == messages
    assert short_results(messages, slice(0, 1), 20) == messages


def test_the_last_words_of_the_user_are_spared_and_those_of_the_host_are_not() -> None:
    messages: Conversation = (UserMessage(LONG), UserMessage(LONG), UserMessage(LONG, origin="host"))
    assert short_words(messages, ALL, 20) == (UserMessage(SHORT), messages[1], UserMessage(SHORT, origin="host"))
    assert short_words(messages, ALL, 20, spare_last=False)[1] == UserMessage(SHORT)


def test_of_an_image_only_a_word_is_left() -> None:
    image = ImagePart("image/png", "A" * 100)
    messages: Conversation = (UserMessage((TextPart(LONG), image)), UserMessage((image,)))
    first, last = short_words(messages, ALL, 20)
    assert first == UserMessage((TextPart(SHORT), TextPart("[an image left out]")))
    assert last == messages[1]


def test_arguments_stay_one_object_of_the_same_shape() -> None:
    arguments = json.dumps({"path": "a", "edits": [{"old": LONG, "count": 3}], "content": LONG, "mode": None})
    reply = AssistantMessage(content=LONG, tool_calls=(ToolCall(id="1", name="write", arguments=arguments),))
    (shown,) = short_words((reply,), ALL, 20)
    assert isinstance(shown, AssistantMessage)
    assert shown.content == SHORT
    made = json.loads(shown.tool_calls[0].arguments)
    assert made == {"path": "a", "edits": [{"old": SHORT, "count": 3}], "content": SHORT, "mode": None}


@pytest.mark.parametrize(
    "call",
    [
        ToolCall(id="1", name="write", arguments='{"content": "' + LONG, status="cut"),
        ToolCall(id="1", name="write", arguments="[" + LONG + "]"),
    ],
)
def test_arguments_that_are_no_whole_object_stay_as_they_are(call: ToolCall) -> None:
    reply = AssistantMessage(tool_calls=(call,))
    assert short_words((reply,), ALL, 20) == (reply,)


def test_a_reply_that_only_its_provider_can_read_stays_where_it_asks_for_calls() -> None:
    call = ToolCall(id="1", name="write", arguments=json.dumps({"content": LONG}))
    signed = (Reasoning(text=LONG, signature="s"),)
    for reply in (
        AssistantMessage(content=LONG, tool_calls=(call,), native=json.dumps([LONG])),
        AssistantMessage(content=LONG, tool_calls=(call,), reasoning=signed),
    ):
        assert short_words((reply,), ALL, 20) == (reply,)
    answer = AssistantMessage(content=LONG, reasoning=signed, native=json.dumps([LONG]), stop_reason="end_turn")
    assert short_words((answer,), ALL, 20) == (AssistantMessage(content=SHORT, stop_reason="end_turn"),)
    assert short_words((answer,), ALL, 200) == (answer,)
