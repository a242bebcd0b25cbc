from __future__ import annotations

import errno
from typing import get_args

import pycurl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.errors import TransportFault
from sluice.transport.faults import fault_of, one_line


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (pycurl.E_COULDNT_RESOLVE_HOST, "resolve"),
        (pycurl.E_COULDNT_RESOLVE_PROXY, "resolve"),
        (pycurl.E_COULDNT_CONNECT, "connect"),
        (pycurl.E_OPERATION_TIMEDOUT, "connect_timeout"),
        (pycurl.E_SSL_CONNECT_ERROR, "tls"),
        (pycurl.E_PEER_FAILED_VERIFICATION, "tls"),
        (pycurl.E_SSL_CACERT_BADFILE, "tls"),
        (pycurl.E_PARTIAL_FILE, "broken"),
        (pycurl.E_GOT_NOTHING, "broken"),
        (pycurl.E_RECV_ERROR, "broken"),
        (pycurl.E_SEND_ERROR, "broken"),
        (pycurl.E_HTTP2, "broken"),
        (pycurl.E_UNSUPPORTED_PROTOCOL, "protocol"),
        (pycurl.E_BAD_CONTENT_ENCODING, "protocol"),
        (pycurl.E_OUT_OF_MEMORY, "protocol"),
    ],
)
def test_the_numbers_are_those_of_libcurl(code: int, kind: str) -> None:
    assert fault_of(code, "", "host", connected=True).kind == kind


@given(st.integers(0, 120), st.text(max_size=400), st.integers(0, 140), st.booleans())
def test_every_code_gives_a_known_kind_and_one_line(code: int, detail: str, os_errno: int, connected: bool) -> None:
    error = fault_of(code, detail, "host:1", os_errno=os_errno, connected=connected)
    assert error.kind in get_args(TransportFault)
    assert "\n" not in str(error)
    assert f"libcurl {code}" in str(error) or error.kind == "refused"


def test_a_refused_connection_says_what_to_do() -> None:
    error = fault_of(7, "Failed to connect", "127.0.0.1:9", os_errno=errno.ECONNREFUSED)
    assert error.kind == "refused"
    assert str(error) == "could not connect to 127.0.0.1:9: connection refused; is the server running?"


def test_a_reset_before_the_request_is_a_connection_error() -> None:
    assert fault_of(35, "reset", "h", os_errno=errno.ECONNRESET).kind == "connect"
    assert fault_of(56, "reset", "h", os_errno=errno.ECONNRESET, connected=True).kind == "broken"
    assert fault_of(56, "CONNECT tunnel failed, response 407", "h").kind == "connect"


@given(st.text())
def test_one_line_is_one_short_printable_line(text: str) -> None:
    shown = one_line(text, 50)
    assert len(shown) <= 50
    assert not any(ord(c) < 32 or ord(c) == 127 for c in shown)


def test_one_line_makes_terminal_control_visible() -> None:
    assert one_line("a\x1b[31m\nb\u202e") == "a\\x1b[31m b\\u202e"
