"""Records a session of the real program in a real terminal, as a picture that moves: `docs/assets/session.svg`.

    python scripts/record_session.py            writes it
    python scripts/record_session.py --check    records again, and fails if the last screen says something else

The model is scripted: the demo's exchanges, served over loopback by our own replay server. The terminal is tmux. The
picture has no script, no font and no address in it.
"""

from __future__ import annotations

import html
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from rich.color import ColorParseError
from rich.console import Console
from rich.terminal_theme import MONOKAI
from rich.text import Text

ROOT = Path(__file__).resolve().parent.parent
PICTURE = ROOT / "docs" / "assets" / "session.svg"
SLUICE = Path(sys.executable).with_name("sluice")
COLUMNS, ROWS = 96, 30
PROMPT = "greet.py forgets the last name on its list. Find out why and mend it."
LONGEST_STILL = 2.5  # seconds that one screen stands in the picture
LAST_STILL = 6.0
DEADLINE = 40.0  # seconds until a screen that is waited for must be there
SHAPE = (8.4, 18.0)  # pixels of a character
TEXT = 'font-family="ui-monospace, Menlo, Consolas, monospace" font-size="14"'


class Terminal:
    """A tmux server of our own with one window."""

    def __init__(self, folder: Path, command: str, env: dict[str, str]) -> None:
        self._tmux = ["tmux", "-S", str(folder / "tmux"), "-f", os.devnull]
        self._env = env
        size = ["-x", str(COLUMNS), "-y", str(ROWS)]
        self._run("new-session", "-d", *size, command)

    def _run(self, *words: str) -> str:
        done = subprocess.run([*self._tmux, *words], env=self._env, capture_output=True, text=True, timeout=20)
        return done.stdout

    def type(self, *keys: str) -> None:
        """Presses keys, by tmux's names."""
        self._run("send-keys", *keys)

    def write(self, text: str) -> None:
        """Types a text as it stands."""
        self._run("send-keys", "-l", text)

    def screen(self) -> str:
        """The screen with its colours as escape sequences."""
        return self._run("capture-pane", "-e", "-p")

    def close(self) -> None:
        """Ends the server and what runs in it."""
        self._run("kill-server")


class Recorder:
    """Screens with the seconds that each of them stood."""

    def __init__(self, terminal: Terminal) -> None:
        self._terminal = terminal
        self.frames: list[tuple[float, str]] = []
        self._since = time.monotonic()

    def look(self) -> str:
        """Takes the present screen, if it is another one than the last."""
        screen, now = self._terminal.screen(), time.monotonic()
        if not self.frames or self.frames[-1][1] != screen:
            if self.frames:
                self.frames[-1] = (min(now - self._since, LONGEST_STILL), self.frames[-1][1])
            self.frames.append((LAST_STILL, screen))
            self._since = now
        return plain(screen)

    def until(self, wanted: str) -> None:
        """Looks until the screen says `wanted`, a regular expression."""
        end = time.monotonic() + DEADLINE
        while not re.search(wanted, self.look()):
            if time.monotonic() > end:
                raise SystemExit(f"the screen never said {wanted!r}; it says:\n{plain(self.frames[-1][1])}")
            time.sleep(0.15)


def plain(screen: str) -> str:
    """The screen without colours."""
    return Text.from_ansi(screen).plain


def environment(home: Path) -> dict[str, str]:
    """A user without settings, and a terminal with colours."""
    kept = {key: os.environ[key] for key in ("PATH", "LANG") if key in os.environ}
    return {**kept, "HOME": str(home), "LC_ALL": "C.UTF-8", "COLORTERM": "truecolor", "SHELL": "/bin/sh"}


def record() -> list[tuple[float, str]]:
    """The screens of one session."""
    with tempfile.TemporaryDirectory(prefix="sluice-record-") as folder:
        home = Path(folder)
        workspace = home / "greetings"
        shutil.copytree(ROOT / "demo" / "workspace", workspace)
        env = environment(home)
        names = ["1-look", "2-edit", "3-done"]
        files = [str(ROOT / "demo" / "exchanges" / f"{name}.sse") for name in names]
        command = [str(SLUICE), "replay-server", *files, "--pace", "40"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=env) as server:
            assert server.stdout is not None
            url = server.stdout.readline().strip().removeprefix("listening on ")
            run = f"cd {workspace} && {SLUICE} --base-url {url}/v1 --model scripted-demo --ask"
            terminal = Terminal(home, run, env)
            try:
                return session(terminal)
            finally:
                terminal.close()
                server.terminate()


