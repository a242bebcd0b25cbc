"""A second reader of Chat streams, as plain as can be: the whole body at once, `json.loads`, one list of everything.

It knows the rules and none of the code: no typed decode, no incremental framing, no fast path. It answers only for
bodies that are streams of the documented form with an integer index in each call, and says `None` for all others.
"""

from __future__ import annotations

import json
import re
from typing import Any

STOP = {"stop": "end_turn", "tool_calls": "tool_use", "function_call": "tool_use", "length": "max_tokens"}


def naive_read(body: bytes) -> dict[str, Any] | None:
    """Text, reasoning, calls (id, name, arguments) and stop reason; `None` where this reader has no opinion."""
    text = ""
    reasoning = ""
    refused = False
    finish = None
    calls: dict[int, dict[str, str]] = {}
    for block in re.split(rb"\n\n|\r\n\r\n", body.removeprefix(b"\xef\xbb\xbf")):
        data = [line[5:].strip() for line in block.splitlines() if line.startswith(b"data:")]
        if not data:
            continue
        if data == [b"[DONE]"]:
            break
        try:
            value = json.loads(b"\n".join(data))
            if value.get("error") or not isinstance(value.get("choices"), list):
                return None
            for choice in value["choices"]:
                if choice.get("index"):
                    continue
                delta = choice.get("delta") or {}
                refused = refused or bool(delta.get("refusal"))
                text += delta.get("content") or ""
                reasoning += delta.get("reasoning_content") or delta.get("reasoning") or ""
                for entry in delta.get("tool_calls") or []:
                    function = entry.get("function") or {}
                    held = calls.setdefault(entry["index"], {"id": "", "name": "", "arguments": ""})
                    if entry.get("id") and held["id"] not in ("", entry["id"]):
                        return None
                    if function.get("name") and held["name"] not in ("", function["name"]):
                        return None
                    held["id"] = held["id"] or entry.get("id") or ""
                    held["name"] = held["name"] or function.get("name") or ""
                    held["arguments"] += function.get("arguments") or ""
                if choice.get("finish_reason"):
                    if finish not in (None, choice["finish_reason"]):
                        return None
                    finish = choice["finish_reason"]
        except (ValueError, TypeError, AttributeError, KeyError):
            return None
    stop = STOP.get(finish, finish) if finish else None
    return {
        "text": text,
        "reasoning": reasoning,
        "calls": [(c["id"], c["name"], c["arguments"]) for _, c in sorted(calls.items())],
        "stop": "refusal" if refused and stop == "end_turn" else stop,
    }
