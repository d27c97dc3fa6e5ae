"""Fields of a manifest that the agent leaves as they are on the cluster."""

from collections.abc import Iterable, Mapping
from typing import Any

from fairway.api.jsonpath import Path, Place, find


def left_alone(desired: Any, live: Any, paths: Iterable[Path]) -> None:
    """Puts what is on the cluster in place of what ``desired`` says at these paths; changes ``desired``.

    Fields are not left out: who applies without a field it has applied before asks for its removal.
    """
    places = {place for path in paths for place, _ in find(path, desired)}
    # Deepest and last first, so that removing from a list does not move the places still to come.
    for place in sorted(places, key=_position, reverse=True):
        if place:
            _leave(desired, live, place)


def _position(place: Place) -> list[tuple[int, str]]:
    return [(each, "") if isinstance(each, int) else (-1, each) for each in place]


def _leave(desired: Any, live: Any, place: Place) -> None:
    for key in place[:-1]:
        desired, live = desired[key], _beside(desired, live, key)
    last = place[-1]
    there = _beside(desired, live, last)
    if there is None:
        del desired[last]
    else:
        desired[last] = there


def _beside(desired: Any, live: Any, key: str | int) -> Any:
    """The same place on the cluster. Items with a name keep it when they move."""
    if isinstance(key, str):
        return live.get(key) if isinstance(live, Mapping) else None
    if not isinstance(live, list):
        return None
    item = desired[key]
    if isinstance(item, Mapping) and "name" in item:
        return next(
            (each for each in live if isinstance(each, Mapping) and each.get("name") == item["name"]), None
        )
    return live[key] if key < len(live) else None
