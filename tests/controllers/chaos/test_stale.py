"""Every written decision was correct at some moment that is not before that of the previous write."""

import asyncio
import random
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from itertools import count
from typing import Final

import pytest

from chaos.servers import Server
from controllers.chaos.harness import PATIENCE, ChaosHarness, harness, until_over
from controllers.chaos.inventor import CLUSTERS
from fairway.api.cluster import ManagedCluster
from fairway.api.placement import PlacementSpec
from fairway.api.resources import MANAGED_CLUSTERS, PLACEMENTS
from fairway.testing import builders
from forked import POLL
from kubewire.client import Client

ON: Final = "on"
PLACED: Final = ("p0", "p1", "p2")


class CandidateHistory:
    """The candidates after every change, as a watch reports them."""

    def __init__(self) -> None:
        self.all: list[tuple[int, frozenset[str]]] = []
        self._there: dict[str, bool] = {}

    @asynccontextmanager
    async def following(self, client: Client) -> AsyncIterator[None]:
        """At the end of the block all changes in it are recorded."""
        listing = await client.list(MANAGED_CLUSTERS)
        for item in listing.items:
            self._see(item, gone=False)
        task = asyncio.create_task(self._follow(client, listing.resource_version))
        try:
            yield
            async with asyncio.timeout(PATIENCE):
                while self.all[-1][0] < await newest(client):
                    await asyncio.sleep(POLL)
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    async def _follow(self, client: Client, since: str) -> None:
        async for event in client.watch(MANAGED_CLUSTERS, resource_version=since, bookmarks=False):
            self._see(event.object, gone=event.type == "DELETED")

    def _see(self, cluster: ManagedCluster, *, gone: bool) -> None:
        meta = cluster.metadata
        self._there[meta.name] = not gone and meta.labels.get(ON) == "true"
        chosen = frozenset(name for name, on in self._there.items() if on)
        version = int(meta.resourceVersion)
        if not self.all or version > self.all[-1][0]:
            self.all.append((version, chosen))


def stale(
    writes: Sequence[tuple[int, frozenset[str]]], truths: Sequence[tuple[int, frozenset[str]]]
) -> list[str]:
    """Return writes that match no moment since that of the previous write. Both are ordered by version."""
    unmatched: list[str] = []
    at = 0
    known: frozenset[str] | None = None
    for version, content in writes:
        if content == known:
            continue
        known = content
        later = [
            place
            for place, (moment, truth) in enumerate(truths)
            if place >= at and moment < version and truth == content
        ]
        if later:
            at = later[0]
        else:
            unmatched.append(f"version {version}: {sorted(content)}, after {truths[at]}")
    return unmatched


def test_stale_writes_are_detected() -> None:
    a, b, both, none = frozenset("a"), frozenset("b"), frozenset("ab"), frozenset[str]()
    truths = [(1, none), (2, a), (4, both), (6, b)]
    assert stale([(3, a), (5, both), (7, b)], truths) == []
    assert stale([(5, a), (7, b)], truths) == [], "late is not stale"
    assert stale([(7, b), (8, b)], truths) == []
    assert stale([(5, both), (7, a)], truths), "it was over already"
    assert stale([(3, both)], truths), "it was not yet true"
    assert stale([(7, frozenset("c"))], truths), "it was never true"


@pytest.mark.embedded  # a real hub refuses the same writes in test_chaos
async def test_controllers_write_nothing_from_stale_views(
    server: Server, chance: random.Random, length: int
) -> None:
    spec = PlacementSpec(
        predicates=(builders.predicate(labels=builders.selector(labels={ON: "true"})),),
        prioritizerPolicy=builders.policy(mode="Exact"),
    )
    truths = CandidateHistory()
    async with harness(server, chance) as at:
        for name in CLUSTERS:
            await at.users.put(MANAGED_CLUSTERS, builders.cluster(name))
        for name in PLACED:
            await at.users.put(PLACEMENTS, builders.placement(name, spec=spec))
        for number in count():
            # On a busy machine few states are seen, but the last one of each round is always written.
            if number >= 4 * length and len({content for _, content in written(at, "p0-decision-1")}) > 5:
                break
            async with truths.following(at.client):
                at.storm()
                await until_over(at, asyncio.create_task(toggle(at, 40)))
                at.calm()
                await at.right()
            if number % 2:
                await at.restart()
        for name in PLACED:
            assert stale(written(at, f"{name}-decision-1"), truths.all) == []


async def toggle(at: ChaosHarness, count: int) -> None:
    for _ in range(count):
        name, on = at.chance.choice(CLUSTERS), at.chance.choice(("true", "false"))
        await at.users.put(MANAGED_CLUSTERS, builders.cluster(name, labels={ON: on}))


async def newest(client: Client) -> int:
    """The version of the last change of a cluster."""
    clusters = (await client.list(MANAGED_CLUSTERS)).items
    return max(int(cluster.metadata.resourceVersion) for cluster in clusters)


def written(at: ChaosHarness, page: str) -> list[tuple[int, frozenset[str]]]:
    """Return version and clusters of every write of a page."""
    writes = [
        (
            int(write.document["metadata"]["resourceVersion"]),
            frozenset(one["clusterName"] for one in write.document.get("status", {}).get("decisions", ())),
        )
        for write in at.proxy.writes
        if write.method == "PATCH" and write.document["metadata"]["name"] == page
    ]
    return sorted(writes, key=lambda entry: entry[0])
