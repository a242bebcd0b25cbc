"""Requests to Anthropic Messages: what is sent for which conversation, and that the official types take all of it.

The official types are a development dependency and slow to import, so they are imported inside of the fixture.
"""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from messages_streams import begin, call, delta, end, reading_of, start, stop, text, thinking

from sluice.values.calls import ToolSpec
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
from sluice.wire.dialects.anthropic_request import MAX_OUTPUT_TOKENS, THINKING_TOKENS, messages_out

OURS = "anthropic_messages"
SPEC = ToolSpec(
    name="read", description="Reads.", parameters={"type": "object", "properties": {}}, category="read_only"
)
ID = re.compile(r"^[a-zA-Z0-9_-]+$")
MARK = {"type": "ephemeral"}


def body_of(*conversation: Message, specs: tuple[ToolSpec, ...] = (), **options: Any) -> dict[str, Any]:
    """The body of the request for this conversation."""
    request = DIALECTS[OURS].request(
        conversation, specs, ModelOptions(model=options.pop("model", "claude-sonnet-4-5"), **options)
    )
    body: dict[str, Any] = json.loads(request.body)
    return body


def bare(value: Any) -> Any:
    """The value without cache marks."""
    if isinstance(value, dict):
        return {k: bare(v) for k, v in value.items() if k != "cache_control"}
    return [bare(v) for v in value] if isinstance(value, list) else value


def marks(value: Any) -> int:
    """How many cache marks there are."""
    return json.dumps(value).count('"cache_control"')


def said(message: AssistantMessage | Message) -> list[dict[str, Any]]:
    """The blocks of one message between two of the user's."""
    blocks: list[dict[str, Any]] = bare(messages_out((UserMessage("q"), message, UserMessage("r")))[1]["content"])
    return blocks


# -- the request --------------------------------------------------------------------------------------------------------


def test_what_every_request_has() -> None:
    request = DIALECTS[OURS].request((UserMessage("Hi"),), (), ModelOptions(model="claude-sonnet-4-5"))
    assert (request.dialect, request.path, request.auth) == (OURS, "/messages", "x-api-key")
    assert request.headers == (("anthropic-version", "2023-06-01"),)
    assert json.loads(request.body) == {
        "model": "claude-sonnet-4-5",
        "max_tokens": MAX_OUTPUT_TOKENS,
        "messages": [{"role": "user", "content": [{"type": "text", "text": "Hi", "cache_control": MARK}]}],
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
    )
    assert body["system"] == [{"type": "text", "text": "Be brief.\n\nBe kind.", "cache_control": MARK}]
    assert (body["temperature"], body["top_p"], body["max_tokens"], body["stop_sequences"]) == (0.5, 0.9, 77, ["END"])
    assert body["tools"] == [{"name": "read", "description": "Reads.", "input_schema": SPEC.parameters}]
    assert body["tool_choice"] == {"type": "any", "disable_parallel_tool_use": True}
    assert "seed" not in body, "the API has none"


@pytest.mark.parametrize(
    ("choice", "parallel", "sent"),
    [
        (None, None, None),
        (None, True, {"type": "auto", "disable_parallel_tool_use": False}),
        ("auto", None, {"type": "auto"}),
        ("required", None, {"type": "any"}),
        ("none", False, {"type": "none"}),
        ("read", False, {"type": "tool", "name": "read", "disable_parallel_tool_use": True}),
    ],
)
def test_tool_choice(choice: str | None, parallel: bool | None, sent: Any) -> None:
    body = body_of(UserMessage("x"), specs=(SPEC,), tool_choice=choice, parallel_tool_calls=parallel)
    assert body.get("tool_choice") == sent
    assert "tool_choice" not in body_of(UserMessage("x"), tool_choice=choice), "there is nothing to choose from"


def thinking_of(**options: Any) -> tuple[Any, Any, int]:
    body = body_of(UserMessage("x"), specs=(SPEC,), **options)
    return body.get("thinking"), body.get("output_config"), body["max_tokens"]