def session(terminal: Terminal) -> list[tuple[float, str]]:
    """What the person does."""
    recorder = Recorder(terminal)
    recorder.until("scripted-demo")
    for word in re.findall(r"\S+\s*", PROMPT):
        terminal.write(word)
        time.sleep(0.1)
        recorder.look()
    terminal.type("Enter")
    recorder.until(r"(?s)once.*session.*(deny|refuse)")
    time.sleep(1.2)
    recorder.look()
    terminal.type("y")
    recorder.until("nothing was run")
    time.sleep(0.5)
    recorder.look()
    return recorder.frames


def drawn(frames: list[tuple[float, str]]) -> str:
    """The frames as one SVG that moves. Where nothing moves, the last one is seen."""
    width, height = COLUMNS * SHAPE[0] + 24, ROWS * SHAPE[1] + 24
    total = sum(seconds for seconds, _screen in frames)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" {TEXT}>',
        f'<rect width="100%" height="100%" rx="8" fill="{MONOKAI.background_color.hex}"/>',
        '<rect width="0" height="0"><animate id="t" attributeName="x" from="0" to="0" begin="0s;t.end" '
        f'dur="{total:.2f}s"/></rect>',
    ]
    at = 0.0
    for number, (seconds, screen) in enumerate(frames):
        last = number == len(frames) - 1
        move = '<set attributeName="display" to="{}" begin="t.begin+{:.2f}s" dur="{:.2f}s"/>'
        moves = move.format("none", 0.0, at) if last else move.format("inline", at, seconds)
        shown = "inline" if last else "none"
        parts.append(f'<g display="{shown}">{moves}{"".join(rows(screen))}</g>')
        at += seconds
    return "\n".join([*parts, "</svg>"]) + "\n"


def rows(screen: str) -> list[str]:
    """The runs of equal style of a screen, as backgrounds and texts."""
    console = Console(width=COLUMNS, color_system="truecolor", force_terminal=True, legacy_windows=False)
    made = []
    for row, line in enumerate(screen.split("\n")[:ROWS]):
        column = 0
        for segment in Text.from_ansi(line).render(console, end=""):
            x, y = 12 + column * SHAPE[0], 12 + row * SHAPE[1]
            wide = segment.cell_length
            column += wide
            style = segment.style
            front, back = colours(style)
            if back:
                made.append(
                    f'<rect x="{x:g}" y="{y:g}" width="{wide * SHAPE[0]:g}" height="{SHAPE[1]:g}" fill="{back}"/>'
                )
            if segment.text.strip():
                bold = ' font-weight="bold"' if style is not None and style.bold else ""
                made.append(
                    f'<text x="{x:g}" y="{y + 13.5:g}" fill="{front}"{bold} textLength="{wide * SHAPE[0]:g}" '
                    f'xml:space="preserve">{html.escape(segment.text)}</text>'
                )
    return made


def colours(style: object) -> tuple[str, str | None]:
    """Front and back of a style; the back is `None` where it is the terminal's own."""
    front, back = MONOKAI.foreground_color.hex, None
    color, bgcolor = getattr(style, "color", None), getattr(style, "bgcolor", None)
    try:
        if color is not None and not color.is_default:
            front = color.get_truecolor(MONOKAI).hex
        if bgcolor is not None and not bgcolor.is_default:
            back = bgcolor.get_truecolor(MONOKAI, foreground=False).hex
    except ColorParseError:
        pass
    if getattr(style, "reverse", False):
        front, back = back or MONOKAI.background_color.hex, front
    return front, back


def words(svg: str) -> list[str]:
    """What the last screen of a picture says, figures left out: they differ from run to run."""
    last = svg.rpartition("<g ")[2]
    texts = [html.unescape(text) for text in re.findall(r">([^<]+)</text>", last)]
    return re.findall(r"[^\W\d_]{3,}", " ".join(texts))


def main() -> int:
    """Writes the picture, or compares with it."""
    new = drawn(record())
    if "--check" not in sys.argv[1:]:
        PICTURE.parent.mkdir(parents=True, exist_ok=True)
        PICTURE.write_text(new, "utf-8")
        return 0
    if words(new) == words(PICTURE.read_text("utf-8")):
        return 0
    print("the recorded session is not what the program shows now: python scripts/record_session.py")
    return 1


if __name__ == "__main__":
    sys.exit(main())
