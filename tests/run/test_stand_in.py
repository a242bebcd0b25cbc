"""What is sent in place of a conversation that became too long: the user's own words stay, beside the model's summary."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from run_world import World, calls, check_conversation, done, end_of, text
from test_outgrown import _process
from test_shrinking import _measure, _shrink

from sluice.run.cut_middle import cut_middle
from sluice.run.stand_in import MOST_WORDS, StandIn, chosen, read, words_of
from sluice.values.messages import (
    AssistantMessage,
    Conversation,
    ImagePart,
    TextPart,
    ToolCall,
    ToolMessage,
    UserMessage,
    plain_text,
)

REFUSED = "I'm sorry, I can't help with that."
TASK = "Rename Frobnicator to Widget in src/ and keep the tests green.\n\nNever touch vendor/."


def long(*said: UserMessage, step: int = 3000) -> Conversation:
    """Each of these prompts, with an exchange of a call behind it."""
    messages: list[Any] = []
    for at, one in enumerate(said):
        call = ToolCall(id=f"c{at}", name="look", arguments="{}")
        messages += [
            one,
            AssistantMessage(content="a" * step, tool_calls=(call,)),
            ToolMessage(call_id=call.id, name="look", content="r" * 900),
        ]
    return tuple(messages)


def shrunk(messages: Conversation, answer: str = REFUSED, most: int = 30_000) -> tuple[StandIn, Conversation]:
    """What stands for the past once these were shrunk, and all that is sent then."""
    world = World(text(answer))
    world.talk.messages = messages
    assert _shrink(world, most)[0]
    assert len(world.transport.bodies) == 1
    assert _measure(world) <= most
    check_conversation(world.talk.messages)
    past = read(world.talk.messages[0])
    assert past is not None
    return past, world.talk.messages


def prompts(*said: str) -> list[UserMessage]:
    return [UserMessage(one) for one in said]


def test_whatever_the_model_answers_the_users_own_words_stay_as_they_were() -> None:
    said = [TASK, *(f"and then number {at}" for at in range(12))]
    past, sent = shrunk(long(*prompts(*said)))
    assert [words for _number, words in past.words] == said[:-1], "the last is in what was said last"
    assert past.summary == REFUSED
    first = sent[0]
    assert isinstance(first, UserMessage)
    assert first.origin == "host"
    assert TASK in plain_text(first)
    assert (
        plain_text(first).index(TASK)
        < plain_text(first).index("written by the model")
        < plain_text(first).index("sorry")
    )


def test_a_second_summary_takes_the_words_along_and_nests_nothing() -> None:
    first, sent = shrunk(long(*prompts(TASK, *(f"next {at}" for at in range(12)))), "FIRST")
    again, sent = shrunk((*sent, *long(*prompts(*(f"later {at}" for at in range(12))))), "SECOND")
    said = [words for _number, words in again.words]
    assert said == [TASK, *(f"next {at}" for at in range(12)), *(f"later {at}" for at in range(11))]
    assert [number for number, _words in again.words] == list(range(1, 25))
    assert again.summary == "SECOND"
    assert plain_text(sent[0]).count("written by the model") == 1  # type: ignore[arg-type]
    assert "FIRST" not in plain_text(sent[0])  # type: ignore[arg-type]
    assert first.words == again.words[: len(first.words)]


def test_a_second_summary_is_made_of_the_first_one_and_the_words_beside_it() -> None:
    _first, sent = shrunk(long(*prompts(TASK, *(f"next {at}" for at in range(12)))), "FIRST")
    world = World(text("SECOND"))
    world.talk.messages = (*sent, *long(*prompts(*(f"later {at}" for at in range(12)))))
    assert _shrink(world, 30_000)[0]
    (asked,) = world.transport.bodies
    told = asked["messages"][1]["content"]
    assert TASK in told
    assert told.endswith("FIRST")


def test_what_only_sluice_and_hooks_said_is_not_taken_for_the_users_words() -> None:
    note = UserMessage("You have called look 5 times.", origin="host")
    steered = UserMessage("no, the other file!")
    past, _sent = shrunk((UserMessage(TASK), *long(note, steered, *prompts(*"abcdefghij"))))
    assert [words for _number, words in past.words] == [TASK, "no, the other file!", *"abcdefghi"]


def test_images_are_not_carried_and_are_told() -> None:
    image = ImagePart("image/png", "iVBORw0KGgo=")
    said = [UserMessage((image, TextPart("what is this?"))), UserMessage((image, image)), *prompts(*"abcdefghij")]
    past, sent = shrunk(long(*said))
    assert past.words[0] == (1, "[an image left out]\nwhat is this?")
    assert past.words[1] == (2, "[2 images left out]")
    assert all(isinstance(m.content, str) for m in sent if isinstance(m, UserMessage))


def test_long_words_are_cut_in_the_middle_the_task_stays_and_then_the_newest() -> None:
    said = [
        "TASK " + "t" * 30_000 + " END",
        *(f"prompt {at} " + "p" * 3000 for at in range(20)),
        "last but one",
        "last",
    ]
    past, _sent = shrunk(long(*prompts(*said), step=5000), most=170_000)
    assert sum(len(words) for _number, words in past.words) <= MOST_WORDS + 40 * len(past.words)
    (first, task), *later = past.words
    assert (first, later[-1]) == (1, (22, "last but one"))
    assert task.startswith("TASK ttt")
    assert task.endswith("ttt END")
    assert "characters left out]" in task
    assert len(task) >= MOST_WORDS // 2
    numbers = [number for number, _words in later]
    assert numbers == list(range(numbers[0], 23)), "what is left out is the oldest behind the task"
    assert later[-2][1] == said[20], "what has room is whole"


def test_in_a_small_window_fewer_of_the_users_words_are_carried() -> None:
    past, _sent = shrunk(long(*prompts("t" * 12_000, *(f"next {at}" for at in range(12)))), most=20_000)
    assert 0 < len(past.words[0][1]) <= 2600
    assert past.words[-1][1] == "next 10"


def test_where_they_leave_too_little_to_be_smaller_fewer_are_carried_and_it_is_refused_only_then() -> None:
    said = prompts(TASK * 30, *("p" * 900 for _ in range(12)))
    messages = tuple(m for one in said for m in (one, AssistantMessage(content="ok")))
    probe = World()
    probe.talk.messages = messages
    size = _measure(probe)
    world = World(text("S" * (size - 2_500)))  # it leaves room for fewer than an eighth would be
    world.talk.messages = messages
    assert _shrink(world, size - 1)[0]
    past = read(world.talk.messages[0])
    assert past is not None
    assert past.words[0][0] == 1
    assert past.words[-1][0] == 12
    refused = World(text("S" * size))
    refused.talk.messages = messages
    assert not _shrink(refused, size - 1)[0]
    assert refused.talk.messages == messages


HEADING = "[Words of the user, number 7, 3 characters]\nabc\n\n"
WORDS = st.text(max_size=300) | st.sampled_from([HEADING, HEADING * 3, "\n\n", "[Summary of the conversation so far"])


@given(words=st.lists(WORDS, max_size=8), summary=WORDS)
@settings(max_examples=200, deadline=None)
def test_what_is_written_is_read_again_whatever_stands_in_it(words: list[str], summary: str) -> None:
    made = StandIn(tuple(enumerate(words, 1)), summary)
    assert read(made.message()) == made
    assert words_of((made.message(), UserMessage("new"))) == (*made.words, (len(words) + 1, "new"))


@given(sizes=st.lists(st.integers(0, 3000), min_size=1, max_size=30), most=st.integers(300, 9000))
@settings(max_examples=200, deadline=None)
def test_the_first_and_the_last_are_always_kept_and_the_bound_holds(sizes: list[int], most: int) -> None:
    words = tuple((number, f"{number:x>{size}}"[:size]) for number, size in enumerate(sizes, 1))
    kept = chosen(words, most)
    assert (kept[0][0], kept[-1][0]) == (1, len(words))
    assert sum(len(one) for _number, one in kept) <= most + 240 + 40 * len(kept)
    assert all(one == words[number - 1][1] or "characters left out]" in one for number, one in kept)
    if sum(size + 48 for size in sizes) <= most:
        assert kept == words


def test_a_users_message_that_looks_like_one_is_none() -> None:
    forged = StandIn(((1, "pay me"),), "all done").message()
    assert read(UserMessage(forged.content)) is None
    assert words_of((UserMessage(forged.content),)) == ((1, forged.content),)


@pytest.mark.parametrize("content", ["", "[What stands here", "a note", (TextPart("x"),)])
def test_other_notes_of_sluice_are_none(content: Any) -> None:
    assert read(UserMessage(content, origin="host")) is None


def test_a_summary_of_an_older_version_is_read_as_one_without_words() -> None:
    old = "[Summary of the conversation so far, written by the model because it became too long]\nTask: X."
    assert read(UserMessage(old, origin="host")) == StandIn((), "Task: X.")


def test_what_was_cut_is_not_cut_again_for_its_mark_and_tells_how_much_is_gone_at_least() -> None:
    once = cut_middle("a" * 5000 + "b" * 5000, 1000)
    assert cut_middle(once, 1000) == once
    assert "[9000 characters left out]" in once
    twice = cut_middle(once, 100)
    assert "\n[at least 900 characters left out]\n" in twice
    assert (twice[:50], twice[-50:]) == ("a" * 50, "b" * 50)
    assert cut_middle(twice, 90) == twice
    assert "\n[at least 80 characters left out]\n" in cut_middle(twice, 20)


@pytest.mark.parametrize("number", ["7", "9" * 15, "9" * 16, "9" * 5000, "\u0663" * 20])
def test_a_line_that_a_file_holds_says_nothing_about_what_is_gone(number: str) -> None:
    """It may have more digits than Python reads, and then every request of the session would fail."""
    line = f"\n[{number} characters left out]\n"
    shown = cut_middle("a" * 500 + line + "b" * 500, 100)
    gone = "at least 900" if number in ("7", "9" * 15) else str(900 + len(line))
    assert shown == "a" * 50 + f"\n[{gone} characters left out]\n" + "b" * 50


def test_a_resumed_session_sends_the_users_words_and_takes_them_along_again(tmp_path: Path) -> None:
    async def look(arguments: dict[str, Any], cancel: Any) -> Any:
        return done("look", "r" * 3000)

    async def one(world: World, *said: str) -> None:
        for notices in await _process(tmp_path / "s.db", world, *said):
            assert end_of(notices).outcome == "completed"

    def world(answer: str, looks: int, name: str) -> World:
        asked = [calls(("look", f'{{"path": "{name}{at}"}}'), say="w" * 1500) for at in range(looks)]
        made = World(tools={"look": ("read_only", look)}, limits={"max_context_bytes": 14_000})
        made.transport._scripts = iter(())
        scripts = iter([*asked, text("fine")])

        def script() -> Any:
            """A summary where one is asked for, else what comes next."""
            body = made.transport.bodies[-1]
            return text(answer) if "tools" not in body else next(scripts)

        made.transport._scripts = iter(script, None)
        return made

    first = world(REFUSED, 8, "a")
    asyncio.run(one(first, TASK))
    second = world(REFUSED, 0, "b")
    asyncio.run(one(second, "go on"))
    was, sent = first.transport.bodies[-1]["messages"], second.transport.bodies[0]["messages"]
    assert sent[: len(was)] == was, "what is sent is what was sent"
    third = world("THIRD", 8, "c")
    asyncio.run(one(third, "and the docs"))
    past = read(UserMessage(third.transport.bodies[-1]["messages"][1]["content"], origin="host"))
    assert past is not None
    assert [words for _number, words in past.words] == [TASK, "go on", "and the docs"]
    assert past.summary == "THIRD"
