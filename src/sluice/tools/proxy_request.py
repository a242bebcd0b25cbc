"""What a command asks the proxy for (P8): one strict reading of a request's head. What could be read in two ways is refused.

RFC 9112 is the source for the forms: `CONNECT name:port` for a tunnel, and an absolute address for plain HTTP.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from sluice.tools.allowed_hosts import Host, parse_authority

MAX_HEAD_BYTES = 16 * 1024  # of a request's first line and headers; real ones have some hundred
_LINE = re.compile(rb"([A-Z]{1,20}) ([\x21-\x7e]+) (HTTP/1\.[01])")
_HEADER = re.compile(rb"([!#$%&'*+\-.^_`|~0-9A-Za-z]+):[ \t]*([\t\x20-\x7e\x80-\xff]*)")
_LENGTH = re.compile(rb"[0-9]{1,15}")
_PLAIN = b"http://"
# Between two neighbours, so not to be passed on (RFC 9110, 7.6.1); and Host, which is written anew.
_DROPPED = frozenset(b"connection proxy-connection proxy-authorization keep-alive te trailer upgrade host".split())


class RefusedError(Exception):
    """A request that is not served: the status to answer with, and why in one line of ASCII."""

    def __init__(self, status: int, why: str) -> None:
        super().__init__(why)
        self.status = status
        self.why = why


@dataclass(frozen=True)
class ProxyRequest:
    """Where a request goes. A tunnel has no `head`; else it is what the server gets, and `body_bytes` follow it."""

    name: str
    port: int
    head: bytes | None
    body_bytes: int = 0


def parse_request(head: bytes) -> ProxyRequest:
    """The request whose head is `head`, its closing empty line included. Raises `RefusedError`."""
    if not head.endswith(b"\r\n\r\n"):
        raise RefusedError(400, "the head of the request is cut")
    lines = head[:-4].split(b"\r\n")
    first = _LINE.fullmatch(lines[0])
    if first is None:
        raise RefusedError(400, "the first line is no request to a proxy")
    method, target, version = first.groups()
    headers = [_header(line) for line in lines[1:]]
    length = _body_bytes(headers)
    if method == b"CONNECT":
        if length:
            raise RefusedError(400, "a tunnel begins without a body")
        name, port = _authority(target, None)
        return ProxyRequest(name, port, None)
    if target[: len(_PLAIN)].lower() != _PLAIN:
        raise RefusedError(400, "only addresses of http:// are asked for without a tunnel")
    found = re.fullmatch(rb"([^/?#@\\]+)([/?][^#\\]*)?", target[len(_PLAIN) :])
    if found is None:
        raise RefusedError(400, "the address cannot be read in one way only")
    name, port = _authority(found[1], 80)
    path = found[2] or b"/"
    if not path.startswith(b"/"):
        path = b"/" + path
    return ProxyRequest(name, port, _rewritten(method, path, version, headers, Host(name, port)), length)


def _authority(text: bytes, default_port: int | None) -> tuple[str, int]:
    try:
        return parse_authority(text.decode("ascii"), default_port)
    except ValueError as error:
        raise RefusedError(400, f"the host asked for is none: {error}") from None


def _header(line: bytes) -> tuple[bytes, bytes]:
    found = _HEADER.fullmatch(line)
    if found is None:  # also one that goes on from the line before, and one with a lone CR or LF in it
        raise RefusedError(400, "a header is none")
    return found[1].lower(), found[2].rstrip(b" \t")


def _body_bytes(headers: list[tuple[bytes, bytes]]) -> int:
    names = [name for name, _ in headers]
    if b"transfer-encoding" in names:
        raise RefusedError(501, "a body must say its length here")
    if names.count(b"content-length") > 1 or names.count(b"host") > 1:
        raise RefusedError(400, "a header that may stand once stands twice")
    lengths = [value for name, value in headers if name == b"content-length"]
    if lengths and not _LENGTH.fullmatch(lengths[0]):
        raise RefusedError(400, "the length of the body is no number")
    return int(lengths[0]) if lengths else 0


def _rewritten(method: bytes, path: bytes, version: bytes, headers: list[tuple[bytes, bytes]], host: Host) -> bytes:
    """The head for the server. The connection serves this one request, so that no second one can hide behind it."""
    named = {part.strip().lower() for name, value in headers if name == b"connection" for part in value.split(b",")}
    kept = [
        (name, value) for name, value in headers if name not in _DROPPED and name not in named - {b"content-length"}
    ]
    shown = str(Host(host.name)) if host.port == 80 else str(host)
    lines = [
        b" ".join((method, path, version)),
        b"host: " + shown.encode(),
        *(name + b": " + value for name, value in kept),
    ]
    return b"\r\n".join([*lines, b"connection: close", b"", b""])
