"""How many more hosted clusters fit: against trying every way to place them."""

from functools import cache
from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from fairway.providers.hosted.headroom import Headroom, slots
from fairway.providers.hosted.sizing import Profile

UNIT = Profile(name="unit", cpu=3, memory=3, pods=3)
ALONE = Profile(name="alone", cpu=1, memory=1, pods=1, replicas=1)


def zone(name: str, parts: float) -> Headroom:
    return Headroom(zone=name, cpu=parts, memory=parts, pods=parts)


@cache
def tried(parts: tuple[int, ...]) -> int:
    """The most groups of three zones, each taking one part of each."""
    best = 0
    for chosen in combinations(range(len(parts)), 3):
        if all(parts[index] for index in chosen):
            left = tuple(part - (index in chosen) for index, part in enumerate(parts))
            best = max(best, 1 + tried(tuple(sorted(left))))
    return best


@given(st.lists(st.integers(0, 5), min_size=0, max_size=5))
def test_slots_equal_best_spread_over_zones(parts: list[int]) -> None:
    rooms = [zone(f"z{index}", part) for index, part in enumerate(parts)]
    assert slots(rooms, UNIT) == tried(tuple(sorted(parts)))


@given(st.lists(st.tuples(st.sampled_from(["", "a", "b", "c", "d"]), st.integers(-3, 9)), max_size=8))
def test_slots_are_monotone_in_headroom(nodes: list[tuple[str, int]]) -> None:
    rooms = [zone(name, parts) for name, parts in nodes]
    zones = {name for name, _ in nodes if name}
    for name in zones or {""}:
        assert slots([*rooms, zone(name, 1)], UNIT) >= slots(rooms, UNIT)


def test_three_replicas_do_not_fit_two_zones() -> None:
    assert slots([zone("a", 100), zone("b", 100)], UNIT) == 0
    assert slots([zone("a", 100), zone("b", 100), zone("c", 1)], UNIT) == 1


def test_replicas_are_not_spread_without_zones() -> None:
    assert slots([zone("", 4), zone("", 5)], UNIT) == 3


def test_single_replica_fits_any_zone() -> None:
    assert slots([zone("a", 2), zone("", 3)], ALONE) == 5


def test_scarcest_resource_limits_slots() -> None:
    plenty = [Headroom(zone=name, cpu=100, memory=100, pods=2) for name in "abc"]
    assert slots(plenty, UNIT) == 2


def test_overcommitted_node_does_not_reduce_slots() -> None:
    assert slots([zone("", -50), zone("", 3)], UNIT) == 1
