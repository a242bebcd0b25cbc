"""The incremental scanner: every split, what is certain, what is closed, and the cost."""

from __future__ import annotations

import base64
import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sluice.errors import ArgumentsError
from sluice.values.healed import HealedArguments
from sluice.values.messages import ToolCall
from sluice.wire import json_scan
from sluice.wire.json_scan import Healed, JsonScanner, Member, heal, healed_arguments
from sluice.wire.strict_json import parse_arguments

_TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
_SCALARS = st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats(-1e300, 1e300) | _TEXTS
_VALUES = st.recursive(
    _SCALARS, lambda v: st.lists(v, max_size=3) | st.dictionaries(_TEXTS, v, max_size=3), max_leaves=8
)
_OBJECTS = st.dictionaries(_TEXTS, _VALUES, max_size=4)
_STYLES = st.sampled_from([{}, {"ensure_ascii": False}, {"indent": 2}, {"separators": (",", ":")}])


def _fed(pieces: list[str], **how: Any) -> tuple[JsonScanner, list[Member], list[str]]:
    scanner = JsonScanner(**how)
    done: list[Member] = []
    tails = [scanner.feed(piece, done) for piece in pieces]
    return scanner, done, tails


def _cut(text: str, at: list[int]) -> list[str]:
    places = [0, *sorted(a % (len(text) + 1) for a in at), len(text)]
    return [text[a:b] for a, b in pairwise(places)]


def _facts(scanner: JsonScanner, done: list[Member]) -> Any:
    return done, scanner.end, scanner.broken, scanner.broken_at, scanner.path, scanner.depth, scanner.size


@given(_OBJECTS, _STYLES, st.lists(st.integers(0, 10**6), max_size=8))
def test_members_are_those_of_a_parser_under_any_split(
    value: dict[str, Any], style: dict[str, Any], at: list[int]
) -> None:
    text = json.dumps(value, **style)
    scanner, done, _ = _fed(_cut(text, at))
    assert scanner.broken is None
    assert scanner.end == len(text)
    assert [(m.name, m.value) for m in done] == list(value.items())
    for m in done:
        assert json.loads(text[m.start : m.end]) == m.value
    assert scanner.known() == value
    assert scanner.healed() == Healed(text, value, 0, "")


@given(st.text('{}[]",:\\u0123dD8eE+-. \ntruefalsn\x01é\ud83d\ude00', max_size=40), st.lists(st.integers(0, 99)))
def test_garbage_gives_the_same_facts_under_any_split(text: str, at: list[int]) -> None:
    whole, done, _ = _fed([text])
    parts, parts_done, _ = _fed(_cut(text, at))
    assert _facts(parts, parts_done) == _facts(whole, done)
    assert parts.known() == whole.known()
    assert parts.healed() == whole.healed()


@given(st.text('{}[]",:\\u0123dD8eE+-. \ntruefalsn\x01é', max_size=24))
def test_what_a_strict_parser_takes_is_never_broken(text: str) -> None:
    scanner, _, _ = _fed([text])
    try:
        parse_arguments(text)
    except ArgumentsError:
        return
    assert scanner.broken is None
    assert scanner.end is not None


@given(_OBJECTS, _STYLES, st.integers(0, 10**6))
def test_each_prefix_heals_to_strict_json_with_nothing_invented(
    value: dict[str, Any], style: dict[str, Any], at: int
) -> None:
    text = json.dumps(value, **style)
    text = text[: at % (len(text) + 1)]
    scanner, done, _ = _fed([text])
    healed = scanner.healed()
    known = scanner.known()
    if not text:
        assert healed is None
        assert known is None
        return
    assert healed is not None
    assert parse_arguments(healed.text) == healed.value
    assert healed.text == text[: len(text) - healed.dropped] + healed.suffix
    assert _within(known, value, strings_grow=False)
    assert _within(healed.value, value, strings_grow=True)
    assert {m.name: m.value for m in done}.items() <= known.items()


