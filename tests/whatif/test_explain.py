from datetime import UTC, datetime

import pytest

from fairway.api.cluster import Taint
from fairway.api.placement import (
    SCHEDULING_DISABLED_ANNOTATION,
    DecisionStrategy,
    GroupStrategy,
    Placement,
    PlacementSpec,
    SpreadConstraint,
    SpreadPolicy,
)
from fairway.hosts.instant import to_micros
from fairway.testing import builders
from fairway.whatif import advice
from fairway.whatif.advice import Advice, advise, disabled_reason
from fairway.whatif.counterfactual import State
from fairway.whatif.explain import Check, Explanation, Rejection, explain
from fairway.whatif.names import UnknownNameError, find_cluster, find_placement, suggestion
from fairway.whatif.world import World
from fairway.workloads.placement import groups
from fairway.workloads.placement.plugins import clustersets
from fairway.workloads.placement.plugins.trust import MISSING_SCORE
from kubewire.api.meta import ObjectMeta

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
MICROS = to_micros(NOW)
KEY = ("ns1", "p1")
BOUND = (builders.cluster_set("default"), builders.binding("default"))


def fleet(spec: PlacementSpec) -> World:
    return World(
        [
            *BOUND,
            builders.cluster("best"),
            builders.cluster("good"),
            builders.cluster("fair"),
            builders.cluster("tainted", taints=(Taint(key="gpu", effect="NoSelect"),)),
            builders.cluster("stranger", member_of="other"),
            builders.cluster("outsider", member_of=""),
            *(
                builders.score(name, {"cpu": value})
                for name, value in (("best", 90), ("good", 50), ("fair", 10), ("tainted", 100))
            ),
            builders.placement("p1", spec=spec),
        ]
    )


def by_cpu(number: int | None = 2, weight: int = 2) -> PlacementSpec:
    policy = builders.policy(builders.addon("cpu", weight), mode="Exact")
    return PlacementSpec(numberOfClusters=number, prioritizerPolicy=policy)


def about(world: World, cluster: str | None = None) -> Explanation:
    return explain(world, KEY, now=MICROS, cluster=cluster)


def test_explanation_lists_selected_ranked_and_rejected_clusters() -> None:
    explanation = about(fleet(by_cpu()))
    assert [(host.host, host.rank, host.total) for host in explanation.chosen] == [
        ("best", 1, 180),
        ("good", 2, 100),
    ]
    (part,) = explanation.chosen[0].contributions
    assert (part.plugin, part.score, part.weight, part.points) == ("AddOn/default/cpu", 90, 2, 180)
    (passed,) = explanation.passed_over
    assert (passed.host, passed.rank, passed.total) == ("fair", 3, 20)
    assert passed.reason == "passed every filter, but 2 hosts ranked higher, and 2 are wanted"
    assert explanation.rejected == (
        Rejection(
            "ClusterSets", "is in none of the sets this namespace may use (default)", ("outsider", "stranger")
        ),
        Rejection(
            "TaintToleration", "has taint gpu:NoSelect, which the placement does not tolerate", ("tainted",)
        ),
    )
    assert (explanation.wanted, explanation.clusters, explanation.satisfied, explanation.advice) == (
        2,
        6,
        True,
        (),
    )
    assert explanation.cluster is None


def test_explanation_of_rejected_cluster() -> None:
    answer = about(fleet(by_cpu()), "tainted").cluster
    assert answer is not None
    assert answer.trace.rejected_by == "TaintToleration"
    assert answer.comparison is None
    assert answer.checks == (
        Check("ClusterSets", passed=True),
        Check("Predicate", passed=True),
        Check("TaintToleration", passed=False, reason=answer.trace.reason),
    )
    assert answer.counterfactual.state is State.FOUND


def test_explanation_of_lower_ranked_cluster() -> None:
    answer = about(fleet(by_cpu()), "fair").cluster
    assert answer is not None
    assert answer.comparison is not None
    assert (answer.comparison.other.host, answer.comparison.gap) == ("good", 80)
    assert all(check.passed for check in answer.checks)


