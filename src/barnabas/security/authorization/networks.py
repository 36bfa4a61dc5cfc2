"""Networks as the host of an ACL: ``10.0.0.0/8``, ``2001:db8::/32`` (KIP-1276).

Bits of the address behind the prefix are ignored, as Kafka ignores them.

Source: Kafka's ``CidrUtils``.
"""

from __future__ import annotations

import re
from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network

_V4 = re.compile(r"(\d{1,3})\.(\d{1,3})\.(\d{1,3})\.(\d{1,3})/(\d{1,2})", re.ASCII)
_V6 = re.compile(r"([^/]+)/(\d{1,3})", re.ASCII)
_NETWORKS_KEPT = 4096


def is_network(host: str) -> bool:
    """Whether an ACL's host is written as a network, right or wrong."""
    return "/" in host


def network_of(text: str) -> IPv4Network | IPv6Network:
    """The network. Raises ``ValueError`` with a sentence."""
    try:
        return _network_v6(text) if ":" in text else _network_v4(text)
    except ValueError as error:
        raise ValueError(f"Invalid CIDR notation '{text}': {error}") from None


def _network_v4(text: str) -> IPv4Network:
    found = _V4.fullmatch(text)
    if found is None:
        raise ValueError("it is not ADDRESS/PREFIX")
    *octets, prefix = map(int, found.groups())
    if max(octets) > 255 or prefix > 32:
        raise ValueError("a number is too large")
    return IPv4Network((bytes(octets), prefix), strict=False)


def _network_v6(text: str) -> IPv6Network:
    found = _V6.fullmatch(text)
    if found is None:
        raise ValueError("it is not ADDRESS/PREFIX")
    address = IPv6Address(_plain(found[1]))
    if address.ipv4_mapped is not None:
        raise ValueError("an IPv4 address is written as one")
    return IPv6Network((int(address), int(found[2])), strict=False)


def _plain(text: str) -> str:
    """An address of version 6 without brackets and zone."""
    if text.startswith("[") and text.endswith("]"):
        text = text[1:-1]
    return text.partition("%")[0]


@lru_cache(_NETWORKS_KEPT)
def _known_network(text: str) -> IPv4Network | IPv6Network | None:
    try:
        return network_of(text)
    except ValueError:
        return None


def contains(network: str, host: str) -> bool:
    """Whether the address `host` is in the network; a text that is no network contains none."""
    known = _known_network(network)
    if known is None:
        return False
    try:
        address = IPv6Address(_plain(host)) if ":" in host else IPv4Address(host)
    except ValueError:
        return False
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped
    return address in known
