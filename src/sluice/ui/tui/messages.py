"""What the widgets of the input side ask the app for. Each is posted by a widget and answered by `app.py` alone."""

from __future__ import annotations

from textual.message import Message

from sluice.run.interaction import Allowed


class Submitted(Message):
    """A prompt to send; with `steering` it goes in between two turns of the run that is going."""

    def __init__(self, text: str, steering: bool = False) -> None:
        super().__init__()
        self.text = text
        self.steering = steering


class Edited(Message):
    """The prompt with this number, which waits, is to read otherwise."""

    def __init__(self, number: int, text: str) -> None:
        super().__init__()
        self.number = number
        self.text = text


class TakenBack(Message):
    """The prompt with this number is not to be sent; its text goes back into the input."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number


class Answered(Message):
    """A person's decision on the question `number`; `words` go to the model with a refusal."""

    def __init__(self, number: int, allowed: Allowed, words: str = "") -> None:
        super().__init__()
        self.number = number
        self.allowed: Allowed = allowed
        self.words = words


class CommandGiven(Message):
    """A `/` command, its name without the slash, and what stands after it."""

    def __init__(self, name: str, argument: str = "") -> None:
        super().__init__()
        self.name = name
        self.argument = argument


class CancelWanted(Message):
    """Ctrl-C: the run that is going is to end, and everything is kept."""


class LeaveWanted(Message):
    """The person leaves; what runs is ended and stored first."""


class BackgroundWanted(Message):
    """The command that runs is to go on in the background."""


class TrustAnswered(Message):
    """Whether the files of a folder seen for the first time may be read."""

    def __init__(self, read: bool) -> None:
        super().__init__()
        self.read = read


class SessionChosen(Message):
    """A stored session to go on with; `None` for a new one."""

    def __init__(self, session: str | None) -> None:
        super().__init__()
        self.session = session


class SteerWanted(Message):
    """The prompt with this number, which waits, is to go to the run that is going."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number


class TerminalGone(Message):
    """The terminal has ended: nothing can be read of it any more."""


class TerminalCaughtUp(Message):
    """The terminal took nothing for a while, and what was written meanwhile has been left out."""


class PasteRefused(Message):
    """A paste of so many characters was too long for a prompt; nothing of it is kept."""

    def __init__(self, characters: int) -> None:
        super().__init__()
        self.characters = characters
