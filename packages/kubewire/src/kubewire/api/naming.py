"""Rules for names, label keys and label values. A rule returns Kubernetes' messages, or nothing."""

import re
from collections.abc import Callable
from typing import Final

NameRule = Callable[[str, bool], list[str]]
"""Takes a name, and whether it is a prefix (``generateName``)."""

NOT_EMPTY: Final = "must be non-empty"
NO_DOTS: Final = "must not contain dots"
TOO_MANY_CHARACTERS: Final = "must be no more than {} characters"
TOO_MANY_BYTES: Final = "must be no more than {} bytes"

LABEL_LENGTH: Final = 63
SUBDOMAIN_LENGTH: Final = 253

_LABEL: Final = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN: Final = rf"{_LABEL}(\.{_LABEL})*"
_DNS1035: Final = "[a-z]([-a-z0-9]*[a-z0-9])?"
_KEY: Final = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_VALUE: Final = f"({_KEY})?"

_ENDS: Final = "must start and end with an alphanumeric character"
_KEY_FORM: Final = f"must consist of alphanumeric characters, '-', '_' or '.', and {_ENDS}"


def _form(rule: str, pattern: str, *examples: str) -> str:
    shown = " or ".join(f"'{example}', " for example in examples)
    return f"{rule} (e.g. {shown}regex used for validation is '{pattern}')"


BAD_LABEL: Final = _form(
    f"a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and {_ENDS}",
    _LABEL,
    "my-name",
    "123-abc",
)
BAD_SUBDOMAIN: Final = _form(
    f"a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and {_ENDS}",
    _SUBDOMAIN,
    "example.com",
)
BAD_DNS1035_LABEL: Final = _form(
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic "
    "character, and end with an alphanumeric character",
    _DNS1035,
    "my-name",
    "abc-123",
)
BAD_KEY_NAME: Final = _form(f"name part {_KEY_FORM}", _KEY, "MyName", "my.name", "123-abc")
BAD_KEY: Final = (
    _form(f"a valid label key {_KEY_FORM}", _KEY, "MyName", "my.name", "123-abc")
    + " with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
)
BAD_VALUE: Final = _form(
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', "
    f"and {_ENDS}",
    _VALUE,
    "MyValue",
    "my_value",
    "12345",
)

# Linear time: no part of a pattern can match where the one before it could continue.
_is_label: Final = re.compile(_LABEL).fullmatch
_is_subdomain: Final = re.compile(_SUBDOMAIN).fullmatch
_is_dns1035: Final = re.compile(_DNS1035).fullmatch
_is_key: Final = re.compile(_KEY).fullmatch


def size(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def _label(text: str, too_long: str) -> list[str]:
    problems = [too_long.format(LABEL_LENGTH)] if size(text) > LABEL_LENGTH else []
    if not _is_label(text):
        problems.append(NO_DOTS if _is_subdomain(text) else BAD_LABEL)
    return problems


def _subdomain(text: str, too_long: str) -> list[str]:
    problems = [too_long.format(SUBDOMAIN_LENGTH)] if size(text) > SUBDOMAIN_LENGTH else []
    if not _is_subdomain(text):
        problems.append(BAD_SUBDOMAIN)
    return problems


def label(name: str, prefix: bool = False) -> list[str]:
    return _label(_completed(name) if prefix else name, TOO_MANY_CHARACTERS)


def subdomain(name: str, prefix: bool = False) -> list[str]:
    return _subdomain(_completed(name) if prefix else name, TOO_MANY_CHARACTERS)


def dns1035_label(name: str, prefix: bool = False) -> list[str]:
    name = _completed(name) if prefix else name
    problems = [TOO_MANY_CHARACTERS.format(LABEL_LENGTH)] if size(name) > LABEL_LENGTH else []
    if not _is_dns1035(name):
        problems.append(BAD_DNS1035_LABEL)
    return problems


def path_segment(name: str, prefix: bool = False) -> list[str]:
    """For kinds whose names only have to fit into a URL, such as roles."""
    if not prefix and name in (".", ".."):
        return [f"may not be '{name}'"]
    return [f"may not contain '{part}'" for part in ("/", "%") if part in name]


def _completed(name: str) -> str:
    """A prefix may end in a dash, because a suffix follows."""
    return f"{name[:-2]}a" if len(name) > 1 and name.endswith("-") else name


def label_key(text: str) -> list[str]:
    """Also the rule for annotations and finalizers."""
    if "/" not in text and text.isascii() and 0 < len(text) <= LABEL_LENGTH and _is_key(text):
        return []
    parts = text.split("/")
    if len(parts) > 2:
        return [BAD_KEY]
    problems: list[str] = []
    if len(parts) == 2:
        if not parts[0]:
            problems.append(f"prefix part {NOT_EMPTY}")
        else:
            problems += [f"prefix part {problem}" for problem in _subdomain(parts[0], TOO_MANY_BYTES)]
    name = parts[-1]
    if not name:
        problems.append(f"name part {NOT_EMPTY}")
    elif size(name) > LABEL_LENGTH:
        problems.append(f"name part {TOO_MANY_BYTES.format(LABEL_LENGTH)}")
    if not _is_key(name):
        problems.append(BAD_KEY_NAME)
    return problems


def label_value(text: str) -> list[str]:
    problems = [TOO_MANY_BYTES.format(LABEL_LENGTH)] if size(text) > LABEL_LENGTH else []
    if text and not _is_key(text):
        problems.append(BAD_VALUE)
    return problems
