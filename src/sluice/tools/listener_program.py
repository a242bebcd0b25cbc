"""Opens a door in a network of one command's own, hands it out to us, and becomes the command (P8).

Run in the network namespace that has no way out. A listening socket belongs to the namespace in which it was made, whoever
holds it: we accept outside what is asked for inside, and no process of ours stays in there. `tools/host_proxy.py` is the
other side. It is run by its path, in isolated mode and without our packages, so that it starts quickly.
"""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Sequence

PROXY_NAMES = ("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy", "ALL_PROXY", "all_proxy")


def main(words: Sequence[str]) -> None:
    """Sends the listening socket through descriptor `words[0]` and becomes the program `words[1]`."""
    with socket.socket(fileno=int(words[0])) as out, socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        socket.send_fds(out, [b"l"], [listener.fileno()])
    os.environ.update(dict.fromkeys(PROXY_NAMES, f"http://127.0.0.1:{port}"))
    os.execv(words[1], list(words[1:]))  # noqa: S606 - the words of a judged call


if __name__ == "__main__":
    main(sys.argv[1:])
