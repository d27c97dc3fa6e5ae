"""Random fleets and placements, with few names and values, so that objects refer to each other."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from hypothesis import strategies as st
from msgspec import structs

from fairway.api.cluster import ManagedCluster, Taint
from fairway.api.clusterset import ManagedClusterSet
from fairway.api.decision import PlacementDecision
from fairway.api.placement import (
    DecisionGroup,
    DecisionStrategy,
    GroupClusterSelector,
    GroupStrategy,
    Placement,
    PlacementSpec,
    SpreadConstraint,
    SpreadPolicy,
    Toleration,
)
from fairway.api.score import AddOnPlacementScore, ManagedClusterScore
from fairway.hosts.clusters.scores import SILENT
from fairway.hosts.instant import to_micros
from fairway.testing import builders
from fairway.workloads.placement.plugins import contract
from fairway.workloads.placement.plugins.score_debits import SCORE_DEBITS
from fairway.workloads.placement.plugins.trust import EXPIRED_SCORES, MISSING_SCORE
from kubewire.api.meta import Condition
from kubewire.api.selector import LabelSelector, LabelSelectorRequirement

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
NOW_MICROS = to_micros(NOW)

NAMES = tuple(f"c{number}" for number in range(7))
SETS = ("default", "prod", "gpus")
LABELS = {"env": ("prod", "dev"), "gpu": ("true", "false"), "region": ("eu", "us", "ap")}
CLAIMS = {"zone": ("a", "b"), "region": ("eu", "us")}
AMOUNTS = ("1", "2", "500m", "4", "1.5Gi", "0")
ODD_AMOUNTS = (*AMOUNTS, "-3", "1e400", "no amount")
SCORE_NAMES = ("cpu", "mem")
CALCULATORS = ("ResourceRatioCPU", "Latency")
EFFECTS = ("NoSelect", "PreferNoSelect", "NoSelectIfNew")

names = st.sampled_from(NAMES)
moments = st.sampled_from(
    [None, *(NOW + timedelta(seconds=seconds) for seconds in (-600, -20, -5, 0, 5, 600))]
)


usual_value = st.integers(-100, 100)
any_value = st.one_of(usual_value, st.integers(-(2**31), 2**31 - 1))
"""Includes values that the schema forbids, because without a schema they are used."""


def mappings(pool: Mapping[str, tuple[str, ...]]) -> st.SearchStrategy[dict[str, str]]:
    return st.fixed_dictionaries({}, optional={key: st.sampled_from(values) for key, values in pool.items()})


taints = st.builds(
    Taint,
    key=st.sampled_from(["gpu", "maint"]),
    value=st.sampled_from(["", "a"]),
    effect=st.sampled_from(EFFECTS),
    timeAdded=moments,
)


@st.composite
def clusters(
    draw: st.DrawFn, name: st.SearchStrategy[str] = names, *, amounts: tuple[str, ...] = AMOUNTS
) -> ManagedCluster:
    resources = st.fixed_dictionaries(
        {}, optional={"cpu": st.sampled_from(amounts), "memory": st.sampled_from(amounts)}
    )
    return builders.cluster(
        draw(name),
        labels=draw(mappings(LABELS)),
        claims=draw(mappings(CLAIMS)),
        taints=draw(st.lists(taints, max_size=2)),
        allocatable=draw(resources),
        capacity=draw(st.one_of(st.none(), resources)),
        version=draw(st.sampled_from(["", "v1.30.2", "v1.31.0"])),
        member_of=draw(st.sampled_from([*SETS, ""])),
        deleting=draw(st.sampled_from([None, None, None, NOW])),
    )


@st.composite
def requirements(draw: st.DrawFn, pool: Mapping[str, tuple[str, ...]] = LABELS) -> LabelSelectorRequirement:
    key = draw(st.sampled_from(sorted(pool)))
    operator = draw(st.sampled_from(["In", "NotIn", "Exists", "DoesNotExist"]))
    values = draw(st.lists(st.sampled_from([*pool[key], "nowhere"]), min_size=1, max_size=2, unique=True))
    return builders.requirement(key, operator, *(values if operator in ("In", "NotIn") else ()))


selectors = st.builds(
    LabelSelector,
    matchLabels=mappings(LABELS),
    matchExpressions=st.lists(requirements(), max_size=1).map(tuple),
)


@st.composite
def cluster_sets(draw: st.DrawFn) -> ManagedClusterSet:
    name = draw(st.sampled_from(SETS))
    return builders.cluster_set(name, selector=draw(selectors) if name == "gpus" else None)


@st.composite
def scores(draw: st.DrawFn, values: st.SearchStrategy[int] = usual_value) -> AddOnPlacementScore:
    made = builders.score(
        draw(names),
        draw(st.dictionaries(st.sampled_from(SCORE_NAMES), values)),
        name=draw(st.sampled_from(["default", "other"])),
        valid_until=draw(moments),
    )
    if draw(st.sampled_from([False, False, False, True])):
        silent = Condition(type=SILENT, status=draw(st.sampled_from(["True", "True", "False"])))
        made = structs.replace(made, status=structs.replace(made.status, conditions=(silent,)))
    return made


@st.composite
def cluster_scores(draw: st.DrawFn) -> ManagedClusterScore:
    value = draw(
        st.one_of(
            st.integers(-100, 100),
            st.integers(-(2**62), 2**62),
            st.sampled_from([2**53, 2**53 + 1, 2**62, 2**62 + 1, 2**63 - 1, -(2**63)]),
        )
    )
    return builders.cluster_score(draw(names), draw(st.sampled_from(CALCULATORS)), value)


@st.composite
def decisions(draw: st.DrawFn) -> PlacementDecision:
    owner = draw(st.sampled_from(["p0", "p1", "other", ""]))
    return builders.decision(
        f"{owner or 'loose'}-decision-{draw(st.integers(1, 2))}",
        draw(st.lists(st.sampled_from([*NAMES, "elsewhere"]), max_size=3)),
        placement=owner,
        namespace=draw(st.sampled_from(["ns1", "ns2"])),
    )


EXPRESSIONS = (
    'managedCluster.metadata.labels["env"] == "prod"',
    '"gpu" in managedCluster.metadata.labels',
    'managedCluster.status.clusterClaims.exists(c, c.name == "zone" && c.value == "a")',
    'managedCluster.status.version.kubernetes.startsWith("v1.30")',
    'managedCluster.scores("default").exists(s, s.name == "cpu" && s.value > 0)',
    'managedCluster.scores("other").size() > 0 || "env" in managedCluster.metadata.labels',
    '!(managedCluster.scores("default").exists(s, s.value < 0) && managedCluster.scores("other").size() > 0)',
    'managedCluster.scores(managedCluster.metadata.labels["gpu"] == "true" ? "default" : "other").size() > 0',
    'quantity(managedCluster.status.allocatable["cpu"]).isGreaterThan(quantity("1"))',
)

trusts = st.fixed_dictionaries(
    {},
    optional={
        MISSING_SCORE: st.sampled_from(
            [
                "zero",
                "worst",
                "exclude",
                "exclude,default/mem=zero,resourceratiocpu=worst",
                "default/cpu=worst, Latency=exclude",
                "worst,default/cpu=nonsense",
            ]
        ),
        EXPIRED_SCORES: st.sampled_from(["absent", "absent", "present", "nonsense"]),
        SCORE_DEBITS: st.sampled_from(["default/cpu=-7", "default/mem=+3,default/cpu=0", "default/cpu=5"]),
    },
)
"""Annotations of placements about missing and expired scores."""

contracts = st.fixed_dictionaries(
    {},
    optional={
        contract.STABILITY: st.sampled_from(["default", "none", "nonsense"]),
        contract.MIN_GAIN: st.sampled_from(["0", "1", "40", "nonsense"]),
        contract.DWELL: st.sampled_from(["4m", "1h", "nonsense"]),
        contract.MOVES_PER_HOUR: st.sampled_from(["1", "2", "nonsense"]),
        contract.QUIET_HOURS: st.sampled_from(["00:00-12:00", "12:05-12:11,18:00-06:00", "nonsense"]),
    },
)
"""Annotations of placements about moves."""

tolerations = st.builds(
    Toleration,
    key=st.sampled_from(["gpu", "maint"]),
    operator=st.sampled_from(["", "Equal", "Exists"]),
    effect=st.sampled_from(["", *EFFECTS]),
    tolerationSeconds=st.sampled_from([None, None, 0, 10, 700]),
)

weights = st.sampled_from([-2, -1, 0, 1, 1, 2, 5])
prioritizers = st.one_of(
    st.builds(
        builders.builtin,
        st.sampled_from(
            [
                "Balance",
                "ResourceAllocatableCPU",
                "ResourceAllocatableMemory",
                "TaintPreference",
                *CALCULATORS,
            ]
        ),
        weights,
    ),
    st.builds(builders.builtin, st.just("Steady"), st.sampled_from([0, 1, 3])),
    st.builds(builders.addon, st.sampled_from(SCORE_NAMES), weights),
)
predicates = st.builds(
    builders.predicate,
    labels=selectors,
    claims=st.lists(requirements(CLAIMS), max_size=1),
    cel=st.lists(st.sampled_from(EXPRESSIONS), max_size=1),
)
spreads = st.builds(
    SpreadConstraint,
    topologyKey=st.sampled_from(["region", "env"]),
    topologyKeyType=st.sampled_from(["Label", "Label", "Claim"]),
    maxSkew=st.integers(1, 2),
    whenUnsatisfiable=st.sampled_from(["DoNotSchedule", "ScheduleAnyway"]),
)
groups = st.builds(
    GroupStrategy,
    decisionGroups=st.lists(
        st.builds(
            DecisionGroup,
            groupName=st.sampled_from(["canary", "rest"]),
            groupClusterSelector=st.builds(GroupClusterSelector, labelSelector=selectors),
        ),
        max_size=2,
    ).map(tuple),
    clustersPerDecisionGroup=st.sampled_from([None, 1, 2, "50%", "100%"]),
)


@st.composite
def placements(draw: st.DrawFn, *, spread: bool = True) -> Placement:
    return builders.placement(
        draw(st.sampled_from(["p0", "p1"])),
        spec=PlacementSpec(
            clusterSets=tuple(draw(st.lists(st.sampled_from(SETS), max_size=2))),
            numberOfClusters=draw(st.sampled_from([None, 0, 1, 2, 3, 9])),
            predicates=tuple(draw(st.lists(predicates, max_size=2))),
            tolerations=tuple(draw(st.lists(tolerations, max_size=3))),
            prioritizerPolicy=draw(
                st.one_of(
                    st.none(),
                    st.builds(
                        lambda mode, configurations: builders.policy(*configurations, mode=mode),
                        st.sampled_from(["", "Additive", "Exact"]),
                        st.lists(prioritizers, max_size=4),
                    ),
                )
            ),
            spreadPolicy=SpreadPolicy(
                spreadConstraints=tuple(draw(st.lists(spreads, max_size=2))) if spread else ()
            ),
            decisionStrategy=DecisionStrategy(groupStrategy=draw(groups)),
            sortBy=draw(st.sampled_from(["", "ClusterName", "Score"])),
        ),
        annotations=draw(
            st.one_of(st.just({}), trusts, contracts) if spread else st.one_of(st.just({}), trusts)
        ),
    )


bound_sets = tuple(
    plugin
    for name in SETS
    for plugin in (
        builders.cluster_set(
            name, selector=builders.selector(labels={"gpu": "true"}) if name == "gpus" else None
        ),
        builders.binding(name),
    )
)


def identity(thing: Any) -> tuple[str, str, str]:
    return thing.kind, thing.metadata.namespace, thing.metadata.name


@st.composite
def worlds(draw: st.DrawFn, *, decided: bool = True) -> list[object]:
    """Generate the objects of a small hub, with unique names."""
    objects: list[object] = list(bound_sets)
    objects += draw(st.lists(clusters(), min_size=1, max_size=7, unique_by=identity))
    objects += draw(st.lists(scores(), max_size=8, unique_by=identity))
    objects += draw(st.lists(cluster_scores(), max_size=4, unique_by=identity))
    if decided:
        objects += draw(st.lists(decisions(), max_size=4, unique_by=identity))
    return objects
