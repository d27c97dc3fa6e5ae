from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from fairway.api.cluster import CLUSTER_SET_LABEL, Taint
from fairway.api.placement import (
    SCHEDULING_DISABLED_ANNOTATION,
    ClusterPredicate,
    PlacementSpec,
    PrioritizerConfig,
    SpreadConstraint,
    SpreadPolicy,
    Toleration,
)
from fairway.hosts.instant import to_micros
from fairway.testing import builders
from fairway.whatif import counterfactual as module
from fairway.whatif.counterfactual import CLUSTER_GOES, Counterfactual, Margin, State, counterfactual, least
from fairway.whatif.edits import (
    Bind,
    Edit,
    JoinClusterSet,
    NameClusterSet,
    NumericEdit,
    RemoveTaint,
    SetClaim,
    SetLabel,
    Tolerate,
    WantMore,
    applied,
    cluster_of,
)
from fairway.whatif.number_edits import Allocate, PublishClusterScore, PublishScore
from fairway.whatif.world import World

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
MICROS = to_micros(NOW)
KEY = ("ns1", "p1")
GPU = Taint(key="gpu", value="true", effect="NoSelect")
ENV_PROD = builders.predicate(labels=builders.selector(labels={"env": "prod"}))


def spec(
    *prioritizers: PrioritizerConfig,
    number: int | None = 1,
    predicates: tuple[ClusterPredicate, ...] = (),
    tolerations: tuple[Toleration, ...] = (),
    sets: tuple[str, ...] = (),
    spread: tuple[SpreadConstraint, ...] = (),
) -> PlacementSpec:
    return PlacementSpec(
        clusterSets=sets,
        numberOfClusters=number,
        predicates=predicates,
        prioritizerPolicy=builders.policy(*prioritizers, mode="Exact"),
        spreadPolicy=SpreadPolicy(spreadConstraints=spread),
        tolerations=tolerations,
    )


def world(spec: PlacementSpec, *objects: object, bound: tuple[str, ...] = ("default",)) -> World:
    sets = [obj for name in bound for obj in (builders.cluster_set(name), builders.binding(name))]
    return World([*sets, *objects, builders.placement("p1", spec=spec)])


def ask(where: World, cluster: str) -> Counterfactual:
    return counterfactual(where, KEY, cluster, now=MICROS)


def words(edits: tuple[Edit, ...]) -> list[str]:
    return [edit.describe() for edit in edits]


def test_missing_label_is_the_counterfactual() -> None:
    where = world(spec(number=None, predicates=(ENV_PROD,)), builders.cluster("c1", labels={"env": "dev"}))
    answer = ask(where, "c1")
    assert answer.state is State.FOUND
    assert answer.edits == (SetLabel(cluster="c1", key="env", value="prod", old="dev"),)
    assert words(answer.edits) == ["change the label env of cluster c1 from dev to prod"]


@pytest.mark.parametrize(
    ("operator", "values", "labels", "expected"),
    [
        ("In", ("b", "a"), {}, SetLabel(cluster="c1", key="k", value="a")),
        ("NotIn", ("x",), {"k": "x"}, SetLabel(cluster="c1", key="k", value="other", old="x")),
        ("NotIn", ("x", "other"), {"k": "x"}, SetLabel(cluster="c1", key="k", value=None, old="x")),
        ("Exists", (), {}, SetLabel(cluster="c1", key="k", value="other")),
        ("DoesNotExist", (), {"k": "x"}, SetLabel(cluster="c1", key="k", value=None, old="x")),
    ],
)
def test_counterfactual_for_every_selector_operator(
    operator: str, values: tuple[str, ...], labels: dict[str, str], expected: SetLabel
) -> None:
    requirement = builders.requirement("k", operator, *values)
    predicate = builders.predicate(labels=builders.selector(requirement))
    where = world(
        spec(number=None, predicates=(predicate,)),
        builders.cluster("c1", labels=labels),
        builders.cluster("c2", labels={"k": "other"}),
    )
    assert ask(where, "c1").edits == (expected,)


