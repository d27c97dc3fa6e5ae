"""Changes that take several writes, on several pages."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field

import msgspec

from controllers.hub_fleet import HubFleet
from fairway.api.placement import (
    DecisionGroup,
    DecisionStrategy,
    GroupClusterSelector,
    GroupStrategy,
    PlacementSpec,
    PrioritizerPolicy,
)
from fairway.api.resources import (
    MANAGED_CLUSTER_SET_BINDINGS,
    MANAGED_CLUSTERS,
    PLACEMENT_DECISIONS,
    PLACEMENTS,
)
from kubewire.api.selector import LabelSelector

PAGE_SIZE = 10
"""Clusters on a page in these tests: a tenth of OCM's, so that three pages take a tenth of the clusters."""
SIDE = "side"
BY_NAME = PrioritizerPolicy(mode="Exact")
"""Without prioritizers, so that placements do not depend on each other."""

Rooms = Sequence[str]
"""Namespaces, each with a placement ``p``."""


@dataclass(frozen=True, kw_only=True)
class Change:
    name: str
    clusters: int
    """Number of clusters at first; every other is on the left side."""
    spec: PlacementSpec | None
    """The first spec; None if the placement does not exist yet."""
    happen: Callable[[HubFleet, Rooms], Awaitable[None]]
    before: int
    """Clusters chosen."""
    after: int
    usual: bool = True
    """Whether it is part of ``make test``."""
    most: int = 9
    """It takes fewer writes than this."""
    labels: Callable[[int], Mapping[str, str]] = field(
        default=lambda number: {SIDE: "right" if number % 2 else "left"}
    )

    def __str__(self) -> str:
        return self.name

    async def people(self, fleet: HubFleet) -> None:
        """Create all while no controller runs."""
        await asyncio.gather(
            *(fleet.cluster(word(number), labels=self.labels(number)) for number in range(self.clusters))
        )


def word(number: int) -> str:
    return f"c{number:03}"


def sides(first: str, second: str) -> PlacementSpec:
    groups = tuple(
        DecisionGroup(
            groupName=name,
            groupClusterSelector=GroupClusterSelector(labelSelector=LabelSelector(matchLabels={SIDE: side})),
        )
        for name, side in (("one", first), ("two", second))
    )
    strategy = DecisionStrategy(groupStrategy=GroupStrategy(decisionGroups=groups))
    return PlacementSpec(prioritizerPolicy=BY_NAME, decisionStrategy=strategy)


def chooses(count: int | None = None) -> PlacementSpec:
    return PlacementSpec(prioritizerPolicy=BY_NAME, numberOfClusters=count)


async def _one_more(fleet: HubFleet, _rooms: Rooms) -> None:
    await fleet.cluster("a000", labels={SIDE: "left"})


async def _one_less(fleet: HubFleet, _rooms: Rooms) -> None:
    await fleet.delete(MANAGED_CLUSTERS, fleet.name(word(0)))


async def _placed(fleet: HubFleet, rooms: Rooms) -> None:
    for room in rooms:
        await fleet.place("p", chooses(), namespace=room)


async def _unbound(fleet: HubFleet, rooms: Rooms) -> None:
    for room in rooms:
        await fleet.client.delete(MANAGED_CLUSTER_SET_BINDINGS, fleet.name("s"), namespace=room)


async def _torn(fleet: HubFleet, rooms: Rooms) -> None:
    for room in rooms:
        await fleet.client.delete(PLACEMENT_DECISIONS, "p-decision-2", namespace=room)


def _respecified(spec: PlacementSpec) -> Callable[[HubFleet, Rooms], Awaitable[None]]:
    async def happen(fleet: HubFleet, rooms: Rooms) -> None:
        for room in rooms:
            await fleet.edit(PLACEMENTS, "p", {"spec": msgspec.to_builtins(spec)}, namespace=room)

    return happen


CHANGES = (
    Change(
        name="one more at the front of three pages",
        clusters=20,
        spec=chooses(),
        happen=_one_more,
        before=20,
        after=21,
    ),
    Change(
        name="one less at the front of three pages",
        clusters=21,
        spec=chooses(),
        happen=_one_less,
        usual=False,
        before=21,
        after=20,
    ),
    Change(
        name="two groups swap their clusters",
        clusters=24,
        spec=sides("left", "right"),
        happen=_respecified(sides("right", "left")),
        before=24,
        after=24,
    ),
    Change(
        name="shrinks from 25 to 12",
        clusters=25,
        spec=chooses(25),
        happen=_respecified(chooses(12)),
        before=25,
        after=12,
    ),
    Change(name="new", clusters=25, spec=None, happen=_placed, before=0, after=25),
    Change(name="emptied", clusters=25, spec=chooses(), happen=_unbound, before=25, after=0, usual=False),
    Change(
        name="somebody deletes a page",
        clusters=25,
        spec=chooses(),
        happen=_torn,
        usual=False,
        before=25,
        after=25,
    ),
)
