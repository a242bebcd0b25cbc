"""What the terminal face costs: from a key to the screen while a reply arrives, and memory over a long session.

    python bench/tui.py [--seconds 10]

The face runs as a program of its own on a pseudo-terminal, with a conversation of 5 MB and 200 deltas a second. A key is
written to the terminal, and the time taken until its character comes back in what the face draws. The target is 50 ms.
Then a scripted session of many runs is played, and the resident memory printed as it goes on.
"""

from __future__ import annotations

import argparse
import asyncio
import fcntl
import os
import pty
import resource
import select
import statistics
import struct
import subprocess
import sys
import termios
import time

TRANSCRIPT_BYTES = 5_000_000
DELTAS_A_SECOND = 200
FIRST_KEY = 0x4E00  # keys are different Chinese characters, so that each is seen once


def child(seconds: float) -> None:
    """The face with a script; its terminal is the parent's."""
    from sluice.run.interaction import SessionOpened
    from sluice.testing.scripted_interaction import ScriptedInteraction, finished
    from sluice.ui.tui.app import TerminalFace
    from sluice.ui.tui.showing import show_face
    from sluice.values.messages import AssistantMessage, UserMessage
    from sluice.values.notices import TextNotice

    paragraph = "Some words of a **long** answer with `code` in it, and then some more of them.\n\n" * 100
    pair = (UserMessage("go on"), AssistantMessage(content=paragraph))
    history = pair * (TRANSCRIPT_BYTES // len(paragraph))

    def deltas() -> list[object]:
        script: list[object] = []
        for number in range(int(seconds * DELTAS_A_SECOND)):
            script += [
                TextNotice(turn=1, text=f"token{number % 97} " + ("\n\n" if number % 60 == 59 else "")),
                1 / DELTAS_A_SECOND,
            ]
        return [*script, finished()]

    async def main() -> None:
        interaction = ScriptedInteraction(deltas())  # type: ignore[arg-type]
        interaction.tell(SessionOpened(session="s", history=history))
        interaction.submit("begin")
        await show_face(TerminalFace(interaction))

    asyncio.run(main())


def keys(seconds: float) -> list[float]:
    """Seconds from a key to its character on the screen, one for each key."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
    program = subprocess.Popen(
        [sys.executable, __file__, "--child", "--seconds", str(seconds + 5)],
        stdin=slave, stdout=slave, stderr=slave, start_new_session=True,
        env={**os.environ, "TERM": "xterm-256color"},
    )  # fmt: skip
    os.close(slave)
    times: list[float] = []
    try:
        read_until(master, b"token40", 30.0)
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            key = chr(FIRST_KEY + len(times)).encode()
            began = time.monotonic()
            os.write(master, key)
            read_until(master, key, 5.0)
            times.append(time.monotonic() - began)
            read_for(master, 0.05 + 0.037 * (len(times) % 3))
    finally:
        program.terminate()
        read_for(master, 0.5)
        program.kill()
        program.wait()
        os.close(master)
    return times


def read_until(terminal: int, wanted: bytes, patience: float) -> None:
    """Returns when these bytes have been read. Raises `TimeoutError`."""
    seen = b""
    end = time.monotonic() + patience
    while wanted not in seen:
        ready, _, _ = select.select([terminal], [], [], max(end - time.monotonic(), 0))
        if not ready:
            raise TimeoutError(f"{wanted!r} was not drawn within {patience} s; last: {seen[-300:]!r}")
        seen = seen[-64:] + os.read(terminal, 65536)


def read_for(terminal: int, seconds: float) -> None:
    """Reads what is drawn for so long."""
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0:
        if select.select([terminal], [], [], left)[0]:
            try:
                os.read(terminal, 65536)
            except OSError:
                return


def memory(runs: int) -> list[tuple[int, float]]:
    """Resident megabytes after so many runs, in a process of its own."""
    done = subprocess.run(
        [sys.executable, __file__, "--memory", str(runs)], check=True, capture_output=True, text=True
    )  # fmt: skip
    rows = [line.split() for line in done.stdout.splitlines() if line.strip()]
    return [(int(row[0]), float(row[1])) for row in rows]


def play(runs: int) -> None:
    """Plays runs to a face without a terminal and prints the memory, ten times."""
    from sluice.testing.scripted_interaction import ScriptedInteraction, finished
    from sluice.ui.tui.app import TerminalFace
    from sluice.values import notices as n
    from sluice.values.results import ToolResult

    def run(number: int) -> list[n.Notice]:
        script: list[n.Notice] = [n.TurnStarted(run=f"r{number}", turn=1)]
        script += [n.TextNotice(turn=1, text=f"word {number} {at} ") for at in range(300)]
        script += [n.TextNotice(turn=1, text="\n\n- item\n" * 20)]
        for at in range(5):
            script.append(n.CallIntended(turn=1, arrival=at, id=f"c{at}", tool="bash"))
            arrived = {"id": f"c{at}", "tool": "bash", "arguments": "{}", "status": "whole", "subject": "make"}
            script.append(n.CallArrived(turn=1, position=at, arrival=at, **arrived))  # type: ignore[arg-type]
            result = ToolResult(ok=True, status="ok", tool="bash", content="output\n" * 2000)
            script.append(n.CallFinished(turn=1, position=at, id=f"c{at}", tool="bash", result=result))
        return [*script, finished()]

    async def main() -> None:
        interaction = ScriptedInteraction()
        app = TerminalFace(interaction)
        async with app.run_test(size=(120, 40)) as pilot:
            for number in range(1, runs + 1):
                interaction.tell(*run(number))
                while not interaction._events.empty():
                    await asyncio.sleep(0)
                app.transcript.flush()
                await pilot.pause()
                if number % max(runs // 10, 1) == 0:
                    print(number, resident(), flush=True)
            await interaction.close()

    asyncio.run(main())


def resident() -> float:
    """Megabytes now, where the system tells; else the most there ever were."""
    try:
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * resource.getpagesize() / 1e6
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3


def main() -> None:
    """Prints the figures."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--runs", type=int, default=600)
    parser.add_argument("--child", action="store_true")
    parser.add_argument("--memory", type=int, default=0)
    given = parser.parse_args()
    if given.child:
        child(given.seconds)
        return
    if given.memory:
        play(given.memory)
        return
    times = sorted(one * 1000 for one in keys(given.seconds))
    at = {name: times[min(int(len(times) * share), len(times) - 1)] for name, share in (("median", 0.5), ("95%", 0.95))}
    print(f"key to screen, 5 MB conversation, {DELTAS_A_SECOND} deltas/s, {len(times)} keys:")
    shown = {**at, "worst": times[-1], "mean": statistics.mean(times)}
    print("  " + "   ".join(f"{name} {value:.1f} ms" for name, value in shown.items()))
    print("memory over a scripted session (runs: resident MB):")
    print("  " + "   ".join(f"{runs}: {size:.0f}" for runs, size in memory(given.runs)))


if __name__ == "__main__":
    main()