def test_default_value_is_suggested_when_no_cluster_has_the_label() -> None:
    predicate = builders.predicate(claims=(builders.requirement("zone", "Exists"),))
    where = world(spec(number=None, predicates=(predicate,)), builders.cluster("c1"))
    assert words(ask(where, "c1").edits) == ["give cluster c1 the claim zone=true"]


def test_missing_claim_is_the_counterfactual() -> None:
    predicate = builders.predicate(claims=(builders.requirement("full", "In", "false"),))
    where = world(spec(number=None, predicates=(predicate,)), builders.cluster("c1", claims={"full": "true"}))
    assert ask(where, "c1").edits == (SetClaim(cluster="c1", key="full", value="false", old="true"),)


def test_contradiction_has_no_counterfactual_and_lists_tried_edits() -> None:
    both = (builders.requirement("k", "Exists"), builders.requirement("k", "DoesNotExist"))
    predicate = builders.predicate(labels=builders.selector(*both))
    answer = ask(world(spec(number=None, predicates=(predicate,)), builders.cluster("c1")), "c1")
    assert answer.state is State.NOT_FOUND
    assert answer.obstacle
    assert answer.tried == ("give cluster c1 the label k=true",)


def test_counterfactual_meets_the_nearest_predicate() -> None:
    far = builders.predicate(labels=builders.selector(labels={"a": "1", "b": "2"}))
    where = world(spec(number=None, predicates=(far, ENV_PROD)), builders.cluster("c1"))
    assert words(ask(where, "c1").edits) == ["give cluster c1 the label env=prod"]


def test_tolerating_a_taint_is_preferred_to_removing_it() -> None:
    where = world(spec(number=None), builders.cluster("c1", taints=(GPU,)))
    answer = ask(where, "c1")
    assert answer.edits == (Tolerate(placement=KEY, key="gpu", value="true", effect="NoSelect"),)
    assert answer.alternatives == ((RemoveTaint(cluster="c1", key="gpu", value="true", effect="NoSelect"),),)
    assert words(answer.edits) == ["let placement ns1/p1 tolerate the taint gpu=true:NoSelect"]
    assert words(answer.alternatives[0]) == ["remove the taint gpu=true:NoSelect from cluster c1"]


def test_counterfactual_for_expired_toleration() -> None:
    taint = Taint(key="gpu", value="true", effect="NoSelect", timeAdded=NOW - timedelta(hours=1))
    ran_out = Toleration(key="gpu", operator="Exists", tolerationSeconds=60)
    where = world(spec(number=None, tolerations=(ran_out,)), builders.cluster("c1", taints=(taint,)))
    assert [type(edit) for edit in ask(where, "c1").edits] == [Tolerate]


def test_counterfactual_for_two_taints_has_two_edits() -> None:
    other = Taint(key="maint", effect="NoSelect")
    answer = ask(world(spec(number=None), builders.cluster("c1", taints=(GPU, other))), "c1")
    assert [type(edit) for edit in answer.edits] == [Tolerate, Tolerate]


def test_counterfactual_has_at_most_four_edits() -> None:
    taints = tuple(Taint(key=f"t{number}", effect="NoSelect") for number in range(5))
    assert len(ask(world(spec(number=None), builders.cluster("c1", taints=taints[:4])), "c1").edits) == 4
    assert ask(world(spec(number=None), builders.cluster("c1", taints=taints)), "c1").edits == ()


