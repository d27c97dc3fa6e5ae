"""Every namespace belongs to one shard, permanently."""

import hypothesis.strategies as st
import pytest
from hypothesis import given

from fairway.controllers.placement.shard import BAD_SHARD, Shard


@given(namespace=st.text(max_size=63), count=st.integers(1, 50))
def test_namespace_belongs_to_one_shard(namespace: str, count: int) -> None:
    assert sum(Shard(index=index, count=count).has(namespace) for index in range(count)) == 1


def test_shard_of_a_namespace_is_stable() -> None:
    """Otherwise two releases side by side would both leave a namespace alone, or both write."""
    names = ("default", "ns1", "ns2", "team-a", "team-b", "prod")
    shard_of = {name: next(at for at in range(5) if Shard(index=at, count=5).has(name)) for name in names}
    assert shard_of == {"default": 4, "ns1": 4, "ns2": 2, "team-a": 1, "team-b": 4, "prod": 4}


@given(count=st.integers(1, 999_999), data=st.data())
def test_shard_survives_a_round_trip(count: int, data: st.DataObject) -> None:
    shard = Shard(index=data.draw(st.integers(0, count - 1)), count=count)
    assert Shard.parse(str(shard)) == shard


@pytest.mark.parametrize(
    "text", ["", "1", "1/1", "3/2", "-1/2", "0/0", "1/2/3", "a/b", " 0/2", "٠/٢", "0/9999999"]
)
def test_invalid_shard_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a shard") as refusal:
        Shard.parse(text)
    assert str(refusal.value) == BAD_SHARD.format(text=text)


def test_each_shard_has_its_own_lease() -> None:
    assert Shard().lease == "fairway-placement"
    assert Shard(index=1, count=3).lease == "fairway-placement-1-of-3"
    assert len({Shard(index=index, count=3).lease for index in range(3)}) == 3
