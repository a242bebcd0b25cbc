"""The faces for programs: parseable, complete, flushed, whatever text comes."""

from __future__ import annotations

import io
import json

from hypothesis import given
from hypothesis import strategies as st

from sluice.ui.json_stream import JsonFace, StreamJsonFace, as_json
from sluice.values.messages import Usage
from sluice.values.notices import CallArrived, CallFinished, RunFinished, TextNotice, TurnStarted
from sluice.values.results import ToolResult

CALL = CallArrived(turn=1, position=0, arrival=0, id="c", tool="read", arguments='{"path":"a"}', status="whole")
RESULT = CallFinished(
    turn=1, position=0, id="c", tool="read", result=ToolResult(ok=True, status="ok", tool="read"), seconds=1.5
)
END = RunFinished(
    run="r",
    outcome="completed",
    exit_code=0,
    message="",
    text="answer",
    message_id="m",
    turns=1,
    tool_calls=1,
    usage=Usage(input_tokens=1),
)


def test_each_notice_is_a_line_as_soon_as_it_comes() -> None:
    out = io.BytesIO()
    face = StreamJsonFace(out)
    for number, notice in enumerate((TurnStarted(run="r", turn=1), TextNotice(turn=1, text="a\nb"), CALL, END), 1):
        face.show(notice)
        assert out.getvalue().count(b"\n") == number
    lines = [json.loads(line) for line in out.getvalue().splitlines()]
    assert [line["type"] for line in lines] == ["turn_started", "text", "call_arrived", "run_finished"]
    assert {line["v"] for line in lines} == {1}
    assert lines[1]["text"] == "a\nb"


def test_json_is_one_object_with_the_end_and_the_calls() -> None:
    out = io.BytesIO()
    face = JsonFace(out)
    for notice in (TurnStarted(run="r", turn=1), TextNotice(turn=1, text="x"), CALL, RESULT):
        face.show(notice)
    assert out.getvalue() == b""
    face.show(END)
    face.close()
    found = json.loads(out.getvalue())
    assert (found["type"], found["v"], found["exit_code"], found["text"]) == ("run_finished", 1, 0, "answer")
    (call,) = found["calls"]
    assert call["arguments"] == '{"path":"a"}'
    assert (call["tool"], call["status"], call["result"]["ok"], call["seconds"]) == ("read", "whole", True, 1.5)


@given(st.text(alphabet=st.characters() | st.sampled_from("\ud800\udfff\u2028\n\x7f\x9b\x1b\u202e\U000e0041")))
def test_any_text_is_one_line_of_json_and_comes_back(text: str) -> None:
    line = as_json(TextNotice(turn=1, text=text))
    assert b"\n" not in line
    line.decode("utf-8")
    assert not set(line.decode("utf-8")) & set("\x7f\x85\x9b\u2028\u202e\U000e0041")
    found = json.loads(line)["text"]
    # A high and a low surrogate side by side are one character once read back, as in any JSON.
    assert found.encode("utf-16", "surrogatepass") == text.encode("utf-16", "surrogatepass")