def test_counterfactual_names_joins_or_binds_a_set() -> None:
    where = world(
        spec(number=None, sets=("prod",)),
        builders.cluster("c1", member_of="dev"),
        builders.cluster_set("edge"),
        bound=("prod", "dev"),
    )
    answer = ask(where, "c1")
    assert answer.edits == (NameClusterSet(placement=KEY, set="dev"),)
    assert answer.alternatives == ((JoinClusterSet(cluster="c1", set="prod", old="dev"),),)
    assert words(answer.edits) == ["add dev to spec.clusterSets of placement ns1/p1"]
    assert words(answer.alternatives[0]) == [
        f"move cluster c1 from cluster set dev to cluster set prod (label {CLUSTER_SET_LABEL})"
    ]


def test_counterfactual_for_namespace_without_bindings() -> None:
    where = world(spec(number=None), builders.cluster("c1"), builders.cluster_set("default"), bound=())
    answer = ask(where, "c1")
    assert answer.edits == (Bind(namespace="ns1", set="default"),)
    assert words(answer.edits) == ["bind cluster set default to namespace ns1"]
    # The edit was reverted.
    assert ask(where, "c1") == answer
    assert where.decide(KEY, now=MICROS).outcome.selected == []


def test_counterfactual_for_wrong_binding_and_cluster_without_set() -> None:
    where = world(spec(number=None), builders.cluster("c1", member_of=""), bound=("prod",))
    assert words(ask(where, "c1").edits) == [
        f"move cluster c1 to cluster set prod (label {CLUSTER_SET_LABEL})"
    ]


def test_counterfactual_for_set_with_label_selector() -> None:
    where = world(
        spec(number=None, sets=("gold",)),
        builders.cluster("c1", member_of=""),
        builders.cluster_set("gold", selector=builders.selector(labels={"tier": "gold"})),
        builders.binding("gold"),
    )
    assert words(ask(where, "c1").edits) == ["give cluster c1 the label tier=gold"]


def scored(*values: int, weight: int = 1, number: int = 1) -> World:
    """Return a world with clusters c1, c2, … that have these scores."""
    names = [f"c{at}" for at in range(1, len(values) + 1)]
    return world(
        spec(builders.addon("cpu", weight), number=number),
        *(builders.cluster(name) for name in names),
        *(builders.score(name, {"cpu": value}) for name, value in zip(names, values, strict=True)),
    )


def test_counterfactual_score_passes_last_selected_cluster_and_ties() -> None:
    answer = ask(scored(40, 70), "c1")
    assert words(answer.edits) == ["raise score default/cpu of cluster c1 by 30 points, from 40 to 70"]
    assert answer.displaced == ("c2",)
    assert words(answer.alternatives[0]) == ["raise spec.numberOfClusters of placement ns1/p1 from 1 to 2"]
    assert words(ask(scored(70, 40), "c2").edits) == [
        "raise score default/cpu of cluster c2 by 31 points, from 40 to 71"
    ]
    assert words(ask(scored(70, 70), "c2").edits) == [
        "raise score default/cpu of cluster c2 by 1 point, from 70 to 71"
    ]


def test_counterfactual_lowers_score_with_negative_weight() -> None:
    assert words(ask(scored(12, 41, weight=-1), "c2").edits) == [
        "lower score default/cpu of cluster c2 by 30 points, from 41 to 11"
    ]


def test_counterfactual_score_is_at_most_one_hundred() -> None:
    assert ask(scored(100, 99), "c2").edits == (WantMore(placement=KEY, old=1, value=2),)


def test_counterfactual_publishes_missing_score() -> None:
    where = world(
        spec(builders.addon("cpu")),
        builders.cluster("c1"),
        builders.cluster("c2"),
        builders.score("c1", {"cpu": 5}),
        builders.score("c2", {"mem": 5}),
    )
    answer = ask(where, "c2")
    assert words(answer.edits) == ["publish score default/cpu for cluster c2, which has none, as 6"]
    with applied(where, answer.edits):
        published = where.fleet.snapshot().score_object("c2", "default")
    assert published is not None
    assert {score.name: score.value for score in published.status.scores} == {"mem": 5, "cpu": 6}


