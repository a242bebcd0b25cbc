"""What the model has seen of the workspace's files in this session (P16)."""

from __future__ import annotations

from sluice.errors import PathError
from sluice.tools.relative_path import file_parts, visible
from sluice.tools.replacing import stale


class SeenFiles:
    """Path to the SHA-256 of the bytes that a file held when it was last read or written through a tool.

    A path counts by its components, so `./a` is `a`. Another spelling of case is another file, which fails closed on
    file systems that fold case. A partial read counts as a read.
    """

    def __init__(self, digests: dict[str, str] | None = None) -> None:
        self._digests = dict(digests or {})

    def mark(self, path: str, digest: str) -> None:
        """Remembers that the session knows these bytes of `path`."""
        self._digests["/".join(file_parts(path))] = digest

    def forget(self, path: str) -> None:
        """Drops what is known of `path`: it was removed through a tool."""
        self._digests.pop("/".join(file_parts(path)), None)

    def digest(self, path: str) -> str | None:
        """What `path` held when it was last seen, or None if it never was."""
        return self._digests.get("/".join(file_parts(path)))

    def digests(self) -> dict[str, str]:
        """A copy of all that is known, for the session to keep."""
        return dict(self._digests)

    def check(self, path: str, digest: str, *, must_be_seen: bool = True) -> None:
        """Raises `PathError`: `unread` if `path` was never seen, `stale` if it holds something else than was seen.

        With `must_be_seen` false only `stale` is raised: an exact edit proves by its old text what it knows.
        """
        known = self.digest(path)
        if known is None:
            if not must_be_seen:
                return
            shown = visible(path)
            raise PathError("unread", f"{shown} exists and was not read in this session; read it first", shown)
        if known != digest:
            raise stale(path, "its bytes differ")