def test_explanation_of_selected_cluster() -> None:
    answer = about(fleet(by_cpu()), "best").cluster
    assert answer is not None
    assert answer.trace.selected
    assert answer.comparison is None
    assert answer.counterfactual.state is State.SELECTED


def test_explanation_of_cluster_skipped_by_spread_policy() -> None:
    constraint = SpreadConstraint(
        topologyKey="region", topologyKeyType="Label", maxSkew=1, whenUnsatisfiable="DoNotSchedule"
    )
    spec = PlacementSpec(spreadPolicy=SpreadPolicy(spreadConstraints=(constraint,)))
    regions = (("c1", "eu"), ("c2", "eu"), ("c3", "eu"), ("c4", "us"))
    clusters = [builders.cluster(name, labels={"region": region}) for name, region in regions]
    explanation = about(World([*BOUND, *clusters, builders.placement("p1", spec=spec)]))
    assert [host.host for host in explanation.chosen] == ["c1", "c2", "c4"]
    assert [(host.host, host.reason) for host in explanation.passed_over] == [
        ("c3", "would leave label region=eu 2 ahead of the emptiest, and at most 1 is allowed")
    ]


@pytest.mark.parametrize(
    ("annotation", "score"),
    [pytest.param("", 0, id="counts 0"), pytest.param("worst", -100, id="counts as the worst")],
)
def test_explanation_shows_unpublished_score_as_unknown(annotation: str, score: int) -> None:
    placement = builders.placement(
        "p1", spec=by_cpu(), annotations={MISSING_SCORE: annotation} if annotation else {}
    )
    (chosen,) = about(World([*BOUND, builders.cluster("c1"), placement])).chosen
    (part,) = chosen.contributions
    assert (part.score, part.known) == (score, False)
    assert part.note.startswith("there is no AddOnPlacementScore default, which counts ")


def test_explanation_shows_expired_score_as_unknown_and_zero_as_known() -> None:
    old = builders.score("old", {"cpu": 50}, valid_until=datetime(2026, 1, 1, tzinfo=UTC))
    clusters = (builders.cluster("old"), builders.cluster("zero"))
    scores = (old, builders.score("zero", {"cpu": 0}))
    placement = builders.placement("p1", spec=by_cpu())
    explanation = about(World([*BOUND, *clusters, *scores, placement]))
    assert {host.host: host.contributions[0].known for host in explanation.chosen} == {
        "old": False,
        "zero": True,
    }


def test_disabled_placement_is_explained_as_if_enabled() -> None:
    placement = builders.placement(annotations={SCHEDULING_DISABLED_ANNOTATION: "true"})
    explanation = about(World([*BOUND, builders.cluster("c1"), placement]))
    assert explanation.disabled_reason == advice.DISABLED
    assert [host.host for host in explanation.chosen] == ["c1"]
    going = Placement(metadata=ObjectMeta(name="p1", namespace="ns1", deletionTimestamp=NOW))
    assert disabled_reason(going) == advice.DELETING


def advised(*objects: object, spec: PlacementSpec | None = None, name: str = "p1") -> tuple[Advice, ...]:
    placement = builders.placement(name, spec=spec)
    world = World([*objects, placement])
    return advise(placement, world.decide(("ns1", name), now=MICROS))


