"""Findings are true: removing a redundant part changes no decision, and what is reported to match nothing does not."""

from datetime import UTC, datetime, timedelta
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from fairway.api import (
    ClusterCelSelector,
    ClusterClaim,
    ClusterClaimSelector,
    ClusterPredicate,
    ClusterSelector,
    ManagedCluster,
    ManagedClusterSelector,
    ManagedClusterSet,
    ManagedClusterSetBinding,
    ManagedClusterSetBindingSpec,
    ManagedClusterSetSpec,
    ManagedClusterSpec,
    ManagedClusterStatus,
    Placement,
    PlacementSpec,
    Taint,
    Toleration,
)
from fairway.engine.points import Context
from fairway.hosts import bitmap
from fairway.hosts.instant import to_micros
from fairway.lint import Finding, lint
from fairway.whatif.world import World
from fairway.workloads.placement.plugins.predicate import Predicate
from kubewire.api.meta import ObjectMeta
from kubewire.api.selector import LabelSelector, LabelSelectorRequirement

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
NOW = to_micros(NOON)
KEY = ("ns", "p")
EVERYTHING: list[object] = [
    ManagedClusterSet(
        metadata=ObjectMeta(name="all"),
        spec=ManagedClusterSetSpec(
            clusterSelector=ManagedClusterSelector(
                selectorType="LabelSelector", labelSelector=LabelSelector()
            )
        ),
    ),
    ManagedClusterSetBinding(
        metadata=ObjectMeta(name="all", namespace="ns"), spec=ManagedClusterSetBindingSpec(clusterSet="all")
    ),
]

SETTINGS = settings(max_examples=50)

values = st.sampled_from(["x", "y"])
keys = st.sampled_from(["a", "b"])
effects = st.sampled_from(["NoSelect", "PreferNoSelect", "NoSelectIfNew"])
taints = st.builds(
    Taint,
    key=keys,
    value=values,
    effect=effects,
    timeAdded=st.one_of(st.none(), st.integers(-200, 0).map(lambda s: NOON + timedelta(seconds=s))),
)
requirements = st.one_of(
    st.builds(
        LabelSelectorRequirement,
        key=keys,
        operator=st.sampled_from(["In", "NotIn"]),
        values=st.lists(values, min_size=1, max_size=2, unique=True).map(tuple),
    ),
    st.builds(LabelSelectorRequirement, key=keys, operator=st.sampled_from(["Exists", "DoesNotExist"])),
)
expressions = st.sampled_from(
    [
        'managedCluster.metadata.labels.a == "x"',
        '"b" in managedCluster.metadata.labels',
        'managedCluster.metadata.name.startsWith("c")',
        "has(managedCluster.status.clusterClaims)",
        'managedCluster.status.clusterClaims.exists(c, c.value == "x")',
        "managedCluster.metadata.name",
        'managedCluster.scores("none").size() > 0',
        "1 < 2",
    ]
)


def few(strategy: st.SearchStrategy[Any], most: int) -> st.SearchStrategy[tuple[Any, ...]]:
    return st.lists(strategy, max_size=most).map(tuple)


predicates = st.builds(
    lambda labels, claims, texts: ClusterPredicate(
        requiredClusterSelector=ClusterSelector(
            labelSelector=LabelSelector(matchExpressions=labels),
            claimSelector=ClusterClaimSelector(matchExpressions=claims),
            celSelector=ClusterCelSelector(celExpressions=texts),
        )
    ),
    few(requirements, 3),
    few(requirements, 2),
    few(expressions, 2),
)
tolerations = st.builds(
    lambda key, equal, value, effect, seconds: Toleration(
        key=key,
        operator="Equal" if equal else "Exists",
        value=value if equal else "",
        effect=effect,
        tolerationSeconds=seconds,
    ),
    keys,
    st.booleans(),
    values,
    st.sampled_from(["", "NoSelect", "NoSelectIfNew"]),
    st.sampled_from([None, 60, 150]),
) | st.builds(Toleration, operator=st.just("Exists"), tolerationSeconds=st.sampled_from([None, 100]))


