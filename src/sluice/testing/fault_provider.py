"""The fake model of the fault driver: what it sends is known by heart, so what is stored can be held to it."""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec

from sluice.testing.replay_server import Body, Received, ReplayServer, parse_fault

NOTE = "note.txt"  # the file that a run with the product's own tools writes
NOTE_LINES = 2000  # of about ten bytes
WRITES = "write_file_safe"
_TOKEN = re.compile(r"<(\d+)\.(\d+)>")


class Provider(ReplayServer):
    """A model that says numbered words, asks for one or two calls, and ends after their results.

    Like the real ones it refuses a conversation in which a call has no result or a result no call.
    """

    def __init__(self, pace_ms: float = 1.0) -> None:
        super().__init__([b"-"], pace_ms=pace_ms)
        self.refused: list[str] = []
        self.harm: list[str] = []  # what happens to the next answers that come after a tool's result; see `Fault`

    def body_for(self, request: Received, number: int) -> Body:
        """See `ReplayServer.body_for`."""
        asked = msgspec.json.decode(request.body)
        messages = asked["messages"]
        problem = unpaired(messages)
        if problem:
            self.refused.append(problem)
            error = {"error": {"message": problem, "type": "invalid_request_error"}}
            return Body((msgspec.json.encode(error),), "application/json", 400)
        last = messages[-1]["role"] == "tool"
        self._fault = parse_fault(f"{self.harm.pop(0)}") if last and self.harm else None
        events = [_event({"content": f"<{number}.{at}>"}) for at in range(12 if last else 24)]
        if not last:
            files = any(tool["function"]["name"] == WRITES for tool in asked.get("tools", ()))
            for at in range(1 + number % 2):
                function = {"name": "effect", "arguments": f'{{"n": "{number}.{at}"}}'}
                if files:
                    note = {"path": NOTE, "content": note_text(f"{number}.{at}")}
                    function = {"name": WRITES, "arguments": msgspec.json.encode(note).decode()}
                events.append(_event({"tool_calls": [{"index": at, "id": f"c{at}", "function": function}]}))
        events.append(_event({}, "stop" if last else "tool_calls"))
        return Body((b"".join([*events, b"data: [DONE]\n\n"]),))


def note_text(word: str) -> str:
    """What the file holds after a call: one line many times over, so that a half of it shows."""
    return f"<{word}>\n" * NOTE_LINES


def whole_note(text: str) -> bool:
    """Whether a file holds what one call wrote, all of it and nothing else."""
    lines = text.splitlines()
    return len(lines) == NOTE_LINES and len(set(lines)) == 1 and text.endswith("\n")


def _event(delta: dict[str, object], finish: str | None = None) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return b"data: " + msgspec.json.encode({"id": "r", "model": "fake", "choices": [choice]}) + b"\n\n"


def unpaired(messages: Sequence[dict[str, object]]) -> str:
    """What is wrong with the calls and results of a conversation as it is sent; empty if nothing is."""
    wanted: list[object] = []
    for message in messages:
        if message["role"] == "tool":
            if message.get("tool_call_id") not in wanted:
                return f"a result for {message.get('tool_call_id')!r}, which was not asked for"
            wanted.remove(message.get("tool_call_id"))
            continue
        if wanted:
            return f"no result for {wanted}"
        calls = message.get("tool_calls") or ()
        wanted = [call["id"] for call in calls] if isinstance(calls, list) else []
    return f"no result for {wanted}" if wanted else ""


def in_order(text: str) -> bool:
    """Whether a stored text is a beginning of what the provider sent: numbered words of one answer, none left out."""
    numbers = _TOKEN.findall(text)
    whole = "".join(f"<{answer}.{at}>" for answer, at in numbers)
    rest = text[len(whole) :]
    following = f"<{numbers[0][0]}.{len(numbers)}>" if numbers else rest
    return (
        text.startswith(whole)
        and following.startswith(rest)
        and [int(at) for _, at in numbers] == list(range(len(numbers)))
        and len({answer for answer, _ in numbers}) <= 1
    )
