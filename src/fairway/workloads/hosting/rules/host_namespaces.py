"""Namespaces on hosting clusters: which one a request gets, and which ones no request ever gets.

HyperShift creates a second namespace for each hosted cluster, ``NAMESPACE-NAME``. With namespaces ``a`` and ``a-b``,
the names ``b-c`` and ``c`` mean the same one. A derived namespace therefore begins with a hash of the request's
namespace, which has a fixed length: no derived namespace, and no namespace that HyperShift makes from one, equals or
extends one that belongs to another namespace of the hub.
"""

import hashlib
import re
from base64 import b32encode
from collections.abc import Iterable
from functools import lru_cache
from typing import Final

LONGEST_NAMESPACE: Final = 63
HASH_LENGTH: Final = 13
READABLE_LENGTH: Final = 12
"""Characters of the request's namespace in a derived one. Names of hosted clusters need the rest."""
PREFIX: Final = "hc-"
_DERIVED: Final = re.compile(rf"{PREFIX}[a-z2-7]{{{HASH_LENGTH}}}-.*")

PROTECTED: Final = (
    "default",
    "fairway-*",
    "hypershift",
    "kube-*",
    "multicluster-engine",
    "open-cluster-management*",
    "openshift",
    "openshift-*",
)
"""Namespaces of Kubernetes, OpenShift, HyperShift's operator, and the agents of this hub on a hosting cluster."""


@lru_cache(maxsize=1 << 14)
def derived_namespace(namespace: str) -> str:
    """Return the namespace on each host for the requests of one namespace of the hub."""
    digest = b32encode(hashlib.sha256(namespace.encode()).digest()).decode().lower()[:HASH_LENGTH]
    return f"{PREFIX}{digest}-{namespace[:READABLE_LENGTH].rstrip('-')}"


def is_derived(namespace: str) -> bool:
    """Return whether a namespace has the form of a derived one."""
    return _DERIVED.fullmatch(namespace) is not None


def control_plane_namespace(namespace: str, name: str) -> str:
    """Return the namespace that HyperShift creates for the pods of a hosted cluster."""
    return f"{namespace}-{name.replace('.', '-')}"


def matches(pattern: str, text: str) -> bool:
    """Return whether a text is the pattern, or begins with what is before its final asterisk."""
    return text.startswith(pattern[:-1]) if pattern.endswith("*") else text == pattern


def matching(patterns: Iterable[str], text: str) -> str:
    """Return the first pattern that matches; empty if none does."""
    return next((pattern for pattern in patterns if matches(pattern, text)), "")


def overlapping(pattern: str) -> str:
    """Return a protected pattern of which a pattern matches some namespace; empty if there is none."""
    prefix = pattern.removesuffix("*")
    for protected in PROTECTED:
        start = protected.removesuffix("*")
        if matches(protected, prefix) or (pattern.endswith("*") and start.startswith(prefix)):
            return protected
    return ""
