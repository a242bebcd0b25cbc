"""`python -m sluice` is the command `sluice`."""

import sys

from sluice.ui.cli import main

if __name__ == "__main__":
    sys.exit(main())
