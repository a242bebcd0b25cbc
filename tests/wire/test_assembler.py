"""Calls from fragments: which call a fragment belongs to, when a call is whole, each tolerance by its name, the bounds."""

from __future__ import annotations

import ast
import inspect
import json
from collections.abc import Container, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sluice.wire
from sluice.values.deltas import CallClosed, CallOpened, Delta
from sluice.values.messages import ToolCall
from sluice.wire.assembler import Bound, CallAssembler

Fragment = tuple[int | None, str | None, str | None, str | None]


class Assembled:
    """What a list of fragments came to."""

    def __init__(
        self,
        fragments: Sequence[Fragment],
        stop: str | None = "tool_use",
        *,
        used_ids: Container[str] = (),
        max_calls: int = 32,
        max_bytes: int = 1 << 20,
    ) -> None:
        self.counts: dict[str, int] = {}
        self.deltas: list[Delta] = []
        self.assembler = CallAssembler(max_calls, max_bytes, self._count, used_ids)
        for index, id, name, arguments in fragments:
            self.assembler.add(index, id, name, arguments, self.deltas)
        if stop is not None:
            self.assembler.finish(stop, self.deltas)
        self.calls = self.assembler.tool_calls(stop)

    def _count(self, rule: str) -> None:
        self.counts[rule] = self.counts.get(rule, 0) + 1

    @property
    def brief(self) -> list[tuple[str, str, str, str]]:
        return [(c.id, c.name, c.arguments, c.status) for c in self.calls]


def test_one_call_in_fragments_is_kept_as_raw_text() -> None:
    got = Assembled([(0, "a", "f", ""), (0, None, None, '{"x" '), (0, None, None, ": 1.0}")])
    assert got.calls == (ToolCall(id="a", name="f", arguments='{"x" : 1.0}', index=0, status="whole"),)
    assert got.deltas == [CallOpened(0, "a", "f"), CallClosed(0, "a", "f", "whole")]
    assert got.counts == {}


def test_order_is_by_index_and_equal_ones_by_arrival() -> None:
    got = Assembled([(2, "c", "h", "{}"), (0, "a", "f", "{}"), (0, "b", "g", "{}")])
    assert [c.id for c in got.calls] == ["a", "b", "c"]
    assert [d.position for d in got.deltas if isinstance(d, CallClosed)] == [0, 1, 2]


@st.composite
def interleaved(draw: st.DrawFn) -> tuple[list[Fragment], list[tuple[str, str, str]]]:
    """Fragments of some calls, each call's own in order, the calls' mixed in any way; and the calls that are right."""
    count = draw(st.integers(1, 5))
    queues: list[list[Fragment]] = []
    right = []
    for index in range(count):
        value = draw(st.dictionaries(st.text('ab"\\é🍸{}', max_size=4), st.text("xy\n{}[]", max_size=8), max_size=3))
        text = json.dumps(value, ensure_ascii=draw(st.booleans()))
        cuts = sorted(draw(st.lists(st.integers(0, len(text)), max_size=6)))
        parts = [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]
        parts = [p for p in parts if p]
        if len(parts) > 1 and parts[0] == "{}":
            parts = [text]
        queues.append([(index, f"id{index}", f"tool{index}", ""), *((index, None, None, p) for p in parts)])
        right.append((f"id{index}", f"tool{index}", text))
    fragments = []
    while any(queues):
        queue = draw(st.sampled_from([q for q in queues if q]))
        fragments.append(queue.pop(0))
    return fragments, right


@given(interleaved())
@settings(max_examples=200, deadline=None)
def test_interleaving_in_any_order_gives_the_same_calls(
    case: tuple[list[Fragment], list[tuple[str, str, str]]],
) -> None:
    fragments, right = case
    got = Assembled(fragments)
    assert [(c.id, c.name, c.arguments) for c in got.calls] == right
    assert all(c.status == "whole" for c in got.calls)
    opened = [d.position for d in got.deltas if isinstance(d, CallOpened)]
    closed = [d.position for d in got.deltas if isinstance(d, CallClosed)]
    assert sorted(opened) == sorted(closed) == list(range(len(right)))
    assert set(got.counts) <= {"index_gap"}


