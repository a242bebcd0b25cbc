"""Every known string that makes a terminal do something, in every place of the transcript: shown as marks, never obeyed."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest

from sluice.run.interaction import PromptBegan, SessionOpened, Situation
from sluice.testing.scripted_interaction import finished
from sluice.ui.tui.block import Block
from sluice.ui.tui.status_line import status_words
from sluice.ui.tui.transcript_feed import TranscriptFeed
from sluice.ui.visible import visible
from sluice.values import notices as n
from sluice.values.messages import AssistantMessage, Reasoning, ToolCall, ToolMessage, UserMessage
from sluice.values.results import Blocked, ErrorInfo, ToolResult


def _hostile(shared: Path) -> list[str]:
    lines = (shared / "vectors" / "terminal" / "strings.jsonl").read_text("utf-8").splitlines()
    raw = [base64.b64decode(json.loads(line)["data_b64"]) for line in lines]
    files = [
        path.read_bytes() for path in (shared / "vectors" / "terminal" / "trojan_source").rglob("*") if path.is_file()
    ]
    return [one.decode("utf-8", "replace") for one in [*raw, *files]]


def _everywhere(text: str) -> list[n.Notice | PromptBegan]:
    result = ToolResult(
        ok=False, status="blocked", tool=text, content=text, error=ErrorInfo(text, text, text), facts={"diff": text},
        blocked=Blocked(category="mutating", missing=("x",), how_to_allow=text),
    )  # fmt: skip
    name = {"turn": 1, "arrival": 0, "tool": text}
    return [
        PromptBegan(number=1, text=text),
        n.RunStarted(run="r", model=text, mode=text, workspace=text, tools=(text,), blocked=(text,)),
        n.TurnStarted(run="r", turn=1),
        n.ReasoningNotice(turn=1, text=text),
        n.TextNotice(turn=1, text=f"{text}\n\n# {text}\n\n- {text}\n\n`{text}` [{text}]({text}) ![{text}]({text})\n\n"),
        n.TextNotice(turn=1, text=f"```{text}\n{text}\n```\n\n| {text} |\n|---|\n| {text} |\n\n<{text}>"),
        n.CallIntended(id=text, **name),
        n.CallIntent(subject=text, category=text, **name),
        n.CallProgressed(size=9, name=text, tail=text, **name),
        n.CallArrived(position=0, id=text, arguments=text, status="whole", subject=text, **name),
        n.CallJudged(turn=1, position=0, tool=text, decision="deny", rule=text),
        n.CallFinished(turn=1, position=0, id=text, tool=text, result=result),
        n.CallWithdrawn(turn=1, arrival=7, tool=text, reason=text),
        n.Waiting(turn=1, attempt=1, seconds=1.0, reason=text),
        n.Warned(message=text),
        n.Failed(kind=text, message=text),
        finished(text, message=text, saved=False, unsaved=text),
    ]


def _rows(blocks: list[Block]) -> list[str]:
    found = []
    for details, width in ((False, 40), (True, 200)):
        for block in blocks:
            block.show_details(details)
            found += [row.text for row in block.rows(width)]
    return found


@pytest.mark.parametrize("cut", [0, 2])
def test_nothing_in_a_run_is_obeyed(shared: Path, cut: int) -> None:
    """Also where the string is torn: its first `cut` characters come as a piece of their own."""
    hostile = _hostile(shared)
    assert len(hostile) > 60
    for text in hostile:
        feed = TranscriptFeed(lambda: 0.0)
        for event in _everywhere(text):
            if cut and isinstance(event, n.TextNotice | n.ReasoningNotice):
                feed.hear(type(event)(turn=1, text=event.text[:cut]))
                feed.step()
                event = type(event)(turn=1, text=event.text[cut:])
            if not isinstance(event, n.TextNotice) or event.text:
                feed.hear(event)
            feed.step()
        for row in _rows(feed.blocks):
            assert visible(row) == row, (text, row)
            assert "\t" not in row


def test_nothing_in_a_stored_session_or_the_status_line_is_obeyed(shared: Path) -> None:
    for text in _hostile(shared):
        asked = ToolCall(id="1", name=text, arguments=text)
        history = (
            UserMessage(text),
            UserMessage(text, origin="host"),
            AssistantMessage(content=text, reasoning=(Reasoning(text=text),), tool_calls=(asked,)),
            ToolMessage("1", text, text, ok=False),
        )
        feed = TranscriptFeed(lambda: 0.0)
        feed.hear(SessionOpened(session=text, history=history))
        words = {"model": text, "workspace": text, "session": text, "policy": text, "sandbox": text, "running": False}
        line = status_words(Situation(**words), text, 4000)
        for row in [*_rows(feed.blocks), line]:
            assert visible(row) == row
            assert "\n" not in row
