"""Names in messages: lists that stay short, and guesses at what was meant."""

from collections.abc import Collection, Iterable, Sequence
from difflib import get_close_matches
from typing import Final

from fairway.api.selector import quote

SHOWN: Final = 3
_COMPARED: Final = 5000
"""Comparing with more names would take longer than the guess is worth."""


def some(names: Sequence[str], *, shown: int = SHOWN) -> str:
    """``a, b, c and 4 more``"""
    listed = ", ".join(names[:shown])
    hidden = len(names) - shown
    return f"{listed} and {hidden} more" if hidden > 0 else listed


def count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def quoted(names: Iterable[str]) -> str:
    return ", ".join(quote(name) for name in names)


def meant(word: str, known: Collection[str]) -> str | None:
    """The known name that is nearest, if one is near."""
    by_folded = {name.casefold(): name for name in sorted(known)[:_COMPARED]}
    exact = by_folded.get(word.casefold())
    if exact is not None:
        return exact
    near = get_close_matches(word.casefold(), by_folded, n=1, cutoff=0.6)
    return by_folded[near[0]] if near else None


def guess(word: str, known: Collection[str], *, otherwise: str) -> str:
    """A remedy: the nearest known name, or what to do when there is none."""
    near = meant(word, known)
    return otherwise if near is None else f"did you mean {quote(near)}? Otherwise {otherwise}"