# -- tolerances, each by its name ---------------------------------------------------------------------------------------


def tolerance_missing_index() -> None:
    got = Assembled([(None, "a", "f", '{"x":'), (None, None, None, "1}"), (-1, "b", "g", "{}"), (None, "a", None, " ")])
    assert got.brief == [("a", "f", '{"x":1} ', "whole"), ("b", "g", "{}", "whole")]
    assert got.counts == {"missing_index": 4}


def tolerance_same_index_new_id() -> None:
    got = Assembled([(0, "a", "f", '{"x":1}'), (0, "b", "f", '{"x":2}')])
    assert got.brief == [("a", "f", '{"x":1}', "whole"), ("b", "f", '{"x":2}', "whole")]
    assert got.counts == {"same_index_new_id": 1}


def tolerance_changing_id() -> None:
    got = Assembled([(0, "a", "f", ""), (0, "b", "", "{"), (0, "c", None, "}")])
    assert got.brief == [("a", "f", "{}", "whole")]
    assert got.counts == {"changing_id": 2}


def tolerance_index_gap() -> None:
    got = Assembled([(1, "a", "f", "{}"), (3, "b", "g", "{}")])
    assert [(c.id, c.index, c.status) for c in got.calls] == [("a", 1, "whole"), ("b", 3, "whole")]
    assert got.counts == {"index_gap": 2}


def tolerance_split_name() -> None:
    got = Assembled([(0, "a", "get_wea", None), (0, None, "ther", None), (0, None, None, "{}")])
    assert got.brief == [("a", "get_weather", "{}", "whole")]
    assert got.deltas[0] == CallOpened(0, "a", "get_weather")
    assert got.counts == {"split_name": 1}


def tolerance_placeholder_arguments() -> None:
    got = Assembled([(0, "a", "f", "{}"), (0, None, None, '{"x":'), (0, None, None, "1}")])
    assert got.brief == [("a", "f", '{"x":1}', "whole")]
    assert got.counts == {"placeholder_arguments": 1}


def tolerance_empty_arguments() -> None:
    for blank in ("", " \n", "null", " null "):
        got = Assembled([(0, "a", "f", blank)])
        assert got.brief == [("a", "f", "{}", "whole")]
        assert got.counts == {"empty_arguments": 1}
        for stop in ("max_tokens", "content_filter", "strange_word", None):
            cut = Assembled([(0, "a", "f", blank), (1, "b", "g", "{}")], stop)
            assert cut.brief[0] == ("a", "f", "", "cut"), stop
            assert cut.counts == {}


def tolerance_cumulative_arguments() -> None:
    got = Assembled([(0, "a", "f", '{"x"'), (0, None, None, '{"x":1'), (0, None, None, '{"x":1}')])
    assert got.brief == [("a", "f", '{"x":1}', "whole")]
    assert got.counts == {"cumulative_arguments": 1}


def tolerance_repeated_arguments() -> None:
    for parts in (['{"x":1}'], ['{"x"', ":1}"]):
        got = Assembled([(0, "a", "f", p) for p in [*parts, '{"x":1}']])
        assert got.brief == [("a", "f", '{"x":1}', "whole")]
        assert got.counts == {"repeated_arguments": 1}


def tolerance_orphan_fragment() -> None:
    got = Assembled([(None, None, None, '{"x":1}'), (0, "a", "f", "{}")])
    assert got.brief == [("a", "f", "{}", "whole")]
    assert got.counts == {"missing_index": 1, "orphan_fragment": 1}


