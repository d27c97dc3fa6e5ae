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
def test_replicas_are_spread_over_zones_as_well_as_can_be(parts: list[int]) -> None:
    rooms = [zone(f"z{index}", part) for index, part in enumerate(parts)]
    assert slots(rooms, UNIT) == tried(tuple(sorted(parts)))


@given(st.lists(st.tuples(st.sampled_from(["", "a", "b", "c", "d"]), st.integers(-3, 9)), max_size=8))
def test_more_room_never_means_fewer_slots(nodes: list[tuple[str, int]]) -> None:
    rooms = [zone(name, parts) for name, parts in nodes]
    zones = {name for name, _ in nodes if name}
    for name in zones or {""}:
        assert slots([*rooms, zone(name, 1)], UNIT) >= slots(rooms, UNIT)


def test_two_zones_are_not_three() -> None:
    assert slots([zone("a", 100), zone("b", 100)], UNIT) == 0
    assert slots([zone("a", 100), zone("b", 100), zone("c", 1)], UNIT) == 1


def test_without_zones_there_is_nothing_to_spread_over() -> None:
    assert slots([zone("", 4), zone("", 5)], UNIT) == 3


def test_a_single_replica_fits_anywhere() -> None:
    assert slots([zone("a", 2), zone("", 3)], ALONE) == 5


def test_the_scarcest_resource_decides() -> None:
    plenty = [Headroom(zone=name, cpu=100, memory=100, pods=2) for name in "abc"]
    assert slots(plenty, UNIT) == 2


def test_a_node_with_more_promised_than_it_has_takes_nothing_from_others() -> None:
    assert slots([zone("", -50), zone("", 3)], UNIT) == 1
