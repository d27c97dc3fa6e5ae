"""Format names in messages: short lists, and suggestions."""

from collections.abc import Collection, Iterable, Sequence
from difflib import get_close_matches
from typing import Final

from kubewire.api.selector import quote

NAMES_SHOWN: Final = 3
_COMPARED: Final = 5000
"""Maximum number of names to compare with, to bound the time."""


def some(names: Sequence[str], *, shown: int = NAMES_SHOWN) -> str:
    """``a, b, c and 4 more``"""
    listed = ", ".join(names[:shown])
    hidden = len(names) - shown
    return f"{listed} and {hidden} more" if hidden > 0 else listed


def count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def quoted(names: Iterable[str]) -> str:
    return ", ".join(quote(name) for name in names)


def nearest(word: str, known: Collection[str]) -> str | None:
    """Return the nearest known name, if one is near."""
    by_folded = {name.casefold(): name for name in sorted(known)[:_COMPARED]}
    exact = by_folded.get(word.casefold())
    if exact is not None:
        return exact
    near = get_close_matches(word.casefold(), by_folded, n=1, cutoff=0.6)
    return by_folded[near[0]] if near else None


def guess(word: str, known: Collection[str], *, otherwise: str) -> str:
    """Return a remedy: the nearest known name, or the alternative."""
    near = nearest(word, known)
    return otherwise if near is None else f"did you mean {quote(near)}? Otherwise {otherwise}"
