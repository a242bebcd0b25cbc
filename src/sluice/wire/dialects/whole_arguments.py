"""Arguments of dialects in which a call comes whole, as a JSON object inside of an event.

They are kept as the server wrote them wherever that can be had: a second form would lose keys that are there twice.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import msgspec


def arguments_text(value: Any, written: bytes | msgspec.Raw | None, count: Callable[[str], None]) -> str:
    """The text of a call's arguments; `written` are the bytes of `value` in its event, if they are known.

    Arguments that are themselves a string of JSON are that string, and are counted as `string_arguments`.
    """
    if value is None:
        return ""
    if isinstance(value, str):
        count("string_arguments")
        return value
    if written is not None:
        try:
            return bytes(written).decode()
        except UnicodeDecodeError:
            pass
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