def tolerance_torn_surrogate() -> None:
    got = Assembled([(0, "a", "f", '{"x":"\ud83c'), (0, None, None, '\udf78"}')])
    assert got.brief == [("a", "f", '{"x":"🍸"}', "whole")]
    assert got.counts == {"torn_surrogate": 1}
    alone = Assembled([(0, "a", "f", '{"x":"\ud83c"}')])
    assert alone.brief == [("a", "f", '{"x":"\ufffd"}', "malformed")], "what cannot be stored is no part of a reply"
    assert "half a surrogate pair at position 6" in str(alone.calls[0].problem)
    assert Assembled([(0, "a", "f", '{"x":"\ud83c')]).brief == [("a", "f", '{"x":"\ufffd', "cut")]
    assert Assembled([(0, "a", "f", '{"x":"\ud83c')], None).brief == [("a", "f", '{"x":"\ufffd', "cut")]


TOLERANCES = {
    name.removeprefix("tolerance_"): test
    for name, test in dict(globals()).items()
    if name.startswith("tolerance_") and inspect.isfunction(test)
}


@pytest.mark.parametrize("name", TOLERANCES)
def test_each_tolerance(name: str) -> None:
    TOLERANCES[name]()


def names_in(source: Path, functions: tuple[str, ...]) -> set[str]:
    """The string given to each call of these functions in a module's source."""
    found = set()
    for node in ast.walk(ast.parse(source.read_text("utf-8"))):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in functions:
            found |= {a.value for a in node.args if isinstance(a, ast.Constant) and isinstance(a.value, str)}
    return found


def test_every_tolerance_in_the_source_has_its_test() -> None:
    source = Path(sluice.wire.__file__).with_name("assembler.py")
    assert names_in(source, ("_count",)) == set(TOLERANCES)


# -- when a call is whole -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stop", ["end_turn", "tool_use", "refusal", "pause"])
@pytest.mark.parametrize(
    ("arguments", "status", "says"),
    [
        ('{"x":1}', "whole", ""),
        ('{"x":"half', "cut", "stop in the middle"),
        ('{"x":1', "cut", "stop in the middle"),
        ('{"x":1}}', "malformed", "extra data at position 7"),
        ('{"x":1,"x":2}', "malformed", "twice"),
        ('"{}"', "malformed", "no object"),
        ("[]", "malformed", "no object"),
        ('{"x":NaN}', "malformed", "NaN"),
        ('{"a"{"a":1', "cut", "stop in the middle"),
    ],
)
def test_a_stop_reason_is_not_believed_against_the_bytes(stop: str, arguments: str, status: str, says: str) -> None:
    (call,) = Assembled([(0, "a", "f", arguments)], stop).calls
    assert call.status == status
    assert call.arguments == arguments, "raw, never repaired"
    assert says in (call.problem or "")


def test_a_malformed_call_names_index_position_and_the_last_64_characters() -> None:
    (call,) = Assembled([(0, "a", "f", '{"x":"' + "y" * 100 + '"} tail')]).calls
    assert call.problem is not None
    assert call.problem.startswith("call 0: extra data at position 109; the arguments end with ")
    assert repr(("y" * 100 + '"} tail')[-64:]) in call.problem


def test_after_length_only_a_call_that_another_one_followed_is_whole() -> None:
    fragments: list[Fragment] = [(0, "a", "f", '{"x":1}'), (1, "b", "g", '{"y":2}')]
    for stop in ("max_tokens", "content_filter"):
        assert [c.status for c in Assembled(fragments, stop).calls] == ["whole", "cut"]
    # the last fragment went to the first call, so that one is in doubt
    assert [c.status for c in Assembled([*fragments, (0, None, None, " ")], "max_tokens").calls] == ["cut", "whole"]


@pytest.mark.parametrize("stop", ["eos", "aborted", "STOP", ""])
def test_a_strange_stop_reason_makes_no_call_whole(stop: str) -> None:
    assert [c.status for c in Assembled([(0, "a", "f", "{}"), (1, "b", "g", "{}")], stop).calls] == ["cut", "cut"]