def _within(part: Any, whole: Any, *, strings_grow: bool) -> bool:
    """Everything in `part` is in `whole`; containers, and perhaps strings, may have more to come."""
    if isinstance(part, dict):
        return isinstance(whole, dict) and all(
            k in whole and _within(v, whole[k], strings_grow=strings_grow) for k, v in part.items()
        )
    if isinstance(part, list):
        return isinstance(whole, list) and all(
            _within(a, b, strings_grow=strings_grow) for a, b in zip(part, whole[: len(part)], strict=True)
        )
    if isinstance(part, str) and strings_grow:
        return isinstance(whole, str) and whole.startswith(part)
    return type(part) is type(whole) and part == whole


@given(_TEXTS, st.booleans(), st.lists(st.integers(0, 10**6), max_size=6))
def test_tails_joined_are_the_beginning_of_the_string(value: str, ascii_only: bool, at: list[int]) -> None:
    text = '{"a":1,"content":' + json.dumps(value, ensure_ascii=ascii_only)
    _, done, tails = _fed(_cut(text[:-1], at))
    assert "".join(tails) == value
    assert [m.name for m in done] == ["a"]


def test_a_plain_fragment_is_handed_on_and_not_copied() -> None:
    scanner = JsonScanner()
    scanner.feed('{"content":"', [])
    piece = "a line of text"
    assert scanner.feed(piece, []) is piece


@pytest.mark.parametrize("half", ["\\ud83d", "\ud83d"])
def test_a_tail_waits_for_the_other_half_of_a_pair(half: str) -> None:
    other = "\\ude00" if half[0] == "\\" else "\ude00"
    _, done, tails = _fed(['{"a":"', "x" + half, other, "y", '"}'])
    assert tails == ["", "x", "\N{GRINNING FACE}", "y", ""]
    assert done[0].value == "x\N{GRINNING FACE}y"


def test_strings_below_the_top_level_have_no_tail() -> None:
    _, _, tails = _fed(['{"a":{"b":"x', "y", '"}, "c":["z', "z"])
    assert tails == ["", "", "", ""]


@pytest.mark.parametrize(
    ("text", "known", "healed", "suffix"),
    [
        ('{"a":1', {}, {}, "}"),  # 1 may become 12
        ('{"a":1,', {"a": 1}, {"a": 1}, "}"),
        ('{"a":-', {}, {}, "}"),
        ('{"a":tru', {}, {}, "}"),
        ('{"a":true', {"a": True}, {"a": True}, "}"),
        ('{"a":1,"b', {"a": 1}, {"a": 1}, "}"),
        ('{"a":1,"b":', {"a": 1}, {"a": 1}, "}"),
        ('{"a":"x\\', {}, {"a": "x"}, '"}'),
        ('{"a":"x\\u00e', {}, {"a": "x"}, '"}'),
        ('{"a":"x\\ud83d', {}, {"a": "x"}, '"}'),
        ('{"a":"x\\ud83d\\ude0', {}, {"a": "x"}, '"}'),
        ('{"a":"x\\\\ud83d', {}, {"a": "x\\ud83d"}, '"}'),
        ('{"a":"x\ud83d', {}, {"a": "x"}, '"}'),
        ('{"a":[1,{"b":[', {"a": [1, {"b": []}]}, {"a": [1, {"b": []}]}, "]}]}"),
    ],
)
def test_what_cannot_be_certain_is_cut_back(text: str, known: Any, healed: Any, suffix: str) -> None:
    scanner, _, _ = _fed([text])
    found = scanner.healed()
    assert scanner.known() == known
    assert found is not None
    assert (found.value, found.suffix) == (healed, suffix)


@pytest.mark.parametrize(
    ("text", "at"),
    [
        ("xx", 0),
        ('{"a":trx', 7),
        ('{"a":"\\q', 7),
        ('{"a":"\\u12x', 10),
        ('{"a":"\n', 6),
        ('{"a":01,', 7),
        ('{"a" 1', 5),
        ('{"a":1 2', 7),
        ("{1", 1),
        ("[1,]", 3),
        ('{"a":1,}', 7),
        ("{}x", 2),
        ('{"a":1,"a"', 10),
        ('{"a":"\\ud83d"', 13),
        ('{"a":{"b":1,"b":2}', 18),
        ("[" * 129, 128),
    ],
)
def test_broken_text_says_where_and_is_never_healed(text: str, at: int) -> None:
    for pieces in ([text], list(text)):
        scanner, _, _ = _fed(pieces)
        assert scanner.broken_at == at
        assert scanner.broken
        assert scanner.healed() is None
        assert scanner.feed('"more"', []) == ""


