"""Escape field names that aren't CEL identifiers."""

import re
from functools import lru_cache
from typing import Final

RESERVED: Final = frozenset(
    [
        "true",
        "false",
        "null",
        "in",
        "as",
        "break",
        "const",
        "continue",
        "else",
        "for",
        "function",
        "if",
        "import",
        "let",
        "loop",
        "package",
        "namespace",
        "return",
        "var",
        "void",
        "while",
    ]
)
SELECTABLE: Final = RESERVED - {"true", "false", "null", "in"}
"""Reserved words that are valid as field names."""
_ESCAPES: Final = {"__": "__underscores__", ".": "__dot__", "-": "__dash__", "/": "__slash__"}
_ESCAPED: Final = re.compile("__|[-./]")
_ESCAPABLE: Final = re.compile(r"[A-Za-z_./-][A-Za-z0-9_./-]*")


@lru_cache(maxsize=4096)
def escape(name: str) -> str | None:
    """Return None if the name can't be escaped."""
    if name in RESERVED:
        return f"__{name}__"
    if not _ESCAPABLE.fullmatch(name):
        return None
    return _ESCAPED.sub(lambda match: _ESCAPES[match[0]], name)
