"""What a name may look like, and Kubernetes' words when it doesn't."""

import re
from collections.abc import Iterator
from typing import Final

from fairway.api.selector import SUBDOMAIN_REFUSED

_LABEL_RULE: Final = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_LABEL: Final = re.compile(_LABEL_RULE)
_SUBDOMAIN: Final = re.compile(rf"{_LABEL_RULE}(\.{_LABEL_RULE})*")

LABEL_REFUSED: Final = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end "
    f"with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '{_LABEL_RULE}')"
)


def label_faults(text: str) -> Iterator[str]:
    if len(text) > 63:
        yield "must be no more than 63 bytes"
    if not _LABEL.fullmatch(text):
        yield LABEL_REFUSED


def subdomain_faults(text: str) -> Iterator[str]:
    if len(text) > 253:
        yield "must be no more than 253 bytes"
    if not _SUBDOMAIN.fullmatch(text):
        yield SUBDOMAIN_REFUSED


def segment_faults(text: str) -> Iterator[str]:
    """Of a name that must only fit between two slashes of a path, as those of roles."""
    if text in (".", ".."):
        yield f"may not be '{text}'"
        return
    for char in "/%":
        if char in text:
            yield f"may not contain '{char}'"


def account_of(user: str) -> tuple[str, str] | None:
    """Namespace and name of the service account that a user name is of."""
    prefix, _, rest = user.partition("system:serviceaccount:")
    parts = rest.split(":")
    if prefix or len(parts) != 2:
        return None
    namespace, name = parts
    if any(label_faults(namespace)) or any(subdomain_faults(name)):
        return None
    return namespace, name
