"""How long to wait for a server, phase by phase. Pure: times are inputs, in seconds of one steady clock."""

from __future__ import annotations

import math

from sluice.errors import TransportError, TransportFault
from sluice.limits import Limits


class Patience:
    """The phases of one exchange and the limit that holds in each.

    The caller writes the times of what happened: `sent_at` (connected, TLS up, request under way), `byte_at` (the last
    byte of the body, or the end of a pause) and `paused` (the reader is slow: the server's silence is not its own).
    """

    __slots__ = ("begun_at", "byte_at", "limits", "loopback", "paused", "sent_at", "where")

    def __init__(self, limits: Limits, where: str, begun_at: float, *, loopback: bool) -> None:
        self.limits = limits
        self.where = where
        self.loopback = loopback
        self.begun_at = begun_at
        self.sent_at: float | None = None
        self.byte_at: float | None = None
        self.paused = False

    def deadline(self) -> float:
        """The time at which the current phase is too long; infinite while paused without a total limit."""
        return self._now()[0]

    def error(self) -> TransportError:
        """The error for the limit that `deadline` stands for."""
        _, kind, words = self._now()
        return TransportError(kind, words)

    def _now(self) -> tuple[float, TransportFault, str]:
        when, kind, words = self._phase()
        total = self.limits.total_seconds
        if total is not None and self.begun_at + total < when:
            return self.begun_at + total, "total_timeout", f"the answer took longer than total_seconds ({total:g} s)"
        return when, kind, words

    def _phase(self) -> tuple[float, TransportFault, str]:
        limits, where = self.limits, self.where
        if self.paused:
            return math.inf, "idle_timeout", ""
        if self.byte_at is not None:
            seconds = limits.idle_seconds
            return self.byte_at + seconds, "idle_timeout", f"{where} sent nothing for {seconds:g} s amid its answer"
        if self.sent_at is not None:
            name = "first_byte_loopback_seconds" if self.loopback else "first_byte_seconds"
            seconds = limits.first_byte_loopback_seconds if self.loopback else limits.first_byte_seconds
            words = f"{where} sent nothing for {seconds:g} s; raise {name} if the model needs longer"
            return self.sent_at + seconds, "first_byte_timeout", words
        seconds = limits.connect_seconds
        words = f"no connection to {where} within {seconds:g} s; check the base URL, the name server and the network"
        return self.begun_at + seconds, "connect_timeout", words