@st.composite
def fleets(draw: st.DrawFn) -> list[object]:
    clusters: list[object] = [
        ManagedCluster(
            metadata=ObjectMeta(name=f"c{at}", labels=draw(st.dictionaries(keys, values, max_size=2))),
            spec=ManagedClusterSpec(taints=draw(few(taints, 2))),
            status=ManagedClusterStatus(
                clusterClaims=tuple(
                    ClusterClaim(name=name, value=value)
                    for name, value in draw(st.dictionaries(keys, values, max_size=2)).items()
                )
            ),
        )
        for at in range(draw(st.integers(1, 5)))
    ]
    return [*clusters, *EVERYTHING]


def placement(**spec: Any) -> Placement:
    return Placement(metadata=ObjectMeta(name="p", namespace="ns"), spec=PlacementSpec(**spec))


def chosen(fleet: list[object], source: Placement) -> list[str]:
    return World([*fleet, source]).decide(KEY, now=NOW).outcome.selected


def passing(fleet: list[object], *only: ClusterPredicate) -> list[str]:
    """Return the clusters that pass the Predicate filter, evaluated one by one."""
    world = World([*fleet, placement(predicates=only)])
    context = Context(snapshot=world.fleet.snapshot(), workload=world.workload(KEY), now=NOW)
    plugin = Predicate()
    rows = bitmap.rows_of(context.snapshot.live).tolist()
    return [context.snapshot.hosts.names[row] for row in rows if not plugin.filter(context, row).rejects]


def findings(fleet: list[object], source: Placement, *rules: str) -> tuple[Finding, ...]:
    return lint([*fleet, source], now=NOW, only=rules)


def without(items: tuple[Any, ...], at: int) -> tuple[Any, ...]:
    return items[:at] + items[at + 1 :]


def index(path: str, *, last: bool = False) -> int:
    parts = path.split("[")
    return int(parts[-1 if last else 1].split("]")[0])


@SETTINGS
@given(fleets(), few(predicates, 3))
def test_no_match_is_reported_exactly_when_filter_rejects_all(
    fleet: list[object], given_predicates: tuple[ClusterPredicate, ...]
) -> None:
    reported = findings(fleet, placement(predicates=given_predicates), "no-cluster-matches")
    assert bool(reported) == (not passing(fleet, *given_predicates))


@SETTINGS
@given(fleets(), few(predicates, 3))
def test_predicate_reported_as_matching_nothing_passes_no_cluster(
    fleet: list[object], given_predicates: tuple[ClusterPredicate, ...]
) -> None:
    source = placement(predicates=given_predicates)
    for finding in findings(fleet, source, "predicate-matches-nothing"):
        at = index(finding.path)
        assert passing(fleet, given_predicates[at]) == []
        assert chosen(fleet, placement(predicates=without(given_predicates, at))) == chosen(fleet, source)


@SETTINGS
@given(fleets(), few(predicates, 3))
def test_removing_redundant_predicate_changes_nothing(
    fleet: list[object], given_predicates: tuple[ClusterPredicate, ...]
) -> None:
    source = placement(predicates=given_predicates)
    for finding in findings(fleet, source, "predicate-subsumed", "predicate-duplicate"):
        rest = without(given_predicates, index(finding.path))
        assert chosen(fleet, placement(predicates=rest)) == chosen(fleet, source)


@SETTINGS
@given(fleets(), few(predicates, 2))
def test_contradicting_requirements_match_no_cluster(
    fleet: list[object], given_predicates: tuple[ClusterPredicate, ...]
) -> None:
    for finding in findings(fleet, placement(predicates=given_predicates), "selector-contradiction"):
        assert passing(fleet, given_predicates[index(finding.path)]) == []


