"""Resolve a name that a user typed, or raise an error with suggestions."""

import difflib
from collections.abc import Collection, Sequence
from typing import Final

from fairway.whatif.world import Key, World

NO_PLACEMENT: Final = "placement {name} not found"
NO_CLUSTER: Final = "cluster {name} not found"
AMBIGUOUS: Final = "placement {name} exists in several namespaces: {found}"
DID_YOU_MEAN: Final = "did you mean {near}?"
KNOWN: Final = "known: {names}"
NONE_KNOWN: Final = "the input has none"
_SHOWN: Final = 5
_NEAR: Final = 3
_MOST_COMPARED: Final = 20_000


class UnknownNameError(LookupError):
    """A name that matches no object, or several. The message lists candidates."""


def find_placement(world: World, text: str) -> Key:
    """Resolve ``namespace/name``, or a name alone if only one placement has it."""
    namespace, slash, name = text.partition("/")
    if slash:
        if (namespace, name) in world.placements:
            return namespace, name
    else:
        keys = sorted(key for key in world.placements if key[1] == text)
        if len(keys) == 1:
            return keys[0]
        if keys:
            listed = ", ".join(map("/".join, keys))
            raise UnknownNameError(AMBIGUOUS.format(name=text, found=listed))
    # Compare names only: namespaces are long and shared.
    known: dict[str, list[str]] = {}
    for key in sorted(world.placements):
        known.setdefault(key[1], []).append("/".join(key))
    near = [full_name for similar in _near(name or text, known) for full_name in known[similar]]
    hint = _did_you_mean(near) if near else _listed(["/".join(key) for key in sorted(world.placements)])
    raise UnknownNameError(f"{NO_PLACEMENT.format(name=text)}; {hint}")


def find_cluster(world: World, text: str) -> str:
    names = world.fleet.snapshot().hosts.row_of
    if text in names:
        return text
    raise UnknownNameError(f"{NO_CLUSTER.format(name=text)}; {suggestion(text, sorted(names))}")


def suggestion(text: str, known: Collection[str]) -> str:
    """Return the nearest names, else the first few."""
    near = _near(text, known)
    return _did_you_mean(near) if near else _listed(list(known))


def _near(text: str, known: Collection[str]) -> list[str]:
    return difflib.get_close_matches(text, known, n=_NEAR, cutoff=0.6) if len(known) <= _MOST_COMPARED else []


def _did_you_mean(near: Sequence[str]) -> str:
    return DID_YOU_MEAN.format(near=" or ".join(near[:_NEAR]))


def _listed(names: Sequence[str]) -> str:
    if not names:
        return NONE_KNOWN
    listed = ", ".join(names[:_SHOWN])
    more = len(names) - _SHOWN
    return KNOWN.format(names=f"{listed} and {more:,} more" if more > 0 else listed)
