"""Read certificate requests.

``load`` accepts what kube-apiserver accepts, for the hub. ``read`` is for controllers that approve requests. Approver
and signer parse the same bytes with different libraries: with text before a PEM block, or with a second block, they
could find different requests in them. So ``read`` rejects everything that could be parsed in two ways.
"""

import base64
import binascii
import re
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.x509.oid import ExtensionOID, NameOID

_ONE_BLOCK: Final = re.compile(
    rb"\s*-----BEGIN CERTIFICATE REQUEST-----\r?\n([A-Za-z0-9+/=\r\n]+)-----END CERTIFICATE REQUEST-----\s*"
)
_AGENT: Final = re.compile(r"[A-Za-z0-9]([-._A-Za-z0-9]{0,251}[A-Za-z0-9])?", re.ASCII)
_SUBJECT: Final = frozenset({NameOID.COMMON_NAME, NameOID.ORGANIZATION_NAME})


class InvalidRequest(ValueError):
    """Not a certificate request, or one that could be parsed in two ways."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestedIdentity:
    """The subject of a request. ``user`` is empty unless there is exactly one."""

    user: str
    groups: frozenset[str]
    hosts: frozenset[str]
    """DNS names of the subjectAltName extension."""
    plain: bool
    """Whether the request contains nothing else: no other attribute of a subject, no other extension."""
    subject: str
    """The whole subject, for messages."""

    def is_for(self, user: str, *, groups: frozenset[str], hosts: frozenset[str] = frozenset()) -> bool:
        """Return whether it is for this user in these groups, and for no other hosts than these."""
        return self.plain and self.user == user and self.groups == groups and self.hosts <= hosts


def pem_blocks(data: bytes) -> Iterator[tuple[str, bytes]]:
    """Yield PEM blocks with their type; stops at the first invalid one."""
    start = 0
    while (begin := data.find(b"-----BEGIN ", start)) >= 0:
        head = data.find(b"-----", begin + 11)
        kind = data[begin + 11 : head]
        end = data.find(b"-----END " + kind + b"-----", head) if head >= 0 else -1
        if end < 0:
            return
        try:
            body = base64.b64decode(b"".join(data[head + 5 : end].split()), validate=True)
        except binascii.Error:
            return
        yield kind.decode(errors="replace"), body
        start = end + len(kind) + 14


def load(der: bytes) -> x509.CertificateSigningRequest:
    """Parse a request, with its subject, extensions and key. Raises InvalidRequest."""
    try:
        # User names may exceed X.520's length limit; Kubernetes accepts that, and the parser would warn.
        with warnings.catch_warnings(action="ignore"):
            request = x509.load_der_x509_csr(der)
            (
                list(request.subject),
                list(request.extensions),
                request.public_key(),
                request.signature_hash_algorithm,
            )
    except (ValueError, TypeError, UnsupportedAlgorithm, x509.DuplicateExtension) as fault:
        raise InvalidRequest from fault
    return request


def read(request: bytes) -> RequestedIdentity:
    """Parse a PEM text that is exactly one request. Raises InvalidRequest."""
    if _ONE_BLOCK.fullmatch(request) is None:
        raise InvalidRequest
    parsed = load(next((body for _, body in pem_blocks(request)), b""))
    with warnings.catch_warnings(action="ignore"):
        parts = [(attribute.oid, str(attribute.value)) for attribute in parsed.subject]
        subject = parsed.subject.rfc4514_string()
    hosts, only_hosts = _hosts(parsed.extensions)
    users = [value for oid, value in parts if oid == NameOID.COMMON_NAME]
    return RequestedIdentity(
        user=users[0] if len(users) == 1 else "",
        groups=frozenset(value for oid, value in parts if oid == NameOID.ORGANIZATION_NAME),
        hosts=hosts,
        plain=only_hosts and all(oid in _SUBJECT for oid, _ in parts),
        subject=subject,
    )


def agent_of(user: str, *, group: str) -> str:
    """Return the agent's name in a user name ``GROUP:AGENT``; empty if the user is not an agent of the group.

    Only the characters that agents use in their names are accepted, so that no name looks like another's.
    """
    agent = user.removeprefix(f"{group}:")
    return agent if agent != user and _AGENT.fullmatch(agent) else ""


def _hosts(extensions: x509.Extensions) -> tuple[frozenset[str], bool]:
    """Return the DNS names, and whether there is no other name or extension."""
    hosts: set[str] = set()
    plain = True
    for extension in extensions:
        if extension.oid == ExtensionOID.SUBJECT_ALTERNATIVE_NAME and isinstance(
            extension.value, x509.SubjectAlternativeName
        ):
            for name in extension.value:
                if isinstance(name, x509.DNSName):
                    hosts.add(name.value)
                else:
                    plain = False
        else:
            plain = False
    return frozenset(hosts), plain
