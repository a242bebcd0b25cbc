"""Which session is wanted: words that need no database."""

from __future__ import annotations

from typing import Literal

import msgspec

How = Literal["new", "continue", "resume", "fork"]


class Wish(msgspec.Struct, frozen=True, kw_only=True):
    """Which session is wanted. `id` (or a beginning of it) for `resume` and `fork`; `upto` is a fork's last message."""

    how: How = "new"
    id: str = ""
    upto: int | None = None