def test_without_a_terminal_mark_only_what_the_dialect_closed_is_whole() -> None:
    got = Assembled([(0, "a", "f", '{"x":1}'), (1, "b", "g", "{}")], None)
    assert [c.status for c in got.calls] == ["cut", "cut"]
    first = got.assembler.at(0)
    assert first is not None
    got.assembler.close_call(first, got.deltas)
    got.assembler.close_call(first, got.deltas)
    assert [c.status for c in got.assembler.tool_calls(None)] == ["whole", "cut"]
    assert [d for d in got.deltas if isinstance(d, CallClosed)] == [CallClosed(0, "a", "f", "whole")], "once"
    got.assembler.finish("tool_use", got.deltas)
    assert [d.position for d in got.deltas if isinstance(d, CallClosed)] == [0, 1]
    assert got.assembler.at(7) is None


def test_a_call_that_its_dialect_opens_is_always_a_new_one() -> None:
    got = Assembled([], None)
    first = got.assembler.open_call(4, "a", "f", got.deltas)
    got.assembler.add(4, None, None, '{"x":1}', got.deltas)
    second = got.assembler.open_call(4, "b", "g", got.deltas)
    got.assembler.add(4, None, None, '{"y":2}', got.deltas)
    assert got.deltas == [CallOpened(0, "a", "f"), CallOpened(1, "b", "g")]
    assert got.counts == {}, "a gap of its numbers is no departure where other things are numbered too"
    got.assembler.close_call(first, got.deltas)
    got.assembler.close_call(second, got.deltas)
    assert [(c.id, c.arguments, c.status) for c in got.assembler.tool_calls(None)] == [
        ("a", '{"x":1}', "whole"),
        ("b", '{"y":2}', "whole"),
    ]


def test_a_closed_call_without_arguments_waits_for_the_stop_reason() -> None:
    for stop, status in (("tool_use", "whole"), ("max_tokens", "cut"), (None, "cut")):
        got = Assembled([], None)
        call = got.assembler.open_call(0, "a", "f", got.deltas)
        got.assembler.close_call(call, got.deltas)
        assert got.deltas == [CallOpened(0, "a", "f")]
        got.assembler.finish(stop, got.deltas)
        assert got.deltas[1:] == [CallClosed(0, "a", "f", status)]  # type: ignore[arg-type]
        assert [c.status for c in got.assembler.tool_calls(stop)] == [status]


def test_a_closed_call_without_arguments_is_whole_once_another_call_began() -> None:
    got = Assembled([], None)
    got.assembler.close_call(got.assembler.open_call(0, "a", "f", got.deltas), got.deltas)
    got.assembler.open_call(1, "b", "g", got.deltas)
    assert [(c.arguments, c.status) for c in got.assembler.tool_calls("max_tokens")] == [("{}", "whole"), ("", "cut")]


def test_a_call_that_goes_on_after_its_end_is_open_again() -> None:
    got = Assembled([], None)
    call = got.assembler.open_call(0, "a", "f", got.deltas)
    got.assembler.add(0, None, None, '{"x":', got.deltas)
    got.assembler.close_call(call, got.deltas)
    assert got.deltas == [CallOpened(0, "a", "f")], "it cannot be whole yet, so its end is not told"
    got.assembler.reopen(call)
    got.assembler.add(0, None, None, "1}", got.deltas)
    assert [c.status for c in got.assembler.tool_calls(None)] == ["cut"]
    got.assembler.finish("tool_use", got.deltas)
    assert got.deltas[1:] == [CallClosed(0, "a", "f", "whole")]


# -- names and ids ------------------------------------------------------------------------------------------------------


def test_an_equal_repeat_of_a_name_says_nothing_new() -> None:
    got = Assembled([(0, "a", "f", None), (0, "a", "f", "{"), (0, "a", "f", "}")])
    assert got.brief == [("a", "f", "{}", "whole")]
    assert got.counts == {}


