"""Tool calls on their way to execution: the tool's declaration, the key, the digest, the verdict.

`AllowedCall` is the only thing an executor takes, and it cannot be made without an allowing verdict for the same key and
digest: "no tool without a verdict" is a property of this type and of the machine's table.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any, Literal

import msgspec

from sluice.errors import InternalError

Category = Literal["read_only", "mutating", "execution"]
Decision = Literal["allow", "ask", "deny"]


class Risk(msgspec.Struct, frozen=True, kw_only=True):
    """Two marks beside the category: does the tool change the repository, can it run code that the repository controls."""

    changes_repository: bool = False
    runs_repository_code: bool = False


class ToolSpec(msgspec.Struct, frozen=True, kw_only=True):
    """A tool as the model and the policy see it.

    `parameters` is a JSON Schema: one inlined object that refuses unknown keys. `max_output_bytes` bounds what its
    result may show (the smaller of it and `limits.max_tool_output_bytes` counts). `timeout_seconds` is what one call may
    take at the most, known before it starts. `subject` names the argument that says what the call will touch.
    """

    name: str
    description: str
    parameters: dict[str, Any]
    category: Category
    risk: Risk = Risk()
    max_output_bytes: int = 16 * 1024
    timeout_seconds: float = 30.0
    subject: str | None = None
    accepts_healed: bool = False


class CallKey(msgspec.Struct, frozen=True, order=True):
    """Where a call stands: run, turn (from 1) and position in the reply (from 0). A provider's id is only data."""

    run: str
    turn: int
    position: int


def call_digest(name: str, arguments: str) -> str:
    """SHA-256, in hex, over the tool's name and its raw arguments: what a verdict and an approval cover."""
    raw = arguments.encode("utf-8", "surrogatepass")
    return hashlib.sha256(name.encode("utf-8", "surrogatepass") + b"\0" + raw).hexdigest()


def place_digest(folder: str, names: Iterable[str]) -> str:
    """SHA-256, in hex, over the working folder and the names of the environment a call would run with."""
    parts = [folder, *sorted(names)]
    return hashlib.sha256(b"\0".join(part.encode("utf-8", "surrogateescape") for part in parts)).hexdigest()


class Grant(msgspec.Struct, frozen=True):
    """A person's yes to one call: it covers exactly this key, digest and place (`place_digest`), and is used once."""

    key: CallKey
    digest: str
    place: str = ""


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """What the policy says of one call. `rule` names the rule it rests on, `missing` the approvals that would allow it."""

    key: CallKey
    digest: str
    decision: Decision
    rule: str
    missing: tuple[str, ...] = ()
    words: str = ""


class AllowedCall(msgspec.Struct, frozen=True, kw_only=True):
    """A call that may run. Raises `InternalError` when made without an allowing verdict for this very call."""

    key: CallKey
    tool: str
    arguments: str
    verdict: Verdict

    def __post_init__(self) -> None:
        v = self.verdict
        if v.decision != "allow" or v.key != self.key or v.digest != call_digest(self.tool, self.arguments):
            raise InternalError(f"no allowing verdict for call {self.key} of {self.tool!r}; it was not run")
