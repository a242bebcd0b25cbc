from __future__ import annotations

import math

from sluice.limits import Limits
from sluice.transport.patience import Patience

LIMITS = Limits(connect_seconds=10, first_byte_seconds=300, first_byte_loopback_seconds=600, idle_seconds=60)


def test_each_phase_has_its_own_limit() -> None:
    patience = Patience(LIMITS, "host", 100.0, loopback=False)
    assert (patience.deadline(), patience.error().kind) == (110.0, "connect_timeout")
    patience.sent_at = 101.0
    assert (patience.deadline(), patience.error().kind) == (401.0, "first_byte_timeout")
    patience.byte_at = 102.0
    assert (patience.deadline(), patience.error().kind) == (162.0, "idle_timeout")


def test_a_local_server_is_waited_for_longer() -> None:
    patience = Patience(LIMITS, "host", 0.0, loopback=True)
    patience.sent_at = 0.0
    assert patience.deadline() == 600.0
    assert "first_byte_loopback_seconds" in str(patience.error())


def test_a_pause_of_ours_is_not_silence_of_the_server() -> None:
    patience = Patience(LIMITS, "host", 0.0, loopback=False)
    patience.sent_at = patience.byte_at = 1.0
    patience.paused = True
    assert patience.deadline() == math.inf


def test_a_total_limit_holds_in_every_phase_when_it_is_set() -> None:
    patience = Patience(Limits(total_seconds=30), "host", 0.0, loopback=False)
    assert (patience.deadline(), patience.error().kind) == (10.0, "connect_timeout")
    patience.sent_at = 1.0
    assert (patience.deadline(), patience.error().kind) == (30.0, "total_timeout")
    patience.paused = True
    assert patience.deadline() == 30.0
