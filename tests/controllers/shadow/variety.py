"""Placements of many kinds over a small fleet, decided by a seed. None depends on decisions of others.

OCM looks at a placement again when its clusters change, not when others decide; so what it says of one that balances
against others depends on when it was asked.
"""

import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from controllers.hub_fleet import HubFleet
from fairway.api.cluster import Taint
from fairway.api.placement import (
    DecisionGroup,
    DecisionStrategy,
    GroupClusterSelector,
    GroupStrategy,
    PlacementSpec,
    Toleration,
)
from fairway.testing import builders

CLUSTERS = 24
REGIONS = ("eu", "us", "ap")


def word(number: int) -> str:
    return f"c{number:02}"


async def people(fleet: HubFleet, *, chance: random.Random) -> None:
    added = datetime.now(UTC) - timedelta(hours=1)
    old = Taint(key="tier", value="old", effect="NoSelect", timeAdded=added)
    for number in range(CLUSTERS):
        await fleet.cluster(
            word(number),
            labels={"region": REGIONS[number % 3], "size": "big" if number % 2 else "small"},
            claims={"zone": "ab"[number % 2]},
            taints=[] if number % 7 else [old],
            allocatable={"cpu": str(chance.randint(1, 64)), "memory": f"{chance.randint(1, 64)}Gi"},
        )
        if number % 5:
            scores = {"cpu": chance.randint(-100, 100), "mem": chance.randint(-100, 100)}
            await fleet.score(word(number), scores)


async def unrest(fleet: HubFleet, *, chance: random.Random) -> None:
    """Some of everything changes."""
    for number in chance.sample(range(CLUSTERS), 6):
        await fleet.change_cluster(word(number), labels={"region": chance.choice(REGIONS)})
    for number in chance.sample(range(CLUSTERS), 6):
        scores = {"cpu": chance.randint(-100, 100), "mem": chance.randint(-100, 100)}
        await fleet.score(word(number), scores)
    for number in chance.sample(range(CLUSTERS), 4):
        await fleet.change_cluster(word(number), allocatable={"cpu": str(chance.randint(1, 64))})
    for number in chance.sample(range(CLUSTERS), 3):
        taint = Taint(key="tier", value="old", effect=chance.choice(("NoSelect", "NoSelectIfNew")))
        await fleet.change_cluster(word(number), taints=[taint])


def specs(chance: random.Random, count: int) -> Iterator[PlacementSpec]:
    predicates = (
        (),
        (builders.predicate(labels=builders.selector(labels={"region": "eu"})),),
        (builders.predicate(labels=builders.selector(builders.requirement("region", "NotIn", "ap"))),),
        (builders.predicate(claims=[builders.requirement("zone", "In", "a")]),),
        (builders.predicate(cel=['managedCluster.metadata.labels["size"] == "big"']),),
        (builders.predicate(cel=['managedCluster.scores("default").exists(s, s.value > 0)']),),
        (
            builders.predicate(labels=builders.selector(labels={"region": "eu"})),
            builders.predicate(labels=builders.selector(labels={"size": "big"})),
        ),
        # Syntax errors have Fairway's messages, other errors those of OCM.
        (builders.predicate(cel=["nothing == 1"]),),
        (builders.predicate(cel=["managedCluster.metadata.name"]),),
        (builders.predicate(labels=builders.selector(builders.requirement("region", "In"))),),
    )
    weights = (-5, -1, 1, 2, 10)
    for _ in range(count):
        prioritizers = [
            builders.builtin("Steady", chance.choice((1, 2, 10))),  # below 0 decisions never converge
            builders.builtin("ResourceAllocatableCPU", chance.choice(weights)),
            builders.builtin("ResourceAllocatableMemory", chance.choice(weights)),
            builders.addon("cpu", chance.choice(weights)),
            builders.addon("mem", chance.choice(weights)),
        ]
        tolerant = Toleration(
            key="tier", operator="Exists", tolerationSeconds=chance.choice((None, 60, 7200))
        )
        named = [
            DecisionGroup(
                groupName=name,
                groupClusterSelector=GroupClusterSelector(
                    labelSelector=builders.selector(labels={"region": region})
                ),
            )
            for name, region in (("canary", "eu"), ("second", "us"))
        ]
        yield PlacementSpec(
            numberOfClusters=chance.choice((None, None, 0, 1, 3, 7, 100)),
            predicates=chance.choice(predicates),
            prioritizerPolicy=builders.policy(
                *chance.sample(prioritizers, chance.randint(0, 3)), mode="Exact"
            ),
            tolerations=chance.choice(((), (), (tolerant,))),
            decisionStrategy=DecisionStrategy(
                groupStrategy=GroupStrategy(
                    decisionGroups=tuple(named[: chance.choice((0, 0, 1, 2))]),
                    clustersPerDecisionGroup=chance.choice((None, None, 1, 4, "25%")),
                )
            ),
        )
