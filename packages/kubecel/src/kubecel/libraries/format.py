"""Kubernetes' named formats: ``format.dns1123Label().validate(name)`` returns the errors of a name."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from kubecel.declarations import Function, Library, Overload
from kubecel.errors import NO_SUCH_OVERLOAD, Failure
from kubecel.instants import parse_timestamp
from kubecel.libraries.urls import valid_request_uri
from kubecel.scalars import Opaque
from kubecel.types import STRING, list_of, optional_of, struct
from kubecel.values import NONE, Optional

FORMAT_TYPE = struct("kubernetes.NamedFormat")

TOO_LONG: Final = "must be no more than {} bytes"
_ENDS: Final = "must start and end with an alphanumeric character"
BAD_LABEL: Final = (
    f"a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and {_ENDS}"
)
BAD_SUBDOMAIN: Final = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', "
    f"and {_ENDS}"
)
BAD_DNS1035: Final = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic "
    "character, and end with an alphanumeric character"
)
BAD_LABEL_VALUE: Final = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', "
    f"and {_ENDS}"
)
BAD_NAME: Final = f"name part must consist of alphanumeric characters, '-', '_' or '.', and {_ENDS}"
BAD_QUALIFIED: Final = (
    f"a qualified name must consist of alphanumeric characters, '-', '_' or '.', and {_ENDS} "
    "with an optional DNS subdomain prefix and '/'"
)
NO_DOTS: Final = "must not contain dots"

_LABEL = re.compile(r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?")
_SUBDOMAIN = re.compile(r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?(?:\.[a-z0-9](?:[-a-z0-9]*[a-z0-9])?)*")
_DNS1035 = re.compile(r"[a-z](?:[-a-z0-9]*[a-z0-9])?")
_NAME = re.compile(r"(?:[A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")
_UUID = re.compile(r"(?i:[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12})")
_BASE64 = re.compile(r"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{4})")
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_TIME = re.compile(r"([0-9]{2}):([0-9]{2}):([0-9]{2})(?:.[0-9]+)?(?:z|[+-][0-9]{2}:[0-9]{2})")

Validator = Callable[[str], list[str]]


class Format(Opaque):
    __slots__ = ("name", "validate")
    cel_type = FORMAT_TYPE

    def __init__(self, name: str, validate: Validator) -> None:
        self.name = name
        self.validate = validate

    def equals(self, other: object) -> bool:
        if not isinstance(other, Format):
            raise Failure(NO_SUCH_OVERLOAD)
        return self.name == other.name


def _bytes(text: str) -> int:
    return len(text.encode("utf-8", "surrogateescape"))


def _too_long(text: str, limit: int) -> list[str]:
    return [TOO_LONG.format(limit)] if _bytes(text) > limit else []


def _mask(name: str) -> str:
    """Replace the final dash of a prefix, which is valid because a name continues it."""
    return name[:-2] + "a" if _bytes(name) > 1 and name.endswith("-") else name


def _label(text: str) -> list[str]:
    problems = _too_long(text, 63)
    if not _LABEL.fullmatch(text):
        problems.append(NO_DOTS if _SUBDOMAIN.fullmatch(text) else BAD_LABEL)
    return problems


def _subdomain(text: str) -> list[str]:
    problems = _too_long(text, 253)
    if not _SUBDOMAIN.fullmatch(text):
        problems.append(BAD_SUBDOMAIN)
    return problems


def _dns1035(text: str) -> list[str]:
    problems = _too_long(text, 63)
    if not _DNS1035.fullmatch(text):
        problems.append(BAD_DNS1035)
    return problems


def _label_value(text: str) -> list[str]:
    problems = _too_long(text, 63)
    if text and not _NAME.fullmatch(text):
        problems.append(BAD_LABEL_VALUE)
    return problems


def _qualified_name(text: str) -> list[str]:
    parts = text.split("/")
    if len(parts) > 2:
        return [BAD_QUALIFIED]
    problems: list[str] = []
    if len(parts) == 2:
        if not parts[0]:
            problems.append("prefix part must be non-empty")
        else:
            problems += [f"prefix part {problem}" for problem in _subdomain(parts[0])]
    name = parts[-1]
    if not name:
        problems.append("name part must be non-empty")
    else:
        problems += [f"name part {problem}" for problem in _too_long(name, 63)]
    if not _NAME.fullmatch(name):
        problems.append(BAD_NAME)
    return problems


def _date(text: str) -> bool:
    return bool(_DATE.fullmatch(text)) and parse_timestamp(f"{text}T00:00:00Z") is not None


def _valid_date(text: str) -> bool:
    try:
        return _date(text)
    except Failure:
        # Year zero is a valid date, but outside the range of timestamps.
        return True


def _datetime(text: str) -> bool:
    if _bytes(text) < 4:
        return False
    parts = text.lower().split("t")
    if len(parts) < 2 or not _valid_date(parts[0]):
        return False
    time = _TIME.fullmatch(parts[1])
    return time is not None and time[1] <= "23" and time[2] <= "59" and time[3] <= "59"


def _check(valid: Callable[[str], bool], message: str) -> Validator:
    def validate(text: str) -> list[str]:
        return [] if valid(text) else [message]

    return validate


def _prefix(validator: Validator) -> Validator:
    def validate(text: str) -> list[str]:
        return validator(_mask(text))

    return validate


FORMATS: Final = {
    "dns1123Label": Format("DNS1123Label", _label),
    "dns1123Subdomain": Format("DNS1123Subdomain", _subdomain),
    "dns1035Label": Format("DNS1035Label", _dns1035),
    "qualifiedName": Format("QualifiedName", _qualified_name),
    "dns1123LabelPrefix": Format("DNS1123LabelPrefix", _prefix(_label)),
    "dns1123SubdomainPrefix": Format("DNS1123SubdomainPrefix", _prefix(_subdomain)),
    "dns1035LabelPrefix": Format("DNS1035LabelPrefix", _prefix(_dns1035)),
    "labelValue": Format("LabelValue", _label_value),
    "uri": Format("URI", _check(valid_request_uri, "invalid URI for request")),
    "uuid": Format(
        "uuid", _check(lambda text: bool(_UUID.fullmatch(text)), "does not match the UUID format")
    ),
    "byte": Format("byte", _check(lambda text: bool(_BASE64.fullmatch(text)), "invalid base64")),
    "date": Format("date", _check(_valid_date, "invalid date")),
    "datetime": Format("datetime", _check(_datetime, "invalid datetime")),
}


def _validate(format_: Format, text: str) -> object:
    problems = format_.validate(text)
    return Optional(problems) if problems else NONE


def _named(name: str) -> object:
    known = FORMATS.get(name)
    return NONE if known is None else Optional(known)


def _constant(format_: Format) -> Callable[[], object]:
    return lambda: format_


FORMAT = Library(
    "kubernetes.format",
    (
        Function(
            "validate",
            (
                Overload(
                    "format-validate",
                    (FORMAT_TYPE, STRING),
                    optional_of(list_of(STRING)),
                    _validate,
                    member=True,
                ),
            ),
        ),
        Function("format.named", (Overload("format-named", (STRING,), optional_of(FORMAT_TYPE), _named),)),
        *[
            Function(f"format.{name}", (Overload(f"format.{name}", (), FORMAT_TYPE, _constant(value)),))
            for name, value in FORMATS.items()
        ],
    ),
)
