"""The ``format`` keyword: the known formats, and whether a string has one.

Formats that don't apply to a type are ignored, as in Kubernetes. The checks are Kubernetes' own, which deviate from
the RFCs: an IPv4 address may have leading zeros, a duration may be ``3 days``.
"""

import re
from collections.abc import Callable, Mapping
from ipaddress import AddressValueError, IPv6Address, ip_address
from typing import Final

from kubecel.errors import Failure
from kubecel.frame import Meter
from kubecel.instants import parse_duration as parse_go_duration
from kubecel.libraries.format import FORMATS as CEL_FORMATS
from kubecel.libraries.urls import valid_request_uri
from kubecel.regex import compile_pattern
from kubehub.schema import INTEGER, NUMBER, STRING

SECOND: Final = 1_000_000_000
DATE_TIME: Final = "datetime"

_INTEGER_FORMATS: Final = ("int32", "int64")
_NUMBER_FORMATS: Final = ("float", "double")

_HOSTNAME: Final = (
    r"^([a-zA-Z0-9\p{S}\p{L}]((-?[a-zA-Z0-9\p{S}\p{L}]{0,62})?)"
    r"|([a-zA-Z0-9\p{S}\p{L}](([a-zA-Z0-9-\p{S}\p{L}]{0,61}[a-zA-Z0-9\p{S}\p{L}])?)(\.)){1,}([a-zA-Z\p{L}]){2,63})$"
)
_UUID: Final = "[0-9a-f]{{8}}-?[0-9a-f]{{4}}-?{}[0-9a-f]{{3}}-?{}[0-9a-f]{{3}}-?[0-9a-f]{{12}}"
# The machine-written form, with a day that every month has.
_USUAL_MOMENT: Final = re.compile(
    r"[0-9]{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|1[0-9]|2[0-8])T(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]Z"
)
_MAC: Final = re.compile(
    r"([0-9a-f]{2})(:|-)[0-9a-f]{2}(?:\2[0-9a-f]{2}){4}(?:(?:\2[0-9a-f]{2}){2}(?:(?:\2[0-9a-f]{2}){12})?)?"
    r"|[0-9a-f]{4}(?:\.[0-9a-f]{4}){2}(?:\.[0-9a-f]{4}(?:(?:\.[0-9a-f]{4}){6})?)?"
    r"|[0-9a-f]{12}(?:[0-9a-f]{4}(?:[0-9a-f]{24})?)?",
    re.IGNORECASE | re.ASCII,
)
_CARD: Final = re.compile(
    r"4[0-9]{12}(?:[0-9]{3})?|5[1-5][0-9]{14}|6(?:011|5[0-9][0-9])[0-9]{12}|3[47][0-9]{13}"
    r"|3(?:0[0-5]|[68][0-9])[0-9]{11}|(?:2131|1800|35[0-9]{3})[0-9]{11}"
)
_SSN: Final = re.compile(r"[0-9]{3}[- ]?[0-9]{2}[- ]?[0-9]{4}")
_HEX_COLOR: Final = re.compile(r"#?(?:[0-9a-fA-F]{3}|[0-9a-fA-F]{6})")
_SHADE: Final = r"[\t\n\f\r ]*(?:0|[1-9][0-9]?|1[0-9][0-9]?|2[0-4][0-9]|25[0-5])[\t\n\f\r ]*"
_RGB_COLOR: Final = re.compile(rf"rgb\({_SHADE},{_SHADE},{_SHADE}\)")
_LABEL: Final = "[a-z0-9](?:[-a-z0-9]*[a-z0-9])?"
_SHORT_NAME: Final = re.compile(_LABEL)
_LONG_NAME: Final = re.compile(rf"{_LABEL}(?:\.{_LABEL})*")

_ATOM: Final = r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~\-\u0080-\U0010ffff]+"
_QUOTED: Final = r'"(?:[^"\\\x00-\x1f\x7f]|\\[^\x00-\x1f\x7f])*"'
_ADDRESS: Final = re.compile(rf"(?:{_ATOM}(?:\.{_ATOM})*|{_QUOTED})@(?:{_ATOM}(?:\.{_ATOM})*|\[([^\[\]]+)\])")
_PHRASE: Final = re.compile(rf"(?:{_ATOM[:-1]}|{_QUOTED}|[. \t])*")

# Possessive, so that no run is scanned twice.
_AMOUNT: Final = re.compile(r"(?<![0-9])([0-9]++)[\t\n\f\r ]*+([A-Za-zµ]++)")
# The last unit may have any suffix: ``3 hours``, ``2 daysy``.
_UNITS: Final = (
    (1, ("ns", "nano")),
    (1_000, ("us", "µs", "micro")),
    (1_000_000, ("ms", "milli")),
    (SECOND, ("s", "sec")),
    (60 * SECOND, ("m", "min")),
    (3_600 * SECOND, ("h", "hr", "hour")),
    (86_400 * SECOND, ("d", "day")),
    (604_800 * SECOND, ("w", "wk", "week")),
)


def recognized(kind: str, name: str) -> bool:
    """Return whether a format applies to values of this type (empty: of any)."""
    if kind in ("", STRING):
        return name.replace("-", "") in _TEXTS
    if kind == INTEGER:
        return name in _INTEGER_FORMATS
    return kind == NUMBER and name in _NUMBER_FORMATS


def text_format(name: str) -> Callable[[str], bool] | None:
    """Return whether a string has the format; None for a format that strings don't have."""
    return _TEXTS.get(name.replace("-", ""))


