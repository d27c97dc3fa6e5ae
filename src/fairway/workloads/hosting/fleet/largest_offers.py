"""The most that any hosting cluster could ever give to one hosted cluster, by dimension.

A demand beyond it would wait forever, or, where only the number of hosted clusters is limited, take a place with
amounts that no machine has.
"""

from collections.abc import Mapping
from heapq import heappop, heappush

from fairway.engine.workload import ResourceList
from fairway.workloads.hosting.resources import DIMENSIONS, UNLIMITED


class LargestOffers:
    """A heap for each dimension, because each score that a host publishes may change its offer."""

    def __init__(self) -> None:
        self._offers: dict[str, ResourceList] = {}
        self._heaps: dict[str, list[tuple[int, str]]] = {resource: [] for resource in DIMENSIONS}
        """Negative amounts; also of offers that have changed since, until they are at the top."""

    def put(self, host: str, offer: ResourceList) -> bool:
        """Set what a host offers; a dimension that is absent does not limit it. Return whether a maximum grew."""
        if self._offers.get(host) == offer:
            return False
        before = [self.largest(resource) for resource in DIMENSIONS]
        self._offers[host] = offer
        for resource in DIMENSIONS:
            heappush(self._heaps[resource], (-offer.get(resource, UNLIMITED), host))
        return any(
            now is not None and old is not None and now[0] > old[0]
            for old, now in zip(before, (self.largest(resource) for resource in DIMENSIONS), strict=True)
        )

    def remove(self, host: str) -> bool:
        """Remove a host. Return whether no host is known now, so that nothing is limited."""
        return self._offers.pop(host, None) is not None and not self._offers

    def view(self) -> Mapping[str, tuple[int, str]]:
        """Return the largest offer and its host, by resource; nothing while no host is known."""
        largest = {resource: self.largest(resource) for resource in DIMENSIONS}
        return {resource: offer for resource, offer in largest.items() if offer is not None}

    def largest(self, resource: str) -> tuple[int, str] | None:
        """Return the largest offer and its host; None while no host is known."""
        heap = self._heaps[resource]
        while heap:
            negative, host = heap[0]
            offer = self._offers.get(host)
            if offer is not None and offer.get(resource, UNLIMITED) == -negative:
                return -negative, host
            heappop(heap)
        return None
