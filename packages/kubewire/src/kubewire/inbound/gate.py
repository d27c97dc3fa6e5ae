"""Decide which connections a server keeps.

Anyone can open connections and send nothing. So unauthenticated ones never keep others out: at a limit, the oldest
unauthenticated connection is closed for the new one. An honest client is authenticated within milliseconds; an attacker
would have to fill the whole limit in that time, again and again.
"""

import asyncio
import ipaddress
from collections.abc import Callable
from typing import Final

LOCAL: Final = ""
"""The peer of all clients of a Unix socket."""
NETWORK_BITS: Final = 64
"""Of an IPv6 address: one machine usually has all addresses of such a network."""


class Place:
    """An admitted connection. ``close`` must close it at once, without waiting for its peer."""

    __slots__ = ("admitted", "close", "peer", "trusted")

    def __init__(self, peer: str, close: Callable[[], None]) -> None:
        self.peer, self.close = peer, close
        self.admitted = self.trusted = False


class Gate:
    """``total`` limits all connections, ``per_peer`` those of a peer, ``waiting_per_peer`` its unauthenticated ones."""

    def __init__(
        self, *, total: int, waiting_per_peer: int | None = None, per_peer: int | None = None
    ) -> None:
        self.total = total
        self._per_peer = total if per_peer is None else per_peer
        self._waiting_per_peer = self._per_peer if waiting_per_peer is None else waiting_per_peer
        self._places: set[Place] = set()
        self._count: dict[str, int] = {}
        self._waiting: dict[str, dict[Place, None]] = {}
        """Unauthenticated connections of each peer, oldest first."""
        self._ranks: dict[int, dict[str, None]] = {}
        """Peers by their number of unauthenticated connections. With it the peer that has the most is found without a
        search: accepting a connection must stay cheap while a server is flooded."""
        self._most = 0
        self.evicted = 0
        """How many connections were closed for newer ones."""
        self.refused = 0

    def __len__(self) -> int:
        return len(self._places)

    def admit(self, peer: str, close: Callable[[], None]) -> Place | None:
        """Return the place of a new connection; None if it must be closed."""
        if not self._make_room(peer):
            self.refused += 1
            return None
        place = Place(peer, close)
        place.admitted = True
        self._places.add(place)
        self._count[peer] = self._count.get(peer, 0) + 1
        self._set_waiting(place, waiting=True)
        return place

    def trust(self, place: Place | None) -> None:
        """Note that the client is authenticated: it is not evicted any more."""
        if place is not None and place.admitted and not place.trusted:
            place.trusted = True
            self._set_waiting(place, waiting=False)

    def release(self, place: Place | None) -> None:
        """Give back the place of a closed connection. Releasing it twice is harmless."""
        if place is None or not place.admitted:
            return
        place.admitted = False
        self._places.discard(place)
        left = self._count[place.peer] - 1
        if left:
            self._count[place.peer] = left
        else:
            del self._count[place.peer]
        if not place.trusted:
            self._set_waiting(place, waiting=False)

    async def close_all(self) -> None:
        """Close all connections, including those whose clients have yet to answer the TLS close_notify."""
        for place in tuple(self._places):
            place.close()
        while self._places:
            await asyncio.sleep(0)

    def _make_room(self, peer: str) -> bool:
        limited = peer != LOCAL  # clients of a Unix socket are one user, and cannot be distinguished
        if limited and (
            self._count.get(peer, 0) >= self._per_peer
            or len(self._waiting.get(peer, ())) >= self._waiting_per_peer
        ):
            return self._evict(peer)
        if len(self._places) < self.total:
            return True
        # The peer with the most unauthenticated connections pays, so that one flooding peer evicts only itself.
        return bool(self._most) and self._evict(next(iter(self._ranks[self._most])))

    def _evict(self, peer: str) -> bool:
        oldest = next(iter(self._waiting.get(peer, ())), None)
        if oldest is None:
            return False
        self.release(oldest)
        oldest.close()
        self.evicted += 1
        return True

    def _set_waiting(self, place: Place, *, waiting: bool) -> None:
        peer = place.peer
        mine = self._waiting.setdefault(peer, {})
        before = len(mine)
        if waiting:
            mine[place] = None
        else:
            mine.pop(place, None)
        after = len(mine)
        self._rank(peer, before, after)
        if not mine:
            del self._waiting[peer]

    def _rank(self, peer: str, before: int, after: int) -> None:
        if before:
            peers = self._ranks[before]
            del peers[peer]
            if not peers:
                del self._ranks[before]
        if after:
            self._ranks.setdefault(after, {})[peer] = None
        # A number changes by one at a time, so the peer that lost its rank is the next to look at.
        self._most = max(self._most, after) if after > before else self._most
        if self._most not in self._ranks:
            self._most = after


def peer_of(transport: asyncio.BaseTransport) -> str:
    """Return the peer of a connection."""
    name = transport.get_extra_info("peername")
    if not isinstance(name, tuple) or not name:
        return LOCAL
    host = str(name[0]).partition("%")[0]
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host
    if isinstance(address, ipaddress.IPv6Address):
        if address.ipv4_mapped is not None:
            return str(address.ipv4_mapped)
        return str(ipaddress.ip_network((address, NETWORK_BITS), strict=False))
    return host
