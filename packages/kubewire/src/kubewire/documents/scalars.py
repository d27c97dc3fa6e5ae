"""The values of unquoted YAML scalars.

PyYAML follows YAML 1.1, and kubectl differs from it: a leading 0 means octal, `1e3` is a number, `1:30` and dates are
text, and a float without a fraction is an integer, as after a conversion to JSON.
"""

import re
from math import isfinite
from typing import Final

Scalar = str | int | float | bool | None

NOT_JSON: Final = "json: unsupported value: {}"

_NULLS: Final[dict[str, Scalar]] = dict.fromkeys(("", "~", "null", "Null", "NULL"), None)
_CORE_WORDS: Final[dict[str, Scalar]] = {
    **_NULLS,
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_WORDS: Final[dict[str, Scalar]] = {
    **_CORE_WORDS,
    **dict.fromkeys(("y", "Y", "yes", "Yes", "YES", "on", "On", "ON"), True),
    **dict.fromkeys(("n", "N", "no", "No", "NO", "off", "Off", "OFF"), False),
}
_NOT_FINITE: Final = {
    **dict.fromkeys((".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF"), "+Inf"),
    **dict.fromkeys(("-.inf", "-.Inf", "-.INF"), "-Inf"),
    **dict.fromkeys((".nan", ".NaN", ".NAN"), "NaN"),
}
_NUMERIC_START: Final = frozenset("+-.0123456789")
_INTEGER: Final = re.compile(
    r"([-+]?)(?:0[xX]([0-9a-fA-F]+)|0[bB]([01]+)|0[oO]?([0-7]+)|(0|[1-9][0-9]*))", re.ASCII
)
_SHORT_INTEGER: Final = re.compile(r"-?[1-9][0-9]{0,17}", re.ASCII)
_CORE_INTEGER: Final = re.compile(r"[-+]?[0-9]{1,18}", re.ASCII)
_FLOAT: Final = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?", re.ASCII)
_EXACT: Final = 2**53
_INT64_MIN: Final = -(1 << 63)
_UINT64_MAX: Final = (1 << 64) - 1
_LONGEST_NUMBER: Final = 512


class ScalarError(ValueError):
    """A value that JSON does not have."""


def resolve(text: str) -> Scalar:
    """Return the value as kubectl and kube-apiserver do. Raises ScalarError for infinity and NaN."""
    if text in _WORDS:
        return _WORDS[text]
    if text[0] not in _NUMERIC_START:
        return text
    if text in _NOT_FINITE:
        raise ScalarError(NOT_JSON.format(_NOT_FINITE[text]))
    if len(text) > _LONGEST_NUMBER:
        return text
    if _SHORT_INTEGER.fullmatch(text):
        return int(text)
    plain = text.replace("_", "")
    if match := _INTEGER.fullmatch(plain):
        number = _integer(match)
        if _INT64_MIN <= number <= _UINT64_MAX:
            return number
    return _float(plain, text)


def resolve_core(text: str) -> Scalar:
    """Return the value as YAML 1.2 does: `no`, `on` and `0x10` are text, and `010` is 10."""
    if text in _CORE_WORDS:
        return _CORE_WORDS[text]
    return int(text) if _CORE_INTEGER.fullmatch(text) else _float(text, text)


def resolve_null(text: str) -> Scalar:
    """Return text unless it is null, so that a token of digits stays text."""
    return None if text in _NULLS else text


def _integer(match: re.Match[str]) -> int:
    sign, sixteen, two, eight, ten = match.groups()
    digits, base = next(
        (part, base) for part, base in ((sixteen, 16), (two, 2), (eight, 8), (ten, 10)) if part is not None
    )
    return int(f"{sign}{digits}", base)


def _float(plain: str, text: str) -> Scalar:
    if len(text) > _LONGEST_NUMBER or not _FLOAT.fullmatch(plain):
        return text
    value = float(plain)
    if value.is_integer() and abs(value) < _EXACT:
        return int(value)
    return value if isfinite(value) else text
