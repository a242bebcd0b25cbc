"""Requests to Gemini: what is sent for which conversation, and that the official types take all of it.

The official types are a development dependency and slow to import, so they are imported inside of the fixture.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from gemini_streams import call, chunk, end, reading_of, text, thought
from hypothesis import HealthCheck, given, settings
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
from sluice.wire.dialects.gemini_request import contents_out, path_of

NAME = re.compile(r"^[a-zA-Z_][a-zA-Z0-9_.:-]{0,127}$")


def body_of(*conversation: Message, specs: Any = (), **more: Any) -> dict[str, Any]:
    """The body of the request for this conversation."""
    model = more.pop("model", "gemini-2.5-flash")
    body: dict[str, Any] = json.loads(
        DIALECTS["gemini"].request(conversation, specs, ModelOptions(model=model, **more)).body
    )
    return body


def said(message: AssistantMessage, model: str = "") -> list[dict[str, Any]]:
    """The parts of one message between two of the user's."""
    parts: list[dict[str, Any]] = contents_out((UserMessage("q"), message, UserMessage("r")), model)[1]["parts"]
    return parts


# -- the request --------------------------------------------------------------------------------------------------------


def test_what_every_request_has() -> None:
    request = DIALECTS["gemini"].request((UserMessage("Hi"),), (), ModelOptions(model="gemini-2.5-flash"))
    assert request.path == "/models/gemini-2.5-flash:streamGenerateContent?alt=sse"
    assert (request.dialect, request.auth, request.headers) == ("gemini", "x-goog-api-key", ())
    assert json.loads(request.body) == {"contents": [{"role": "user", "parts": [{"text": "Hi"}]}]}


@pytest.mark.parametrize(
    ("model", "path"),
    [
        ("models/gemini-x", "/models/gemini-x"),
        ("tunedModels/x", "/tunedModels/x"),
        ("a b?c#d", "/models/a%20b%3Fc%23d"),
        ("../x", "/%2E%2E/x"),
        ("..", "/models/%2E%2E"),
        ("\N{SNOWMAN}", "/models/%E2%98%83"),
    ],
)
def test_the_model_is_in_the_path_and_cannot_leave_it(model: str, path: str) -> None:
    assert path_of(model) == f"{path}:streamGenerateContent?alt=sse"


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
        reasoning_effort="low",
    )
    assert body["systemInstruction"] == {"parts": [{"text": "Be brief.\n\nBe kind."}]}
    assert body["generationConfig"] == {
        "temperature": 0.5,
        "topP": 0.9,
        "maxOutputTokens": 77,
        "stopSequences": ["END"],
        "seed": 3,
        "thinkingConfig": {"thinkingBudget": 1024, "includeThoughts": True},
    }
    declared = {"name": "read", "description": "Reads.", "parametersJsonSchema": SCHEMA}
    assert body["tools"] == [{"functionDeclarations": [declared]}]
    assert body["toolConfig"] == {"functionCallingConfig": {"mode": "ANY"}}


@pytest.mark.parametrize(
    ("choice", "sent"),
    [
        ("auto", {"mode": "AUTO"}),
        ("none", {"mode": "NONE"}),
        ("required", {"mode": "ANY"}),
        ("read", {"mode": "ANY", "allowedFunctionNames": ["read"]}),
    ],
)
def test_tool_choice(choice: str, sent: Any) -> None:
    body = body_of(UserMessage("x"), specs=(SPEC,), tool_choice=choice)
    assert body["toolConfig"] == {"functionCallingConfig": sent}
    assert "toolConfig" not in body_of(UserMessage("x"), tool_choice=choice), "there is nothing to choose from"