def test_counterfactual_renews_expired_score_alone() -> None:
    where = world(
        spec(builders.addon("cpu"), builders.addon("mem"), number=1),
        builders.cluster("c1"),
        builders.cluster("c2"),
        builders.score("c1", {"cpu": 5}),
        builders.score("c2", {"cpu": 90, "mem": 90, "disk": 1}, valid_until=NOW - timedelta(minutes=1)),
    )
    answer = ask(where, "c2")
    (edit,) = answer.edits
    assert edit.describe() == (
        "publish score default/cpu of cluster c2 again, which expired at 2026-03-01T11:59:00Z, as 6"
    )
    with applied(where, answer.edits):
        published = where.fleet.snapshot().score_object("c2", "default")
    assert published is not None
    assert published.status.validUntil is None
    assert {score.name: score.value for score in published.status.scores} == {"disk": 1, "cpu": 6}


def test_counterfactual_of_managed_cluster_score_in_points_and_amounts() -> None:
    def calculated(*values: int) -> World:
        names = [f"c{at}" for at in range(1, len(values) + 1)]
        return world(
            spec(builders.builtin("Latency")),
            *(builders.cluster(name) for name in names),
            *(
                builders.cluster_score(name, "Latency", value)
                for name, value in zip(names, values, strict=True)
            ),
        )

    assert words(ask(calculated(30, 10), "c2").edits) == [
        "raise ManagedClusterScore Latency of cluster c2 by 21 points, from 10 to 31"
    ]
    # Amounts are scaled over the candidates, so many amounts have the same score.
    (edit,) = ask(calculated(3_000_000, 1_000_000, 0), "c2").edits
    assert isinstance(edit, PublishClusterScore)
    assert edit.value > 3_000_000


def test_counterfactual_publishes_missing_managed_cluster_score() -> None:
    where = world(
        spec(builders.builtin("Latency")),
        builders.cluster("c1"),
        builders.cluster("c2"),
        builders.cluster_score("c1", "Latency", 10),
    )
    assert words(ask(where, "c2").edits) == [
        "publish a ManagedClusterScore Latency for cluster c2, which has none, as 11"
    ]


def test_counterfactual_of_allocatable_cpu_and_memory() -> None:
    large, small = {"cpu": "64", "memory": "256Gi"}, {"cpu": "16", "memory": "64Gi"}
    for resource, expected in (
        ("CPU", "cpu of cluster c2 from 16 to"),
        ("Memory", "memory of cluster c2 from 64 GiB"),
    ):
        where = world(
            spec(builders.builtin(f"ResourceAllocatable{resource}")),
            builders.cluster("c1", allocatable=large),
            builders.cluster("c2", allocatable=small),
            builders.cluster("c3", allocatable={"cpu": "1", "memory": "1Gi"}),
        )
        (edit,) = ask(where, "c2").edits
        assert isinstance(edit, Allocate)
        assert edit.describe().startswith(f"change allocatable {expected}")
        with applied(where, (edit,)):
            status = cluster_of(where, "c2").status
        # Capacity is at least the allocatable amount.
        assert status.capacity[edit.resource] == status.allocatable[edit.resource] == edit.amount


def test_counterfactual_of_unreported_amount() -> None:
    where = world(
        spec(builders.builtin("ResourceAllocatableCPU")),
        builders.cluster("c1", allocatable={"cpu": "4"}),
        builders.cluster("c2"),
    )
    assert words(ask(where, "c2").edits) == ["let cluster c2 report 5 of allocatable cpu"]


def test_counterfactual_becomes_feasible_and_outranks_clusters_of_the_same_edit() -> None:
    where = world(
        spec(builders.addon("cpu")),
        *(builders.cluster(name, taints=(GPU,)) for name in ("c2", "c3")),
        builders.cluster("c1"),
        *(builders.score(name, {"cpu": value}) for name, value in (("c1", 1), ("c2", 2), ("c3", 50))),
    )
    answer = ask(where, "c2")
    # Tolerating the taint would also admit c3; removing it admits no other cluster, and is sufficient.
    assert answer.edits == (RemoveTaint(cluster="c2", key="gpu", value="true", effect="NoSelect"),)


