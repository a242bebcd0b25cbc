"""Events to blocks: what the transcript shows of a run, and of a stored conversation."""

from __future__ import annotations

from collections.abc import Callable

from sluice.run.interaction import Event, PromptBegan, SessionOpened
from sluice.ui.tui.block import Block
from sluice.ui.tui.call_block import CallBlock
from sluice.ui.tui.home_path import from_home
from sluice.ui.tui.markdown_stream import MarkdownStream
from sluice.ui.tui.reasoning_block import ReasoningBlock
from sluice.ui.tui.said_blocks import Kind, PromptBlock, note
from sluice.ui.tui.stored_blocks import stored_blocks
from sluice.values import notices as n
from sluice.values.money import dollars


class TranscriptFeed:
    """Takes events with `hear`, and makes blocks of what came in `step`, which the screen calls once a frame.

    `blocks` are all blocks, oldest first; the last `draft` of them stand for a message that is still arriving.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self.blocks: list[Block] = []
        self.draft = 0
        self.running: list[CallBlock] = []
        self.details = False
        self._clock = clock
        self._text: MarkdownStream | None = None
        self._reasoning: ReasoningBlock | None = None
        self._calls: dict[tuple[int, int], CallBlock] = {}  # by turn and arrival, then by turn and -1 - position
        self._waiting: list[CallBlock] = []  # of the session that was opened: they are asked about by its next run
        self._turn_said = self._turn_text = False
        self._failed = ""  # what went wrong last; what follows says whether it ended the run
        self._noted = False  # the last block is a line of the host's own
        self._started: tuple[object, ...] = ()

    # -- frames

    def step(self) -> bool:
        """Makes blocks of the text that has come; returns whether more of it waits."""
        if self._text is None:
            return False
        made = self._text.step()
        self._replace_draft(made.finished, made.open)
        return made.more

    def tick(self) -> bool:
        """Lets the run times grow; returns whether any call runs."""
        for call in self.running:
            call.ticks(self._clock())
        return bool(self.running)

    def add(self, block: Block) -> None:
        """Appends a block below everything that has come."""
        self._end_text()
        self._noted = False
        block.details = block.foldable and self.details
        self.blocks.append(block)

    def _replace_draft(self, finished: list[Block], drafted: list[Block]) -> None:
        if self.draft:
            del self.blocks[-self.draft :]
        self.blocks += finished
        self.blocks += drafted
        self.draft = len(drafted)

    def _end_text(self) -> None:
        if self._text is not None:
            self._text.end()
            while self.step():
                pass
            self._text = None

    # -- events

    def hear(self, event: Event) -> None:
        """Takes one event; cheap for the small ones."""
        match event:
            case n.TextNotice():
                self._hear_text(event.text)
            case n.ReasoningNotice():
                if self._reasoning is None:
                    self._reasoning = ReasoningBlock(self._clock())
                    self.add(self._reasoning)
                self._reasoning.feed(event.text)
            case n.ReasoningEnded():
                self._end_reasoning()
            case n.TurnStarted():
                self._goes_on()
                if event.continues:
                    self._turn_text = True  # a line end at its beginning belongs to the text
                else:
                    self._end_reply()
                    self._turn_said = self._turn_text = False
            case n.TurnFinished():
                self._end_reasoning()
                if event.stop_reason != "max_tokens":  # else the next turn may go on with this very text
                    self._end_text()
                if not self._turn_said and event.stop_reason is not None:
                    self.say("the model returned nothing: no text and no call")
            case PromptBegan():
                self._end_reply()
                self.add(PromptBlock(event.text, steering=event.steering))
            case SessionOpened():
                self._open(event)
            case n.RunStarted() | n.RunFinished():
                self._hear_run(event)
            case n.Waiting() | n.Warned() | n.Failed() | n.Summarised():
                self._hear_notice(event)
            case _:
                self._hear_call(event)

    def say(self, words: str, kind: Kind = "note", *, gap: bool = False) -> None:
        """A line of the host's own; those that follow one another stand close together."""
        self._end_text()
        self.add(note(words, kind, gap=(gap or not self._noted) and bool(self.blocks)))
        self._noted = True

    def _hear_text(self, text: str) -> None:
        if not self._turn_text:
            self._turn_text = True
            # One leading newline of a reply's first text is an artefact of chat templates (U7).
            text = text.removeprefix("\r\n") if text.startswith("\r\n") else text.removeprefix("\n")
        if not text:
            return
        self._noted = False
        self._end_reasoning()
        self._turn_said = self._turn_said or not text.isspace()
        if self._text is None:
            self._text = MarkdownStream(begun=bool(self.blocks))
        self._text.feed(text)

    def _end_reasoning(self) -> None:
        if self._reasoning is not None:
            self._reasoning.end(self._clock())
            self._reasoning = None

    def _end_reply(self) -> None:
        self._end_text()
        self._end_reasoning()

    def _hear_call(self, event: Event) -> None:
        now = self._clock()
        match event:
            case n.CallIntended():
                self._begin_call(event.turn, event.arrival, event.tool)
            case n.CallIntent():
                self._begin_call(event.turn, event.arrival, event.tool).intends(event.subject)
            case n.CallProgressed():
                self._begin_call(event.turn, event.arrival, event.tool).grows(event.size, event.name, event.tail)
            case n.CallArrived():
                if not event.turn and self._waiting:  # it stands there already
                    self._calls[event.turn, event.arrival] = self._waiting.pop(0)
                call = self._begin_call(event.turn, event.arrival, event.tool)
                call.arrives(event.subject, event.status)
                self._calls[event.turn, -1 - event.position] = call
            case n.CallWithdrawn():
                known = self._calls.get((event.turn, event.arrival))
                if known is None or not known.over:
                    call = self._begin_call(event.turn, event.arrival, event.tool)
                    call.withdrawn(event.reason)
                    self._end_call(call)
            case n.CallJudged():
                self._placed(event.turn, event.position, event.tool).judged(event.decision, event.rule)
            case n.CallStarted():
                call = self._placed(event.turn, event.position, event.tool)
                call.starts(now, event.healed)
                self.running.append(call)
            case n.CallFinished():
                call = self._placed(event.turn, event.position, event.tool)
                call.finishes(event.result, event.seconds)
                self._end_call(call)
            case _:
                pass  # what other widgets show

    def _begin_call(self, turn: int, arrival: int, tool: str) -> CallBlock:
        call = self._calls.get((turn, arrival))
        if call is None or call.over:
            self._turn_said = True
            self._end_reasoning()
            call = self._calls[turn, arrival] = CallBlock(tool)
            self.add(call)
        return call

    def _placed(self, turn: int, position: int, tool: str) -> CallBlock:
        call = self._calls.get((turn, -1 - position))
        if call is None:
            call = self._calls[turn, -1 - position] = CallBlock(tool)
            self.add(call)
        return call

    def _end_call(self, call: CallBlock) -> None:
        if call in self.running:
            self.running.remove(call)

    def _hear_notice(self, event: n.Waiting | n.Warned | n.Failed | n.Summarised) -> None:
        match event:
            case n.Waiting():
                words = f"{event.reason}; trying again in {event.seconds:.1f} s (attempt {event.attempt} failed)"
                self.say(words, "warning")
            case n.Warned():
                self.say(event.message, "note" if event.expected else "warning")
            case n.Failed():
                self._goes_on()
                self._failed = event.message
            case n.Summarised():
                self._goes_on()
                why = f" ({event.message})" if event.message else ""
                if event.ok:
                    words = f"context shrunk from {event.before:,} to {event.after:,} bytes{why}"
                    self.say(f"{words}; nothing stored was lost")
                else:
                    self.say(f"the context could not be shrunk and is as it was{why}", "warning")

    def _goes_on(self) -> None:
        """What went wrong did not end the run: it is no error, and what ends the run is said once."""
        failed, self._failed = self._failed, ""
        if failed:
            self.say(f"{failed}; going on")

    def _say_failed(self) -> str:
        """Says what went wrong last, if it was not said; returns its words."""
        failed, self._failed = self._failed, ""
        if failed:
            self.say(failed, "error")
        return failed

    def _hear_run(self, event: n.RunStarted | n.RunFinished) -> None:
        if isinstance(event, n.RunStarted):
            self._calls.clear()
            self._say_failed()
            shown = (event.model, event.workspace, event.tools, event.blocked)
            if shown != self._started:
                self._started = shown
                blocked = f", blocked: {', '.join(event.blocked)}" if event.blocked else ""
                tools = f"{len(event.tools)} tools{blocked}" if event.tools else "no tools"
                mode = "" if event.mode == "real" else f" ({event.mode})"
                self.say(f"{event.model}{mode} in {from_home(event.workspace)}, {tools}", gap=True)
            return
        self._end_reply()
        self.running.clear()
        self._calls.clear()
        failed = self._say_failed()
        if event.message and event.outcome != "completed" and event.message != failed:
            self.say(f"{event.outcome}: {event.message}", "warning" if event.outcome == "cancelled" else "error")
        if not event.saved:
            self.say(f"not saved: {event.unsaved or 'the end of this run'}", "error")
        if lost := event.extra.get("unsaved_messages"):
            here = f"{_count(lost, 'message')} of this run {'is' if lost == 1 else 'are'} in memory only"
            self.say(f"{here}, until you leave the session: /export FILE writes all of it", "error")
        parts = [event.outcome.replace("_", " "), _count(event.turns, "turn"), _count(event.tool_calls, "call")]
        if event.seconds >= 0.05:
            parts.append(f"{event.seconds:.1f} s")
        if event.cost is not None:
            parts.append(dollars(event.cost, estimated=event.usage.estimated))
        self.say(" · ".join(parts), "good" if event.exit_code == 0 else "note", gap=True)

    def _open(self, event: SessionOpened) -> None:
        self._end_reply()
        self.running.clear()
        self._calls.clear()
        self._failed = ""
        self._started = ()
        self.blocks[:] = stored_blocks(event.history, event.subjects)
        self.draft = 0
        self._waiting = [block for block in self.blocks if isinstance(block, CallBlock) and not block.over]
        for block in self.blocks:
            block.show_details(self.details)
        if event.history:
            self.say(f"going on with session {event.session}", gap=True)


def _count(number: int, word: str) -> str:
    return f"{number} {word}" if number == 1 else f"{number} {word}s"
