"""Blocks for a stored conversation."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from sluice.ui.tui.block import Block
from sluice.ui.tui.call_block import CallBlock
from sluice.ui.tui.markdown_stream import MarkdownStream
from sluice.ui.tui.reasoning_block import ReasoningBlock
from sluice.ui.tui.said_blocks import PromptBlock, note
from sluice.values.messages import AssistantMessage, Conversation, ImagePart, ToolCall, ToolMessage, UserMessage
from sluice.values.results import ErrorInfo, ResultStatus, ToolResult

_REFUSED, _HOW = "[blocked] refused: The user refused this call", "\nHow to allow it: "
MAX_MESSAGES = 300  # the last ones of a stored conversation that are shown
MAX_CHARACTERS = 300_000  # of these messages together; so much is made into blocks in a few tenths of a second


def stored_blocks(history: Conversation, subjects: Mapping[str, str | None]) -> list[Block]:
    """The blocks of the last messages, oldest first, and a line that says how many came before.

    `subjects` is as in `SessionOpened`; a call of a tool that is not in it, or without its subject, shows its arguments.
    A call without a result waits for the person.
    """
    blocks: list[Block] = []
    first = _first_shown(history)
    if first:
        blocks.append(note(f"{first:,} earlier messages: /export writes them"))
    calls: dict[str, CallBlock] = {}
    for message in history[first:]:
        match message:
            case UserMessage():
                blocks.append(_asked(message))
            case AssistantMessage():
                blocks += (ReasoningBlock(text=one.text) for one in message.reasoning)
                blocks += _text(message.content or "", bool(blocks))
                for asked in message.tool_calls:
                    call = calls[asked.id] = CallBlock(asked.name)
                    call.arrives(_subject(asked, subjects), asked.status)
                    blocks.append(call)
            case ToolMessage():
                if message.call_id in calls:
                    call = calls.pop(message.call_id)
                else:  # its call is among the messages that are left out
                    call = CallBlock(message.name)
                    blocks.append(call)
                call.finishes(_result(message), 0.0)
            case _:
                pass  # instructions of the host
    for call in calls.values():
        call.judged("ask", "")
    return blocks


def _first_shown(history: Conversation) -> int:
    """The index of the first message that is shown; the last one always is."""
    room = MAX_CHARACTERS
    for at in range(len(history) - 1, max(len(history) - MAX_MESSAGES, 0) - 1, -1):
        message = history[at]
        room -= len(message.content) if isinstance(message.content, str) else 0
        if room < 0:
            return min(at + 1, len(history) - 1)
    return max(len(history) - MAX_MESSAGES, 0)


def _asked(message: UserMessage) -> Block:
    content = message.content
    if isinstance(content, str):
        text, images = content, 0
    else:
        text = "\n".join(part.text for part in content if not isinstance(part, ImagePart))
        images = sum(isinstance(part, ImagePart) for part in content)
    if message.origin == "host":
        return note(text, limit=200)
    return PromptBlock(text, images=images)


def _result(message: ToolMessage) -> ToolResult:
    if not message.ok and message.content.startswith(_REFUSED):  # the host's own line comes first in what failed
        said = message.content[len(_REFUSED) :].partition(_HOW)[0].removeprefix(" and said: ")
        facts = {"refused": said if said != "." else ""}
        error = ErrorInfo("refused", "")
        return ToolResult(
            ok=False, status="blocked", tool=message.name, content=message.content, error=error, facts=facts
        )
    status: ResultStatus = "ok" if message.ok else message.status or "failed"
    return ToolResult(ok=message.ok, status=status, tool=message.name, content=message.content)


def _text(text: str, begun: bool) -> list[Block]:
    blocks: list[Block] = []
    if text:
        stream = MarkdownStream(begun=begun)
        stream.feed(text.removeprefix("\n"))
        stream.end()
        more = True
        while more:
            finished, _open, more = stream.step()
            blocks += finished
    return blocks


def _subject(call: ToolCall, subjects: Mapping[str, str | None]) -> str:
    """What a call touches, as its block showed it while the call was live."""
    name = subjects.get(call.name, "")
    if name is None:
        return ""
    try:
        found = msgspec.json.decode(call.arguments)
    except (msgspec.DecodeError, UnicodeError):
        return call.arguments
    subject = found.get(name) if isinstance(found, dict) else None
    return subject if isinstance(subject, str) else call.arguments if found else ""
