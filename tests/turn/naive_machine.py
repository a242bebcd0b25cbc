"""A second machine, written as a plain sequential program over full histories: slow, and independent of the first.

It shares the words (facts and commands) with the real one, and no rule. Nothing here is a table: a run is a generator
that yields commands and is sent facts, and a wish to stop is an exception.
"""

from __future__ import annotations

from collections import Counter

from sluice.limits import Limits
from sluice.turn import facts as f
from sluice.values.calls import CallKey
from sluice.values.messages import KNOWN_STOP_REASONS, Reply, ToolCall
from sluice.values.results import ToolResult


class Stop(Exception):
    """The run was cancelled."""


class Record:
    """What came of one call."""

    def __init__(self, key: CallKey, call: ToolCall, fit: bool, cut: bool) -> None:
        self.key, self.call, self.fit, self.cut = key, call, fit, cut
        self.category = ""
        self.refusal: str | None = None  # status word of a refusal that is decided
        self.stage = "fresh"
        self.status: str | None = None
        self.result: ToolResult | None = None  # of a tool, or of a rejection or denial
        self.end_turn = False
        self.taken_up = False  # from a run before: it is asked about whatever the verdict
        self.known = False  # it has its result from there


class Naive:
    def __init__(self, run: str, limits: Limits, can_ask: bool) -> None:
        self.run, self.limits, self.can_ask = run, limits, can_ask
        self.past: list[list[Record]] = []
        self.asked = 0
        self.out: list[object] = []
        self.bills: list[tuple[int, float | None]] = []  # tokens and dollars of every answer of the model
        self.stopping = False
        self.prompt = False  # a prompt waits until what was taken up is settled
        self.decided: str | None = None  # an end that is known; a later wish to stop does not change it

    # One fact in, a list of what is done out. Refusals and Judge, Check orders are not shown: only what matters outside.
    def program(self):
        first = yield []
        try:
            outcome = (yield from self.taken_up(first)) if isinstance(first, f.Reopened) else None
            outcome = outcome or (yield from self.turns())
        except Stop:
            outcome = self.decided or "cancelled"
        self.stopping = True
        self.out.append("EndJobs")
        yield from self.fact(f.JobsEnded)
        self.out.append(("Finish", outcome))
        while True:
            yield self.flush()

    def flush(self):
        out, self.out = self.out, []
        return out

    def fact(self, *kinds):
        while True:
            fact = yield self.flush()
            if isinstance(fact, f.Cancelled):
                if not self.stopping:
                    self.stopping = True
                    raise Stop
            elif isinstance(fact, kinds):
                return fact

    def taken_up(self, fact: f.Reopened):
        """The calls that a run before left open; then the prompt, if there is one."""
        left, self.prompt = fact.waiting, fact.prompt
        trusted = left.stop_reason in KNOWN_STOP_REASONS and left.stop_reason != "aborted"
        records = []
        for at, (call, result) in enumerate(zip(left.calls, left.results, strict=True), left.first):
            r = Record(CallKey(left.run, left.turn, at), call, trusted and call.status == "whole", call.status == "cut")
            r.taken_up, r.known = result is None, result is not None
            if result is not None:
                r.stage, r.result, r.status, r.fit = "ran", result, result.status, True
                r.end_turn = result.end_turn
            elif not fact.can_ask and r.fit:
                r.refusal = "skipped"
            records.append(r)
        self.asked = sum(r.taken_up for r in records)
        self.past.append(records)
        can_ask, self.can_ask = self.can_ask, fact.can_ask
        ended = yield from self.calls(records, self.asked)
        self.can_ask = can_ask
        if ended:
            return ended
        if not self.prompt:
            return "loop" if self.going_round() else None
        self.out.append("KeepPrompt")
        yield from self.fact(f.Asked)
        self.prompt = False
        return None

    def turns(self):
        breaks = goes_on = 0
        asked = self.asked
        turn = 0
        while True:
            turn += 1
            if turn > self.limits.max_turns:
                return "limit:turns"
            if self.poor():
                return self.poor()
            self.out.append(("Prepare", turn))
            ready = yield from self.fact(f.Prepared)
            if ready.context_bytes > 200 * 1024:
                self.out.append("Summarise")
                try:
                    smaller = yield from self.fact(f.Summarised)
                except Stop:
                    self.out.append("StopModel")
                    yield from self.fact(f.Summarised)
                    raise
                self.bills.append((smaller.tokens, smaller.cost))
                if self.poor():
                    return self.poor()
                if not smaller.ok or smaller.context_bytes > 200 * 1024:
                    return "limit:context"
                ready = smaller
            retried = False
            while True:
                self.out.append(("CallModel", turn))
                try:
                    answer = yield from self.fact(f.Replied, f.ModelFailed)
                except Stop:
                    self.out.append("StopModel")
                    answer = yield from self.fact(f.Replied, f.ModelFailed)
                    yield from self.give_up(self.records(turn, answer))
                    raise
                if getattr(answer, "code", None) != "context_overflow" or answer.partial is not None or retried:
                    break
                retried = True
                self.bills.append((answer.tokens, answer.cost))
                if self.poor():
                    return self.poor()
                self.out.append("Summarise")
                try:
                    smaller = yield from self.fact(f.Summarised)
                except Stop:
                    self.out.append("StopModel")
                    yield from self.fact(f.Summarised)
                    raise
                self.bills.append((smaller.tokens, smaller.cost))
                if self.poor():
                    return self.poor()
                if not smaller.ok or smaller.context_bytes > min(200 * 1024, ready.context_bytes * 3 // 4):
                    return "limit:context"
                ready = smaller
            records = self.records(turn, answer)
            self.bills.append((answer.tokens, answer.cost))
            asked += len(records)
            self.past.append(records)
            broken = isinstance(answer, f.ModelFailed)
            breaks = breaks + 1 if broken else 0
            if not broken and answer.reply.stop_reason == "aborted":
                self.stopping = True
                yield from self.give_up(records)
                return "cancelled"
            outcome, longer = None, False
            if broken:
                if getattr(answer, "code", None) == "context_overflow" and answer.partial is None:
                    outcome = "limit:context"
                elif answer.kind != "incomplete":
                    outcome = "provider_error"
                elif answer.partial is None or breaks > 1:
                    outcome = "incomplete"
            elif not records:
                outcome = {
                    "max_tokens": "limit:output_tokens",
                    "content_filter": "failed",
                    "refusal": "failed",
                    "pause": None,
                }.get(answer.reply.stop_reason, "completed")
                text = answer.reply.text
                longer = (
                    outcome == "limit:output_tokens"
                    and text.strip() != ""
                    and turn < self.limits.max_turns
                    and goes_on < self.limits.max_continuations
                    and not self.says_it_again(text)
                )
                outcome = None if longer else outcome
            if broken and goes_on and answer.partial is None and outcome in ("provider_error", "incomplete"):
                outcome = "limit:output_tokens"
            goes_on = goes_on + 1 if longer else 0
            self.decided = outcome
            ended = yield from self.calls(records, asked)
            if outcome or ended:
                return outcome or ended
            if self.only_blocked(-1) and len(self.past) > 1 and self.only_blocked(-2):
                return "blocked"
            if self.going_round():
                return "loop"

    def says_it_again(self, text: str) -> bool:
        """The end of a text is one piece, at least eight times, over at least 400 characters."""
        end = text[-4096:].rstrip()
        return any(
            end.endswith(end[-size:] * times)
            for size in range(1, len(end) // 8 + 1)
            for times in [max(8, -(-400 // size))]
            if size * times <= len(end)
        )

    def poor(self) -> str:
        tokens, dollars = sum(t for t, _ in self.bills), sum(c for _, c in self.bills if c)
        if self.limits.max_tokens_total is not None and tokens >= self.limits.max_tokens_total:
            return "limit:tokens_total"
        if self.limits.max_cost is not None and 0 < dollars >= self.limits.max_cost:
            return "limit:cost"
        return ""

    def records(self, turn: int, answer) -> list[Record]:
        broken = isinstance(answer, f.ModelFailed)
        one = (answer.partial or Reply()) if broken else answer.reply
        trusted = not broken and one.stop_reason in KNOWN_STOP_REASONS and one.stop_reason != "aborted"
        return [
            Record(CallKey(self.run, turn, at), c, trusted and c.status == "whole", broken or c.status == "cut")
            for at, c in enumerate(one.tool_calls)
        ]

    # -- the calls of one reply

    def calls(self, records: list[Record], asked: int):
        try:
            return (yield from self.one_by_one(records, asked))
        except Stop:
            yield from self.give_up(records)
            raise

    def one_by_one(self, records: list[Record], asked: int):
        if sum(not r.known for r in records) > self.limits.max_tool_calls_per_turn:
            self.decided = self.decided or "limit:tool_calls_per_turn"
            yield from self.skip(records)
            return "limit:tool_calls_per_turn"
        if records and asked > self.limits.max_total_tool_calls:
            self.decided = self.decided or "limit:total_tool_calls"
            yield from self.skip(records)
            return "limit:total_tool_calls"
        if records and self.poor():
            self.decided = self.decided or self.poor()
            yield from self.skip(records)
            return self.poor()
        for r in [r for r in records if r.fit and not r.refusal and not r.known]:
            r.stage = "asked"
        while any(r.stage == "asked" for r in records):
            fact = yield from self.fact(f.Checked, f.Rejected)
            r = self.of(records, fact.key)
            r.stage = "fresh"
            if isinstance(fact, f.Rejected):
                r.refusal, r.result = fact.result.status, fact.result
            else:
                r.category = fact.category
        at = 0
        while at < len(records):
            if records[at].known:
                self.out.append(("Release", records[at].key, records[at].status))
                ended = self.ends(records[at])
                if ended or not records[at].result.ok:
                    return (yield from self.skip(records[at + 1 :], ended)) or ended
                at += 1
                continue
            group = self.group(records, at)
            if group[0].refusal == "skipped":
                yield from self.refuse(group)
                at += 1
                continue
            if group[0].refusal or not group[0].fit:
                yield from self.refuse([group[0]])
                ended = self.ends(group[0])
                return (yield from self.skip(records[at + 1 :], ended)) or ended
            ended = yield from self.do(group, records)
            at += len(group)
            if ended is not None:
                left = [r for i, r in enumerate(records) if r.status is None or (r.known and i >= at)]
                ended = (yield from self.skip(left, ended)) or ended
                for r in left:
                    ended = ended or (self.ends(r) if r.status == "blocked" else None)
                return ended or None
        return None

    def of(self, records: list[Record], key: CallKey) -> Record:
        return next(r for r in records if r.key == key)

    def group(self, records: list[Record], at: int) -> list[Record]:
        till = at
        while till < len(records) and records[till].category == "read_only" and not records[till].refusal:
            if records[till].known:
                break
            till += 1
        return records[at : max(till, at + 1)]

    def do(self, group: list[Record], records: list[Record]):
        """Runs a group. `None`: go on; "": the turn is over; else the outcome."""
        for r in group:
            r.stage = "judged"
        verdicts: dict[CallKey, f.Judged] = {}
        while len(verdicts) < len(group):
            verdict = yield from self.fact(f.Judged)
            verdicts[verdict.key] = verdict
        go: list[Record] = []
        no: Record | None = None
        for r in group:
            verdict, refused = verdicts[r.key], False
            if (verdict.decision == "ask" or (r.taken_up and verdict.decision != "deny")) and self.can_ask:
                self.out.append(("Ask", r.key))
                said = yield from self.fact(f.Answered)
                if said.granted:
                    verdict = yield from self.fact(f.Judged)
                else:
                    r.end_turn, refused = not said.words, True
            if refused or verdict.decision != "allow":
                no = r
                r.refusal = "blocked"
                break
            go.append(r)
        if go and self.poor():  # by what agents inside the calls before used
            self.decided = self.decided or self.poor()
            return self.poor()
        if go:
            for r in go:
                r.stage = "running"
            self.out.append(("RunTools", tuple(r.key for r in go)))
        bad = False
        outcome = None
        shown = 0
        while shown < len(go):
            ran = yield from self.fact(f.Ran)
            self.bills.append((ran.tokens, ran.cost))
            r = self.of(records, ran.key)
            r.stage, r.result, r.status, r.end_turn = "ran", ran.result, ran.result.status, ran.result.end_turn
            while shown < len(go) and go[shown].status is not None:
                self.out.append(("Release", go[shown].key, go[shown].status))
                outcome = outcome or self.ends(go[shown])
                bad = bad or not go[shown].result.ok
                shown += 1
        if no is not None and not bad and not outcome:
            yield from self.refuse([no])
            return self.ends(no) or ""
        return (outcome or "") if bad or outcome else None

    def refuse(self, some: list[Record]):
        for r in some:
            r.stage = "refusing"
            r.refusal = r.refusal or "invalid"
        yield from self.refusals(some)

    def refusals(self, some: list[Record], ended=None):
        """Shows the refusals in order, and what is known already in its place; how the run ends by the latter."""
        while True:
            while some and some[0].status is not None:
                self.out.append(("Release", some[0].key, some[0].status))
                ended = ended or (self.ends(some[0]) if some[0].known else None)
                some = some[1:]
            if not some:
                return ended
            fact = yield from self.fact(f.Refused)
            for r in some:
                if r.key == fact.key:
                    r.status = r.refusal

    def skip(self, some: list[Record], ended=None):
        for r in some:
            if r.known:
                continue
            r.refusal = "blocked" if r.refusal == "blocked" else "skipped"
            r.stage = "refusing"
        return (yield from self.refusals(list(some), ended))

    def give_up(self, records: list[Record]):
        self.stopping = True
        shown = [r for r in records if r.status is None or r.stage == "ran"]
        for r in records:
            if r.stage == "running":
                self.out.append(("StopTool", r.key))
            elif r.stage not in ("ran", "refusing") and r.status is None:
                r.refusal, r.stage = "cancelled", "refusing"
        first = next((i for i, r in enumerate(records) if r.status is None), len(records))
        shown = records[first:]
        while True:
            while shown and shown[0].status is not None:
                self.out.append(("Release", shown[0].key, shown[0].status))
                shown = shown[1:]
            if not shown:
                return
            fact = yield from self.fact(f.Ran, f.Refused)
            r = self.of(records, fact.key)
            r.status = fact.result.status if isinstance(fact, f.Ran) else r.refusal

    # -- judgements over the whole past

    def ends(self, now: Record) -> str | None:
        """How the run ends by this result; by nothing while a prompt waits."""
        outcome = None if self.prompt else self.ending(now)
        self.decided = self.decided or outcome
        return outcome

    def ending(self, now: Record) -> str | None:
        text = now.call.arguments
        if now.cut and not now.fit:
            heads = [r for turn in self.past for r in turn if r.cut and not r.fit and r.status == "invalid"]
            same = [r for r in heads if r.call.name == now.call.name and r.call.arguments[:256] == text[:256]]
            return "loop" if len(same) >= 3 else None
        if now.result is not None and now.result.failure == "fatal" and now.status != "blocked":
            return "failed"
        before: list[Record] = []
        for turn in self.past:
            for r in turn:
                if r is now or r.status is None or r.status == "skipped" or (r.cut and not r.fit):
                    continue
                if r.key.run == now.key.run and r.key.turn == now.key.turn and r.key.position > now.key.position:
                    continue
                if r.status == "ok" and r.category in ("mutating", "execution"):
                    before = [b for b in before if b.status == "blocked"]
                before.append(r)
        same = {
            (b.key.run, b.key.turn)
            for b in before
            if (b.call.name, b.status, b.call.arguments) == (now.call.name, now.status, text)
        }
        if now.status != "ok" and same and (now.key.run, now.key.turn) not in same:
            return "blocked" if now.status == "blocked" else "failed"
        if now.end_turn:
            return {"ok": "completed", "blocked": "blocked"}.get(now.status or "", "failed")
        return None

    def only_blocked(self, index: int) -> bool:
        reached = [r.status for r in self.past[index] if r.status != "skipped"]
        return bool(reached) and set(reached) == {"blocked"}

    def going_round(self) -> bool:
        counts: Counter[object] = Counter()
        for turn in self.past[-10:]:
            did = [
                (r.call.name, r.call.arguments, r.status, r.result and (r.result.content, r.result.error)) for r in turn
            ]
            counts.update(
                {repr(d) for d in did if d[2] != "skipped"}
                | ({repr(did[0]) if len(did) == 1 else repr(did)} if did else set())
            )
        return any(n > 5 for n in counts.values())
