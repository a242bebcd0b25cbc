"""The type of healed arguments: the one narrow way in which they may run (W9)."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from sluice.errors import InternalError
from sluice.values.calls import AllowedCall, CallKey, ToolSpec, Verdict, call_digest
from sluice.values.healed import AllowedHealedCall, HealedArguments, allow_healed, healed_digest

_KEY = CallKey("run", 1, 0)
_HEALED = HealedArguments(written='{"path":"a', text='{"path":"a"}')
_SPEC = ToolSpec(name="read", description="", parameters={}, category="read_only", accepts_healed=True)
_VERDICT = Verdict(key=_KEY, digest=healed_digest("read", _HEALED), decision="allow", rule="r")


def _allow(**changes: Any) -> AllowedHealedCall:
    given: dict[str, Any] = {
        "spec": _SPEC,
        "key": _KEY,
        "arguments": _HEALED,
        "verdict": _VERDICT,
        "switched_on": True,
        "schema_valid": True,
    }
    return allow_healed(**(given | changes))


def test_all_conditions_together_allow() -> None:
    assert _allow().arguments is _HEALED


@pytest.mark.parametrize(
    "change",
    [
        {"switched_on": False},
        {"schema_valid": False},
        {"spec": msgspec.structs.replace(_SPEC, accepts_healed=False)},
        {"spec": msgspec.structs.replace(_SPEC, category="mutating")},
        {"spec": msgspec.structs.replace(_SPEC, category="execution")},
        {"verdict": msgspec.structs.replace(_VERDICT, decision="ask")},
        {"verdict": msgspec.structs.replace(_VERDICT, key=CallKey("run", 1, 1))},
        {"verdict": msgspec.structs.replace(_VERDICT, digest=call_digest("read", _HEALED.text))},
        {"arguments": HealedArguments(written='{"path":"b', text='{"path":"b"}')},
    ],
)
def test_each_condition_is_needed(change: dict[str, Any]) -> None:
    with pytest.raises(InternalError):
        _allow(**change)


def test_a_healed_verdict_allows_no_ordinary_call_and_the_other_way_round() -> None:
    with pytest.raises(InternalError):
        AllowedCall(key=_KEY, tool="read", arguments=_HEALED.text, verdict=_VERDICT)
    assert healed_digest("read", _HEALED) != call_digest("read", _HEALED.text)


def test_an_ordinary_call_does_not_take_healed_arguments() -> None:
    with pytest.raises((InternalError, AttributeError)):
        AllowedCall(key=_KEY, tool="read", arguments=_HEALED, verdict=_VERDICT)  # type: ignore[arg-type]