@pytest.mark.parametrize(
    "model",
    ["claude-sonnet-4-5", "claude-sonnet-4-5-20250929", "claude-opus-4-1", "claude-opus-4-20250514", "claude-3-7-sonnet",
     "anthropic/claude-sonnet-4.5", "anthropic/claude-haiku-4-5", "tiny"],
)  # fmt: skip
@pytest.mark.parametrize("effort", THINKING_TOKENS)
def test_effort_is_a_budget_where_models_take_one(model: str, effort: str) -> None:
    budget = THINKING_TOKENS[effort]
    wanted = {"type": "enabled", "budget_tokens": budget}
    assert thinking_of(model=model, reasoning_effort=effort) == (wanted, None, MAX_OUTPUT_TOKENS + budget)


@pytest.mark.parametrize(
    "model", ["claude-opus-4-6", "claude-sonnet-4-6", "claude-opus-4-7", "claude-opus-4-10", "claude-opus-5"]
)
def test_effort_is_an_effort_where_models_decide_themselves(model: str) -> None:
    wanted = ({"type": "adaptive"}, {"effort": "low"}, MAX_OUTPUT_TOKENS + THINKING_TOKENS["low"])
    assert thinking_of(model=model, reasoning_effort="low") == wanted


def test_thinking_gives_way() -> None:
    nothing = (None, None, MAX_OUTPUT_TOKENS)
    assert thinking_of() == thinking_of(reasoning_effort="unheard") == nothing
    assert thinking_of(reasoning_effort="high", tool_choice="required") == nothing, "the API refuses both at once"
    assert thinking_of(reasoning_effort="high", max_output_tokens=2000) == (None, None, 2000), "too little for a budget"
    half = {"type": "enabled", "budget_tokens": 2000}
    assert thinking_of(reasoning_effort="high", max_output_tokens=4000) == (half, None, 4000)
    assert thinking_of(reasoning_effort="none") == ({"type": "disabled"}, None, MAX_OUTPUT_TOKENS)


# -- messages -----------------------------------------------------------------------------------------------------------


def test_results_come_first_in_the_users_turn_and_neighbours_are_one() -> None:
    made = (ToolCall(id="a", name="f", arguments='{"x":1}'), ToolCall(id="b", name="g", arguments="{}"))
    out = bare(
        messages_out(
            (
                UserMessage("one"),
                UserMessage((TextPart("two"), ImagePart("image/png", "AAAA"))),
                AssistantMessage(content="Let me see.", tool_calls=made),
                UserMessage("by the way", origin="host"),
                ToolMessage("a", "f", "fine"),
                ToolMessage("b", "g", "it broke", ok=False),
                UserMessage("and?"),
            )
        )
    )
    assert out == [
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "one"},
                {"type": "text", "text": "two"},
                {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}},
            ],
        },
        {
            "role": "assistant",
            "content": [
                {"type": "text", "text": "Let me see."},
                {"type": "tool_use", "id": "a", "name": "f", "input": {"x": 1}},
                {"type": "tool_use", "id": "b", "name": "g", "input": {}},
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "a", "content": "fine"},
                {"type": "tool_result", "tool_use_id": "b", "content": "it broke", "is_error": True},
                {"type": "text", "text": "by the way"},
                {"type": "text", "text": "and?"},
            ],
        },
    ]


def test_empty_text_is_never_sent() -> None:
    out = messages_out(
        (
            UserMessage("q"),
            UserMessage(" \n"),
            AssistantMessage(content=" "),
            AssistantMessage(stop_reason="aborted"),
            UserMessage((TextPart(""), TextPart("r"))),
            AssistantMessage(tool_calls=(ToolCall(id="a", name="f", arguments="{}"),)),
            ToolMessage("a", "f", ""),
        )
    )
    assert [m["role"] for m in out] == ["user", "assistant", "user"]
    assert out[0]["content"] == [{"type": "text", "text": "q"}, {"type": "text", "text": "r"}]
    assert out[2]["content"] == [{"type": "tool_result", "tool_use_id": "a"}]
    assert "system" not in body_of(SystemMessage(" "), UserMessage("q"))


def test_the_first_message_is_the_users_and_the_last_ends_without_white_space() -> None:
    out = messages_out((AssistantMessage(content="half a word \n"),))
    assert [m["role"] for m in out] == ["user", "assistant"]
    assert out[1]["content"] == [{"type": "text", "text": "half a word"}]