def test_counterfactual_removes_taint_only_with_taint_preference() -> None:
    soft = Taint(key="old", effect="PreferNoSelect")
    where = world(
        spec(builders.builtin("TaintPreference")),
        builders.cluster("c1", taints=(soft,)),
        builders.cluster("c2"),
    )
    assert words(ask(where, "c1").edits) == ["let placement ns1/p1 tolerate the taint old:PreferNoSelect"]


def test_counterfactual_of_placement_with_zero_clusters() -> None:
    answer = ask(scored(1, 2, number=0), "c1")
    assert answer.edits == (WantMore(placement=KEY, old=0, value=2),)
    assert answer.displaced == ()


def test_counterfactual_with_spread_constraint() -> None:
    constraint = SpreadConstraint(
        topologyKey="region", topologyKeyType="Label", maxSkew=1, whenUnsatisfiable="DoNotSchedule"
    )
    where = world(
        spec(number=None, spread=(constraint,)),
        builders.cluster("c1", labels={"region": "eu"}),
        builders.cluster("c2", labels={"region": "eu"}),
        builders.cluster("c3", labels={"region": "eu"}),
        builders.cluster("c4", labels={"region": "us"}),
        builders.cluster("c5"),
    )
    assert words(ask(where, "c3").edits) == [
        "raise spec.spreadPolicy.spreadConstraints[0].maxSkew (region) of placement ns1/p1 from 1 to 2"
    ]
    assert words(ask(where, "c5").edits) == ["give cluster c5 the label region=us"]


def test_counterfactual_score_within_topology_of_spread() -> None:
    constraint = SpreadConstraint(
        topologyKey="zone", topologyKeyType="Claim", maxSkew=1, whenUnsatisfiable="DoNotSchedule"
    )
    where = world(
        spec(builders.addon("cpu"), number=2, spread=(constraint,)),
        *(
            builders.cluster(name, claims={"zone": zone})
            for name, zone in (("c1", "a"), ("c2", "a"), ("c3", "b"))
        ),
        *(builders.score(name, {"cpu": value}) for name, value in (("c1", 60), ("c2", 50), ("c3", -80))),
    )
    answer = ask(where, "c2")
    assert words(answer.edits) == [
        "raise spec.spreadPolicy.spreadConstraints[0].maxSkew (zone) of placement ns1/p1 from 1 to 2"
    ]
    assert answer.displaced == ("c3",)
    assert [words(edits) for edits in answer.alternatives] == [
        ["raise score default/cpu of cluster c2 by 11 points, from 50 to 61"],
        ["raise spec.numberOfClusters of placement ns1/p1 from 2 to 3"],
    ]
    assert ask(where, "c3").margin is None


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ('managedCluster.metadata.labels["env"] == "prod"', "give cluster c1 the label env=prod"),
        ("'prod' == managedCluster.metadata.labels['env']", "give cluster c1 the label env=prod"),
        ('managedCluster.metadata.labels.env in ["x", "y"]', "give cluster c1 the label env=x"),
        ('"env" in managedCluster.metadata.labels', "give cluster c1 the label env=true"),
        ('managedCluster.metadata.labels.exists(k, k == "gpu")', "give cluster c1 the label gpu=true"),
        ('int(managedCluster.metadata.labels["rank"]) > 5', "give cluster c1 the label rank=6"),
        (
            'managedCluster.status.clusterClaims.exists(c, c.name == "zone" && c.value == "a")',
            "give cluster c1 the claim zone=a",
        ),
        (
            'managedCluster.scores("default").exists(s, s.name == "cpu" && s.value > 20)',
            "publish score default/cpu for cluster c1, which has none, as 21",
        ),
        ('!("old" in managedCluster.metadata.labels)', "remove the label old from cluster c1"),
    ],
)
def test_counterfactual_from_cel_comparison(expression: str, expected: str) -> None:
    where = world(
        spec(number=None, predicates=(builders.predicate(cel=(expression,)),)),
        builders.cluster("c1", labels={"old": "1"}),
    )
    assert words(ask(where, "c1").edits) == [expected]


