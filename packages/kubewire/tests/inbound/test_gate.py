"""Which connections a server keeps: laws of the gate, and floods of silent clients."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubewire.inbound import Gate, Place, peer_of


class Door:
    """A gate, and the connections that it closed."""

    def __init__(self, gate: Gate) -> None:
        self.gate = gate
        self.closed: list[str] = []

    def admit(self, name: str, peer: str) -> Place | None:
        return self.gate.admit(peer, lambda: self.closed.append(name))


def test_oldest_unauthenticated_connection_is_closed_for_a_newer_one() -> None:
    door = Door(Gate(total=3))
    first = door.admit("first", "a")
    for name in ("second", "third"):
        door.admit(name, "a")
    door.gate.trust(first)
    assert door.admit("fourth", "a") is not None
    assert (door.closed, len(door.gate)) == (["second"], 3)


def test_flooding_peer_evicts_only_its_own_connections() -> None:
    door = Door(Gate(total=10, per_peer=10))
    door.admit("honest", "b")
    for number in range(100):
        assert door.admit(f"flood {number}", "a") is not None
    assert "honest" not in door.closed
    assert door.admit("late", "c") is not None
    assert "honest" not in door.closed


def test_peer_has_a_limit_of_its_own() -> None:
    door = Door(Gate(total=10, per_peer=2))
    trusted = [door.admit(f"trusted {number}", "a") for number in range(2)]
    for place in trusted:
        door.gate.trust(place)
    assert door.admit("third", "a") is None
    assert door.admit("other", "b") is not None
    assert door.closed == []


def test_only_unauthenticated_connections_of_a_peer_can_be_limited() -> None:
    door = Door(Gate(total=10, per_peer=10, waiting_per_peer=1))
    for number in range(5):
        door.gate.trust(door.admit(f"trusted {number}", "a"))
    door.admit("silent", "a")
    assert door.admit("next", "a") is not None
    assert door.closed == ["silent"]


def test_trusted_connections_fill_a_server_and_are_kept() -> None:
    door = Door(Gate(total=2))
    places = [door.admit(f"{number}", f"peer {number}") for number in range(2)]
    for place in places:
        door.gate.trust(place)
    assert door.admit("late", "c") is None
    door.gate.release(places[0])
    assert door.admit("late", "c") is not None
    assert door.closed == []


def test_clients_of_a_unix_socket_have_no_limit_each() -> None:
    door = Door(Gate(total=4, per_peer=1))
    assert all(door.admit(f"{number}", "") is not None for number in range(4))
    assert door.closed == []


class Named:
    def __init__(self, peername: object) -> None:
        self._peername = peername

    def get_extra_info(self, name: str) -> object:
        return self._peername if name == "peername" else None


@pytest.mark.parametrize(
    ("peername", "peer"),
    [
        (("10.1.2.3", 4711), "10.1.2.3"),
        (("2001:db8:1:2:3:4:5:6", 4711, 0, 0), "2001:db8:1:2::/64"),
        (("2001:db8:1:2::9", 4712, 0, 0), "2001:db8:1:2::/64"),
        (("::ffff:10.1.2.3", 4711, 0, 0), "10.1.2.3"),
        (("fe80::1%eth0", 4711, 0, 2), "fe80::/64"),
        (b"", ""),
        (None, ""),
    ],
)
def test_peer_is_an_address_or_an_ipv6_network(peername: object, peer: str) -> None:
    assert peer_of(Named(peername)) == peer  # type: ignore[arg-type]


Steps = st.lists(
    st.tuples(
        st.sampled_from(["open", "open", "open", "trust", "close"]), st.integers(0, 3), st.integers(0, 50)
    ),
    max_size=80,
)


@given(
    steps=Steps,
    total=st.integers(1, 8),
    per_peer=st.integers(1, 8),
    waiting=st.integers(1, 8),
)
def test_gate_keeps_its_limits_and_every_trusted_connection(
    steps: list[tuple[str, int, int]], total: int, per_peer: int, waiting: int
) -> None:
    gate = Gate(total=total, per_peer=per_peer, waiting_per_peer=waiting)
    open_: dict[int, Place] = {}
    trusted: set[int] = set()
    for number, (step, peer, which) in enumerate(steps):
        if step == "open":
            refusable = (
                len(trusted) >= total or sum(open_[key].peer == f"{peer}" for key in trusted) >= per_peer
            )

            def close(number: int = number) -> None:
                assert number not in trusted
                del open_[number]

            place = gate.admit(f"{peer}", close)
            if place is None:
                assert refusable
            else:
                open_[number] = place
        elif open_:
            key = sorted(open_)[which % len(open_)]
            if step == "trust":
                gate.trust(open_[key])
                trusted.add(key)
            else:
                gate.release(open_.pop(key))
                trusted.discard(key)
        assert len(gate) == len(open_) <= total
        peers = Counter(place.peer for place in open_.values())
        waiters = Counter(place.peer for key, place in open_.items() if key not in trusted)
        assert all(count <= per_peer for count in peers.values())
        assert all(count <= waiting for count in waiters.values())