def test_path_and_depth_follow_the_text() -> None:
    scanner, _, _ = _fed(['{"a": 1, "b": [10, {"c": "x'])
    assert scanner.path == ("b", 1, "c")
    assert scanner.depth == 3
    assert scanner.in_string
    assert scanner.name == "b"
    assert scanner.value_at == 14


def test_the_bracket_that_a_member_waits_for() -> None:
    scanner, done = JsonScanner(keep=False), []
    seen = []
    for piece in ['{"a": 1', ', "b": ', "[", '{"c": "}', '"}', ", 2", '], "d": "', 'x", "e": {', "}}"]:
        scanner.feed(piece, done)
        seen.append(scanner.awaits)
    assert seen == [None, None, "]", "]", "]", "]", None, "}", None]


def test_only_looked_for_keys() -> None:
    scanner, _, _ = _fed(['{"name":"x","age":3}'], keys={"name"})
    assert scanner.broken_at == 17


def test_a_scanner_without_its_text_still_knows_members() -> None:
    scanner, done, _ = _fed(list('{"a":[1,2],"b":"x"}'), keep=False)
    assert done == [Member("a", [1, 2], 5, 10), Member("b", "x", 15, 18)]
    with pytest.raises(ValueError, match="not to keep"):
        scanner.known()
    with pytest.raises(ValueError, match="not to keep"):
        scanner.healed()


def test_healed_arguments_are_a_type_of_their_own() -> None:
    cut = ToolCall(id="1", name="read", arguments='{"path":"a","lin', status="cut")
    assert healed_arguments(cut) == HealedArguments(written='{"path":"a","lin', text='{"path":"a"}')
    for status in ("whole", "malformed"):
        assert healed_arguments(ToolCall(id="1", name="read", arguments='{"path":"a', status=status)) is None
    assert healed_arguments(ToolCall(id="1", name="read", arguments="[1", status="cut")) is None
    assert healed_arguments(ToolCall(id="1", name="read", arguments="", status="cut")) is None
    assert not isinstance(heal('{"a'), str)


@pytest.mark.parametrize("body", ["x" * 40_000, 'a\\n\\"' * 8_000, "\\ud83d\\ude00" * 3_400, "1" * 40_000])
@pytest.mark.parametrize("width", [1, 5, 13])
def test_work_grows_with_the_text_and_no_faster(monkeypatch: pytest.MonkeyPatch, body: str, width: int) -> None:
    """Counts the characters that every expression and decoder is given, for a text and one four times as long."""
    work = 0

    def counting(function: Any) -> Any:
        def counted(text: str, *at: int) -> Any:
            nonlocal work
            found = function(text, *at)
            end = found.end() if hasattr(found, "end") else len(text)
            work += 1 + end - (at[0] if at else 0)
            return found

        return counted

    for name in ("_run", "_number_part", "_space", "unescaped", "member_value", "_begun_escape"):
        monkeypatch.setattr(json_scan, name, counting(getattr(json_scan, name)))

    def cost(times: int) -> int:
        nonlocal work
        work = 0
        quote = "" if body[0] == "1" else '"'
        text = '{"a":' + quote + body * times + quote + ',"b":[{}]}'
        _fed([text[i : i + width] for i in range(0, len(text), width)])
        return work

    small, large = cost(1), cost(4)
    assert large < 4.4 * small
    assert small < 25 * len(body)


