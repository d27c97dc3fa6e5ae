"""How many more hosted clusters of a size fit, per zone where high availability needs it.

A control plane consists of many small pods, so the free resources of a zone are summed up; every replica needs its own
zone.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from fairway.providers.hosted.sizing import Profile


@dataclass(frozen=True, slots=True, kw_only=True)
class Headroom:
    """What is free on one node, or on several together. ``zone`` is empty where nobody says."""

    zone: str = ""
    cpu: float
    memory: float
    pods: float


def slots(rooms: Iterable[Headroom], profile: Profile) -> int:
    """Hosted clusters of this size that can still be placed.

    A node without a zone is in nobody's way: if no node has one, there are no zones to spread over.
    """
    zones = _together(rooms)
    parts = [_parts(zone, profile) for zone in zones]
    if profile.replicas == 1 or not any(zone.zone for zone in zones):
        return sum(parts) // profile.replicas
    return _spread([part for zone, part in zip(zones, parts, strict=True) if zone.zone], profile.replicas)


def _together(rooms: Iterable[Headroom]) -> list[Headroom]:
    zones: dict[str, list[Headroom]] = {}
    for room in rooms:
        zones.setdefault(room.zone, []).append(room)
    return [
        Headroom(
            zone=zone,
            cpu=sum(max(each.cpu, 0) for each in members),
            memory=sum(max(each.memory, 0) for each in members),
            pods=sum(max(each.pods, 0) for each in members),
        )
        for zone, members in sorted(zones.items())
    ]


def _parts(zone: Headroom, profile: Profile) -> int:
    """How many replicas fit into the zone."""
    share = 1 / profile.replicas
    return max(
        0,
        math.floor(
            min(
                zone.cpu / (profile.cpu * share),
                zone.memory / (profile.memory * share),
                zone.pods / math.ceil(profile.pods * share),
            )
            + 1e-9
        ),
    )


def _spread(parts: Sequence[int], replicas: int) -> int:
    """The most hosted clusters whose replicas are all in different zones.

    So many can be placed as long as the zones, none of which takes more than one replica of each, hold them all.
    """
    low, high = 0, sum(parts) // replicas
    while low < high:
        middle = (low + high + 1) // 2
        if sum(min(part, middle) for part in parts) >= replicas * middle:
            low = middle
        else:
            high = middle - 1
    return low
