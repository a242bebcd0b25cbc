"""The list above the input that completes commands, models and files."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from textual.app import ComposeResult
from textual.containers import Vertical

from sluice.run.workspace_files import FileNames
from sluice.ui.tui.matches import Match, Wanted, command_matches, file_matches, wanted, word_matches
from sluice.ui.tui.row_list import RowList
from sluice.ui.tui.styles import DIM, PLAIN

FILES_SECONDS = 15.0  # how long the names of files are taken for true

Files = Callable[[], Awaitable[FileNames]]
Models = Callable[[], Sequence[str]]


class Completion(Vertical):
    """Shown while something completes the word at the cursor. `look` is told what stands before the cursor."""

    DEFAULT_CSS = """
    Completion { height: auto; max-height: 8; display: none; }
    """

    def __init__(self, files: Files | None, models: Models) -> None:
        super().__init__(id="completion")
        self._files = files
        self._models = models
        self._list = RowList(choosing=True)
        self._names: FileNames | None = None
        self._named = 0.0
        self._looking = False
        self._wanted: Wanted | None = None
        self._matches: list[Match] = []
        self._refused: Wanted | None = None

    def compose(self) -> ComposeResult:
        """The list alone."""
        yield self._list

    @property
    def open(self) -> bool:
        """Whether there is something to choose from."""
        return bool(self._matches)

    def look(self, line: str, *, first_line: bool) -> None:
        """Shows what completes the end of `line`, or nothing."""
        want = wanted(line, first_line=first_line)
        if want is not None and self._refused is not None and want.start == self._refused.start:
            want = None  # a list that was closed stays closed for this word
        elif want is None or self._refused is not None:
            self._refused = None
        self._wanted = want
        if want is None:
            self._show([])
        elif want.kind == "command":
            self._show(command_matches(want.typed))
        elif want.kind == "model":
            self._show(word_matches(want.typed, self._models()))
        else:
            self._look_for_files(want)

    def close(self) -> None:
        """Closes the list until another word is begun."""
        self._refused = self._wanted
        self._show([])

    def move(self, by: int) -> None:
        """Chooses another line."""
        self._list.move(by, around=True)

    def chosen(self) -> tuple[Wanted, Match] | None:
        """What is chosen, and what of the line it is for."""
        if not self._matches or self._wanted is None:
            return None
        return self._wanted, self._matches[self._list.chosen]

    def _look_for_files(self, want: Wanted) -> None:
        if self._names is not None:
            self._show(file_matches(want.typed, self._names.paths))
        else:
            self._show([])
        if self._files is None or self._looking or (self._names and time.monotonic() - self._named < FILES_SECONDS):
            return
        self._looking = True
        work: Callable[[], Any] = self._find  # not called yet: a worker that never began leaves nothing unawaited
        self.run_worker(work)

    async def _find(self) -> None:
        assert self._files is not None
        try:
            self._names = await self._files()
        finally:
            self._looking = False
        self._named = time.monotonic()
        if self._wanted is not None and self._wanted.kind == "file":
            self._show(file_matches(self._wanted.typed, self._names.paths))

    def _show(self, matches: list[Match]) -> None:
        if matches == self._matches:
            return
        self._matches = matches
        width = max((len(match.shown) for match in matches if match.words), default=0)
        rows = [((f"{match.shown:<{width}}", PLAIN), (f"  {match.words}", DIM)) for match in matches]
        self._list.show_rows(rows)
        self.display = bool(matches)
