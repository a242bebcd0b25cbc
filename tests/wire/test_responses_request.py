"""Requests to the Responses API: what is sent for which conversation, and that the official types take all of it.

The official types are a development dependency and slow to import, so they are imported inside of the fixture.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from responses_streams import added, begin, call, done, end, message, read, reading_of, said

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
from sluice.wire.dialects.responses_request import input_out

OURS = "openai_responses"
SPEC = ToolSpec(
    name="read", description="Reads.", parameters={"type": "object", "properties": {}}, category="read_only"
)
SEALED = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "SEAL", "status": None}


def body_of(*conversation: Message, specs: tuple[ToolSpec, ...] = (), **options: Any) -> dict[str, Any]:
    """The body of the request for this conversation."""
    options.setdefault("model", "gpt-4o")
    body: dict[str, Any] = json.loads(DIALECTS[OURS].request(conversation, specs, ModelOptions(**options)).body)
    return body


def native(*items: dict[str, Any], dialect: str = OURS, **members: Any) -> AssistantMessage:
    """A message with these items of the provider's own."""
    return AssistantMessage(native=json.dumps(items), dialect=dialect, **members)


def asked(id: str = "a", arguments: str = "{}", name: str = "f", **members: Any) -> ToolCall:
    return ToolCall(id=id, name=name, arguments=arguments, **members)


# -- the request --------------------------------------------------------------------------------------------------------


def test_what_every_request_has() -> None:
    request = DIALECTS[OURS].request((UserMessage("Hi"),), (), ModelOptions(model="gpt-4o"))
    assert (request.dialect, request.path, request.auth, request.headers) == (OURS, "/responses", "bearer", ())
    assert json.loads(request.body) == {
        "model": "gpt-4o",
        "input": [{"type": "message", "role": "user", "content": "Hi"}],
        "stream": True,
        "store": False,
    }


def test_what_is_set_is_sent() -> None:
    body = body_of(
        SystemMessage("Be brief."),
        SystemMessage(""),
        UserMessage("Hi"),
        SystemMessage("Be kind."),
        specs=(SPEC,),
        temperature=0.5,
        top_p=0.9,
        max_output_tokens=77,
        stop=("END",),
        seed=3,
        tool_choice="read",
        parallel_tool_calls=False,
        reasoning_effort="low",
    )
    assert body["instructions"] == "Be brief.\n\nBe kind."
    assert (body["temperature"], body["top_p"], body["max_output_tokens"]) == (0.5, 0.9, 77)
    assert body["tools"] == [
        {"type": "function", "name": "read", "description": "Reads.", "parameters": SPEC.parameters, "strict": False}
    ]
    assert body["tool_choice"] == {"type": "function", "name": "read"}
    assert body["parallel_tool_calls"] is False
    assert body["reasoning"] == {"effort": "low"}
    assert body["include"] == ["reasoning.encrypted_content"]
    assert "stop" not in body, "the API has none"
    assert "seed" not in body, "the API has none"
    assert "tool_choice" not in body_of(UserMessage("x"), tool_choice="auto"), "without tools there is no choice"


@pytest.mark.parametrize(
    ("model", "sealed"),
    [("o3", True), ("gpt-5.1-mini", True), ("openai/gpt-5", True), ("gpt-5-chat-latest", False), ("gpt-4o", False)],
)
def test_sealed_reasoning_is_asked_of_models_that_think(model: str, sealed: bool) -> None:
    assert ("include" in body_of(UserMessage("x"), model=model)) is sealed


@pytest.mark.parametrize("choice", ["auto", "none", "required"])
def test_words_of_tool_choice_stay_words(choice: str) -> None:
    assert body_of(UserMessage("x"), specs=(SPEC,), tool_choice=choice)["tool_choice"] == choice


# -- the conversation ---------------------------------------------------------------------------------------------------


def test_results_stand_right_after_their_calls_in_order() -> None:
    assert input_out(
        (
            SystemMessage("s"),
            UserMessage((TextPart("look"), ImagePart("image/png", "aGk="))),
            AssistantMessage(content="t", reasoning=(Reasoning(text="not sent"),),
                             tool_calls=(asked("a", '{"x" : 1}'), asked("b", "SELECT", kind="custom"))),
            ToolMessage("a", "f", "one"),
            ToolMessage("b", "f", "two", ok=False),
            AssistantMessage(),
            UserMessage("u"),
        )
    ) == [
        {"type": "message", "role": "user", "content": [
            {"type": "input_text", "text": "look"},
            {"type": "input_image", "image_url": "data:image/png;base64,aGk=", "detail": "auto"}]},
        {"type": "message", "role": "assistant", "content": "t"},
        {"type": "function_call", "call_id": "a", "name": "f", "arguments": '{"x" : 1}'},
        {"type": "custom_tool_call", "call_id": "b", "name": "f", "input": "SELECT"},
        {"type": "function_call_output", "call_id": "a", "output": "one"},
        {"type": "custom_tool_call_output", "call_id": "b", "output": "two"},
        {"type": "message", "role": "user", "content": "u"},
    ]  # fmt: skip