def parse_duration(text: str) -> int | None:
    """Return the nanoseconds of ``1h30m`` or ``3 days``; None if invalid."""
    parsed = parse_go_duration(text)
    if parsed is not None:
        return parsed.nanos
    total, has_unit = 0, False
    for amount, unit in _AMOUNT.findall(text):
        if len(amount.lstrip("0")) > 18:
            return None
        for scale, names in _UNITS:
            folded = unit.lower()
            if folded in names or folded.startswith(names[-1]):
                total += int(amount) * scale
                has_unit = True
    return total if has_unit else None


def _octets(text: str) -> bool:
    """Four decimal numbers up to 255; leading zeros are allowed."""
    parts = text.split(".")
    return len(parts) == 4 and all(
        part.isascii() and part.isdigit() and len(part.lstrip("0")) <= 3 and int(part) <= 255
        for part in parts
    )


def _groups(text: str, *, sloppy: bool) -> bool:
    if ":" not in text or "%" in text:
        return False
    head, colon, last = text.rpartition(":")
    if sloppy and "." in last:
        text = f"{head}{colon}0.0.0.0" if _octets(last) else ""
    try:
        IPv6Address(text)
    except AddressValueError:
        return False
    return True


def _ipv4(text: str) -> bool:
    return "." in text and (_octets(text) or _groups(text, sloppy=True))


def _cidr(text: str) -> bool:
    address, slash, bits = text.partition("/")
    if not slash or not (bits.isascii() and bits.isdigit()) or len(bits) > 8:
        return False
    if _octets(address):
        return int(bits) <= 32
    return _groups(address, sloppy=True) and int(bits) <= 128


def _hostname(text: str) -> bool:
    return (
        len(text.encode("utf-8", "surrogatepass")) <= 255
        and all(len(part.encode("utf-8", "surrogatepass")) <= 63 for part in text.split("."))
        and compile_pattern(_HOSTNAME).matches(Meter(), text)
    )


def _email(text: str) -> bool:
    address = text.strip(" \t")
    if address.endswith(">"):
        phrase, bracket, address = address[:-1].rpartition("<")
        if not bracket or not _PHRASE.fullmatch(phrase):
            return False
    match = _ADDRESS.fullmatch(address.strip(" \t"))
    return match is not None and (match[1] is None or _address(match[1]))


def _address(text: str) -> bool:
    try:
        ip_address(text)
    except ValueError:
        return False
    return "%" not in text


def _card(text: str) -> bool:
    digits = "".join(char for char in text if "0" <= char <= "9")
    if not _CARD.fullmatch(digits):
        return False
    total = 0
    for place, digit in enumerate(map(int, reversed(digits))):
        doubled = digit * 2 if place % 2 else digit
        total += doubled - 9 if doubled > 9 else doubled
    return total % 10 == 0


def _isbn10(text: str) -> bool:
    text = re.sub(r"[\t\n\f\r -]+", "", text)
    if not re.fullmatch(r"[0-9]{9}[0-9X]", text):
        return False
    weights = [10 if char == "X" else int(char) for char in text]
    return sum(weight * place for place, weight in enumerate(weights, 1)) % 11 == 0


def _isbn13(text: str) -> bool:
    text = re.sub(r"[\t\n\f\r -]+", "", text)
    if not re.fullmatch(r"[0-9]{13}", text):
        return False
    return sum(int(char) * (3 if place % 2 else 1) for place, char in enumerate(text)) % 10 == 0


def _moment(text: str) -> bool:
    return _USUAL_MOMENT.fullmatch(text) is not None or _date_time(text)


def _named(name: str) -> Callable[[str], bool]:
    validate = CEL_FORMATS[name].validate

    def test(text: str) -> bool:
        try:
            return not validate(text)
        except Failure:
            return False

    return test


def _matching(pattern: re.Pattern[str], *, longest: int | None = None) -> Callable[[str], bool]:
    return lambda text: (longest is None or len(text) <= longest) and pattern.fullmatch(text) is not None


def _uuid(third: str, fourth: str) -> Callable[[str], bool]:
    return _matching(re.compile(_UUID.format(third, fourth), re.IGNORECASE | re.ASCII))


_date_time: Final = _named("datetime")

_ANY: Final = "[0-9a-f]"
_VARIANT: Final = "[89ab]"

_TEXTS: Final[Mapping[str, Callable[[str], bool]]] = {
    "bsonobjectid": _matching(re.compile("[0-9a-fA-F]{24}")),
    "byte": _named("byte"),
    "cidr": _cidr,
    "creditcard": _card,
    "date": _named("date"),
    DATE_TIME: _moment,
    "duration": lambda text: parse_duration(text) is not None,
    "email": _email,
    "hexcolor": _matching(_HEX_COLOR),
    "hostname": _hostname,
    "ipv4": _ipv4,
    "ipv6": lambda text: _groups(text, sloppy=False),
    "isbn": lambda text: _isbn10(text) or _isbn13(text),
    "isbn10": _isbn10,
    "isbn13": _isbn13,
    "k8slongname": _matching(_LONG_NAME, longest=253),
    "k8sshortname": _matching(_SHORT_NAME, longest=63),
    "mac": _matching(_MAC),
    "password": lambda _: True,
    "rgbcolor": _matching(_RGB_COLOR),
    "ssn": lambda text: len(text) == 11 and _SSN.fullmatch(text) is not None,
    "uri": valid_request_uri,
    "uuid": _uuid(_ANY, _ANY),
    "uuid3": _uuid("3", _ANY),
    "uuid4": _uuid("4", _VARIANT),
    "uuid5": _uuid("5", _VARIANT),
}
