"""Where a request goes and with what: base URL, key, extra headers, CA bundle. No curl, no sockets.

Everything here is checked when the transport is made, so that a typing error is one clear line before anything is sent.
"""

from __future__ import annotations

import ipaddress
import os
import re
import ssl
from collections.abc import Iterable, Mapping
from urllib.parse import SplitResult, urlsplit

from sluice.errors import ConfigurationError
from sluice.transport.faults import one_line
from sluice.values.requests import Request

_SECRET_HEADERS = re.compile(r"auth|key|token|secret|cookie|password", re.IGNORECASE)
_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_VERSION_SEGMENT = re.compile(r"v\d+\w*|api")  # a first segment that users write into the base URL too

# Where the big systems keep their certificates; a bundled libcurl does not know them all.
_SYSTEM_BUNDLES = (
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
)


class Endpoint:
    """A checked base URL with its key and extra headers.

    `url_for` and `headers_for` give what goes on the wire; `where` is the host (and an unusual port) for messages;
    `loopback` says that it never leaves the machine; `secrets` are the texts that must never be shown.
    Raises `ConfigurationError` for anything unusable; no message ever holds the key.
    """

    def __init__(self, base_url: str, api_key: str | None, headers: Mapping[str, str] | None = None) -> None:
        self._parts = _checked_url(base_url)
        self._key = _checked_key(api_key)
        self._extra = tuple((headers or {}).items())
        check_headers(self._extra)
        host = self._parts.hostname or ""
        self.host = host
        self.loopback = is_loopback(host)
        shown = f"[{host}]" if ":" in host else host
        self.where = f"{shown}:{self._parts.port}" if self._parts.port else shown
        hidden = [self._key, *(value for name, value in self._extra if _SECRET_HEADERS.search(name))]
        hidden += [value.partition(" ")[2] for value in hidden if value.startswith(("Bearer ", "Basic "))]
        self.secrets = tuple(sorted({s for s in hidden if s}, key=len, reverse=True))

    def __repr__(self) -> str:
        return f"Endpoint({self.where!r})"

    def url_for(self, path: str) -> str:
        """The address of `path`, which the base URL may already end with, in whole or by its version segment."""
        wanted, _, query = path.partition("?")
        wanted = "/" + wanted.lstrip("/")
        base = self._parts.path.rstrip("/")
        first = wanted.split("/")[1]
        if base.endswith(wanted):
            full = base
        elif _VERSION_SEGMENT.fullmatch(first) and base.endswith("/" + first):
            full = base + wanted[len(first) + 1 :]
        else:
            full = base + wanted
        queries = "&".join(q for q in (self._parts.query, query) if q)
        return self._parts._replace(path=full, query=queries).geturl()

    def headers_for(self, request: Request) -> list[str]:
        """Header lines for `request`: its own, the extra ones (which win), and the key in the request's style."""
        check_headers(request.headers)
        lines = {"content-type": "Content-Type: application/json"}
        auth = {
            "bearer": ("Authorization", f"Bearer {self._key}"),
            "x-api-key": ("x-api-key", self._key),
            "x-goog-api-key": ("x-goog-api-key", self._key),
        }.get(request.auth)
        if auth and self._key:
            lines[auth[0].lower()] = f"{auth[0]}: {auth[1]}"
        for name, value in (*request.headers, *self._extra):
            lines[name.lower()] = f"{name}: {value}" if value else f"{name};"  # curl's spelling of an empty header
        return list(lines.values())

    def redact(self, text: str) -> str:
        """`text` without any secret of this endpoint."""
        for secret in self.secrets:
            text = text.replace(secret, "[key]")
        return text


def is_loopback(host: str) -> bool:
    """Whether `host` (a name or an address without brackets) is this machine."""
    name = host.lower().rstrip(".")
    if name == "localhost" or name.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


