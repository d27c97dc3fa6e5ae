"""Creates random clusters, sets, scores and placements from a seed, with few names, so that they interact."""

import random
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final, TypeVar

from msgspec import structs

from fairway.api.cluster import ManagedCluster, Taint
from fairway.api.clusterset import ManagedClusterSet, ManagedClusterSetBinding
from fairway.api.decision import ClusterDecision, PlacementDecision, PlacementDecisionStatus
from fairway.api.placement import (
    PLACEMENT_LABEL,
    SCHEDULING_DISABLED_ANNOTATION,
    ClusterPredicate,
    DecisionGroup,
    DecisionStrategy,
    GroupClusterSelector,
    GroupStrategy,
    Placement,
    PlacementSpec,
    PrioritizerConfig,
    PrioritizerPolicy,
    SpreadConstraint,
    SpreadPolicy,
    Toleration,
)
from fairway.api.score import AddOnPlacementScore, ManagedClusterScore
from fairway.testing import builders
from fairway.workloads.placement.reconcile_plan import KEEP, ON_MISCONFIGURATION
from kubewire.api.selector import LabelSelector

T = TypeVar("T")

CLUSTERS: Final = tuple(f"c{number}" for number in range(6))
SETS: Final = ("default", "prod", "gpus")
NAMESPACES: Final = ("ns1", "ns2")
PLACEMENTS: Final = ("p0", "p1", "p2")
LABELS: Final = {"env": ("prod", "dev"), "gpu": ("true", "false"), "region": ("eu", "us", "ap")}
CLAIMS: Final = {"zone": ("a", "b"), "region": ("eu", "us")}
SCORES: Final = ("cpu", "mem")
CALCULATOR: Final = "ResourceRatioCPU"
EFFECTS: Final = ("NoSelect", "PreferNoSelect", "NoSelectIfNew")
EXPRESSIONS: Final = (
    'managedCluster.metadata.labels["env"] == "prod"',
    'managedCluster.scores("default").exists(s, s.name == "cpu" && s.value > 0)',
    'quantity(managedCluster.status.allocatable["cpu"]).isGreaterThan(quantity("2"))',
    "managedCluster.status.nothing",
    "this does not compile",
)
AGES: Final = (-600, -20, -5, 5, 20, 600)
"""Seconds between now and when a taint was added or a score expires."""


