"""How many more hosted clusters of a size fit, per zone where high availability needs it.

A control plane consists of many small pods, so the free resources of a zone are summed up; every replica needs its own
zone.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from fairway.providers.hosted.sizing import Profile


@dataclass(frozen=True, slots=True, kw_only=True)
class Headroom:
    """Free resources of one or several nodes. ``zone`` is empty if unknown."""

    zone: str = ""
    cpu: float
    memory: float
    pods: float


def free(rooms: Iterable[Headroom]) -> Headroom:
    """Free resources of all nodes. A node with more requests than resources takes nothing from the others."""
    rooms = list(rooms)
    return Headroom(
        cpu=sum(max(room.cpu, 0) for room in rooms),
        memory=sum(max(room.memory, 0) for room in rooms),
        pods=sum(max(room.pods, 0) for room in rooms),
    )


def zones(rooms: Iterable[Headroom]) -> int:
    """Number of zones with nodes; 1 if no node has a zone."""
    return len({room.zone for room in rooms if room.zone}) or 1


def slots(rooms: Iterable[Headroom], profile: Profile) -> int:
    """Number of hosted clusters of this size that still fit.

    Without zone labels on any node, replicas are not spread.
    """
    by_zone = _sum_by_zone(rooms)
    parts = [_replicas_in(zone, profile) for zone in by_zone]
    if profile.replicas == 1 or not any(zone.zone for zone in by_zone):
        return sum(parts) // profile.replicas
    return _spread([part for zone, part in zip(by_zone, parts, strict=True) if zone.zone], profile.replicas)


def _sum_by_zone(rooms: Iterable[Headroom]) -> list[Headroom]:
    by_zone: dict[str, list[Headroom]] = {}
    for room in rooms:
        by_zone.setdefault(room.zone, []).append(room)
    return [replace(free(members), zone=zone) for zone, members in sorted(by_zone.items())]


def _replicas_in(zone: Headroom, profile: Profile) -> int:
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
    """Maximum number of hosted clusters whose replicas are all in different zones.

    A number is feasible if the zones, with at most one replica of each cluster, hold all replicas.
    """
    low, high = 0, sum(parts) // replicas
    while low < high:
        middle = (low + high + 1) // 2
        if sum(min(part, middle) for part in parts) >= replicas * middle:
            low = middle
        else:
            high = middle - 1
    return low
