"""Parse certificate requests, so that what is checked is what is signed.

Approver and signer parse the same bytes with different libraries. With text before a PEM block, or with a second block,
they could find different requests in them. So everything that could be parsed in two ways is rejected here, though the
hub accepts it.
"""

import base64
import binascii
import re
import warnings
from dataclasses import dataclass
from typing import Final

from cryptography import x509
from cryptography.x509.oid import ExtensionOID, NameOID

_ONE_BLOCK: Final = re.compile(
    rb"\s*-----BEGIN CERTIFICATE REQUEST-----\r?\n([A-Za-z0-9+/=\r\n]+)-----END CERTIFICATE REQUEST-----\s*"
)
_AGENT: Final = re.compile(r"[A-Za-z0-9]([-._A-Za-z0-9]{0,251}[A-Za-z0-9])?", re.ASCII)
_SUBJECT: Final = frozenset({NameOID.COMMON_NAME, NameOID.ORGANIZATION_NAME})


class InvalidRequest(ValueError):
    """What is no certificate request, or could be read as more than one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestedIdentity:
    """``user`` is empty unless there is exactly one."""

    user: str
    groups: frozenset[str]
    hosts: frozenset[str]
    """Further names the certificate shall bear."""
    plain: bool
    """Whether it asks for nothing else: no other part of a subject, no extension but host names."""
    words: str
    """The whole subject, for people."""

    def is_for(self, user: str, *, groups: frozenset[str], hosts: frozenset[str] = frozenset()) -> bool:
        """Whether it is for this user in these groups; of the hosts it may ask for some."""
        return self.plain and self.user == user and self.groups == groups and self.hosts <= hosts


def read(request: bytes) -> RequestedIdentity:
    """Raises Unreadable."""
    block = _ONE_BLOCK.fullmatch(request)
    if block is None:
        raise InvalidRequest
    try:
        # Users are named longer than X.520 allows, which Kubernetes does not mind and the library warns of.
        with warnings.catch_warnings(action="ignore"):
            found = x509.load_der_x509_csr(base64.b64decode(b"".join(block[1].split()), validate=True))
            subject, extensions = found.subject, found.extensions
            parts = [(each.oid, str(each.value)) for each in subject]
            words = subject.rfc4514_string()
            hosts, only_hosts = _hosts(extensions)
    except (ValueError, TypeError, binascii.Error, x509.DuplicateExtension) as error:
        raise InvalidRequest from error
    users = [value for oid, value in parts if oid == NameOID.COMMON_NAME]
    return RequestedIdentity(
        user=users[0] if len(users) == 1 else "",
        groups=frozenset(value for oid, value in parts if oid == NameOID.ORGANIZATION_NAME),
        hosts=hosts,
        plain=only_hosts and all(oid in _SUBJECT for oid, _ in parts),
        words=words,
    )


def agent_of(user: str, *, group: str) -> str:
    """The agent that a user is of those in ``group``, by its name: ``GROUP:AGENT``. Empty if it is none.

    Names are as plain as those that agents give themselves: one that looks like another's must not be mistaken for it.
    """
    agent = user.removeprefix(f"{group}:")
    return agent if agent != user and _AGENT.fullmatch(agent) else ""


def _hosts(extensions: x509.Extensions) -> tuple[frozenset[str], bool]:
    """And whether there is nothing else."""
    hosts: set[str] = set()
    plain = True
    for each in extensions:
        if each.oid == ExtensionOID.SUBJECT_ALTERNATIVE_NAME and isinstance(
            each.value, x509.SubjectAlternativeName
        ):
            for name in each.value:
                if isinstance(name, x509.DNSName):
                    hosts.add(name.value)
                else:
                    plain = False
        else:
            plain = False
    return frozenset(hosts), plain
