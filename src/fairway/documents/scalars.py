"""Resolve unquoted YAML scalars as kubectl does.

PyYAML follows YAML 1.1, and kubectl differs from it. The rules here: `yes`, `no`, `on` and `off` are booleans (so an
unquoted label value `on` is an error, as in kubectl); a leading 0 means octal; `1e3` is a number; `1:30` and dates are
text; a float without a fraction is an integer, as after a conversion to JSON.
"""

import math
import re
from typing import Final

Scalar = str | int | float | bool | None

_WORDS: Final[dict[str, Scalar]] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
    **dict.fromkeys(("true", "True", "TRUE", "yes", "Yes", "YES", "on", "On", "ON"), True),
    **dict.fromkeys(("false", "False", "FALSE", "no", "No", "NO", "off", "Off", "OFF"), False),
    **dict.fromkeys((".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF"), math.inf),
    **dict.fromkeys(("-.inf", "-.Inf", "-.INF"), -math.inf),
    **dict.fromkeys((".nan", ".NaN", ".NAN"), math.nan),
}
_NUMERIC_START: Final = frozenset("+-.0123456789")
_DECIMAL: Final = re.compile(r"[-+]?(?:0|[1-9][0-9_]*)\Z")
_OTHER_BASE: Final = re.compile(r"([-+]?)0(?:x([0-9a-fA-F_]+)|b([01_]+)|o?([0-7_]+))\Z")
_FLOAT: Final = re.compile(r"[-+]?(?:[0-9][0-9_]*(?:\.[0-9_]*)?|\.[0-9][0-9_]*)(?:[eE][-+]?[0-9]+)?\Z")
_EXACT: Final = 2**53
_LONGEST_NUMBER: Final = 400


def resolve(text: str) -> Scalar:
    """Return the value of a plain (unquoted, untagged) scalar."""
    if text in _WORDS:
        return _WORDS[text]
    if text[0] not in _NUMERIC_START or len(text) > _LONGEST_NUMBER:
        return text
    if _DECIMAL.match(text):
        return int(text.replace("_", ""))
    other = _OTHER_BASE.match(text)
    if other:
        return _other_base(other) if text.strip("+-0_xbo") else 0
    if _FLOAT.match(text):
        return _float(text)
    return text


def _other_base(match: re.Match[str]) -> int:
    sign, sixteen, two, eight = match.groups()
    digits, base = next((part, base) for part, base in ((sixteen, 16), (two, 2), (eight, 8)) if part)
    value = int(digits.replace("_", ""), base)
    return -value if sign == "-" else value


def _float(text: str) -> float | int:
    value = float(text.replace("_", ""))
    if value.is_integer() and abs(value) < _EXACT:
        return int(value)
    return value