def test_advice_for_every_unsatisfied_reason() -> None:
    cluster = builders.cluster("c1")
    no_binding = advised(builders.cluster_set("default"), cluster)
    assert no_binding == (
        Advice(
            advice.UNSATISFIED,
            "No valid ManagedClusterSetBindings found in placement namespace",
            "create a ManagedClusterSetBinding named like the set in namespace ns1; sets are default",
        ),
    )
    assert advised(cluster)[0].remedy.endswith("there is no set yet")
    (no_intersection,) = advised(*BOUND, cluster, spec=PlacementSpec(clusterSets=("prod",)))
    assert no_intersection.remedy == (
        "there is no ManagedClusterSet prod: correct spec.clusterSets; namespace ns1 is bound to default"
    )
    prod = builders.cluster_set("prod")
    (no_intersection,) = advised(*BOUND, prod, cluster, spec=PlacementSpec(clusterSets=("prod",)))
    assert no_intersection.remedy == (
        "bind one of them to namespace ns1, or name a bound set in spec.clusterSets: default"
    )
    (absent,) = advised(builders.binding("gone"), prod, cluster)
    assert absent.remedy == (
        "namespace ns1 is bound to sets that do not exist (gone): create them; sets are prod"
    )
    (empty,) = advised(*BOUND)
    assert empty.remedy == "the input has no ManagedCluster: add the clusters"
    (empty,) = advised(builders.cluster_set("other"), builders.binding("other"), cluster)
    assert empty.remedy == advice.FILL
    (unmatched,) = advised(
        *BOUND,
        cluster,
        spec=PlacementSpec(predicates=(builders.predicate(labels=builders.selector(labels={"a": "b"})),)),
    )
    assert unmatched.remedy == "see why clusters are rejected: fairway explain -f … placement ns1/p1"
    (too_few,) = advised(*BOUND, cluster, spec=PlacementSpec(numberOfClusters=3))
    assert too_few.message == "2 cluster decisions unscheduled"
    (none_wanted,) = advised(*BOUND, cluster, spec=PlacementSpec(numberOfClusters=0))
    assert none_wanted.remedy == advice.WANTS_NONE
    assert advised(*BOUND, cluster) == ()


def test_advice_names_scores_that_no_candidate_has() -> None:
    (unscored,) = advised(builders.cluster("c1"), *BOUND, spec=by_cpu(1))
    assert unscored == Advice(
        advice.WARNING,
        "no candidate has a score default/cpu, so it counts 0 everywhere and decides nothing",
        "check resourceName and scoreName, or install the provider that publishes it",
    )


def test_advice_for_misconfigured_placements() -> None:
    cluster = builders.cluster("c1")
    (mode,) = advised(*BOUND, cluster, spec=PlacementSpec(prioritizerPolicy=builders.policy(mode="Odd")))
    assert (mode.kind, mode.remedy) == (advice.MISCONFIGURED, "correct spec.prioritizerPolicy")
    (long_name,) = advised(*BOUND, cluster, name="p" * 64)
    assert (long_name.kind, long_name.remedy) == (advice.ERROR, advice.RENAME)
    (broken,) = advised(builders.cluster_set("default", kind="Odd"), builders.binding("default"), cluster)
    assert (broken.kind, broken.remedy) == (advice.ERROR, f"correct {clustersets.SET_FIELD}")
    old = builders.score("c1", {"cpu": 1}, valid_until=datetime(2026, 1, 1, tzinfo=UTC))
    (expired,) = advised(*BOUND, cluster, old, spec=by_cpu(number=1))
    assert expired == Advice(advice.WARNING, "AddOnPlacementScores c1/default expired", advice.PUBLISH_AGAIN)


def test_advice_for_invalid_decision_groups() -> None:
    strategy = DecisionStrategy(groupStrategy=GroupStrategy(clustersPerDecisionGroup="odd"))
    (entry,) = advised(*BOUND, builders.cluster("c1"), spec=PlacementSpec(decisionStrategy=strategy))
    assert (entry.kind, entry.remedy) == (advice.MISCONFIGURED, f"correct {groups.FIELD}")


def test_long_advice_is_truncated_at_a_word() -> None:
    text = "word " * 100
    short = Advice(advice.WARNING, text, "").brief
    assert short == f"{'word ' * 48}…"
    expired = f"AddOnPlacementScores {' '.join(f'c{at}/x' for at in range(9))} expired"
    assert (
        Advice(advice.WARNING, expired, "").brief == "AddOnPlacementScores c0/x c1/x c2/x and 6 more expired"
    )
    assert Advice(advice.WARNING, "few\n words", "").brief == "few words"