@pytest.mark.parametrize("own", [True, False])
@pytest.mark.parametrize(
    ("arguments", "status", "sent"),
    [('{"x":"half', "cut", "{}"), ("", "cut", "{}"), ("[]", "malformed", "{}"), ('{"x":1}', "cut", '{"x":1}')],
)
def test_history_holds_an_object_where_an_object_must_stand(arguments: str, status: str, sent: str, own: bool) -> None:
    made = asked("a", arguments, "f<|x|>", status=status)
    item = {"type": "function_call", "id": "fc", "call_id": "a", "name": "f<|x|>", "arguments": arguments}
    reply = native(SEALED, item, tool_calls=(made,)) if own else AssistantMessage(tool_calls=(made,))
    last = input_out((reply,))[-1]
    assert (last["arguments"], last["name"], last["call_id"]) == (sent, "f__x__", "a")


def test_own_items_go_back_only_to_where_they_came_from() -> None:
    phase = {"type": "message", "id": "m", "role": "assistant", "phase": "final_answer", "content": said("t")}
    here = native(SEALED, phase, content="t")
    assert input_out((here,)) == [
        {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "SEAL"},
        {**phase, "status": "completed"},
    ]
    for other in ("anthropic_messages", "openai_chat", None):
        elsewhere = native(SEALED, phase, dialect=other, content="t")  # type: ignore[arg-type]
        assert input_out((elsewhere,)) == [{"type": "message", "role": "assistant", "content": "t"}]
    for name in ("openai_chat", "anthropic_messages"):
        sent = DIALECTS[name].request((UserMessage("x"), here), (), ModelOptions(model="m")).body
        assert b"SEAL" not in sent


@pytest.mark.parametrize(
    "items",
    [
        "no json",
        "{}",
        "[1]",
        "[" * 100_000,
        json.dumps([SEALED, {"type": "function_call", "call_id": "other", "name": "f", "arguments": "{}"}]),
        json.dumps([SEALED]),
    ],
)
def test_items_that_are_not_this_messages_any_more_are_left_out(items: str) -> None:
    reply = AssistantMessage(native=items, dialect=OURS, tool_calls=(asked(),))
    assert input_out((reply,)) == [{"type": "function_call", "call_id": "a", "name": "f", "arguments": "{}"}]


def test_what_the_server_would_refuse_is_left_out_of_own_items() -> None:
    said_t = {"type": "message", "id": "m", "role": "assistant", "status": "completed", "content": said("t")}
    search = {"type": "web_search_call", "id": "ws", "status": "completed", "action": {"type": "search", "query": "q"}}
    answered = [{"type": "shell_call", "id": "s", "call_id": "s1", "action": {"commands": ["ls"]}},
                {"type": "shell_call_output", "id": "so", "call_id": "s1", "output": []}]  # fmt: skip
    out = input_out(
        (
            native(
                {"type": "reasoning", "id": "rs_0", "summary": []},  # nothing sealed: the server did not store it
                search,
                *answered,
                {"type": "computer_call", "id": "cc", "call_id": "c1", "action": {}},  # waits for an answer
                {"type": "mcp_approval_request", "id": "ap", "name": "f", "arguments": "{}", "server_label": "s"},
                {"type": "message", "id": "e", "role": "assistant", "content": [{"type": "news"}]},
                {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "no id"}]},
                said_t,
                SEALED,  # nothing follows it
            ),
        )
    )
    assert out == [search, *answered, {"type": "message", "role": "assistant", "content": "no id"}, said_t]


def test_a_reply_goes_back_as_it_came() -> None:
    got = read(
        begin(),
        added(0, "reasoning", summary=[]),
        done(0, "reasoning", summary=[{"type": "summary_text", "text": "é"}], encrypted_content="SEAL"),
        call(1, "a", "f", '{"x":1}'),
        message(2, "t"),
        end(),
    )
    assert got.whole is not None
    out = input_out((got.whole.message(), ToolMessage("a", "f", "r")))
    assert [item["type"] for item in out] == ["reasoning", "function_call", "message", "function_call_output"]
    assert (out[0]["encrypted_content"], out[0]["summary"][0]["text"]) == ("SEAL", "é")
    plain = read(begin(), message(0, "t"), end()).whole
    assert plain is not None
    assert plain.native is None, "neutral fields say it all"


