"""The faces for programs: every notice as a line of JSON, or one JSON object at the end.

The notices of `sluice.values.notices` are the schema; their `v` is its version. `stream-json` also holds those of early
intent: `call_intended`, `call_intent`, `call_progress` and `call_withdrawn` name a call by `arrival`, and `call_arrived`
says which `position` that is.
"""

from __future__ import annotations

import json
from typing import Any, BinaryIO

import msgspec

from sluice.ui.visible import json_escaped
from sluice.values.notices import CallArrived, CallFinished, Notice, RunFinished


class StreamJsonFace:
    """`--output stream-json`: one notice a line, flushed, nothing else on standard output."""

    def __init__(self, out: BinaryIO) -> None:
        self._out = out

    def show(self, notice: Notice) -> None:
        """Writes one notice as one line."""
        self._out.write(as_json(notice) + b"\n")
        self._out.flush()

    def close(self) -> None:
        """Nothing is open between notices."""


class JsonFace:
    """`--output json`: the `run_finished` notice and the list of `calls`, as one object when the run has ended."""

    def __init__(self, out: BinaryIO) -> None:
        self._out = out
        self._calls: dict[tuple[int, int], dict[str, Any]] = {}

    def show(self, notice: Notice) -> None:
        """Keeps what the object needs; writes it at the end of the run."""
        if isinstance(notice, CallArrived):
            call = {"id": notice.id, "arguments": notice.arguments, "status": notice.status}
            self._call(notice).update(call)
        elif isinstance(notice, CallFinished):
            self._call(notice).update(result=notice.result, seconds=notice.seconds)
        elif isinstance(notice, RunFinished):
            self._out.write(as_json({**msgspec.to_builtins(notice), "calls": list(self._calls.values())}) + b"\n")
            self._out.flush()

    def close(self) -> None:
        """Nothing is open between notices."""

    def _call(self, notice: CallArrived | CallFinished) -> dict[str, Any]:
        key = (notice.turn, notice.position)
        return self._calls.setdefault(key, {"turn": key[0], "position": key[1], "tool": notice.tool})


def as_json(value: object) -> bytes:
    """The value as JSON in one line.

    Characters that a terminal would obey or hide are escaped, and so is text that is no Unicode (lone surrogates), which
    is therefore never refused.
    """
    try:
        encoded = msgspec.json.encode(value)
    except UnicodeEncodeError:
        return json.dumps(msgspec.to_builtins(value), separators=(",", ":")).replace("\x7f", "\\u007f").encode("ascii")
    return json_escaped(encoded.decode("utf-8")).encode("utf-8")