def check_headers(headers: Iterable[tuple[str, str]]) -> None:
    """Raises `ConfigurationError` for a header that could not stand on one line; its value is not shown."""
    for name, value in headers:
        if not _HEADER_NAME.fullmatch(name):
            raise ConfigurationError(f"header name {one_line(name, 40)!r} is not usable; use letters, digits and '-'")
        if not value.isascii() or any(ord(c) < 32 or ord(c) == 127 for c in value):
            raise ConfigurationError(f"the value of header {name!r} holds a line end, control or non-ASCII character")


def checked_proxy(proxy: str | None) -> str | None:
    """`proxy` if it can be one (`""`: none at all); raises `ConfigurationError`, which shows no password of it."""
    if proxy and not re.fullmatch(r"[!-~]+", proxy):
        raise ConfigurationError(
            "the proxy is no URL such as http://host:port: it holds a space, control or non-ASCII character"
        )
    scheme, mark, _ = (proxy or "").partition("://")
    if mark and scheme not in {"http", "https", "socks4", "socks4a", "socks5", "socks5h"}:
        raise ConfigurationError(f"the proxy's scheme {one_line(scheme, 40)!r} is unknown; use http, https or socks5h")
    return proxy


def ca_bundle(environ: Mapping[str, str], ca_file: str | None = None) -> str:
    """The path of the CA bundle (a file, or a folder of hashed certificates).

    The first of: `ca_file`, SSL_CERT_FILE, CURL_CA_BUNDLE, REQUESTS_CA_BUNDLE, SSL_CERT_DIR, the system's, certifi's.
    Raises `ConfigurationError` if one that the user named is not there.
    """
    variables = ("SSL_CERT_FILE", "CURL_CA_BUNDLE", "REQUESTS_CA_BUNDLE", "SSL_CERT_DIR")
    for name, path in (("ca_file", ca_file), *((name, environ.get(name)) for name in variables)):
        if path:
            if not os.access(path, os.R_OK):
                raise ConfigurationError(f"{name} names a CA bundle that cannot be read: {one_line(path)}")
            return path
    for path in (ssl.get_default_verify_paths().cafile, *_SYSTEM_BUNDLES):
        if path and os.access(path, os.R_OK):
            return path
    import certifi  # heavy enough to leave alone on the many systems that have a bundle

    return certifi.where()


def _checked_url(base_url: str) -> SplitResult:
    """The parts of a usable base URL; a message about it shows neither userinfo nor query."""
    shown = one_line(re.sub(r"//[^/@]*@", "//…@", base_url).partition("?")[0], 120)
    if not base_url.strip():
        raise ConfigurationError("the base URL is empty; give one such as https://api.openai.com/v1")
    if not base_url.isascii() or re.search(r"[\x00-\x20\x7f\\]", base_url):
        raise ConfigurationError(f"base URL {shown!r} holds a space, control or non-ASCII character")
    try:
        parts = urlsplit(base_url)
        port = parts.port
    except ValueError as error:
        raise ConfigurationError(f"base URL {shown!r} is not a URL: {one_line(str(error))}") from None
    if parts.scheme not in {"http", "https"}:
        hint = "" if "://" in base_url else f"; did you mean http://{shown}?"
        raise ConfigurationError(f"base URL {shown!r} must begin with http:// or https://{hint}")
    if not parts.hostname or port == 0:
        raise ConfigurationError(f"base URL {shown!r} names no {'host' if port != 0 else 'usable port'}")
    if parts.username is not None:
        raise ConfigurationError(f"base URL {shown!r} holds a user name; give the key in SLUICE_API_KEY instead")
    if parts.fragment:
        raise ConfigurationError(f"base URL {shown!r} holds a '#' part, which is never sent; remove it")
    return parts


def _checked_key(api_key: str | None) -> str:
    key = api_key or ""
    if not key.isascii() or any(ord(c) <= 32 or ord(c) == 127 for c in key):
        raise ConfigurationError(
            "the API key holds a space, line end, control or non-ASCII character; check how it was set"
        )
    return key