def test_ids_are_what_the_api_takes_in_call_and_result_and_each_is_used_once() -> None:
    ids = ["call:1", "call.1", "a", "a", "", "ü"]
    conversation: list[Message] = [UserMessage("q")]
    for id in ids:
        conversation += [
            AssistantMessage(tool_calls=(ToolCall(id=id, name="f", arguments="{}"),)),
            ToolMessage(id, "f", "x"),
        ]
    out = messages_out(tuple(conversation))
    used = [b["id"] for m in out for b in m["content"] if b["type"] == "tool_use"]
    answered = [b["tool_use_id"] for m in out for b in m["content"] if b["type"] == "tool_result"]
    assert used == answered == ["call_1", "call_1_2", "a", "a_2", "call", "_"]


def test_two_calls_of_one_message_with_one_id_have_a_result_each() -> None:
    twice = AssistantMessage(
        tool_calls=(ToolCall(id="a", name="f", arguments="{}"), ToolCall(id="a", name="g", arguments="{}"))
    )
    out = messages_out(
        (UserMessage("q"), twice, ToolMessage("a", "f", "1"), ToolMessage("a", "g", "2"), ToolMessage("z", "h", "3"))
    )
    assert [b["id"] for b in out[1]["content"]] == ["a", "a_2"]
    assert [(b["tool_use_id"], b["content"]) for b in out[2]["content"]] == [("a", "1"), ("a_2", "2"), ("z", "3")]


@pytest.mark.parametrize("arguments", ["", '{"x": "cu', "[]", '{"x": NaN}', '{"a":1,"a":2}'])
@pytest.mark.parametrize("native", [False, True])
def test_arguments_that_are_no_object_become_an_empty_one(arguments: str, native: bool) -> None:
    broken = ToolCall(id="a", name="bad name!", arguments=arguments, status="malformed")
    items = [
        {"type": "thinking", "thinking": "t", "signature": "s"},
        {"type": "tool_use", "id": "x", "name": "y", "input": {}},
    ]
    message = AssistantMessage(tool_calls=(broken,), dialect=OURS, native=json.dumps(items) if native else None)
    assert said(message)[-1] == {"type": "tool_use", "id": "a", "name": "bad_name_", "input": {}}


# -- what came from the provider ----------------------------------------------------------------------------------------


def test_reasoning_goes_back_only_where_it_came_from_and_only_if_signed() -> None:
    thoughts = (Reasoning(text="t", signature="s"), Reasoning(text="unsigned"), Reasoning(redacted="blob"))
    ours = AssistantMessage(content="x", reasoning=thoughts, dialect=OURS)
    assert said(ours) == [
        {"type": "thinking", "thinking": "t", "signature": "s"},
        {"type": "redacted_thinking", "data": "blob"},
        {"type": "text", "text": "x"},
    ]
    for dialect in ("openai_responses", None):
        assert said(AssistantMessage(content="x", reasoning=thoughts, dialect=dialect)) == [
            {"type": "text", "text": "x"}
        ]


def test_items_of_another_dialect_are_never_sent() -> None:
    foreign = AssistantMessage(
        content="x", dialect="openai_responses", native='[{"type":"reasoning","encrypted_content":"e"}]'
    )
    assert said(foreign) == [{"type": "text", "text": "x"}]


@pytest.mark.parametrize(
    "native",
    [
        "",
        "{}",
        "[1]",
        "[{}]",
        '[{"type":5}]',
        '[{"type":"tool_use"}]',
        "[" * 5000,
        '[{"type":"text","text":"\\ud800"}]',
    ],
)
def test_items_that_do_not_belong_to_the_message_are_left_out(native: str) -> None:
    assert said(AssistantMessage(content="x", dialect=OURS, native=native)) == [{"type": "text", "text": "x"}]


def test_a_reply_goes_back_as_it_came() -> None:
    body = (
        begin()
        + thinking(0, "Hm.", "sig")
        + start(1, "server_tool_use", id="srv_1", name="web_search", input={})
        + delta(1, "input_json_delta", partial_json='{"query":"x"}')
        + stop(1)
        + start(2, "web_search_tool_result", tool_use_id="srv_1", content=[])
        + stop(2)
        + text(3, "Found.")
        + call(4, "toolu_1", "read", '{"path":"a"}')
        + end("tool_use")
    )
    assert said(reading_of([body]).reply.message()) == [
        {"type": "thinking", "thinking": "Hm.", "signature": "sig"},
        {"type": "server_tool_use", "id": "srv_1", "name": "web_search", "input": {"query": "x"}},
        {"type": "web_search_tool_result", "tool_use_id": "srv_1", "content": []},
        {"type": "text", "text": "Found."},
        {"type": "tool_use", "id": "toolu_1", "name": "read", "input": {"path": "a"}},
    ]


