"""Kubernetes' IP addresses and CIDR blocks. IPv4-mapped IPv6 addresses and zones are rejected."""

from __future__ import annotations

import re
from ipaddress import AddressValueError, IPv4Address, IPv6Address

from kubecel.declarations import Function, Library, Overload
from kubecel.errors import NO_SUCH_OVERLOAD, Failure
from kubecel.scalars import Opaque
from kubecel.types import BOOL, INT, STRING, opaque

IP_TYPE = opaque("net.IP")
CIDR_TYPE = opaque("net.CIDR")

Address = IPv4Address | IPv6Address

_BITS = re.compile(r"0|[1-9][0-9]{0,2}")


class IP(Opaque):
    __slots__ = ("address",)
    cel_type = IP_TYPE

    def __init__(self, address: Address) -> None:
        self.address = address

    def size(self) -> int:
        return self.address.max_prefixlen // 8

    def equals(self, other: object) -> bool:
        if not isinstance(other, IP):
            raise Failure(NO_SUCH_OVERLOAD)
        return self.address == other.address


class Cidr(Opaque):
    """An address with the length of its network prefix; the address may have host bits."""

    __slots__ = ("address", "bits")
    cel_type = CIDR_TYPE

    def __init__(self, address: Address, bits: int) -> None:
        self.address = address
        self.bits = bits

    def size(self) -> int:
        return -(-self.bits // 8)

    def equals(self, other: object) -> bool:
        if not isinstance(other, Cidr):
            raise Failure(NO_SUCH_OVERLOAD)
        return self.address == other.address and self.bits == other.bits

    def __str__(self) -> str:
        return f"{self.address}/{self.bits}"

    def network(self, bits: int) -> int:
        return int(self.address) >> (self.address.max_prefixlen - bits)

    def contains(self, address: Address) -> bool:
        if address.version != self.address.version:
            return False
        return int(address) >> (address.max_prefixlen - self.bits) == self.network(self.bits)


def _parse_address(text: str) -> Address | None:
    try:
        if ":" not in text:
            return IPv4Address(text)
        if "%" in text or "/" in text:
            return None
        address = IPv6Address(text)
    except AddressValueError:
        return None
    return None if address.ipv4_mapped is not None else address


def _to_ip(text: str) -> IP:
    address = _parse_address(text)
    if address is None:
        raise Failure(f'IP Address "{text}" parse error during conversion from string')
    return IP(address)


def _parse_cidr(text: str) -> Cidr | None:
    head, slash, bits = text.rpartition("/")
    if not slash or not _BITS.fullmatch(bits):
        return None
    address = _parse_address(head)
    if address is None or int(bits) > address.max_prefixlen:
        return None
    return Cidr(address, int(bits))


def _to_cidr(text: str) -> Cidr:
    cidr = _parse_cidr(text)
    if cidr is None:
        raise Failure(f'network address parse error during conversion from string: "{text}"')
    return cidr


def _is_canonical(text: str) -> object:
    return str(_to_ip(text).address) == text


def _is_loopback(address: Address) -> bool:
    return int(address) >> 24 == 127 if address.version == 4 else int(address) == 1


def _is_link_local_multicast(address: Address) -> bool:
    if address.version == 4:
        return int(address) >> 8 == 0xE00000
    return (int(address) >> 112) & 0xFF0F == 0xFF02


def _is_link_local_unicast(address: Address) -> bool:
    return int(address) >> 16 == 0xA9FE if address.version == 4 else int(address) >> 118 == 0xFE80 >> 6


def _is_global_unicast(address: Address) -> bool:
    number = int(address)
    if number == 0 or (address.version == 4 and number == 0xFFFFFFFF):
        return False
    multicast = number >> 28 == 0xE if address.version == 4 else number >> 120 == 0xFF
    return not (multicast or _is_loopback(address) or _is_link_local_unicast(address))


def _contains_ip(cidr: Cidr, other: IP) -> object:
    return cidr.contains(other.address)


def _contains_cidr(cidr: Cidr, other: Cidr) -> object:
    return cidr.bits <= other.bits and cidr.contains(other.address)


def _masked(cidr: Cidr) -> object:
    host_bits = cidr.address.max_prefixlen - cidr.bits
    return Cidr(type(cidr.address)(cidr.network(cidr.bits) << host_bits), cidr.bits)


_IP_TESTS = {
    "isUnspecified": ("ip_is_unspecified", lambda ip: int(ip.address) == 0),
    "isLoopback": ("ip_is_loopback", lambda ip: _is_loopback(ip.address)),
    "isLinkLocalMulticast": ("ip_is_link_local_multicast", lambda ip: _is_link_local_multicast(ip.address)),
    "isLinkLocalUnicast": ("ip_is_link_local_unicast", lambda ip: _is_link_local_unicast(ip.address)),
    "isGlobalUnicast": ("ip_is_global_unicast", lambda ip: _is_global_unicast(ip.address)),
}

IPS = Library(
    "kubernetes.net.ip",
    (
        Function("ip", (Overload("string_to_ip", (STRING,), IP_TYPE, _to_ip),)),
        Function(
            "isIP", (Overload("is_ip", (STRING,), BOOL, lambda text: _parse_address(text) is not None),)
        ),
        Function("ip.isCanonical", (Overload("ip_is_canonical", (STRING,), BOOL, _is_canonical),)),
        Function(
            "family", (Overload("ip_family", (IP_TYPE,), INT, lambda ip: ip.address.version, member=True),)
        ),
        Function("string", (Overload("ip_to_string", (IP_TYPE,), STRING, lambda ip: str(ip.address)),)),
        *[
            Function(name, (Overload(id_, (IP_TYPE,), BOOL, call, member=True),))
            for name, (id_, call) in _IP_TESTS.items()
        ],
    ),
    (IP_TYPE,),
)

CIDRS = Library(
    "kubernetes.net.cidr",
    (
        Function("cidr", (Overload("string_to_cidr", (STRING,), CIDR_TYPE, _to_cidr),)),
        Function(
            "isCIDR", (Overload("is_cidr", (STRING,), BOOL, lambda text: _parse_cidr(text) is not None),)
        ),
        Function(
            "containsIP",
            (
                Overload(
                    "cidr_contains_ip_string",
                    (CIDR_TYPE, STRING),
                    BOOL,
                    lambda cidr, text: _contains_ip(cidr, _to_ip(text)),
                    member=True,
                ),
                Overload("cidr_contains_ip_ip", (CIDR_TYPE, IP_TYPE), BOOL, _contains_ip, member=True),
            ),
        ),
        Function(
            "containsCIDR",
            (
                Overload(
                    "cidr_contains_cidr_string",
                    (CIDR_TYPE, STRING),
                    BOOL,
                    lambda cidr, text: _contains_cidr(cidr, _to_cidr(text)),
                    member=True,
                ),
                Overload("cidr_contains_cidr", (CIDR_TYPE, CIDR_TYPE), BOOL, _contains_cidr, member=True),
            ),
        ),
        Function(
            "ip", (Overload("cidr_ip", (CIDR_TYPE,), IP_TYPE, lambda cidr: IP(cidr.address), member=True),)
        ),
        Function(
            "prefixLength",
            (Overload("cidr_prefix_length", (CIDR_TYPE,), INT, lambda cidr: cidr.bits, member=True),),
        ),
        Function("masked", (Overload("cidr_masked", (CIDR_TYPE,), CIDR_TYPE, _masked, member=True),)),
        Function("string", (Overload("cidr_to_string", (CIDR_TYPE,), STRING, str),)),
    ),
    (CIDR_TYPE,),
)