@SETTINGS
@given(fleets(), few(predicates, 2))
def test_removing_always_true_expression_changes_nothing(
    fleet: list[object], given_predicates: tuple[ClusterPredicate, ...]
) -> None:
    source = placement(predicates=given_predicates)
    for finding in findings(fleet, source, "expression-always-true"):
        at, place = index(finding.path), index(finding.path, last=True)
        selector = given_predicates[at].requiredClusterSelector
        rest = ClusterCelSelector(celExpressions=without(selector.celSelector.celExpressions, place))
        changed = ClusterPredicate(requiredClusterSelector=structs.replace(selector, celSelector=rest))
        kept = (*given_predicates[:at], changed, *given_predicates[at + 1 :])
        assert chosen(fleet, placement(predicates=kept)) == chosen(fleet, source)


@SETTINGS
@given(fleets(), few(predicates, 2))
def test_expression_reported_as_never_true_passes_no_cluster(
    fleet: list[object], given_predicates: tuple[ClusterPredicate, ...]
) -> None:
    rules = ("expression-always-false", "expression-always-fails", "expression-not-boolean")
    for finding in findings(fleet, placement(predicates=given_predicates), *rules):
        assert passing(fleet, given_predicates[index(finding.path)]) == []


@SETTINGS
@given(fleets(), few(predicates, 2))
def test_suggested_selector_matches_like_the_expression(
    fleet: list[object], given_predicates: tuple[ClusterPredicate, ...]
) -> None:
    replaced = {
        'managedCluster.metadata.labels.a == "x"': LabelSelectorRequirement(
            key="a", operator="In", values=("x",)
        ),
        '"b" in managedCluster.metadata.labels': LabelSelectorRequirement(key="b", operator="Exists"),
    }
    for finding in findings(fleet, placement(predicates=given_predicates), "expression-could-be-selector"):
        texts = given_predicates[index(finding.path)].requiredClusterSelector.celSelector.celExpressions
        text = texts[index(finding.path, last=True)]
        by_cel = ClusterPredicate(
            requiredClusterSelector=ClusterSelector(celSelector=ClusterCelSelector(celExpressions=(text,)))
        )
        by_label = ClusterPredicate(
            requiredClusterSelector=ClusterSelector(
                labelSelector=LabelSelector(matchExpressions=(replaced[text],))
            )
        )
        assert passing(fleet, by_cel) == passing(fleet, by_label)


@SETTINGS
@given(fleets(), few(tolerations, 4))
def test_removing_shadowed_toleration_changes_nothing(
    fleet: list[object], given_tolerations: tuple[Toleration, ...]
) -> None:
    source = placement(tolerations=given_tolerations)
    for finding in findings(fleet, source, "toleration-shadowed"):
        rest = without(given_tolerations, index(finding.path))
        assert chosen(fleet, placement(tolerations=rest)) == chosen(fleet, source)


@SETTINGS
@given(fleets(), few(tolerations, 4))
def test_shortening_ineffective_toleration_seconds_changes_nothing(
    fleet: list[object], given_tolerations: tuple[Toleration, ...]
) -> None:
    source = placement(tolerations=given_tolerations)
    for finding in findings(fleet, source, "toleration-seconds-moot"):
        at = index(finding.path)
        shorter = structs.replace(given_tolerations[at], tolerationSeconds=0)
        kept = (*given_tolerations[:at], shorter, *given_tolerations[at + 1 :])
        assert chosen(fleet, placement(tolerations=kept)) == chosen(fleet, source)


@SETTINGS
@given(fleets(), few(tolerations, 4))
def test_removing_toleration_without_taint_changes_nothing(
    fleet: list[object], given_tolerations: tuple[Toleration, ...]
) -> None:
    source = placement(tolerations=given_tolerations)
    rules = ("toleration-key-unknown", "toleration-value-unknown", "toleration-effect-absent")
    for finding in findings(fleet, source, *rules):
        rest = without(given_tolerations, index(finding.path))
        assert chosen(fleet, placement(tolerations=rest)) == chosen(fleet, source)
