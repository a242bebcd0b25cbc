"""What the fault driver did, and what came of it: the table that it prints."""

from __future__ import annotations

from collections import Counter

import msgspec

SHARES = {
    "kill": 0.46,
    "cancel": 0.1,
    "processes": 0.04,
    "corrupt": 0.12,
    "damage": 0.04,
    "full": 0.05,
    "disk": 0.02,
    "system call": 0.1,
    "errno": 0.06,
    "clock": 0.02,
    "schema": 0.02,
    "transcript": 0.01,
    "power": 0.02,
    "edge": 0.02,
    "recovery": 0.02,
    "retry": 0.01,
    "stopped": 0.01,
    "reader": 0.01,
    "question": 0.04,
}


class Figures(msgspec.Struct, kw_only=True):
    """What was done and what came of it. `faults` are lines about promises that did not hold."""

    injected: Counter[str] = msgspec.field(default_factory=Counter)
    survived: Counter[str] = msgspec.field(default_factory=Counter)
    left_out: dict[str, str] = {}
    points: dict[str, int] = {}  # script: how many of its system calls were met by a kill
    repaired: int = 0  # damaged stores that could be repaired
    recoveries: int = 0  # kills that met a session while it was made right
    refused: int = 0  # second processes that were told who holds the session
    in_run: int = 0  # kills that met a running agent with a run begun
    in_stream: int = 0  # kills that met a reply that was arriving
    killed: int = 0
    power: Counter[str] = msgspec.field(default_factory=Counter)  # play: disks built after the power failed in it
    power_moments: int = 0  # syncs and things told after which it may fail, in all plays
    power_least: int = 0  # disks with only what was synced by such a moment
    questions: Counter[str] = msgspec.field(default_factory=Counter)  # what came of calls that a person was asked about
    lost: int = 0  # acknowledged deltas that were not in the store
    twice: int = 0  # calls that had their effect twice
    bricked: int = 0  # sessions that could not be gone on with
    recovery_seconds: float = 0.0  # by the clock on the wall, so with whatever else the machine does
    recovery_cpu: float = 0.0  # seconds
    log_bytes: int = 0
    faults: list[str] = []

    def good(self) -> bool:
        """Whether every promise held."""
        return not self.faults and not (self.lost or self.twice or self.bricked)

    def lines(self) -> list[str]:
        """The figures as lines for people."""
        out = [f"{name:<12} {self.injected[name]:>6} injected {self.survived[name]:>6} survived" for name in SHARES]
        out += [f"!!! NOT DONE: {name}: {why}" for name, why in self.left_out.items()]
        if self.points:
            met = sum(self.points.values())
            out.append(f"system calls at which a script was killed: {met} points in {len(self.points)} scripts")
            out += [f"  {name:<12} {count:>6}" for name, count in sorted(self.points.items())]
        if self.power:
            out.append(f"disks after a power failure: {sum(self.power.values())} of {len(self.power)} plays")
            out.append(
                f"  {self.power_least} with only what was synced, after {self.power_moments} syncs and things told"
            )
            out += [f"  {name:<18} {count:>6}" for name, count in sorted(self.power.items())]
        if self.questions:
            out.append(f"calls that waited for a person: {', '.join(f'{n} {c}' for n, c in self.questions.items())}")
        out += [
            f"kills that met a run at work: {self.in_run} of {self.injected['kill']}, "
            f"a reply that was arriving: {self.in_stream}",
            f"damaged stores repaired: {self.repaired} of {self.injected['damage']}",
            f"kills that met a recovery: {self.recoveries}",
            f"told who holds a session that stands still: {self.refused} of {self.injected['stopped']}",
            f"acknowledged deltas lost: {self.lost}",
            f"tools run twice: {self.twice}",
            f"bricked sessions: {self.bricked}",
            f"worst recovery: {self.recovery_seconds * 1000:.0f} ms, {self.recovery_cpu * 1000:.0f} ms of CPU",
            f"peak write-ahead log: {self.log_bytes / 2**20:.2f} MiB",
        ]
        return [*out, *(f"BROKEN {line}" for line in self.faults[:50])]
