"""What a path from the model may look like, before any file is touched.

These checks make a refusal clear; they are not the wall. The wall is the open in `beneath.py`.
"""

from __future__ import annotations

import re

from sluice.errors import PathError

MAX_PATH_BYTES = 4095  # bytes: PATH_MAX of Linux less its closing NUL
MAX_NAME_BYTES = 255  # bytes of one component: NAME_MAX of the usual file systems

_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]*://")
_DRIVE = re.compile(r"[A-Za-z]:[\\/]")


def visible(text: str) -> str:
    """`text` on one line: control, bidirectional and other unprintable characters as escapes, cut at 200 characters."""
    shown = text if len(text) <= 200 else text[:200] + "…"
    if shown.isprintable():
        return shown
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in shown)


def relative_parts(path: str) -> tuple[str, ...]:
    """The components of a relative path, `.` and doubled slashes dropped; empty for the workspace itself.

    Nothing is expanded or decoded: `~`, `$(id)` and `%2e` are only characters. A backslash is an ordinary character of
    a POSIX name, but it hides neither `..` nor a root of another system.
    Raises `PathError` with `empty_path`, `nul_in_path`, `not_utf8`, `absolute_path`, `home_path`, `uri_path`,
    `parent_path` or `path_too_long`.
    """
    shown = visible(path)
    if not path:
        raise PathError("empty_path", "the path is empty; give a path relative to the workspace", shown)
    if "\0" in path:
        raise PathError("nul_in_path", f"the path {shown} holds a NUL character", shown)
    try:
        encoded = path.encode()
    except UnicodeEncodeError:
        raise PathError("not_utf8", f"the path {shown} holds half of a surrogate pair", shown) from None
    if path[0] in "/\\" or _DRIVE.match(path):
        raise PathError("absolute_path", f"{shown} is absolute; give a path relative to the workspace", shown)
    if _URI.match(path):
        raise PathError("uri_path", f"{shown} is a URI; give a path relative to the workspace", shown)
    if path == "~" or (path[0] == "~" and "/" in path):
        raise PathError("home_path", f"{shown} points to a home folder; give a path relative to the workspace", shown)
    if ".." in re.split(r"[/\\]", path):
        raise PathError("parent_path", f"{shown} holds '..'; give a path relative to the workspace", shown)
    parts = tuple(part for part in path.split("/") if part not in ("", "."))
    if len(encoded) > MAX_PATH_BYTES or any(len(part.encode()) > MAX_NAME_BYTES for part in parts):
        bounds = f"{MAX_PATH_BYTES} bytes in all and {MAX_NAME_BYTES} a name"
        raise PathError("path_too_long", f"the path {shown} is too long: at most {bounds}", shown)
    return parts


def file_parts(path: str) -> tuple[str, ...]:
    """`relative_parts` of a path that must name a file; also raises `PathError` with `is_directory`."""
    parts = relative_parts(path)
    if not parts or path.endswith(("/", "/.")):
        shown = visible(path)
        raise PathError("is_directory", f"{shown} names a folder, not a file", shown)
    return parts
