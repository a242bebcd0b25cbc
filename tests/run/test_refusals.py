"""A request that the provider does not take: its images spoil no later one, its words are never left out."""

from __future__ import annotations

import asyncio
import json
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from run_world import Answer, FailingStore, World, calls, end_of, event, text
from test_outgrown import _process

from sluice.errors import TransportError
from sluice.run.refusals import LEFT_OUT, REFUSED, without_refused
from sluice.session.disk import open_reading
from sluice.session.export import as_markdown
from sluice.session.rows import stored_messages
from sluice.values import notices as n
from sluice.values.messages import AssistantMessage, ImagePart, TextPart, UserMessage

PICTURE = UserMessage((TextPart("look"), ImagePart("image/png", "aGk=")))
NO = Answer(b'{"error": {"message": "could not process image", "type": "invalid_request_error"}}', status=400)


def _warned(notices: list[n.Notice]) -> list[str]:
    return [x.message for x in notices if isinstance(x, n.Warned)]


def _pictures(body: Any) -> int:
    return json.dumps(body).count('"image_url": {')


@pytest.mark.parametrize("status", [400, 413, 422])
def test_a_refused_image_is_sent_no_more_and_that_is_said(status: int) -> None:
    world = World(Answer(b"no", status=status), text("hello"), text("and on"))
    refused, after, _later = world.runs(PICTURE, "hi", "again")  # type: ignore[arg-type]
    assert (end_of(refused).outcome, _warned(refused)) == ("provider_error", [LEFT_OUT])
    assert (end_of(after).outcome, _warned(after)) == ("completed", [])
    assert [_pictures(body) for body in world.transport.bodies] == [1, 0, 0]
    sent = world.transport.bodies[1]["messages"]
    assert [m["role"] for m in sent] == ["system", "user", "user", "user"]
    assert "an image left out" in json.dumps(sent[1])
    assert [m["content"] for m in sent[2:]] == [REFUSED.content, "hi"]
    assert world.talk.messages[0] == PICTURE, "what is stored stays"


def test_an_error_inside_the_stream_counts_as_one_before_it() -> None:
    broken = b'data: {"error": {"message": "no image", "code": 400}}\n\n'
    world = World(*[[broken]] * 3, text("hello"))
    world.runs(PICTURE, "hi")  # type: ignore[arg-type]
    assert [_pictures(body) for body in world.transport.bodies] == [1, 1, 1, 0], "three attempts, then without"


@pytest.mark.parametrize(
    "answer",
    [
        TransportError("connect", "nobody there"),
        Answer(b"no", status=401),
        Answer(b"no", status=404),
        [event({"content": "I s"})],
    ],
)
def test_what_says_nothing_about_an_image_drops_none(answer: Any) -> None:
    world = World(*[answer] * 3, text("hello"), text("hello"), text("hello"))
    notices, _after = world.runs(PICTURE, "hi")  # type: ignore[arg-type]
    assert LEFT_OUT not in _warned(notices)
    assert all(_pictures(body) == 1 for body in world.transport.bodies)


def test_a_conversation_that_is_too_long_drops_no_image() -> None:
    long = Answer(b'{"error": {"message": "prompt is too long", "code": "context_length_exceeded"}}', status=400)
    world = World(long, long, text("hello"))
    world.talk.messages = (UserMessage("a"), AssistantMessage(content="b"))
    (notices,) = world.runs(PICTURE)  # type: ignore[arg-type]
    assert LEFT_OUT not in _warned(notices)
    assert REFUSED not in world.talk.messages


def test_an_image_that_was_answered_is_sent_on_when_a_later_request_is_refused() -> None:
    world = World(calls("look"), NO, NO, text("hello"))
    first, *_ = world.runs(PICTURE, "hi", "and now?")  # type: ignore[arg-type]
    assert LEFT_OUT not in _warned(first)
    assert [_pictures(body) for body in world.transport.bodies] == [1, 1, 1, 1]


def test_a_later_process_sends_it_no_more_and_no_row_was_changed(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    asyncio.run(_process(path, World(NO), PICTURE, how="new"))  # type: ignore[arg-type]
    with closing(open_reading(path)) as connection:
        before = list(stored_messages(connection, "ses_new"))
    world = World(text("hello"))
    asyncio.run(_process(path, world, "hi"))
    (body,) = world.transport.bodies
    assert (_pictures(body), body["messages"][-1]["content"]) == (0, "hi")
    with closing(open_reading(path)) as connection:
        after = list(stored_messages(connection, "ses_new"))
        assert "## 3 · Host" in "".join(as_markdown(connection, "ses_new"))
    assert after[: len(before)] == before
    assert [stored.message for stored in before] == [PICTURE, REFUSED]


def test_a_session_that_an_earlier_version_left_spoiled_goes_on_after_one_refusal(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    asyncio.run(_process(path, World(TransportError("refused", "no")), PICTURE, how="new"))  # type: ignore[arg-type]
    world = World(NO, text("hello"))
    first, second = asyncio.run(_process(path, world, "hi", "still there?"))
    assert (_warned(first), end_of(second).outcome) == ([LEFT_OUT], "completed")
    assert [_pictures(body) for body in world.transport.bodies] == [1, 0]


def test_a_refusal_without_new_images_stores_no_second_line() -> None:
    world = World(NO, NO)
    _first, second = world.runs(PICTURE, "hi")  # type: ignore[arg-type]
    assert _warned(second) == []
    assert world.talk.messages == (PICTURE, REFUSED, UserMessage("hi"))


def test_images_attached_again_are_sent() -> None:
    world = World(NO, text("a cat"))
    world.runs(PICTURE, PICTURE)  # type: ignore[arg-type]
    assert _pictures(world.transport.bodies[1]) == 1


def test_a_refusal_that_cannot_be_stored_ends_the_run_in_good_order() -> None:
    world = World(NO, store=FailingStore("append"))
    (notices,) = world.runs(PICTURE)  # type: ignore[arg-type]
    assert "was not stored" in (end_of(notices).unsaved or "")


def test_words_are_never_left_out_and_the_second_refusal_names_the_way_out(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    asyncio.run(_process(path, World(text("hello")), "hi", how="new"))
    world = World(NO, NO)
    first, second = asyncio.run(_process(path, world, "odd words", "go on"))
    assert _warned(first) == []
    (line,) = _warned(second)
    assert "--fork ses_new@MESSAGE" in line
    assert [m["content"] for m in world.transport.bodies[1]["messages"][1:]] == ["hi", "hello", "odd words", "go on"]


def test_where_nothing_was_answered_there_is_nothing_to_go_back_to(tmp_path: Path) -> None:
    first, second = asyncio.run(_process(tmp_path / "s.db", World(NO, NO), "odd words", "go on", how="new"))
    assert _warned(first) + _warned(second) == []


def test_only_the_hosts_own_line_leaves_images_out() -> None:
    said = (PICTURE, UserMessage(REFUSED.content))
    assert without_refused(said) == said
    answered = (PICTURE, AssistantMessage(content="a cat"), UserMessage("and?"), REFUSED)
    assert without_refused(answered) == answered
