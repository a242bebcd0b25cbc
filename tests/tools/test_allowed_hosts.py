"""Which host is meant: one spelling for each, the same for the user's list and a command's request."""

from __future__ import annotations

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.tools.allowed_hosts import Host, all_public, is_public, normal_name, parse_authority, parse_host


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("HoSt.org", "host.org"),
        ("host.org.", "host.org"),
        (" host.org:8443 ", "host.org:8443"),
        ("bücher.example", "xn--bcher-kva.example"),
        ("BÜCHER.example:80", "xn--bcher-kva.example:80"),
        ("\uff48\uff4f\uff53\uff54.org", "host.org"),  # wide letters
        ("host\u3002org", "host.org"),  # an ideographic full stop
        ("10.0.0.5:8080", "10.0.0.5:8080"),
        ("::1", "[::1]"),
        ("[0:0::1]:80", "[::1]:80"),
        ("[::ffff:127.0.0.1]:80", "127.0.0.1:80"),
        ("localhost", "localhost"),
        ("a_b.example", "a_b.example"),
    ],
)
def test_every_spelling_of_a_host_is_one(written: str, meant: str) -> None:
    assert str(parse_host(written)) == meant
    assert parse_host(meant) == parse_host(written)


@pytest.mark.parametrize(
    "written",
    ["", ".", "..", "*", "*.host.org", "https://host.org", "host.org/x", "user@host.org", "a b", "a\0.b", "a\r\n.b",
     "evil%00.com", "a..b", "-x.com", "x-.com", "x:", "x:0", "x:080", "x:65536", "x:-1", "x:1:2", "x:\u0661", "[::1", "::1]",
     "[fe80::1%eth0]", "127.1", "0x7f.0.0.1", "0x7f000001", "2130706433", "0177.0.0.1", "1.2.3.4.5", "1.2.3", "256.1.1.1",
     "x." * 130, "a" * 64 + ".com", "\ud800.com", "\u202eevil.com"],
)  # fmt: skip
def test_what_has_no_single_reading_is_no_host(written: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse_host(written)


def test_without_a_port_the_web_is_meant_and_with_one_that_alone() -> None:
    assert [parse_host("a.b").covers("a.b", port) for port in (80, 443, 22)] == [True, True, False]
    assert [parse_host("a.b:22").covers("a.b", port) for port in (80, 443, 22)] == [False, False, True]
    for other in ("xa.b", "a.b.c", "b", "a.bc", "www.a.b"):
        assert not parse_host("a.b").covers(other, 443)


def test_a_request_names_its_port_or_has_one() -> None:
    assert parse_authority("A.b.:81", None) == ("a.b", 81)
    assert parse_authority("a.b", 80) == ("a.b", 80)
    with pytest.raises(ValueError, match="port"):
        parse_authority("a.b", None)
    with pytest.raises(ValueError, match="name"):
        parse_authority("bücher.example", 80)  # of a request only ASCII is taken


PRIVATE = (
    "127.0.0.1 127.9.9.9 10.1.1.1 172.16.0.1 192.168.1.1 169.254.169.254 100.100.100.200 0.0.0.0 255.255.255.255 "
    "224.0.0.1 240.0.0.1 168.63.129.16 192.0.0.192 198.18.0.1 192.0.2.1 ::1 :: fe80::1 fc00::1 fd00:ec2::254 fec0::1 "
    "ff02::1 ::ffff:10.0.0.1 64:ff9b::7f00:1 64:ff9b:1::1 2002:7f00:1:: 2002:a9fe:a9fe:: 2001:0:1::1 ::127.0.0.1 2001:db8::1"
)
PUBLIC = "8.8.8.8 1.1.1.1 2606:4700::1111 ::ffff:8.8.8.8 64:ff9b::808:808"


@pytest.mark.parametrize("address", PRIVATE.split())
def test_addresses_of_this_machine_its_networks_and_its_cloud_are_not_public(address: str) -> None:
    assert not is_public(ipaddress.ip_address(address))
    assert not all_public(["8.8.8.8", address])


@pytest.mark.parametrize("address", PUBLIC.split())
def test_addresses_of_the_internet_are(address: str) -> None:
    assert is_public(ipaddress.ip_address(address))
    assert all_public([address])


def test_no_address_is_not_all_public() -> None:
    assert not all_public([])
    assert not all_public(["host.org"])


@given(st.text(max_size=40))
def test_a_normal_name_is_its_own_and_says_nothing_else(text: str) -> None:
    try:
        name = normal_name(text)
    except ValueError:
        return
    assert normal_name(f"[{name}]" if ":" in name else name) == name
    assert name.isascii()
    assert not set(name) & set("/?#@\\ %\0\r\n[]")
    assert str(Host(name, 1)).endswith(":1")
