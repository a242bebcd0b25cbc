"""What was said and done, oldest first: one widget that draws the rows that are seen, and nothing else.

Blocks know their rows. The widget keeps where each begins, stays at the end while the person is there and stands still
while the person looks at something above. Its cost is that of the rows on the screen, not that of the conversation.
"""

from __future__ import annotations

import time
from bisect import bisect_right
from collections.abc import Callable
from itertools import accumulate, pairwise

from rich.segment import Segment
from textual import events
from textual.geometry import Size
from textual.scroll_view import ScrollView
from textual.selection import Selection
from textual.strip import Strip
from textual.timer import Timer

from sluice.run.interaction import Event
from sluice.ui.tui.block import Block
from sluice.ui.tui.said_blocks import Kind, note
from sluice.ui.tui.styles import SELECTED
from sluice.ui.tui.transcript_feed import TranscriptFeed

FRAME_SECONDS = 0.04  # between two frames at the least: 25 a second
FRAME_SHARE = 3  # a frame that took long is followed by a pause this many times as long, for keys and the run
STALE_SECONDS = 0.006  # of a frame for exact heights of what is not seen
MAX_BLOCKS = 3000  # more are dropped from the top; they stay in the store
MAX_WEIGHT = 1_500_000  # characters of all blocks, likewise
FRAMES_A_WEIGHING = 16  # frames between two looks at how much there is
MAX_DRAWN = 300  # blocks that keep their rows