def test_many_members_in_one_fragment_are_not_copied_again_and_again(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = 0
    real = json_scan.member_value

    def counted(raw: str) -> Any:
        nonlocal seen
        seen += len(raw)
        return real(raw)

    monkeypatch.setattr(json_scan, "member_value", counted)
    text = json.dumps({f"k{i}": [i] for i in range(5_000)})
    _, done, _ = _fed([text])
    assert len(done) == 5_000
    assert seen < len(text)


@settings(max_examples=20)
@given(st.integers(1, 40))
def test_short_pieces_are_folded(width: int) -> None:
    text = '{"a":"' + "x" * 60_000 + '"}'
    scanner, done, _ = _fed([text[i : i + width] for i in range(0, len(text), width)])
    assert len(done[0].value) == 60_000
    assert len(scanner._text) < 3_200


# -- vectors of other partial parsers ---------------------------------------------------------------------------------

_NUMBER = "a number at the end may go on: 1 may become 12"
_STRICT = "strict JSON refuses it, so a call with it can never run (W15)"
_BYTES = "the scanner is given characters: bytes that are no UTF-8 never reach it"
_INVENTED = "the rest of the word or number would be made up"
_CHOICE = "the other parser was told not to close this kind; here the caller looks at `known` or `healed`"
_OTHER = "an option of the other parser that has no meaning here"

_DIFFERENT: dict[str, str] = {
    **dict.fromkeys(
        ["jiter-0032", "jiter-0062", "jiter-0091", "jiter-0099", "jiter-0107", "jiter-0110", "jiter-0119"], _NUMBER
    ),
    **dict.fromkeys([f"jiter-0{n}" for n in (129, 130, 131, 133, 136, 137, 138, 132)], _NUMBER),
    **dict.fromkeys(["jiter-0001", "jiter-0002", "jiter-0143"], _STRICT),
    **dict.fromkeys([f"jiter-00{n}" for n in (80, 82)], _BYTES),
    **dict.fromkeys(["jiter-0121", "jiter-0122"], _OTHER),
    **dict.fromkeys([f"promplate-00{n}" for n in (20, 22, 24, 26, 28, 30, 34, 35)], _INVENTED),
    **dict.fromkeys(["promplate-0032", "promplate-0033"], _NUMBER),
    **dict.fromkeys([f"promplate-00{n:02}" for n in (2, 8, 9, 10, 11, 14, 15, 16, 17, 18, 19)], _CHOICE),
}


@pytest.mark.corpus
def test_vectors_of_partial_parsers(shared: Path) -> None:
    left = dict(_DIFFERENT)
    checked = 0
    for path in sorted((shared / "vectors" / "json").glob("partial_*.jsonl")):
        for line in path.read_text().splitlines():
            vector = json.loads(line)
            name = vector["id"].removeprefix("partial_")
            text = base64.b64decode(vector["input_b64"]).decode("utf-8", "ignore")
            agree = _agrees(vector, text)
            if name in left:
                assert not agree, f"{name} agrees by now: {left[name]}"
                del left[name]
            else:
                assert agree, (name, text, vector)
            checked += 1
    assert checked == 191
    assert not left


def _agrees(vector: dict[str, Any], text: str) -> bool:
    for pieces in ([text], list(text)):
        scanner, _, _ = _fed(pieces)
        healed = scanner.healed()
        if vector["error"]:
            # Not whole, as far as the scanner can know: nothing is handed out as a finished text.
            how = (vector.get("kwargs") or {}).get("partial_mode")
            fine = scanner.end is None or scanner.broken is not None
            if how not in (None, False, "off") or vector.get("allow") not in (None, "[]"):
                fine = healed is None
            if not fine:
                return False
            continue
        how = (vector.get("kwargs") or {}).get("partial_mode", vector.get("allow"))
        value = scanner.known()
        certain = how in (True, "on", "[4]", "[8]", None)
        if not certain:
            if healed is None:
                return False
            value = healed.value
        if json.dumps(value) != json.dumps(vector["expected"]):
            return False
    return True


@pytest.mark.parametrize("char", ["!", "'", "#", "\x01", "/", "\u2028"])
def test_a_value_begins_with_nothing_else(char: str) -> None:
    scanner = JsonScanner()
    scanner.feed('{"a":' + char, [])
    assert (scanner.broken, scanner.broken_at) == ("a value is missing", 5)