def test_counterfactual_from_two_cel_comparisons() -> None:
    labels = "managedCluster.metadata.labels"
    expression = f'{labels}["env"] == "prod" && {labels}["tier"] == "gold"'
    where = world(
        spec(number=None, predicates=(builders.predicate(cel=(expression,)),)), builders.cluster("c1")
    )
    assert words(ask(where, "c1").edits) == [
        "give cluster c1 the label env=prod",
        "give cluster c1 the label tier=gold",
    ]


def test_counterfactual_minimizes_literal_of_expression() -> None:
    expression = 'managedCluster.scores("default").exists(s, s.name == "cpu" && s.value * 2 > 40)'
    where = world(
        spec(number=None, predicates=(builders.predicate(cel=(expression,)),)),
        builders.cluster("c1"),
        builders.score("c1", {"cpu": 7}),
    )
    assert words(ask(where, "c1").edits) == [
        "raise score default/cpu of cluster c1 by 14 points, from 7 to 21"
    ]


def test_cel_expression_without_counterfactual_is_an_obstacle() -> None:
    expression = 'managedCluster.status.version.kubernetes == "v1.30.0"'
    where = world(
        spec(number=None, predicates=(builders.predicate(cel=(expression,)),)),
        builders.cluster("c1", version="v1.29.0"),
    )
    answer = ask(where, "c1")
    assert answer.state is State.NOT_FOUND
    assert expression in answer.obstacle
    assert answer.tried == ()


def test_deleted_cluster_has_no_counterfactual() -> None:
    answer = ask(world(spec(number=None), builders.cluster("c1", deleting=NOW)), "c1")
    assert (answer.state, answer.obstacle) == (State.BLOCKED, CLUSTER_GOES)


def test_misconfigured_placement_names_the_field_to_correct() -> None:
    bad = builders.predicate(labels=builders.selector(builders.requirement("k", "In")))
    for wrong, field in (
        (spec(predicates=(bad,)), "spec.predicates"),
        (spec(tolerations=(Toleration(key="a", operator="Exists", value="b"),)), "spec.tolerations"),
        (spec(builders.builtin("Nonsense")), "spec.prioritizerPolicy"),
    ):
        answer = ask(world(wrong, builders.cluster("c1")), "c1")
        assert answer.state is State.BLOCKED
        assert answer.obstacle.endswith(f"correct {field}")


def test_invalid_set_is_the_obstacle_of_a_counterfactual() -> None:
    broken = builders.cluster_set("default", kind="Nonsense")
    answer = ask(
        World([broken, builders.binding("default"), builders.cluster("c1"), builders.placement()]), "c1"
    )
    assert answer.state is State.BLOCKED
    assert answer.obstacle.endswith("correct spec.clusterSelector of the ManagedClusterSet")


def test_disabled_placement_has_no_counterfactual() -> None:
    placement = builders.placement(annotations={SCHEDULING_DISABLED_ANNOTATION: "true"})
    answer = ask(World([builders.cluster("c1"), placement]), "c1")
    assert answer.state is State.BLOCKED
    assert answer.obstacle == "scheduling is disabled by annotation, so nothing changes its decisions"


def test_selected_cluster_has_a_margin() -> None:
    assert ask(scored(70, 40), "c1") == Counterfactual(
        KEY, "c1", State.SELECTED, margin=Margin(points=30, runner_up="c2")
    )
    assert ask(scored(40, 70), "c2").margin == Margin(points=29, runner_up="c1")
    assert ask(scored(70), "c1").margin == Margin(points=None)