def test_names_are_resolved_or_suggested() -> None:
    world = World([builders.cluster("apps-fra"), builders.placement("web"), builders.placement("db")])
    world.put(builders.placement("db", namespace="ns2"))
    assert find_placement(world, "ns1/web") == ("ns1", "web")
    assert find_placement(world, "web") == ("ns1", "web")
    assert find_cluster(world, "apps-fra") == "apps-fra"
    for text, message in (
        ("ns1/wbe", "placement ns1/wbe not found; did you mean ns1/web?"),
        ("db", "placement db exists in several namespaces: ns1/db, ns2/db"),
        ("zzz", "placement zzz not found; known: ns1/db, ns1/web, ns2/db"),
    ):
        with pytest.raises(UnknownNameError) as caught:
            find_placement(world, text)
        assert str(caught.value) == message
    with pytest.raises(UnknownNameError, match=r"cluster app-fra not found; did you mean apps-fra\?"):
        find_cluster(world, "app-fra")
    assert suggestion("x", []) == "the input has none"
    assert suggestion("x", list("abcdefg")) == "known: a, b, c, d, e and 2 more"


def test_advice_about_annotations_on_scores() -> None:
    old = builders.score("c1", {"cpu": 1}, valid_until=datetime(2026, 1, 1, tzinfo=UTC))

    def given(missing: str) -> list[tuple[str, str]]:
        made = builders.placement(spec=by_cpu(number=1), annotations={MISSING_SCORE: missing})
        world = World([*BOUND, builders.cluster("c1"), builders.cluster("c2"), old, made])
        return [(advice.message, advice.remedy) for advice in advise(made, world.decide(KEY, now=MICROS))]

    assert given("worst") == [
        (
            "AddOnPlacementScores c1/default expired and count as the worst, by annotation fairway.dev/missing-score",
            advice.WORST_UNTIL,
        )
    ]
    assert given("exclude")[0] == (
        "AddOnPlacementScores c1/default expired, so annotation fairway.dev/missing-score excludes the clusters",
        advice.LET_IN_AGAIN,
    )
    assert given("wurst") == [
        ("AddOnPlacementScores c1/default expired", advice.PUBLISH_AGAIN),
        (
            "annotation fairway.dev/missing-score: 'wurst' must be zero, worst or exclude, so it has no effect",
            advice.CORRECT,
        ),
    ]


def test_long_list_of_expired_scores_is_truncated() -> None:
    names = " ".join(f"c{at}/default" for at in range(20))
    for ending in ("", " and count as the worst, by annotation fairway.dev/missing-score"):
        long = Advice(advice.WARNING, f"AddOnPlacementScores {names} expired{ending}", "")
        assert (
            long.brief == f"AddOnPlacementScores c0/default c1/default c2/default and 17 more expired{ending}"
        )


def test_counterfactual_of_cluster_excluded_for_missing_score() -> None:
    def asked(says: str, *scores: object) -> tuple[str, ...]:
        made = builders.placement(spec=by_cpu(number=1, weight=1), annotations={MISSING_SCORE: says})
        known = builders.score("c1", {"cpu": -40})
        world = World([*BOUND, builders.cluster("c1"), builders.cluster("c2"), known, *scores, made])
        answer = about(world, "c2").cluster
        assert answer is not None
        return tuple(edit.describe() for edit in answer.counterfactual.edits)

    old = builders.score("c2", {"cpu": 90}, valid_until=datetime(2026, 1, 1, tzinfo=UTC))
    assert asked("exclude") == ("publish score default/cpu for cluster c2, which has none, as 0",)
    assert asked("exclude", old) == (
        "publish score default/cpu of cluster c2 again, which expired at 2026-01-01T00:00:00Z, as 0",
    )
    assert asked("worst") == ("publish score default/cpu for cluster c2, which has none, as -39",)
