"""Arguments that we closed after the model was cut off, and the one way in which they may run (W9).

`ToolCall.arguments` and `AllowedCall.arguments` are text that a model wrote. A healed text is not: it has a type of its
own, so that nothing that takes arguments takes it. `allow_healed` is the only maker of an `AllowedHealedCall`, and each
condition of the exception is checked there and nowhere else.
"""

from __future__ import annotations

import msgspec

from sluice.errors import InternalError
from sluice.values.calls import AllowedCall, CallKey, ToolSpec, Verdict, call_digest


class HealedArguments(msgspec.Struct, frozen=True, kw_only=True):
    """`written` is what the model wrote, `text` the closed JSON object made of it. To be shown as healed."""

    written: str
    text: str


class HealedCall(msgspec.Struct, frozen=True):
    """The call at this position of a reply, with its arguments closed. It allows nothing by itself."""

    position: int
    arguments: HealedArguments


class AllowedHealedCall(msgspec.Struct, frozen=True, kw_only=True):
    """A healed call of a read-only tool that may run. Made by `allow_healed` only; it is no `AllowedCall`.

    Raises `InternalError` when made without an allowing verdict over the healed digest of this very call.
    """

    key: CallKey
    spec: ToolSpec
    arguments: HealedArguments
    verdict: Verdict

    def __post_init__(self) -> None:
        v = self.verdict
        if not self.spec.accepts_healed or self.spec.category != "read_only":
            raise InternalError(f"the tool {self.spec.name!r} does not take healed arguments; it was not run")
        if v.decision != "allow" or v.key != self.key or v.digest != healed_digest(self.spec.name, self.arguments):
            raise InternalError(f"no allowing verdict for healed call {self.key} of {self.spec.name!r}; it was not run")

    @property
    def tool(self) -> str:
        """The tool's name."""
        return self.spec.name


StartedCall = AllowedCall | AllowedHealedCall
"""What is recorded as started. Only the executor tells the two apart, by two methods."""


def healed_digest(name: str, arguments: HealedArguments) -> str:
    """What a verdict over a healed call covers, in hex: never equal to the digest of a call that arrived whole."""
    return call_digest("healed\0" + name, arguments.text)


def allow_healed(
    spec: ToolSpec, key: CallKey, arguments: HealedArguments, verdict: Verdict, *, switched_on: bool, schema_valid: bool
) -> AllowedHealedCall:
    """The narrow way. `switched_on` is the user's own switch, never the workspace's; `schema_valid` the schema's answer.

    Raises `InternalError` if any condition of the exception is missing.
    """
    if not switched_on:
        raise InternalError("healed arguments are switched off; the call was not run")
    if not schema_valid:
        raise InternalError("healed arguments that the schema refuses; the call was not run")
    return AllowedHealedCall(key=key, spec=spec, arguments=arguments, verdict=verdict)