@pytest.mark.parametrize(
    ("model", "effort", "sent"),
    [
        ("gemini-2.5-flash", "none", {"thinkingBudget": 0, "includeThoughts": False}),
        ("gemini-2.5-pro", "high", {"thinkingBudget": 24576, "includeThoughts": True}),
        ("gemini-3-flash-preview", "minimal", {"thinkingLevel": "MINIMAL", "includeThoughts": True}),
        ("gemini-3-flash-preview", "none", {"thinkingLevel": "MINIMAL", "includeThoughts": False}),
        ("gemini-3.1-pro-preview", "minimal", {"thinkingLevel": "LOW", "includeThoughts": True}),
        ("gemini-3-pro-preview", "max", {"thinkingLevel": "HIGH", "includeThoughts": True}),
        ("gemini-flash-latest", "medium", {"thinkingLevel": "MEDIUM", "includeThoughts": True}),
        ("gemini-2.0-flash", "high", None),
        ("gemma-3", "high", None),
        ("gemini-3-flash", "unheard", None),
    ],
)
def test_effort_in_the_words_of_the_series(model: str, effort: str, sent: Any) -> None:
    body = body_of(UserMessage("x"), model=model, reasoning_effort=effort)
    assert body.get("generationConfig", {}).get("thinkingConfig") == sent


# -- contents -----------------------------------------------------------------------------------------------------------


def test_results_are_a_turn_of_their_own_and_neighbours_are_one() -> None:
    made = (ToolCall(id="a", name="f", arguments='{"x":1}'), ToolCall(id="b", name="g", arguments="{}"))
    out = contents_out(
        (
            UserMessage("one"),
            UserMessage((TextPart("two"), ImagePart("image/png", "AAAA"))),
            AssistantMessage(content="Let me see.", tool_calls=made),
            ToolMessage("a", "f", "fine"),
            ToolMessage("b", "g", "it broke", ok=False),
            UserMessage("and?"),
        )
    )
    image = {"inlineData": {"mimeType": "image/png", "data": "AAAA"}}
    assert out == [
        {"role": "user", "parts": [{"text": "one"}, {"text": "two"}, image]},
        {
            "role": "model",
            "parts": [
                {"text": "Let me see."},
                {"functionCall": {"name": "f", "args": {"x": 1}, "id": "a"}},
                {"functionCall": {"name": "g", "args": {}, "id": "b"}},
            ],
        },
        {
            "role": "user",
            "parts": [
                {"functionResponse": {"name": "f", "id": "a", "response": {"output": "fine"}}},
                {"functionResponse": {"name": "g", "id": "b", "response": {"error": "it broke"}}},
            ],
        },
        {"role": "user", "parts": [{"text": "and?"}]},
    ]


def test_a_shrunk_conversation_begins_with_the_user() -> None:
    assert contents_out((AssistantMessage(content="x"),))[0]["role"] == "user"
    assert contents_out((AssistantMessage(), UserMessage("x"))) == [{"role": "user", "parts": [{"text": "x"}]}]


def test_a_reply_with_signatures_goes_back_as_it_came() -> None:
    parts = [
        {"text": "t", "thought": True},
        call("f", {"x": 1}, thoughtSignature="c2ln"),
        call("g", {}, id="g1"),
    ]
    message = reading_of([chunk(*parts), end()]).reply.message()
    assert said(message) == parts
    out = contents_out((message, ToolMessage("call_0", "f", "1"), ToolMessage("g1", "g", "2")))
    answers = [p["functionResponse"] for p in out[-1]["parts"]]
    assert [a.get("id") for a in answers] == [None, "g1"], "an id that we made up is not the provider's"


def test_calls_that_cannot_be_sent_are_made_sendable() -> None:
    message = reading_of([chunk(call("a b", '{"x'), call("f", [1]), thought="x"), end()]).reply.message()
    assert [p["functionCall"]["args"] for p in said(message)] == [{}, {}]
    signed = reading_of([chunk(call("1 b", {"x": 2**70}, thoughtSignature="s")), end()]).reply.message()
    assert said(signed) == [{"functionCall": {"name": "_1_b", "args": {}}, "thoughtSignature": "s"}]
    odd = AssistantMessage(tool_calls=(ToolCall(id="", name="", arguments="nonsense", status="malformed"),))
    assert said(odd) == [{"functionCall": {"name": "_", "args": {}}}]


def test_foreign_reasoning_and_foreign_items_are_left_out() -> None:
    foreign = AssistantMessage(
        content="x",
        reasoning=(Reasoning(text="t", signature="s"),),
        dialect="anthropic_messages",
        native='[{"text":"no"}]',
    )
    assert said(foreign) == [{"text": "x"}]
    unsigned = reading_of([thought("Hm."), text("x"), end()]).reply.message()
    assert said(unsigned) == [{"text": "x"}]