class Transcript(ScrollView):
    """Shows every event it `hear`s. `clock` gives monotonic seconds."""

    DEFAULT_CSS = """
    Transcript {
        overflow-x: hidden; overflow-y: scroll; padding: 0 0 0 1;
        scrollbar-size-vertical: 1;
        scrollbar-color: ansi_bright_black; scrollbar-color-hover: ansi_bright_black;
        scrollbar-color-active: ansi_bright_black; scrollbar-background: ansi_default;
        scrollbar-background-hover: ansi_default; scrollbar-background-active: ansi_default;
    }
    """
    can_focus = False

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(id="transcript")
        self.feed = TranscriptFeed(clock)
        self._tops: list[int] = [0]  # the first row of each block, and at the end the number of all rows
        self._laid: list[Block] = []  # the blocks these rows are of
        self._width = 0
        self._following = True
        self._placing = False
        self._timer: Timer | None = None
        self._pause = FRAME_SECONDS
        self._dropped = 0
        self._frames = 0
        self._painted: list[Strip] = []  # the rows on the screen

    # -- what it is told

    def hear(self, event: Event) -> None:
        """Takes one event; it is seen with the next frame."""
        self.feed.hear(event)
        self._wake()

    def say(self, words: str, kind: Kind = "note") -> None:
        """A line of the face's own."""
        self.feed.say(words, kind)
        self._wake()

    def toggle_details(self) -> None:
        """Folds or unfolds reasoning, output and diffs, of what is there and of what comes."""
        self.feed.details = not self.feed.details
        for block in self.feed.blocks:
            block.show_details(self.feed.details)
        self._wake()

    def scroll_pages(self, pages: int) -> None:
        """Scrolls by so many screens, less a row that stays in sight."""
        self.scroll_to(y=self.scroll_offset.y + pages * max(self.size.height - 1, 1), animate=False)

    def scroll_to_end(self) -> None:
        """Goes to the end and stays there."""
        self._following = True
        self._wake()

    @property
    def following(self) -> bool:
        """Whether it stays at the end."""
        return self._following

    # -- frames

    def on_mount(self) -> None:
        """Begins to count run times."""
        super().on_mount()  # type: ignore[no-untyped-call]
        self.set_interval(0.5, self._tick)
        self._wake()

    def _tick(self) -> None:
        if self.feed.tick():
            self._wake()

    def _wake(self) -> None:
        if self._timer is None and self.is_attached:
            self._timer = self.set_timer(self._pause, self._frame)

    def _frame(self) -> None:
        self._timer = None
        began = time.perf_counter()
        anchor = self._anchor()
        more = self.feed.step()
        self._frames += 1
        if self._frames % FRAMES_A_WEIGHING == 0 or len(self.feed.blocks) > MAX_BLOCKS:
            self._drop_oldest()
        more = not self._lay_out(anchor) or more
        self._pause = max(FRAME_SECONDS, (time.perf_counter() - began) * FRAME_SHARE)
        if more:
            self._wake()

    def flush(self) -> None:
        """Makes everything that came visible now."""
        if self._timer is not None:
            self._timer.stop()
        more = True
        while more:
            self._frame()
            more = self._timer is not None
            if self._timer is not None:
                self._timer.stop()
        self._timer = None

    def _anchor(self) -> tuple[Block, int] | None:
        """The block at the top of the screen, and how many of its rows are above; `None` at the end."""
        if self._following or not self._laid:
            return None
        at = min(bisect_right(self._tops, self.scroll_offset.y) - 1, len(self._laid) - 1)
        return self._laid[at], self.scroll_offset.y - self._tops[at]

    def _drop_oldest(self) -> None:
        blocks = self.feed.blocks
        over, weight = len(blocks) - MAX_BLOCKS, sum(block.weight for block in blocks) - MAX_WEIGHT
        if over <= 0 and weight <= 0:
            return
        drop = 1 if self._dropped else 0  # the line that says so
        while drop < len(blocks) - self.feed.draft - 1 and (drop < over + 200 or weight > -MAX_WEIGHT // 10):
            weight -= blocks[drop].weight
            drop += 1
        self._dropped += drop - (1 if self._dropped else 0)
        blocks[:drop] = [note(f"{self._dropped:,} earlier blocks are not kept on the screen; /export writes them all")]

    def _lay_out(self, anchor: tuple[Block, int] | None) -> bool:
        """Finds where each block stands; returns whether every height is exact."""
        width, height = self.scrollable_content_region.width, self.scrollable_content_region.height
        blocks = self.feed.blocks
        if width <= 0:
            return True
        first = blocks.index(anchor[0]) if anchor is not None and anchor[0] in blocks else None
        self._draw_seen(blocks, width, height, first)
        exact = self._draw_stale(blocks, width)
        self._laid = list(blocks)
        self._tops = [0, *accumulate(block.height(width) for block in blocks)]
        self._width = width
        self._placing = True
        size = Size(width, self._tops[-1])
        if size != self.virtual_size:
            # Without the layout of the whole screen that assigning it would bring: only our scrollbar depends on it.
            self.set_reactive(Transcript.virtual_size, size)
            self._scroll_update(size)
        if anchor is None or first is None:
            y = max(self._tops[-1] - height, 0) if self._following else self.scroll_offset.y
        else:
            y = self._tops[first] + min(anchor[1], max(blocks[first].height(width) - 1, 0))
        self.scroll_to(y=y, animate=False, force=True)
        self._placing = False
        self._forget(height)
        self._refresh_changed(height)
        return exact

    def _refresh_changed(self, height: int) -> None:
        """Has those rows of the screen drawn that are others than before."""
        top = self.scroll_offset.y
        rows = [self._row(top + y) for y in range(height)]
        before, self._painted = self._painted, rows
        if len(before) != height:
            self.refresh()
            return
        changed = [y for y, (old, new) in enumerate(zip(before, rows, strict=True)) if old is not new and old != new]
        if changed:
            self.refresh_lines(top + changed[0], changed[-1] - changed[0] + 1)

    def _draw_seen(self, blocks: list[Block], width: int, height: int, first: int | None) -> None:
        rows = 0
        order = range(len(blocks) - 1, -1, -1) if first is None else range(first, len(blocks))
        for at in order:
            rows += len(blocks[at].rows(width))
            if rows > height * 2:
                return

    def _draw_stale(self, blocks: list[Block], width: int) -> bool:
        end = time.perf_counter() + STALE_SECONDS
        for block in reversed(blocks):
            if not block.known(width):
                if time.perf_counter() > end:
                    return False
                block.rows(width)
                block.forget()
        return True

    def _forget(self, height: int) -> None:
        if len(self._laid) <= MAX_DRAWN:
            return
        at = bisect_right(self._tops, self.scroll_offset.y)
        for block in self._laid[: max(at - MAX_DRAWN // 2, 0)]:
            block.forget()
        for block in self._laid[at + MAX_DRAWN // 2 + height :]:
            block.forget()

    def on_resize(self, event: events.Resize) -> None:
        """Begins anew with what is seen; the rest follows."""
        self._wake()

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        """Whether the person is at the end."""
        super().watch_scroll_y(old_value, new_value)
        if not self._placing:
            self._following = new_value >= self.max_scroll_y - 0.5

    def on_click(self, event: events.Click) -> None:
        """Folds or unfolds the block under the mouse."""
        y = event.y + self.scroll_offset.y
        at = bisect_right(self._tops, y) - 1
        if 0 <= at < len(self._laid) and self.text_selection is None:
            block = self._laid[at]
            if block.show_details(not block.details):
                self._wake()

    # -- drawing

    def _row(self, y: int) -> Strip:
        at = bisect_right(self._tops, y) - 1
        if not 0 <= at < len(self._laid):
            return Strip([], 0)
        rows = self._laid[at].rows(self._width)
        inside = y - self._tops[at]
        return rows[inside] if inside < len(rows) else Strip([], 0)

    def render_line(self, y: int) -> Strip:
        """One row of the screen."""
        at = self.scroll_offset.y + y
        row = self._row(at)
        if (selection := self.text_selection) is not None and (span := selection.get_span(at)) is not None:
            row = _selected(row, *span)
        return row.crop_extend(0, self.size.width, self.rich_style).apply_offsets(0, at)

    def get_selection(self, selection: Selection) -> tuple[str, str] | None:
        """The selected text."""
        first = selection.start.y if selection.start is not None else 0
        last = selection.end.y if selection.end is not None else self._tops[-1] - 1
        lines = []
        for y in range(first, min(last, self._tops[-1] - 1) + 1):
            start, end = selection.get_span(y) or (0, -1)
            text = self._row(y).text
            lines.append(text[start:] if end == -1 else text[start:end])
        return "\n".join(lines), "\n"

    def selection_updated(self, selection: Selection | None) -> None:
        """Shows what is selected."""
        self.refresh()


def _selected(row: Strip, start: int, end: int) -> Strip:
    """The row with its characters from `start` to `end` (-1: all) marked."""
    segments: list[Segment] = []
    at = 0
    for text, style, _control in row:
        cuts = sorted({0, len(text), *(min(max(one - at, 0), len(text)) for one in (start, end) if one >= 0)})
        for low, high in pairwise(cuts):
            inside = at + low >= start and (end == -1 or at + high <= end)
            segments.append(Segment(text[low:high], (style + SELECTED if style else SELECTED) if inside else style))
        at += len(text)
    return Strip(segments, row.cell_length)
