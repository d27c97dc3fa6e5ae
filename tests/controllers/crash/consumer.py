"""A consumer of decisions, which reads all pages with a placement's label as one list after every change.

It would remove its workloads from a cluster that is on no page, so every intermediate state counts.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, suppress
from itertools import pairwise

from controllers.settling import DEADLINE
from fairway.api.decision import PlacementDecision
from fairway.api.placement import PLACEMENT_LABEL
from fairway.api.resources import PLACEMENT_DECISIONS
from kubewire.client import Client

State = Counter[str]
"""Number of pages by cluster."""
Pages = dict[str, tuple[str, ...]]


class Consumer:
    """All states of the placements of one name, by namespace."""

    def __init__(self, placement: str = "p") -> None:
        self._placement = placement
        self._pages: dict[str, Pages] = {}
        self._versions: dict[tuple[str, str], str] = {}
        """Decisions by namespace and name."""
        self._states: dict[str, list[State]] = {}
        self._news = asyncio.Event()

    @asynccontextmanager
    async def following(self, client: Client) -> AsyncIterator[None]:
        listing = await client.list(PLACEMENT_DECISIONS)
        for item in listing.items:
            self._see("ADDED", item)
        task = asyncio.create_task(self._follow(client, listing.resource_version))
        try:
            yield
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    async def _follow(self, client: Client, since: str) -> None:
        async for event in client.watch(PLACEMENT_DECISIONS, resource_version=since, bookmarks=False):
            self._see(event.type, event.object)
            self._news.set()

    def _see(self, kind: str, decision: PlacementDecision) -> None:
        meta = decision.metadata
        pages = self._pages.setdefault(meta.namespace, {})
        pages.pop(meta.name, None)
        self._versions.pop((meta.namespace, meta.name), None)
        if kind != "DELETED":
            self._versions[meta.namespace, meta.name] = meta.resourceVersion
        if kind != "DELETED" and meta.labels.get(PLACEMENT_LABEL) == self._placement:
            pages[meta.name] = tuple(item.clusterName for item in decision.status.decisions)
        self._states.setdefault(meta.namespace, []).append(_union(pages))

    def begin(self) -> None:
        """Forget the states until now."""
        self._states = {namespace: [_union(pages)] for namespace, pages in self._pages.items()}

    def states(self, namespace: str) -> Sequence[State]:
        """The first is the initial state, which may be empty."""
        return self._states.get(namespace, [State()])

    async def caught_up(self, client: Client) -> None:
        """Wait until all earlier events are delivered; page contents alone cannot show that."""
        async with asyncio.timeout(DEADLINE):
            while True:
                self._news.clear()
                listing = await client.list(PLACEMENT_DECISIONS)
                if self._versions == {
                    (item.metadata.namespace, item.metadata.name): item.metadata.resourceVersion
                    for item in listing.items
                }:
                    return
                await self._news.wait()


def _union(pages: Pages) -> State:
    return State(cluster for clusters in pages.values() for cluster in clusters)


def faults(states: Sequence[State]) -> Iterator[str]:
    """Check a transition: each new cluster is added once, and a removed one does not return."""
    first, last = set(states[0]), set(states[-1])
    for number, state in enumerate(states):
        if missing := (first & last) - set(state):
            yield f"state {number}: {sorted(missing)} are missing, and chosen before and after"
        if first and last and not state:
            yield f"state {number}: nothing is chosen"
        if strangers := set(state) - first - last:
            yield f"state {number}: {sorted(strangers)} were not chosen before and are not after"
    for number, (before, after) in enumerate(pairwise(states), start=1):
        if lost := (set(before) - set(after)) & last:
            yield f"state {number}: {sorted(lost)} are gone again"
        if back := (set(after) - set(before)) & (first - last):
            yield f"state {number}: {sorted(back)} are back again"
    if doubled := [cluster for cluster, count in states[-1].items() if count > 1]:
        yield f"in the end: {sorted(doubled)} are there twice"
