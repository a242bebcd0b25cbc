"""The head of a request has one reading or none: attacks on the parser, whole and at every byte."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.tools.proxy_request import ProxyRequest, RefusedError, parse_request


def head(first: str, *headers: str) -> bytes:
    return "\r\n".join([first, *headers, "", ""]).encode("latin-1")


def test_a_tunnel() -> None:
    request = parse_request(head("CONNECT HoSt.org.:443 HTTP/1.1", "Host: evil.example", "Proxy-Authorization: x"))
    assert request == ProxyRequest("host.org", 443, None)


def test_a_plain_request_is_written_anew_for_its_host() -> None:
    request = parse_request(
        head("POST HTTP://A.b:81/x?y HTTP/1.1", "Host: evil.example", "Connection: x-secret, close", "X-Secret: 1",
             "Proxy-Connection: keep-alive", "Content-Length: 5", "X: \xe9")
    )  # fmt: skip
    assert (request.name, request.port, request.body_bytes) == ("a.b", 81, 5)
    assert request.head == (
        b"POST /x?y HTTP/1.1\r\nhost: a.b:81\r\ncontent-length: 5\r\nx: \xe9\r\nconnection: close\r\n\r\n"
    )
    assert (
        parse_request(head("GET http://a.b HTTP/1.0")).head
        == b"GET / HTTP/1.0\r\nhost: a.b\r\nconnection: close\r\n\r\n"
    )
    query = parse_request(head("GET http://[::1]:9?q HTTP/1.1")).head
    assert query is not None
    assert query.startswith(b"GET /?q HTTP/1.1\r\nhost: [::1]:9\r\n")


def test_no_header_named_by_connection_can_take_the_length_away() -> None:
    request = parse_request(head("POST http://a.b/ HTTP/1.1", "Connection: content-length", "Content-Length: 5"))
    assert request.head is not None
    assert b"content-length: 5" in request.head
    assert request.body_bytes == 5


BAD = {
    "nul in the name": head("CONNECT evil\0.host.org:443 HTTP/1.1"),
    "escaped nul": head("CONNECT evil%00.host.org:443 HTTP/1.1"),
    "name with a user": head("GET http://host.org@evil.example/ HTTP/1.1"),
    "user with a password": head("GET http://host.org:80@evil.example/ HTTP/1.1"),
    "backslash": head("GET http://evil.example\\@host.org/ HTTP/1.1"),
    "fragment": head("GET http://evil.example#@host.org/ HTTP/1.1"),
    "no name": head("GET http:///x HTTP/1.1"),
    "origin form": head("GET /x HTTP/1.1", "Host: host.org"),
    "asterisk": head("OPTIONS * HTTP/1.1", "Host: host.org"),
    "https without a tunnel": head("GET https://host.org/ HTTP/1.1"),
    "another scheme": head("GET file:///etc/passwd HTTP/1.1"),
    "tunnel without a port": head("CONNECT host.org HTTP/1.1"),
    "tunnel to an address of a page": head("CONNECT http://host.org:443 HTTP/1.1"),
    "tunnel to two": head("CONNECT host.org:443,evil.example:443 HTTP/1.1"),
    "number for a name": head("CONNECT 2130706433:80 HTTP/1.1"),
    "short address": head("CONNECT 127.1:80 HTTP/1.1"),
    "octal": head("CONNECT 0177.0.0.1:80 HTTP/1.1"),
    "unicode": head("CONNECT b\xfccher.example:443 HTTP/1.1"),
    "two spaces": head("CONNECT  host.org:443 HTTP/1.1"),
    "tab": head("CONNECT\thost.org:443 HTTP/1.1"),
    "version 2": head("CONNECT host.org:443 HTTP/2.0"),
    "version missing": head("CONNECT host.org:443"),
    "lower case": head("connect host.org:443 HTTP/1.1"),
    "line feeds only": b"CONNECT host.org:443 HTTP/1.1\n\n",
    "line feed in a header": head("GET http://a.b/ HTTP/1.1", "X: 1\nHost: evil"),
    "return in a header": head("GET http://a.b/ HTTP/1.1", "X: 1\rHost: evil"),
    "folded header": head("GET http://a.b/ HTTP/1.1", "X: 1", " more"),
    "space before the colon": head("GET http://a.b/ HTTP/1.1", "Content-Length : 5"),
    "header without a colon": head("GET http://a.b/ HTTP/1.1", "X"),
    "nul in a header": head("GET http://a.b/ HTTP/1.1", "X: \0"),
    "two hosts": head("GET http://a.b/ HTTP/1.1", "Host: a.b", "Host: c.d"),
    "two lengths": head("POST http://a.b/ HTTP/1.1", "Content-Length: 5", "Content-Length: 6"),
    "a list of lengths": head("POST http://a.b/ HTTP/1.1", "Content-Length: 5, 5"),
    "a signed length": head("POST http://a.b/ HTTP/1.1", "Content-Length: +5"),
    "chunked": head("POST http://a.b/ HTTP/1.1", "Transfer-Encoding: chunked"),
    "chunked and a length": head("POST http://a.b/ HTTP/1.1", "Content-Length: 5", "Transfer-Encoding: chunked"),
    "tunnel with a body": head("CONNECT a.b:443 HTTP/1.1", "Content-Length: 5"),
    "cut": b"CONNECT host.org:443 HTTP/1.1\r\n",
    "nothing": b"",
    "only an end": b"\r\n\r\n",
    "something else": b"\x16\x03\x01\x02\x00\x01\x00\r\n\r\n",
    "socks": b"\x05\x01\x00\r\n\r\n",
}


@pytest.mark.parametrize("how", BAD)
def test_what_can_be_read_in_two_ways_is_refused(how: str) -> None:
    with pytest.raises(RefusedError) as caught:
        parse_request(BAD[how])
    assert caught.value.status in (400, 501)
    assert caught.value.why.isprintable()


GOOD = head("POST http://a.example:81/x?y HTTP/1.1", "Host: a.example", "Content-Length: 5")


@given(st.integers(0, len(GOOD) - 5), st.integers(0, 255), st.booleans())
def test_one_wrong_byte_leads_to_no_line_of_somebody_elses(at: int, byte: int, inserted: bool) -> None:
    """Whatever is changed: what goes to the server has the shape of one request, and its Host is where it goes."""
    changed = GOOD[:at] + bytes([byte]) + GOOD[at + (not inserted) :]
    try:
        request = parse_request(changed)
    except RefusedError:
        return
    assert request.head is not None
    lines = request.head[:-4].split(b"\r\n")
    assert not any(set(line) & set(b"\r\n\0") for line in lines)
    assert [line for line in lines if line.lower().startswith(b"host:")] == [
        b"host: " + request.name.encode() + (b"" if request.port == 80 else b":%d" % request.port)
    ]


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    for body in (data, data + b"\r\n\r\n", b"CONNECT " + data + b" HTTP/1.1\r\n\r\n"):
        with contextlib.suppress(RefusedError):
            assert parse_request(body).name.isascii()