# -- the official types -------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def accepted() -> Callable[[dict[str, Any]], None]:
    """Raises if the official types do not take a body, or have no place for something in it."""
    from openai.types.responses import response_create_params
    from pydantic import ConfigDict, create_model

    params = response_create_params.ResponseCreateParamsStreaming
    model: Any = create_model("Sent", body=(params, ...), __config__=ConfigDict(extra="forbid"))

    def check(body: dict[str, Any]) -> None:
        walked(model(body=body).body)

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
        {**good, "input": [{"type": "message", "role": "tool", "content": "x"}]},
        {**good, "input": [{"type": "function_call", "name": "f"}]},
        {**good, "news": 1},
        {**good, "tools": [{"type": "function", "name": 3}]},
    ):
        with pytest.raises(ValueError, match="validation error"):
            accepted(bad)


words = st.text(max_size=8).map(lambda text: text.encode("utf-8", "replace").decode())
names = st.text("abcXYZ_-", min_size=1, max_size=8)
made_calls = st.builds(
    ToolCall,
    id=names,
    name=st.one_of(names, words),
    arguments=st.one_of(st.dictionaries(words, words, max_size=2).map(json.dumps), words),
    status=st.sampled_from(["cut", "malformed"]),
    kind=st.sampled_from(["function", "custom"]),
)
parts = st.one_of(
    st.builds(TextPart, text=words),
    st.builds(ImagePart, media_type=st.sampled_from(["image/png", "image/jpeg"]), data=st.just("QUJD")),
)


@st.composite
def replies(draw: st.DrawFn) -> AssistantMessage:
    """A reply, with or without items of the provider's own."""
    calls = draw(st.lists(made_calls, max_size=2, unique_by=lambda c: c.id))
    content = draw(st.one_of(st.none(), words))
    own = None
    if draw(st.booleans()):
        items: list[dict[str, Any]] = [{**SEALED, "encrypted_content": draw(names)}] if draw(st.booleans()) else []
        if content:
            items.append({"type": "message", "id": "m1", "role": "assistant", "phase": "commentary",
                          "status": "completed", "content": said(content)})  # fmt: skip
        for c in calls:
            kind, member = ("custom_tool_call", "input") if c.kind == "custom" else ("function_call", "arguments")
            items.append({"type": kind, "id": "x", "call_id": c.id, "name": c.name, member: c.arguments})
        own = json.dumps(items)
    return AssistantMessage(
        content=content,
        reasoning=(Reasoning(text=draw(words)),),
        tool_calls=tuple(calls),
        native=own,
        dialect=draw(st.sampled_from([OURS, "openai_chat", None])),
    )


@st.composite
def conversations(draw: st.DrawFn) -> Conversation:
    """Conversations as a run makes them: each call is answered, right after its message."""
    made: list[Message] = [SystemMessage(draw(words)), UserMessage(draw(words))]
    for _ in range(draw(st.integers(0, 4))):
        reply = draw(replies())
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
            "model": st.sampled_from(["gpt-5", "gpt-4o", "tiny"]),
            "temperature": st.floats(0, 2),
            "top_p": st.floats(0, 1),
            "max_output_tokens": st.integers(1, 100_000),
            "stop": st.lists(names, max_size=2).map(tuple),
            "seed": st.integers(0, 9),
            "tool_choice": st.sampled_from(["auto", "none", "required", "read"]),
            "parallel_tool_calls": st.booleans(),
            "reasoning_effort": st.sampled_from(["minimal", "low", "medium", "high"]),
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
    waiting: list[str] = []
    for item in body["input"]:
        if item["type"] in ("function_call", "custom_tool_call"):
            assert json.loads(item.get("arguments", "{}")) is not None
            waiting.append(item["call_id"])
        elif item["type"].endswith("_output"):
            assert item["call_id"] == waiting.pop(0), "results stand after their calls, in their order"
        else:
            assert not waiting or item["type"] in ("message", "reasoning")
    assert waiting == []


@pytest.mark.corpus
def test_the_official_types_take_every_recorded_reply(shared: Path, accepted: Callable[[dict[str, Any]], None]) -> None:
    natives = 0
    refused = set()
    for path in sorted((shared / "corpus" / "openai-responses").iterdir()):
        reading = reading_of([path.read_bytes()])
        if reading.whole is None or not path.name.startswith(("rig", "pydantic", "fantasy")):
            continue  # what test suites made up by hand is often no item that the API would take
        reply = reading.whole.message()
        natives += reply.native is not None
        try:
            accepted(body_of(UserMessage("x"), reply, *(ToolMessage(c.id, c.name, "r") for c in reply.tool_calls)))
        except ValueError:
            refused.add(path.name)
    assert refused == {
        "pydantic-ai__models_cassettes_test_openai_responses_test_openai_responses_model_web_search_tool_stream__0.sse"
    }, "a source of the kind `api`, which the API sends and the types of its requests do not know"
    assert natives > 30