class Inventor:
    """``balance``: whether placements may use the prioritizer Balance. ``ages``: see ``AGES``."""

    def __init__(
        self, chance: random.Random, *, now: datetime, balance: bool = True, ages: Sequence[int] = AGES
    ) -> None:
        self.chance = chance
        self._now, self._balance, self._ages = now, balance, ages

    def one(self, pool: Sequence[T]) -> T:
        return self.chance.choice(pool)

    def some(self, pool: Sequence[T], *, most: int) -> tuple[T, ...]:
        return tuple(self.chance.sample(pool, self.chance.randint(0, min(most, len(pool)))))

    def rarely(self) -> bool:
        return self.chance.random() < 0.15

    def moment(self) -> datetime:
        return self._now.replace(microsecond=0) + timedelta(seconds=self.one(self._ages))

    # The fleet

    def cluster(self) -> ManagedCluster:
        return builders.cluster(
            self.one(CLUSTERS),
            labels={key: self.one(LABELS[key]) for key in self.some(tuple(LABELS), most=3)},
            claims={key: self.one(CLAIMS[key]) for key in self.some(tuple(CLAIMS), most=2)},
            taints=[self.taint()] if self.chance.random() < 0.3 else [],
            allocatable={"cpu": self.one("1248"), "memory": self.one(("1Gi", "8Gi"))},
            member_of=self.one(("default", "default", "default", "prod", "")),
        )

    def taint(self) -> Taint:
        return Taint(
            key=self.one(("gpu", "maint")),
            value=self.one(("", "a")),
            effect=self.one(EFFECTS),
            timeAdded=self.moment(),
        )

    def cluster_set(self) -> ManagedClusterSet:
        name = self.one(SETS)
        if name != "gpus":
            return builders.cluster_set(name)
        return builders.cluster_set(name, selector=builders.selector(labels={"gpu": self.one(LABELS["gpu"])}))

    def binding(self) -> ManagedClusterSetBinding:
        return builders.binding(self.one(SETS), namespace=self.one(NAMESPACES))

    def score(self) -> AddOnPlacementScore:
        return builders.score(
            self.one(CLUSTERS),
            {name: self.chance.randint(-100, 100) for name in self.some(SCORES, most=2)},
            valid_until=self.moment() if self.chance.random() < 0.4 else None,
        )

    def cluster_score(self) -> ManagedClusterScore:
        return builders.cluster_score(self.one(CLUSTERS), CALCULATOR, self.chance.randint(-100, 100))

    # Placements

    def placement(self) -> Placement:
        annotations: dict[str, str] = {}
        if self.rarely():
            annotations = self.one(
                ({SCHEDULING_DISABLED_ANNOTATION: "true"}, {ON_MISCONFIGURATION: KEEP}, {"other": "thing"})
            )
        return builders.placement(
            self.one(PLACEMENTS), namespace=self.one(NAMESPACES), spec=self.spec(), annotations=annotations
        )

    def spec(self) -> PlacementSpec:
        return PlacementSpec(
            clusterSets=self.some(SETS, most=2) if self.rarely() else (),
            numberOfClusters=self.one((None, None, 0, 1, 2, 3, 9)),
            predicates=(self.predicate(),) if self.chance.random() < 0.4 else (),
            tolerations=(self.toleration(),) if self.chance.random() < 0.4 else (),
            prioritizerPolicy=self.policy(),
            spreadPolicy=self.spread() if self.rarely() else SpreadPolicy(),
            decisionStrategy=DecisionStrategy(groupStrategy=self.groups()),
            sortBy=self.one(("", "", "ClusterName", "Score")),
            scoreRateLimit=self.one(("", "30s", "10m")),
        )

    def selector(self) -> LabelSelector:
        key = self.one(tuple(LABELS))
        if self.chance.random() < 0.5:
            return builders.selector(labels={key: self.one(LABELS[key])})
        operator = self.one(("In", "NotIn", "Exists", "DoesNotExist"))
        values = (self.one(LABELS[key]),) if operator in ("In", "NotIn") else ()
        return builders.selector(builders.requirement(key, operator, *values))

    def predicate(self) -> ClusterPredicate:
        match self.chance.randrange(3):
            case 0:
                return builders.predicate(labels=self.selector())
            case 1:
                key = self.one(tuple(CLAIMS))
                return builders.predicate(claims=[builders.requirement(key, "In", self.one(CLAIMS[key]))])
            case _:
                return builders.predicate(cel=[self.one(EXPRESSIONS)])

    def toleration(self) -> Toleration:
        return Toleration(
            key=self.one(("gpu", "maint")),
            operator="Exists",
            effect=self.one(("", *EFFECTS)),
            tolerationSeconds=self.one((None, 0, 10, 700)),
        )

    def policy(self) -> PrioritizerPolicy:
        weights = (-1, 1, 2, 5)
        pool: list[PrioritizerConfig] = [
            builders.builtin("ResourceAllocatableCPU", self.one(weights)),
            builders.builtin("TaintPreference", 1),
            builders.builtin(CALCULATOR, self.one(weights)),
            *(builders.addon(name, self.one(weights)) for name in SCORES),
        ]
        if self._balance and self.chance.random() < 0.3:
            return builders.policy(*self.some(pool, most=2))
        pool.append(builders.builtin("Steady", self.one((1, 3))))
        return builders.policy(*self.some(pool, most=3), mode="Exact")

    def spread(self) -> SpreadPolicy:
        constraint = SpreadConstraint(
            topologyKey="region",
            topologyKeyType=self.one(("Label", "Claim")),
            maxSkew=1,
            whenUnsatisfiable=self.one(("DoNotSchedule", "ScheduleAnyway")),
        )
        return SpreadPolicy(spreadConstraints=(constraint,))

    def groups(self) -> GroupStrategy:
        chosen = [
            DecisionGroup(
                groupName=name, groupClusterSelector=GroupClusterSelector(labelSelector=self.selector())
            )
            for name in self.some(("canary", "rest"), most=2 if self.chance.random() < 0.3 else 0)
        ]
        return GroupStrategy(
            decisionGroups=tuple(chosen), clustersPerDecisionGroup=self.one((None, None, None, 1, 2, "50%"))
        )

    # Interference by other clients

    def decision(self) -> PlacementDecision:
        """A decision under a name that the controller may use, or under another one."""
        placement = self.one(PLACEMENTS)
        name = self.one(
            (f"{placement}-decision-{self.chance.randint(1, 3)}", f"odd-{self.chance.randint(1, 2)}")
        )
        return builders.decision(
            name,
            self.some(CLUSTERS, most=3),
            placement=self.one((placement, placement, "other", "")),
            namespace=self.one(NAMESPACES),
        )

    def externally_modified(self, old: PlacementDecision) -> PlacementDecision:
        meta, named = old.metadata, list(old.status.decisions)
        match self.chance.randrange(5):
            case 0:
                named = [ClusterDecision(clusterName=cluster) for cluster in self.some(CLUSTERS, most=3)]
            case 1:
                named.reverse()
            case 2:
                named = [structs.replace(decision, score=-77) for decision in named]
            case 3:
                labels = self.one(
                    ({}, {PLACEMENT_LABEL: self.one(PLACEMENTS)}, {**meta.labels, "more": "labels"})
                )
                meta = structs.replace(meta, labels=labels)
            case _:
                meta = structs.replace(meta, ownerReferences=())
        status = PlacementDecisionStatus(decisions=tuple(named))
        return structs.replace(old, metadata=meta, status=status)
