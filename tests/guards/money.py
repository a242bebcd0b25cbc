"""Takes each guard of the counting and the shrinking away in turn and looks whether a test turns red. Not part of the suite.

    python tests/guards/money.py [NAME]

Works on a copy of the tree, so nothing here changes. Ends with 1 if a guard could be removed unnoticed.
"""

from __future__ import annotations

import sys

from removal import Guard, main

R, T = "src/sluice/run/", "tests/run/"
CALL, TURN, METER, SUMMARY, SHRINK, SHORT, COMPACT, STAND = (
    R + f"{name}.py"
    for name in (
        "model_call",
        "model_turn",
        "metering",
        "summarising",
        "shrinking",
        "shortening",
        "compacting",
        "stand_in",
    )
)
MONEY, CHILDREN, OUTGROWN, BETWEEN, STAND_IN = (
    T + f"test_{name}.py" for name in ("money", "metering", "outgrown", "compacting", "stand_in")
)
# ruff: noqa: E501
# name: (file, what is there, what takes its place, the tests, and of them those that must notice)
_TABLE = {
    "an attempt that was lost": (CALL, "            self.lost.append(usage)\n", "            pass\n", MONEY, "nothing_was_shown"),
    "one that was refused costs nothing": (CALL, "reader.events and not (isinstance(error, StreamError) and error.kind not in _IN_A_REPLY)", "reader.events", MONEY, "refused_is_not"),
    "lost attempts reach the limits": (TURN, "_for_limits(charge, lost, await scope.used_inside(turn))\n        self._answer(f.Replied", "_for_limits(charge, await scope.used_inside(turn))\n        self._answer(f.Replied", MONEY, "leaves_something_to_spend"),
    "no attempt after the last cent": (CALL, "if (met := self._enough(self.lost)) is not None:", "if (met := None) is not None:", MONEY, "nothing_was_shown_counts_for_the_limits"),
    "what is sent, before it is": (TURN, "reply_began(scope.run, turn, self._sent)", "reply_began(scope.run, turn)", MONEY, "before_it_is_sent"),
    "all that a dead process had sent": ("src/sluice/session/usage.py", "    elif sent:\n", "    elif False:\n", "tests/session/test_usage.py", "all_that_was_sent"),
    "a stopped summary": (TURN, '            await self._tell_used(self.turns, "stopped", charge)\n', "", MONEY, "takes_too_long"),
    "images by what they take": (TURN, "len(self._request.body) - overweight(conversation)", "len(self._request.body)", MONEY, "image"),
    "a broken summary": (SUMMARY, "        used.append(usage_of(answer.partial, sent, whole=False))\n", "        pass\n", MONEY, "a_summary_that_is_none_counts"),
    "a refused summary": (SUMMARY, "        used.append(usage_of(answer, sent))\n", "", MONEY, "a_summary_that_is_none_counts"),
    "lost attempts at a summary": (SUMMARY, "    used += [usage_of(Reply(usage=one), sent, whole=False) for one in call.lost]\n", "", MONEY, "each_attempt_at_a_summary"),
    "what arrived is more than was told": (METER, "max(usage.output_tokens, guess.output_tokens)", "usage.output_tokens", CHILDREN, "broken_reply_used"),
    "a child counts": (METER, "            outer._inside.append(charge)\n", "", CHILDREN, "a_limit_that_a_child_passed"),
    "a grandchild counts": (METER, "            outer._add(charge)\n", "            outer.used += charge\n            outer._budget.spend(charge.tokens, charge.cost)\n", CHILDREN, "grandchildren"),
    "a child stops": (TURN, "        if (refusal := scope.meter.refusal(size)) is not None:\n", "        if (refusal := None) is not None:\n", CHILDREN, "nothing_left"),
    "after the end nobody pays": (METER, "        self._open = False\n", "        pass\n", CHILDREN, "goes_on_after_the_run"),
    "no call after a child's last cent": ("src/sluice/turn/budget.py", "        if (spent := self.spent_out()) is not None:\n            return spent\n", "", CHILDREN, "a_limit_that_a_child_passed"),
    "an unknown part": (METER, "sum(costs) if costs and len(costs) == len(told) else None)", "sum(costs) if costs else None)", MONEY, "one_unknown_part"),
    "nothing may be paid": (METER, "        if (end := self._budget.unpaid(cost)) is not None:\n            return end\n", "", MONEY, "nothing_may_be_paid"),
    "nothing may be paid inside": (METER, " or outer._budget.unpaid(cost)", "", CHILDREN, "nothing_may_be_paid"),
    "a limit met by an estimate says so": ("src/sluice/turn/machine.py", "fact.cost, fact.estimated)\n        self._breaks = 0\n", "fact.cost)\n        self._breaks = 0\n", MONEY, "estimated_is_marked"),
    "the user's words stay": (SHRINK, "StandIn(chosen(words, most // part), summary)", "StandIn((), summary)", STAND_IN, "stay_as_they_were"),
    "the user's words are taken along": (STAND, "            found += earlier.words\n", "            pass\n", STAND_IN, "second_summary"),
    "their lengths say where they end": (STAND, "        end = heading.end() + int(heading[2])\n", "        end = content.index(chr(10) * 2, heading.end())\n", STAND_IN, "read_again"),
    "a user's own message is none": (STAND, ' or message.origin != "host"', "", STAND_IN, "looks_like_one"),
    "fewer words where it is tight": (SHRINK, "_FEWER = (1, 2, 4, 16)", "_FEWER = (1,)", STAND_IN, "refused_only_then"),
    "no larger summary": (SHRINK, "    if measure() >= short:\n", "    if measure() > short:\n", OUTGROWN, "as_large_as"),
    "no summary in vain": (SHRINK, "    if alone > goal:\n", "    if False:\n", OUTGROWN, "alone_too_large"),
    "room for the summary": (SHRINK, "        talk.messages = step(talk.messages, slice(1, None))\n", "        pass\n", OUTGROWN, "no_room"),
    "long words": (SHRINK, "(*_RECENT_RESULTS, *_RECENT_WORDS)", "_RECENT_RESULTS", OUTGROWN, "not_the_session"),
    "the last words stay": (SHORT, "    last = said[-1] if said and spare_last else -1\n", "    last = -1\n", OUTGROWN, "not_the_session or alone_too_large"),
    "a signed call stays": (SHORT, "    if reply.native is not None or any(block.signature or block.redacted for block in reply.reasoning):\n        return reply\n", "", T + "test_shortening.py", "only_its_provider"),
    "the window that is told": ("src/sluice/turn/machine.py", "        told = told_window(fact.message)\n", "        told = None\n", OUTGROWN, "much_smaller"),
    "/compact keeps to the money": (COMPACT, "wanted=True, may_ask=may_ask", "wanted=True", BETWEEN, "alone_pass_a_limit"),
    "/compact keeps to the time": (COMPACT, "timeout=parts.limits.max_seconds", "timeout=None", BETWEEN, "longer_than_a_run"),
    "/compact counts when stopped": (COMPACT, "            told = await _told(talk, parts, told, used, watch)\n", "            told = await _told(talk, parts, told, [], watch)\n", BETWEEN, "stopped_is_paid_for"),
    "a slip of the pen": (R + "config.py", "    require_provider(settings)\n    offline", "    offline", T + "test_models.py", "slip_of_the_pen"),
    "one Ctrl-C": ("src/sluice/ui/headless.py", "if now - self._heard < self._patience:", "if False:", "tests/ui/test_headless.py", "storm"),
    "the key behind a router": ("src/sluice/wire/dialects/reported_cost.py", '    if usage.get("is_byok") is not True:\n', "    if True:\n", "tests/wire/test_reported_cost.py", ""),
}  # fmt: skip

GUARDS = {
    name: Guard(file, text, without, (tests,), select) for name, (file, text, without, tests, select) in _TABLE.items()
}

if __name__ == "__main__":
    sys.exit(main(GUARDS))
