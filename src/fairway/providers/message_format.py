"""Make messages of third-party code safe for the hub, for a log line and for a terminal.

Such messages may be long, have many lines, or characters that cannot be encoded. Formatting an exception also runs
third-party code. Nothing here raises.
"""

import re
from typing import Final

from fairway.providers.provider import FAILED

LONGEST_MESSAGE: Final = 2000
"""Longer messages are cut; a condition may hold more."""
UNPRINTABLE: Final = "{kind} without a printable message"

_CONSIDERED: Final = 4 * LONGEST_MESSAGE
"""Characters of a text that are examined."""
_REASON: Final = re.compile(r"[A-Za-z](?:[A-Za-z0-9_,:]*[A-Za-z0-9_])?", re.ASCII)
_LONGEST_REASON: Final = 200


def tidy(given: object) -> str:
    """Format as a single, printable, short line."""
    try:
        text = str(given)
    except Exception:
        return UNPRINTABLE.format(kind=_kind(given))
    words = " ".join(text[:_CONSIDERED].split())
    words = words if words.isprintable() else "".join(map(_escape, words))
    if len(words) <= LONGEST_MESSAGE and len(text) <= _CONSIDERED:
        return words
    return f"{words[: LONGEST_MESSAGE - 1]}…"


def tidy_reason(given: object) -> str:
    """Return ``given`` if it is a valid condition reason, otherwise ``FAILED``."""
    if not isinstance(given, str) or len(given) > _LONGEST_REASON or not _REASON.fullmatch(given):
        return FAILED
    return str.__str__(given)


def describe(error: BaseException) -> str:
    """Format as ``ValueError: no such host``."""
    words = tidy(error)
    return tidy(f"{_kind(error)}: {words}" if words else _kind(error))


def _kind(given: object) -> str:
    return type(given).__name__


def _escape(character: str) -> str:
    return character if character.isprintable() else "\N{REPLACEMENT CHARACTER}"
