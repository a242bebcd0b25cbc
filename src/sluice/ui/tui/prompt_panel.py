"""The input as a whole: what completes it, what is being edited, the mark and the text."""

from __future__ import annotations

from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.widgets import Static

from sluice.run.prompt_history import PromptHistory
from sluice.ui.tui.completion import Completion, Files, Models
from sluice.ui.tui.prompt_area import PromptArea


class PromptPanel(Vertical):
    """Holds the `PromptArea` as `area`."""

    DEFAULT_CSS = """
    PromptPanel { height: auto; padding: 0 0 0 1; }
    PromptPanel #editing { height: 1; text-style: bold; display: none; }
    PromptPanel Horizontal { height: auto; }
    PromptPanel #mark { width: 2; height: 1; text-style: bold; color: ansi_blue; }
    """

    def __init__(
        self, history: PromptHistory | None = None, files: Files | None = None, models: Models = tuple
    ) -> None:
        super().__init__()
        self._completion = Completion(files, models)
        self.area = PromptArea(history or PromptHistory(None), self._completion)

    def compose(self) -> ComposeResult:
        """From above: the completion, a line while a waiting prompt is edited, the text."""
        yield self._completion
        yield Static("", id="editing", markup=False)
        with Horizontal():
            yield Static("› ", id="mark", markup=False)
            yield self.area

    def on_prompt_area_editing_changed(self, message: PromptArea.EditingChanged) -> None:
        """Says what Enter will do."""
        line = self.query_one("#editing", Static)
        line.display = message.number is not None
        if message.number is not None:
            line.update(f"editing waiting prompt {message.number}: Enter keeps it, Esc leaves it as it was")
