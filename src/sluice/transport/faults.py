"""The one seam at which libcurl's error codes become `TransportError`s.

Each code gets a kind and a line that says what happened and what a person can do. Codes are libcurl's own numbers
(`curl/curl.h`, `CURLcode`); they never change, so this module needs no curl.
"""

from __future__ import annotations

import errno
import re
import unicodedata

from sluice.errors import TransportError, TransportFault

_CERTIFICATE = "the certificate of {where} could not be verified; set SSL_CERT_FILE if a private CA signed it"
_HANDSHAKE = "the TLS handshake with {where} failed; does this address speak https?"
_BROKEN = "the connection to {where} broke"
_STRANGE = "{where} answered with something that is not HTTP; check the base URL and its port"

_CODES: dict[int, tuple[TransportFault, str]] = {
    1: ("protocol", _STRANGE),  # UNSUPPORTED_PROTOCOL: also an HTTP/0.9 answer
    3: ("protocol", "libcurl cannot use the address of {where}; check the base URL"),  # URL_MALFORMAT
    5: ("resolve", "the name of the proxy could not be resolved; check HTTPS_PROXY"),  # COULDNT_RESOLVE_PROXY
    6: (
        "resolve",
        "the name {where} could not be resolved; check the base URL and the network",
    ),  # COULDNT_RESOLVE_HOST
    7: ("connect", "could not connect to {where}; check the base URL and the network"),  # COULDNT_CONNECT
    8: ("protocol", _STRANGE),  # WEIRD_SERVER_REPLY
    16: ("broken", _BROKEN),  # HTTP2
    18: ("broken", "the connection to {where} ended before the body did"),  # PARTIAL_FILE
    28: ("connect_timeout", "no connection to {where} in time"),  # OPERATION_TIMEDOUT: only libcurl's own outer limit
    35: ("tls", _HANDSHAKE),  # SSL_CONNECT_ERROR
    51: ("tls", _CERTIFICATE),  # PEER_FAILED_VERIFICATION in old versions
    52: ("broken", "{where} closed the connection without an answer"),  # GOT_NOTHING
    53: ("tls", _HANDSHAKE),  # SSL_ENGINE_NOTFOUND
    54: ("tls", _HANDSHAKE),  # SSL_ENGINE_SETFAILED
    55: ("broken", _BROKEN),  # SEND_ERROR
    56: ("broken", _BROKEN),  # RECV_ERROR
    58: ("tls", _HANDSHAKE),  # SSL_CERTPROBLEM
    59: ("tls", _HANDSHAKE),  # SSL_CIPHER
    60: ("tls", _CERTIFICATE),  # PEER_FAILED_VERIFICATION
    61: ("protocol", "{where} sent a body that cannot be decompressed"),  # BAD_CONTENT_ENCODING
    66: ("tls", _HANDSHAKE),  # SSL_ENGINE_INITFAILED
    77: ("tls", "the CA bundle cannot be read; check SSL_CERT_FILE, CURL_CA_BUNDLE and REQUESTS_CA_BUNDLE"),
    80: ("tls", _HANDSHAKE),  # SSL_SHUTDOWN_FAILED
    82: ("tls", _CERTIFICATE),  # SSL_CRL_BADFILE
    83: ("tls", _CERTIFICATE),  # SSL_ISSUER_ERROR
    90: ("tls", _CERTIFICATE),  # SSL_PINNEDPUBKEYNOTMATCH
    91: ("tls", _CERTIFICATE),  # SSL_INVALIDCERTSTATUS
    92: ("broken", _BROKEN),  # HTTP2_STREAM
    97: ("connect", "the proxy could not reach {where}; check HTTPS_PROXY"),  # PROXY
}

# Codes that mean "no connection" when the operating system says that the peer went away before there was one.
_RESETS = frozenset({errno.ECONNRESET, errno.EPIPE, errno.ECONNABORTED})


def one_line(text: str, limit: int = 300) -> str:
    """`text` on one line of at most `limit` characters, white space folded, control characters visible as `\\xNN`."""
    folded = re.sub(r"[ \t\r\n]+", " ", text).strip()
    shown = "".join(_visible(c) for c in folded[: limit + 1])
    return shown if len(shown) <= limit else shown[: limit - 1] + "…"


def _visible(char: str) -> str:
    """The character, or its escape if it could drive a terminal or turn text around."""
    if unicodedata.category(char) in {"Cc", "Cf", "Cs", "Co", "Zl", "Zp"}:
        return char.encode("unicode_escape", "surrogatepass").decode("ascii")
    return char


def fault_of(code: int, detail: str, where: str, *, os_errno: int = 0, connected: bool = False) -> TransportError:
    """The error for libcurl's `code`.

    `detail` is libcurl's own text, `where` the host (and port) for people, `os_errno` the last error of the operating
    system (0 if none), `connected` whether the request had been sent. Unknown codes are `protocol`.
    """
    kind, words = _CODES.get(code, ("protocol", "the exchange with {where} failed"))
    if code == 7 and (os_errno == errno.ECONNREFUSED or "refused" in detail.lower()):
        return TransportError("refused", f"could not connect to {where}: connection refused; is the server running?")
    if code in {35, 55, 56} and not connected and os_errno in _RESETS:
        kind, words = "connect", "the connection to {where} was reset before it stood"
    if code == 56 and not connected and "CONNECT" in detail:
        kind, words = "connect", "the proxy did not let us through to {where}; check HTTPS_PROXY"
    text = words.format(where=where)
    said = one_line(detail, 160)
    return TransportError(kind, f"{text} (libcurl {code}: {said})" if said else f"{text} (libcurl {code})")