# -- cache marks --------------------------------------------------------------------------------------------------------


def turns(count: int) -> Iterator[Conversation]:
    """A conversation as it grows, turn by turn, with reasoning of the provider's own and ids that repeat."""
    said_so_far: list[Message] = [SystemMessage("Be brief."), UserMessage("Begin.")]
    for turn in range(count):
        yield tuple(said_so_far)
        reply = reading_of(
            [
                begin()
                + thinking(0, f"t{turn}", "s")
                + text(1, f"x{turn}")
                + call(2, f"id.{turn % 3}", "read", "{}")
                + end("tool_use")
            ]
        ).reply
        said_so_far += [reply.message(), ToolMessage(reply.tool_calls[0].id, "read", f"result {turn}")]
        if turn % 4 == 0:
            said_so_far.append(UserMessage("go on"))


def test_marks_are_on_the_system_text_and_the_last_two_messages_and_nothing_else_changes() -> None:
    before: dict[str, Any] | None = None
    for conversation in turns(20):
        body = body_of(*conversation, specs=(SPEC,))
        messages = body["messages"]
        assert marks(body) == 1 + min(2, len(messages)) <= 4
        assert marks(body["system"]) == 1
        assert [marks(m) for m in messages] == [0] * (len(messages) - 2) + [1] * min(2, len(messages))
        plain = bare(body)
        if before is not None:
            held = json.dumps(before["messages"])[:-1]
            assert json.dumps(plain["messages"]).startswith(held), "the beginning is the same, byte by byte"
            assert {**plain, "messages": None} == {**before, "messages": None}
        before = plain


def test_no_mark_is_set_on_reasoning_and_marks_in_items_are_removed() -> None:
    items = [
        {"type": "text", "text": "x", "cache_control": MARK},
        {"type": "thinking", "thinking": "t", "signature": "s"},
    ]
    message = AssistantMessage(content="x", dialect=OURS, native=json.dumps(items))
    body = body_of(UserMessage("q"), message, UserMessage("r"), AssistantMessage(content="y"), UserMessage("z"))
    assert marks(body["messages"][1]) == 0, "a mark of an earlier turn is gone"
    last = body_of(UserMessage("q"), message)["messages"][1]["content"]
    assert [marks(block) for block in last] == [1, 0]
    only = AssistantMessage(reasoning=(Reasoning(text="t", signature="s"),), dialect=OURS)
    assert marks(body_of(UserMessage("q"), only)) == 1


# -- the official types -------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def accepted() -> Callable[[dict[str, Any]], None]:
    """Raises if the official types do not take a body, or have no place for something in it.

    `temperature` and `top_p` are left out: version 2023-06-01 of the API, which is asked for, takes them; the types are
    those of version 2026-10-21, which dropped them.
    """
    from anthropic.types.beta import message_create_params
    from pydantic import ConfigDict, create_model

    params = message_create_params.MessageCreateParamsStreaming
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # one of the types is open on purpose
        model: Any = create_model("Sent", body=(params, ...), __config__=ConfigDict(extra="forbid"))

    def check(body: dict[str, Any]) -> None:
        walked(model(body={k: v for k, v in body.items() if k not in ("temperature", "top_p")}).body)

    return check


def walked(value: Any) -> None:
    """Iterables are validated as they are walked."""
    if isinstance(value, dict):
        for inner in value.values():
            walked(inner)
    elif not isinstance(value, (str, bytes, int, float, type(None))) and hasattr(value, "__iter__"):
        for inner in value:
            walked(inner)


def test_the_check_itself_refuses(accepted: Callable[[dict[str, Any]], None]) -> None:
    good = body_of(UserMessage("x"))
    accepted(good)
    for bad in (
        {**good, "messages": [{"role": "user", "content": [{"type": "text"}]}]},
        {**good, "messages": [{"role": "tool", "content": "x"}]},
        {**good, "news": 1},
        {**good, "tools": [{"name": "f"}]},
    ):
        with pytest.raises(ValueError, match="validation error"):
            accepted(bad)