@pytest.mark.parametrize(
    "native", ["{", "[1]", "{}", '[{"functionCall":{}}]', '[{"functionCall":5},{"functionCall":{}}]']
)
def test_native_parts_that_do_not_fit_the_message_are_not_sent(native: str) -> None:
    made = (ToolCall(id="a", name="f", arguments="{}"), ToolCall(id="b", name="g", arguments="{}"))
    message = AssistantMessage(content="x", tool_calls=made, dialect="gemini", native=native)
    assert [p.get("functionCall", {}).get("name") for p in said(message)] == [None, "f", "g"]


def test_calls_of_other_models_carry_the_word_that_later_series_ask_for() -> None:
    made = (ToolCall(id="a", name="f", arguments="{}"), ToolCall(id="b", name="g", arguments="{}"))
    message = AssistantMessage(tool_calls=made, dialect="openai_chat")
    assert [p.get("thoughtSignature") for p in said(message, "gemini-3-pro")] == [
        "skip_thought_signature_validator",
        None,
    ]
    assert not any("thoughtSignature" in p for p in said(message, "gemini-2.5-pro"))


# -- the official types -------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def accepted() -> Callable[[dict[str, Any]], None]:
    """Raises if the official types do not take a body, or have no place for something in it."""
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # one of its own dependencies is deprecated
        from google.genai import types

    known = {"contents", "systemInstruction", "tools", "toolConfig", "generationConfig"}

    def check(body: dict[str, Any]) -> None:
        assert body.keys() <= known
        assert body["contents"] is not None
        for content in body["contents"]:
            types.Content.model_validate_json(json.dumps(content))
        if "systemInstruction" in body:
            types.Content.model_validate(body["systemInstruction"])
        for tool in body.get("tools", ()):
            types.Tool.model_validate(tool)
        types.ToolConfig.model_validate(body.get("toolConfig", {}))
        types.GenerationConfig.model_validate(body.get("generationConfig", {}))

    return check


def test_the_check_itself_refuses(accepted: Callable[[dict[str, Any]], None]) -> None:
    good = body_of(UserMessage("x"), specs=(SPEC,))
    accepted(good)
    for bad in (
        {**good, "contents": [{"role": "user", "parts": [{"txt": "x"}]}]},
        {**good, "contents": [{"role": "user", "parts": [{"functionCall": {"args": "x"}}]}]},
        {**good, "tools": [{"functions": []}]},
        {**good, "generationConfig": {"tempo": 1}},
    ):
        with pytest.raises(ValueError, match="validation error"):
            accepted(bad)


@settings(deadline=None, max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(conversations("gemini"), options(["gemini-2.5-flash", "gemini-3-pro-preview", "gemma-3"]))
def test_the_official_types_take_every_request(
    accepted: Callable[[dict[str, Any]], None], conversation: Conversation, given_options: dict[str, Any]
) -> None:
    body = body_of(*conversation, **given_options)
    accepted(body)
    contents = body["contents"]
    for place, content in enumerate(contents):
        assert content["parts"]
        asked = [p["functionCall"] for p in content["parts"] if "functionCall" in p]
        for made in asked:
            assert NAME.match(made["name"])
            assert isinstance(made["args"], dict)
        if asked:
            answers = [p["functionResponse"] for p in contents[place + 1]["parts"]]
            assert [(a["name"], a.get("id")) for a in answers] == [(c["name"], c.get("id")) for c in asked]
        assert all(p.get("text") != "" for p in content["parts"])
    assert not contents or contents[0]["role"] == "user"


@pytest.mark.corpus
def test_the_official_types_take_every_recorded_reply(shared: Path, accepted: Callable[[dict[str, Any]], None]) -> None:
    natives = checked = 0
    for path in sorted((shared / "corpus" / "gemini").glob("*.sse")):
        message = reading_of([path.read_bytes()]).reply.message()
        natives += message.native is not None
        if "-language-model__" in path.name or "REDACTED" in (message.native or ""):
            continue  # its signatures are no base64: they were made up for a test, or made unreadable
        answers = [ToolMessage(c.id, c.name, "x") for c in message.tool_calls]
        accepted(body_of(UserMessage("q"), message, *answers, UserMessage("r")))
        checked += 1
    assert (natives > 60, checked > 100) == (True, True)
