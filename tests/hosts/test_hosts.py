from itertools import pairwise
from unittest import mock

import pytest

from fairway.hosts import bitmap, hosts
from fairway.hosts.hosts import GAP, RANK_BITS, Hosts


def index_of(*names: str, capacity: int = 64) -> Hosts[str]:
    index: Hosts[str] = Hosts(capacity=capacity)
    for name in names:
        index.add(name, name.upper())
    return index


def by_rank(index: Hosts[str]) -> list[str]:
    return sorted(index.row_of, key=lambda name: int(index.rank[index.row_of[name]]))


def test_host_rows_are_assigned_in_order() -> None:
    index = index_of("c", "a", "b")
    assert index.row_of == {"c": 0, "a": 1, "b": 2}
    assert index.objects == ["C", "A", "B"]
    assert bitmap.rows_of(index.live).tolist() == [0, 1, 2]
    assert len(index) == 3


def test_host_keeps_its_row() -> None:
    index = index_of("a", "b", "c")
    index.remove("a")
    index.add("z", "Z")
    index.remove("b")
    assert index.row_of == {"c": 2, "z": 0}
    assert bitmap.rows_of(index.live).tolist() == [0, 2]


def test_row_of_removed_host_is_reused() -> None:
    index = index_of("a", "b", "c")
    assert index.remove("b") == 1
    assert (index.names[1], index.objects[1]) == ("", None)
    assert index.add("new", "NEW") == 1
    assert index.add("newer", "NEWER") == 3
    assert index.names == ["a", "new", "c", "newer"]


def test_removing_missing_host_raises() -> None:
    with pytest.raises(KeyError):
        index_of("a").remove("b")


def test_host_ranks_are_in_name_order_with_gaps() -> None:
    index = index_of("m", "z", "a", "n")
    assert by_rank(index) == index.in_name_order() == ["a", "m", "n", "z"]
    ranks = sorted(int(index.rank[row]) for row in index.row_of.values())
    assert all(later - earlier > 1 for earlier, later in pairwise(ranks))


def test_new_host_in_a_gap_keeps_other_ranks() -> None:
    index = index_of("a", "c")
    before = index.rank[:2].tolist()
    index.add("b", "B")
    assert index.rank[:2].tolist() == before
    assert index.renumbered == 0


def test_new_host_without_gap_renumbers_ranks() -> None:
    with mock.patch.object(hosts, "GAP", 2):
        index = index_of("a", "c")
        index.add("b", "B")
        assert index.renumbered == 0
        index.add("bb", "BB")
        assert index.renumbered == 1
        assert by_rank(index) == ["a", "b", "bb", "c"]


def test_rank_overflow_renumbers_ranks() -> None:
    with mock.patch.object(hosts, "RANK_BITS", 6), mock.patch.object(hosts, "GAP", 16):
        index = index_of(*(f"c{at}" for at in range(9)))
        assert index.renumbered > 0
        assert by_rank(index) == [f"c{at}" for at in range(9)]
        assert max(int(rank) for rank in index.rank) < 1 << 6


def test_ranks_of_a_million_hosts_fit_their_bits() -> None:
    assert 1_000_000 * GAP < 1 << RANK_BITS


def test_adding_hosts_at_once_equals_one_by_one() -> None:
    index: Hosts[str] = Hosts(capacity=64)
    index.add_all((name, name.upper()) for name in ("c", "a", "b"))
    single = index_of("c", "a", "b")
    assert (index.row_of, index.names, index.objects) == (single.row_of, single.names, single.objects)
    assert by_rank(index) == ["a", "b", "c"]
    assert (index.live == single.live).all()
    assert index.add("d", "D") == 3


def test_hosts_have_room_with_free_row_or_capacity() -> None:
    index = index_of(*(f"c{at:02d}" for at in range(64)))
    assert not index.room()
    index.remove("c10")
    assert index.room()
    index.add("new", "NEW")
    assert not index.room()
    index.grow(128)
    assert index.room()
    assert index.capacity == 128
    assert index.add("newer", "NEWER") == 64
    assert bitmap.count(index.live) == 65


def test_forked_hosts_are_independent() -> None:
    index = index_of("a", "b")
    fork = index.fork()
    fork.remove("a")
    fork.add("c", "C")
    assert index.row_of == {"a": 0, "b": 1}
    assert index.names == ["a", "b"]
    assert fork.row_of == {"b": 1, "c": 0}
    assert by_rank(index) == ["a", "b"]
    assert by_rank(fork) == ["b", "c"]
    index.remove("a")
    fork = index.fork()
    assert (fork.add("c", "C"), index.add("d", "D")) == (0, 0)
