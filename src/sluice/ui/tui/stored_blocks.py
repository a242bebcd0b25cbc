"""Blocks for a stored conversation."""

from __future__ import annotations

from sluice.ui.tui.block import Block
from sluice.ui.tui.call_block import CallBlock
from sluice.ui.tui.markdown_stream import MarkdownStream
from sluice.ui.tui.reasoning_block import ReasoningBlock
from sluice.ui.tui.said_blocks import PromptBlock, note
from sluice.values.messages import AssistantMessage, Conversation, ImagePart, ToolMessage, UserMessage
from sluice.values.results import ResultStatus, ToolResult

MAX_MESSAGES = 300  # the last ones of a stored conversation that are shown


def stored_blocks(history: Conversation) -> list[Block]:
    """The blocks of the last messages, oldest first, and a line that says how many came before."""
    blocks: list[Block] = []
    if len(history) > MAX_MESSAGES:
        blocks.append(note(f"{len(history) - MAX_MESSAGES:,} earlier messages: /export writes them"))
        history = history[-MAX_MESSAGES:]
    calls: dict[str, CallBlock] = {}
    for message in history:
        match message:
            case UserMessage():
                blocks.append(_asked(message))
            case AssistantMessage():
                blocks += (ReasoningBlock(text=one.text) for one in message.reasoning)
                blocks += _text(message.content or "", bool(blocks))
                for asked in message.tool_calls:
                    call = calls[asked.id] = CallBlock(asked.name)
                    call.arrives(_subject(asked.arguments), asked.status)
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
    return blocks


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
    status: ResultStatus = "ok" if message.ok else "failed"
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


def _subject(arguments: str) -> str:
    """What stands for the subject of a stored call: its arguments, which is all that is stored of it."""
    return "" if arguments.strip() in ("", "{}") else arguments