def test_counterfactual_of_unknown_name_raises() -> None:
    where = scored(1)
    with pytest.raises(KeyError):
        ask(where, "nobody")
    with pytest.raises(KeyError):
        counterfactual(where, ("ns1", "nobody"), "c1", now=MICROS)


def test_counterfactual_search_ends_with_its_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_RUNS", 1)
    where = world(spec(number=None, predicates=(ENV_PROD,)), builders.cluster("c1"))
    answer = ask(where, "c1")
    assert answer.state is State.NOT_FOUND
    assert answer.tried == ("gave up after 1 tries",)


@pytest.mark.parametrize("answer", range(1, 51))
def test_least_finds_the_smallest_working_number(answer: int) -> None:
    asked: list[int] = []

    def works(number: int) -> bool:
        asked.append(number)
        return number >= answer

    assert least(works, 0, 50) == answer
    assert len(asked) <= 8
    assert 0 not in asked


def test_failing_edit_reverts_the_earlier_edits() -> None:
    where = scored(1)
    before = cluster_of(where, "c1")
    edits = (SetLabel(cluster="c1", key="a", value="b"), SetLabel(cluster="nobody", key="a", value="b"))
    with pytest.raises(KeyError), applied(where, edits):
        pytest.fail("an edit of a cluster that is not there must fail")
    assert cluster_of(where, "c1") is before


def test_edit_documents_have_kind_and_fields() -> None:
    edit = WantMore(placement=KEY, old=1, value=2)
    assert edit.document() == {
        "kind": "WantMore",
        "description": "raise spec.numberOfClusters of placement ns1/p1 from 1 to 2",
        "placement": "ns1/p1",
        "old": 1,
        "value": 2,
    }
    score = PublishScore(cluster="c1", resource="r", score="s", base=3, value=1, ran_out="then")
    assert score.document()["ranOut"] == "then"
    assert score.with_steps(5).value == -2
    assert replace(score, value=9).with_steps(5).value == 8


def test_amounts_are_formatted_with_units() -> None:
    amounts = [
        Allocate(cluster="c", resource=resource, old=None, base=0, step=step, count=3).amount
        for resource, step in (
            ("cpu", 1000),
            ("cpu", 100),
            ("memory", 1 << 30),
            ("memory", 1 << 20),
            ("memory", 5),
        )
    ]
    assert amounts == ["3", "300m", "3Gi", "3Mi", "15"]


def test_numeric_edits_count_steps() -> None:
    edits: list[NumericEdit] = [
        WantMore(placement=KEY, old=-3, value=4),
        PublishScore(cluster="c", resource="r", score="s", base=10, value=14),
        PublishClusterScore(cluster="c", calculator="X", base=10, value=6),
        Allocate(cluster="c", resource="cpu", old="1", base=1000, step=100, count=-4),
    ]
    assert [edit.steps for edit in edits] == [4, 4, 4, 4]
    assert [edit.with_steps(1).steps for edit in edits] == [1, 1, 1, 1]


@pytest.mark.parametrize("odd", ["1e400", "plenty"])
def test_excessive_amount_counts_as_not_reported(odd: str) -> None:
    spec = PlacementSpec(
        numberOfClusters=1,
        prioritizerPolicy=builders.policy(builders.builtin("ResourceAllocatableCPU"), mode="Exact"),
    )
    world = World(
        [
            builders.cluster_set("default"),
            builders.binding("default"),
            builders.cluster("big", allocatable={"cpu": "8"}),
            builders.cluster("small", allocatable={"cpu": "4"}),
            builders.cluster("odd", allocatable={"cpu": odd}),
            builders.placement("p1", spec=spec),
        ]
    )
    answer = counterfactual(world, ("ns1", "p1"), "odd", now=0)
    assert answer.edits[0].describe() == "let cluster odd report 9 of allocatable cpu"