def test_another_name_after_the_first_argument_byte_makes_the_call_malformed() -> None:
    got = Assembled([(0, None, "f", "{}"), (0, None, "g", "{}")])
    assert [(c.name, c.status) for c in got.calls] == [("f", "malformed")]
    assert "first named 'f' and then 'g'" in str(got.calls[0].problem)


def test_a_name_is_closed_by_another_call_too() -> None:
    got = Assembled([(0, "a", "f", None), (1, "b", "g", None), (0, None, "oo", "{}")])
    assert got.deltas[0] == CallOpened(0, "a", "f")
    assert [c.status for c in got.calls] == ["malformed", "whole"]


@pytest.mark.parametrize(
    "name", [None, "", "f<|channel|>commentary", "tool_12</arg_value>", "a b", "x" * 129, "é", "a\n"]
)
def test_what_cannot_be_a_tools_name_is_malformed(name: str | None) -> None:
    (call,) = Assembled([(0, "a", name, "{}")]).calls
    assert call.status == "malformed"
    assert call.problem


@pytest.mark.parametrize("name", ["f", "get-weather_2", "mcp.server:tool/x", "x" * 128])
def test_what_can_be_a_tools_name(name: str) -> None:
    assert Assembled([(0, "a", name, "{}")]).calls[0].status == "whole"


def test_a_name_cannot_grow_with_the_stream() -> None:
    got = Assembled([(0, "a", f"n{i}", None) for i in range(5000)])
    assert got.calls[0].status == "malformed"
    assert len(got.calls[0].name) < 200


def test_a_missing_id_is_made_up_and_gives_way_to_every_other() -> None:
    assert [c.id for c in Assembled([(0, None, "f", "{}"), (1, "", "g", "{}")]).calls] == ["call_0", "call_1"]
    used = Assembled([(0, None, "f", "{}")], used_ids={"call_0", "call_0_2"})
    assert used.calls[0].id == "call_0_3"
    given_later = Assembled([(0, None, "f", "{}"), (1, "call_0", "g", "{}")])
    assert [c.id for c in given_later.calls] == ["call_0_2", "call_0"], "a provider's own id is never the one to change"


def test_a_given_id_is_kept_even_if_used_before_but_is_unique_in_the_reply() -> None:
    got = Assembled([(0, "same", "f", "{}"), (1, "same", "g", "{}"), (2, "same_2", "h", "{}")], used_ids={"same"})
    ids = [c.id for c in got.calls]
    assert ids[0] == "same"
    assert ids[2] == "same_2"
    assert len(set(ids)) == 3


def test_a_late_id_is_taken_once() -> None:
    got = Assembled([(0, None, "f", "{"), (0, "a", None, None), (0, "a", None, "}")])
    assert got.brief == [("a", "f", "{}", "whole")]
    assert got.counts == {}


# -- bounds -------------------------------------------------------------------------------------------------------------


def test_the_bound_on_calls_is_exact() -> None:
    fragments: list[Fragment] = [(i, f"i{i}", "f", "{}") for i in range(3)]
    assert len(Assembled(fragments, max_calls=3).calls) == 3
    with pytest.raises(Bound, match="max_calls_per_reply is 2 calls, seen: 3"):
        Assembled(fragments, max_calls=2)


def test_the_bound_on_arguments_counts_bytes_and_is_exact() -> None:
    text = '{"x":"é🍸"}'
    size = len(text.encode())
    fragments: list[Fragment] = [(0, "a", "f", c) for c in text]
    assert Assembled(fragments, max_bytes=size).calls[0].arguments == text
    with pytest.raises(Bound, match=f"max_arguments_bytes is {size - 1} bytes, seen: {size}"):
        Assembled(fragments, max_bytes=size - 1)


