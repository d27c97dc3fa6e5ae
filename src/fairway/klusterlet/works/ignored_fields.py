"""Fields that a manifest ignores: they keep their values on the cluster."""

from collections.abc import Iterable, Mapping
from typing import Any

from kubewire.api.jsonpath import Path, Place, find


def keep_live_values(desired: Any, live: Any, paths: Iterable[Path]) -> None:
    """Replace values of ``desired`` at these paths by those of ``live``, in place.

    The fields are not removed, because applying without a field that was applied before removes it.
    """
    places = {place for path in paths for place, _ in find(path, desired)}
    # Deepest and last first, so that removing an item does not shift later places.
    for place in sorted(places, key=_position, reverse=True):
        if place:
            _replace(desired, live, place)


def _position(place: Place) -> list[tuple[int, str]]:
    return [(step, "") if isinstance(step, int) else (-1, step) for step in place]


def _replace(desired: Any, live: Any, place: Place) -> None:
    for key in place[:-1]:
        desired, live = desired[key], _live_value(desired, live, key)
    last = place[-1]
    there = _live_value(desired, live, last)
    if there is None:
        del desired[last]
    else:
        desired[last] = there


def _live_value(desired: Any, live: Any, key: str | int) -> Any:
    """Return the live value of the same place. List items with a name are matched by name."""
    if isinstance(key, str):
        return live.get(key) if isinstance(live, Mapping) else None
    if not isinstance(live, list):
        return None
    item = desired[key]
    if isinstance(item, Mapping) and "name" in item:
        return next(
            (
                candidate
                for candidate in live
                if isinstance(candidate, Mapping) and candidate.get("name") == item["name"]
            ),
            None,
        )
    return live[key] if key < len(live) else None