words = st.text(max_size=8).map(lambda text: text.encode("utf-8", "replace").decode())
names = st.text("abcXYZ_-", min_size=1, max_size=8)
calls = st.builds(
    ToolCall,
    id=words,
    name=st.one_of(names, words),
    arguments=st.one_of(st.dictionaries(words, words, max_size=2).map(json.dumps), words),
    status=st.sampled_from(["whole", "cut", "malformed"]),
)
thoughts = st.one_of(
    st.builds(Reasoning, text=words, signature=st.one_of(st.none(), names)), st.builds(Reasoning, redacted=names)
)
parts = st.one_of(
    st.builds(TextPart, text=words),
    st.builds(
        ImagePart,
        media_type=st.sampled_from(["image/png", "image/jpeg", "image/gif", "image/webp"]),
        data=st.just("QUJD"),
    ),
)


@st.composite
def conversations(draw: st.DrawFn) -> Conversation:
    """Conversations as a run makes them: each call is answered, right after its message."""
    made: list[Message] = [SystemMessage(draw(words)), UserMessage(draw(words))]
    for _ in range(draw(st.integers(0, 4))):
        reply = AssistantMessage(
            content=draw(st.one_of(st.none(), words)),
            reasoning=tuple(draw(st.lists(thoughts, max_size=2))),
            tool_calls=tuple(draw(st.lists(calls, max_size=2))),
            dialect=draw(st.sampled_from([OURS, "openai_chat", None])),
        )
        made.append(reply)
        made += [ToolMessage(c.id, c.name, draw(words), draw(st.booleans())) for c in reply.tool_calls]
        if draw(st.booleans()):
            made.append(UserMessage(draw(st.one_of(words, st.lists(parts, max_size=3).map(tuple)))))
    return tuple(made)


def options() -> st.SearchStrategy[dict[str, Any]]:
    """Options of a call, some of them set."""
    return st.fixed_dictionaries(
        {},
        optional={
            "model": st.sampled_from(["claude-opus-4-7", "claude-sonnet-4-5", "tiny"]),
            "temperature": st.floats(0, 1),
            "top_p": st.floats(0, 1),
            "max_output_tokens": st.integers(1, 100_000),
            "stop": st.lists(names, max_size=2).map(tuple),
            "seed": st.integers(0, 9),
            "tool_choice": st.sampled_from(["auto", "none", "required", "read"]),
            "parallel_tool_calls": st.booleans(),
            "reasoning_effort": st.sampled_from([*THINKING_TOKENS, "none", "other"]),
            "specs": st.just((SPEC,)),
        },
    )


@settings(deadline=None, max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(conversations(), options())
def test_the_official_types_take_every_request(
    accepted: Callable[[dict[str, Any]], None], conversation: Conversation, given_options: dict[str, Any]
) -> None:
    body = body_of(*conversation, **given_options)
    accepted(body)
    messages = body["messages"]
    assert marks(body) <= 4
    assert [m["role"] for m in messages] == (["user", "assistant"] * len(messages))[: len(messages)]
    used: list[str] = []
    for place, message in enumerate(messages):
        assert message["content"]
        asked = [b["id"] for b in message["content"] if b["type"] == "tool_use"]
        used += asked
        if asked:
            answers = [b["tool_use_id"] for b in messages[place + 1]["content"][: len(asked)]]
            assert answers == asked
        for block in message["content"]:
            assert block["type"] != "text" or block["text"].strip()
            assert block["type"] != "thinking" or block["signature"]
    assert all(ID.match(id) for id in used)
    assert len(set(used)) == len(used)
    thinking_set = body.get("thinking", {})
    assert thinking_set.get("budget_tokens", 0) < body["max_tokens"]


@pytest.mark.corpus
def test_the_official_types_take_every_recorded_reply(shared: Path, accepted: Callable[[dict[str, Any]], None]) -> None:
    natives = 0
    for path in sorted((shared / "corpus" / "anthropic-messages").iterdir()):
        reading = reading_of([path.read_bytes()])
        message = reading.reply.message()
        natives += message.native is not None
        answers = [ToolMessage(c.id, c.name, "x") for c in message.tool_calls]
        accepted(body_of(UserMessage("q"), message, *answers, UserMessage("r")))
    assert natives > 60