def test_folding_changes_no_call() -> None:
    text = json.dumps({"x": "y" * 9000})
    plain: list[Fragment] = [(0, "a", "f", c) for c in text]
    for fragments in ([(0, "a", "f", "{}"), *plain], plain, [*plain, (0, None, None, text)]):
        got = Assembled(fragments, None)
        folded = CallAssembler(32, 1 << 20, got._count)
        for place, (index, id, name, arguments) in enumerate(fragments):
            folded.add(index, id, name, arguments, [])
            if place % 1000 == 0:
                folded.fold()
        folded.fold()
        assert len(folded.calls[0].fragments) < 2100
        assert folded.tool_calls("tool_use")[0].arguments == text


# -- vectors of another project -----------------------------------------------------------------------------------------

# Where the tracker of another client is not followed, and why.
TRACKER_DIFFERS = {
    "0010": "text after a placeholder is taken for the arguments and refused, not dropped: nothing is lost in silence",
    "0013": "a missing id is made up (W5)",
    "0014": "a missing name makes the call malformed, and the model is told",
    "0016": "the type of a call is not looked at: its name and arguments decide",
    "0017": "the type of a call is not looked at: its name and arguments decide",
}


def _tracker_calls(row: dict[str, Any]) -> list[tuple[str, str, str]]:
    return [(p["toolCallId"], p["toolName"], p["input"]) for p in row["expected_parts"] if p["type"] == "tool-call"]


def test_the_vectors_of_a_call_tracker(shared: Path) -> None:
    path = shared / "vectors" / "stream" / "toolcalls_vercel_tracker.jsonl"
    for line in path.read_text("utf-8").splitlines():
        row = json.loads(line)
        number = row["id"].rsplit("-", 1)[1]
        got = Assembled(
            [
                (d.get("index"), d.get("id"), d["function"].get("name"), d["function"].get("arguments"))
                for d in row["deltas"]
            ]
        )
        same = not row["error"]
        if row["flushed"]:
            same &= [(c.id, c.name, c.arguments) for c in got.calls] == _tracker_calls(row)
        else:
            names = [p["toolName"] for p in row["expected_parts"] if p["type"] == "tool-input-start"]
            same &= [c.name for c in got.calls] == names
        assert same != (number in TRACKER_DIFFERS), (row["id"], got.brief)


def test_a_call_of_those_vectors_is_whole_only_if_its_arguments_are_an_object(shared: Path) -> None:
    path = shared / "vectors" / "stream" / "toolcalls_vercel_tracker.jsonl"
    statuses = {}
    for line in path.read_text("utf-8").splitlines():
        row = json.loads(line)
        got = Assembled(
            [
                (d.get("index"), d.get("id"), d["function"].get("name"), d["function"].get("arguments"))
                for d in row["deltas"]
            ]
        )
        statuses[row["id"].rsplit("-", 1)[1]] = {c.status for c in got.calls}
    assert statuses["0003"] == {"malformed"}, "a prefix that parses is no reason to believe the rest"
    assert statuses["0018"] == statuses["0021"] == {"cut"}


# -- dialects that say things about a call in the end -------------------------------------------------------------------


def test_the_last_word_on_id_name_and_arguments() -> None:
    got = Assembled([], stop=None)
    late = got.assembler.open_call(0, None, None, got.deltas)
    got.assembler.extend(late, '{"x":', got.deltas)
    got.assembler.identify(late, "a", "f", got.deltas)
    assert got.deltas == [CallOpened(0, "a", "f")]
    got.assembler.replace_arguments(late, '{"x":2}')
    got.assembler.close_call(late, got.deltas)
    early = got.assembler.open_call(1, "b", "g", got.deltas)
    got.assembler.identify(early, "c", "g", got.deltas)
    got.assembler.extend(early, "{}", got.deltas)
    renamed = got.assembler.open_call(2, "d", "h", got.deltas)
    got.assembler.identify(renamed, None, "rm", got.deltas)
    got.assembler.finish("tool_use", got.deltas)
    assert [(c.id, c.name, c.arguments, c.status) for c in got.assembler.tool_calls("tool_use")] == [
        ("a", "f", '{"x":2}', "whole"),
        ("c", "g", "{}", "whole"),
        ("d", "h", "", "malformed"),
    ]
    assert got.counts == {"changing_id": 1}


