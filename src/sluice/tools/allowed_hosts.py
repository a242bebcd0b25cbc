"""The hosts that commands may reach (P8): how a user writes them, how a command asks for them, and which addresses count.

Names are compared after one normalisation, the same for both sides; what has no single reading is no host. A name never
leads to an address of this machine or its networks: such an address must be listed itself.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable
from dataclasses import dataclass

Address = ipaddress.IPv4Address | ipaddress.IPv6Address

DEFAULT_PORTS = (443, 80)  # of a host that is listed without a port
MAX_HOSTS = 256
_MAX_NAME = 253
_LABEL = re.compile(r"[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?")
_PORT = re.compile(r"[1-9][0-9]{0,4}")
# What a resolver may read as a number: `127.1`, `0x7f000001`, `2130706433`. Only four plain numbers are an address to us.
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")
_CLOUD_SERVICE = "168.63.129.16/32"  # public by its number, by its use a service of the machine's own cloud
_NOT_PUBLIC = tuple(
    ipaddress.ip_network(text)
    for text in (_CLOUD_SERVICE, "192.0.0.0/24", "192.88.99.0/24", "64:ff9b:1::/48", "2001::/23", "fec0::/10")
)
# Forms of IPv6 that carry an address of IPv4, which then decides; how far its lowest bit is from theirs.
_CARRIERS = tuple((ipaddress.IPv6Network(text), shift) for text, shift in (("64:ff9b::/96", 0), ("2002::/16", 80)))


@dataclass(frozen=True)
class Host:
    """One host as a user lists it: a normal name or an address, and a port, or `None` for those of the web."""

    name: str
    port: int | None = None

    def __str__(self) -> str:
        name = f"[{self.name}]" if ":" in self.name else self.name
        return name if self.port is None else f"{name}:{self.port}"

    def covers(self, name: str, port: int) -> bool:
        """Whether a request for this normal name and port is one for this host."""
        return name == self.name and (port in DEFAULT_PORTS if self.port is None else port == self.port)


def parse_host(text: str) -> Host:
    """The host that a user wrote: `NAME`, `NAME:PORT`, an address, `[ADDRESS]:PORT`. Names may hold any letters.

    Raises `ValueError` that says in a few words what is wrong.
    """
    text = text.strip()
    if "://" in text or "/" in text:
        raise ValueError("write the host alone, as in example.org or example.org:443")
    if "*" in text:
        raise ValueError("there are no wildcards; list each host")
    if text.count(":") > 1 and not text.startswith("["):
        return Host(normal_name(f"[{text}]"))  # an address of IPv6 without a port
    name, port = _split(text)
    return Host(normal_name(_ascii_name(name)), port)


def parse_authority(text: str, default_port: int | None) -> tuple[str, int]:
    """Name and port that a command asks for; without a port, `default_port`. Raises `ValueError`."""
    name, port = _split(text)
    port = default_port if port is None else port
    if port is None:
        raise ValueError("the port is missing")
    return normal_name(name), port


def normal_name(name: str) -> str:
    """The one spelling of an ASCII name or an address (IPv6 in brackets, returned without). Raises `ValueError`."""
    if name.startswith("["):
        if not name.endswith("]"):
            raise ValueError("brackets do not close")
        try:
            return str(_unmapped(ipaddress.IPv6Address("" if "%" in name else name[1:-1])))  # a zone is of one machine
        except ValueError:
            raise ValueError("this is no address of IPv6") from None
    lower = name.lower().removesuffix(".")
    labels = lower.split(".")
    if not lower.isascii() or len(lower) > _MAX_NAME or not all(_LABEL.fullmatch(label) for label in labels):
        raise ValueError("this is no host's name")
    if _NUMBER.fullmatch(labels[-1]):
        try:
            return str(ipaddress.IPv4Address(lower))
        except ValueError:
            raise ValueError("this is no address: write four plain numbers") from None
    return lower


def literal(name: str) -> Address | None:
    """The address that a normal name is, if it is one."""
    try:
        return ipaddress.ip_address(name)
    except ValueError:
        return None


def is_public(address: Address) -> bool:
    """Whether an address is out in the internet: not of this machine, its networks, or a cloud's services for it."""
    address = _unmapped(address)
    if isinstance(address, ipaddress.IPv6Address):
        for network, shift in _CARRIERS:
            if address in network:
                return is_public(ipaddress.IPv4Address(int(address) >> shift & 0xFFFFFFFF))
    if any(address in network for network in _NOT_PUBLIC):
        return False
    return address.is_global and not address.is_multicast and not address.is_reserved


def all_public(addresses: Iterable[str]) -> bool:
    """Whether these are addresses, at least one, and all of them public."""
    found = [literal(address) for address in addresses]
    return bool(found) and all(one is not None and is_public(one) for one in found)


def _split(text: str) -> tuple[str, int | None]:
    """Name and port as written."""
    if text.startswith("["):
        name, bracket, rest = text.partition("]")
        name += bracket
    else:
        name, colon, rest = text.partition(":")
        rest = colon + rest
    if not rest:
        return name, None
    if not rest.startswith(":") or not _PORT.fullmatch(rest[1:]) or int(rest[1:]) > 65535:
        raise ValueError("the port is no number from 1 to 65535")
    return name, int(rest[1:])


def _ascii_name(name: str) -> str:
    if name.isascii():
        return name
    try:
        return name.encode("idna").decode("ascii")
    except UnicodeError:
        raise ValueError("this is no host's name") from None


def _unmapped(address: Address) -> Address:
    return getattr(address, "ipv4_mapped", None) or address
