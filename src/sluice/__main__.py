"""The command `sluice`, and `python -m sluice`.

Most of what the program does before it reads its first word is importing. Ctrl-C is followed from before that on: exit
code 130 and no traceback, as later. What comes earlier is Python's own start.
"""

import os
import sys

_INTERRUPTED = 130


def main() -> int:
    """Runs the command line as the whole process; returns the exit code."""
    try:
        import signal  # what takes time is imported here, so that Ctrl-C is heard meanwhile

        ours = signal.getsignal(signal.SIGINT) is signal.default_int_handler
        if ours:  # an exception may come out of an import as another one, or be lost in it
            signal.signal(signal.SIGINT, _leave)
        from sluice.ui.cli import main as command

        if ours:
            signal.signal(signal.SIGINT, signal.default_int_handler)
    except KeyboardInterrupt:  # before `_leave` was there, or just after
        os._exit(_INTERRUPTED)
    return command()


def _leave(*_: object) -> None:
    os._exit(_INTERRUPTED)  # nothing was begun


if __name__ == "__main__":
    sys.exit(main())