def test_both_ways_to_add_arguments_to_a_known_call_are_bounded() -> None:
    got = Assembled([], stop=None, max_bytes=4)
    call = got.assembler.open_call(0, "a", "f", got.deltas)
    got.assembler.extend(call, "éé", got.deltas)
    with pytest.raises(Bound):
        got.assembler.extend(call, "x", got.deltas)
    got.assembler.replace_arguments(call, "éé")
    with pytest.raises(Bound):
        got.assembler.replace_arguments(call, "ééx")


@pytest.mark.parametrize("stop", ["tool_use", "max_tokens", None])
@pytest.mark.parametrize("words", ["SELECT 1", "{}", ""])
def test_a_call_with_free_text_is_never_whole(words: str, stop: str | None) -> None:
    got = Assembled([], stop=None)
    call = got.assembler.open_call(0, "a", "f", got.deltas)
    call.kind = "custom"
    got.assembler.replace_arguments(call, words)
    got.assembler.close_call(call, got.deltas)
    (only,) = got.assembler.tool_calls(stop)
    assert (only.kind, only.arguments, only.status) == ("custom", words, "malformed")


# -- what a run of mutations showed to be held by no other test ---------------------------------------------------------


def test_a_malformed_call_stays_so_in_a_reply_that_broke() -> None:
    (call,) = Assembled([(0, "a", "f", '{"x":oops}')], stop=None).calls
    assert call.status == "malformed"


def test_why_a_call_of_a_broken_reply_is_cut() -> None:
    (whole_looking, begun) = Assembled([(0, "a", "f", "{}"), (1, "b", "g", '{"x":')], stop=None).calls
    assert whole_looking.problem == "the reply broke off before its end"
    assert "stop in the middle" in str(begun.problem)


@pytest.mark.parametrize("later", ["a", "z"])
def test_any_other_name_after_the_arguments_began_spoils_the_call(later: str) -> None:
    (call,) = Assembled([(0, "1", "f", "{"), (0, None, later, "}")]).calls
    assert (call.status, f"then {later!r}" in str(call.problem)) == ("malformed", True)


@pytest.mark.parametrize("last", ["a", "z"])
def test_the_last_word_on_an_id_stands_whatever_it_is(last: str) -> None:
    got = Assembled([(0, "m", "f", "{}")], stop=None)
    got.assembler.identify(got.assembler.calls[0], last, "f", [])
    assert got.assembler.calls[0].id == last


def test_an_equal_id_is_equal_by_its_letters() -> None:
    got = Assembled([(0, "id-1", "f", "{"), (0, "-".join(["id", "1"]), "f", "}")])
    assert [c.id for c in got.calls] == ["id-1"]
    assert got.counts == {}


def test_an_index_below_the_first_one_is_no_second_gap() -> None:
    assert Assembled([(2, "a", "f", "{}"), (0, "b", "g", "{}")]).counts == {"index_gap": 1}
    assert Assembled([(1, "a", "f", "{}"), (0, "b", "g", "{}")]).counts == {"index_gap": 1}


def test_a_name_without_index_and_id_begins_a_call_once_the_last_one_has_arguments() -> None:
    got = Assembled([(None, None, "f", None), (None, None, None, "{}"), (None, None, "g", "{}")])
    assert [(c.name, c.arguments) for c in got.calls] == [("f", "{}"), ("g", "{}")]
    split = Assembled([(None, None, "f", None), (None, None, "oo", "{}")])
    assert [c.name for c in split.calls] == ["foo"]


def test_arguments_sent_once_more_after_white_space_are_the_same_arguments() -> None:
    got = Assembled([(0, "a", "f", " "), (0, None, None, '{"a":1}'), (0, None, None, ' {"a":1}')])
    assert [c.status for c in got.calls] == ["whole"]
    assert got.counts == {"repeated_arguments": 1}
