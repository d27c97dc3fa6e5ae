from collections.abc import Mapping
from datetime import timedelta

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings
from msgspec import structs

from fairway.api.cluster import ManagedCluster
from fairway.api.placement import PlacementSpec
from fairway.engine import cycle
from fairway.engine.memory import Memory
from fairway.hosts import bitmap
from fairway.hosts.clusters import Fleet
from fairway.testing.builders import cluster, placement, predicate, score
from fairway.workloads.placement import PlacementWorkload, default_profile
from fairway.workloads.placement.plugins import expressions
from fairway.workloads.placement.plugins.expressions import ExpressionError, Expressions
from fairway.workloads.placement.plugins.work_budget import WorkBudget
from kubecel import DEFAULT_WORK_LIMIT, Outcome, Program
from strategies import NOW, NOW_MICROS
from workloads.placement.plugins.verdicts import KEY, hub, look, refusal

ENV = 'managedCluster.metadata.labels["env"] == "prod"'
VERSION = 'managedCluster.status.version.kubernetes.startsWith("v1.3")'
NAME = 'managedCluster.metadata.name.startsWith("c")'
WHOLE = "managedCluster.size() > 0"
SCORED = 'managedCluster.scores("default").exists(s, s.value > 80)'
ANY_SCORED = 'managedCluster.scores(managedCluster.metadata.labels["env"]).exists(s, s.value > 80)'


class Evaluations:
    """Records the clusters that each expression was evaluated for, in order."""

    def __init__(self) -> None:
        self.made: list[tuple[str, str]] = []

    def of(self, text: str) -> list[str]:
        return [cluster for asked, cluster in self.made if asked == text]

    def __len__(self) -> int:
        return len(self.made)


@pytest.fixture
def evaluations(monkeypatch: pytest.MonkeyPatch) -> Evaluations:
    seen = Evaluations()
    evaluate = Program.evaluate

    def spy(
        self: Program,
        variables: Mapping[str, object],
        *,
        context: object = None,
        cost_limit: int | None = None,
        work_limit: int = DEFAULT_WORK_LIMIT,
    ) -> Outcome:
        managed = variables["managedCluster"]
        assert isinstance(managed, dict)
        seen.made.append((self.text, managed["metadata"]["name"]))
        return evaluate(self, variables, context=context, cost_limit=cost_limit, work_limit=work_limit)

    monkeypatch.setattr(Program, "evaluate", spy)
    return seen


def asking(*texts: str) -> PlacementSpec:
    return PlacementSpec(predicates=(predicate(cel=texts),))


def fleet_of(*envs: str) -> Fleet:
    fleet = Fleet()
    fleet.load(
        [cluster(f"c{at}", labels={"env": env}, version=f"v1.3{at % 2}") for at, env in enumerate(envs)]
    )
    return fleet


def holding(fleet: Fleet, *texts: str) -> list[str]:
    snapshot = fleet.snapshot()
    bits = Expressions(texts).holds(snapshot, snapshot.live, WorkBudget(len(fleet)))
    return [snapshot.hosts.names[row] for row in bitmap.rows_of(bits).tolist()]


def test_expression_is_evaluated_once_for_equal_reads(evaluations: Evaluations) -> None:
    fleet = fleet_of("prod", "dev", "prod", "dev", "prod", "qa")
    assert holding(fleet, ENV) == ["c0", "c2", "c4"]
    assert len(evaluations) == 3


def test_expression_is_evaluated_once_per_combination_of_values(evaluations: Evaluations) -> None:
    fleet = fleet_of("prod", "prod", "prod", "prod", "dev", "dev")
    assert holding(fleet, f"{ENV} && {VERSION}") == ["c0", "c1", "c2", "c3"]
    assert len(evaluations) == 4


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(NAME, id="the name"),
        pytest.param(WHOLE, id="the whole cluster"),
        pytest.param(SCORED, id="its scores"),
    ],
)
def test_expression_with_distinct_reads_is_evaluated_per_cluster(text: str, evaluations: Evaluations) -> None:
    holding(fleet_of("prod", "prod", "prod"), text)
    assert evaluations.of(text) == ["c0", "c1", "c2"]


def test_first_false_expression_ends_evaluation(evaluations: Evaluations) -> None:
    assert holding(fleet_of("prod"), "1 / 0 == 1", "false", "true") == []
    assert evaluations.of("1 / 0 == 1") == ["c0"]
    assert evaluations.of("false") == evaluations.of("true") == []


def test_empty_expression_list_matches_every_cluster() -> None:
    assert holding(fleet_of("prod", "dev")) == ["c0", "c1"]


def test_expression_results_are_cached(evaluations: Evaluations) -> None:
    fleet = fleet_of("prod", "dev", "qa")
    assert holding(fleet, ENV) == holding(fleet, ENV) == ["c0"]
    assert len(evaluations) == 3


def test_expression_results_are_shared_between_placements(evaluations: Evaluations) -> None:
    world = hub(cluster("c1", labels={"env": "prod"}), cluster("c2", labels={"env": "dev"}), spec=asking(ENV))
    world.put(placement("twin", spec=asking(ENV)))
    assert world.decide(KEY, now=NOW_MICROS).outcome.selected == ["c1"]
    assert world.decide(("ns1", "twin"), now=NOW_MICROS).outcome.selected == ["c1"]
    assert len(evaluations) == 2


def test_only_rows_with_changed_reads_are_evaluated_again(evaluations: Evaluations) -> None:
    fleet = fleet_of("prod", "dev", "qa")
    holding(fleet, ENV)
    evaluations.made.clear()
    fleet.upsert_cluster(cluster("c1", labels={"env": "dev", "unrelated": "x"}, version="v2"))
    assert holding(fleet, ENV) == ["c0"]
    assert evaluations.made == []
    fleet.upsert_cluster(cluster("c1", labels={"env": "prod"}))
    assert holding(fleet, ENV) == ["c0", "c1"]
    assert evaluations.of(ENV) == ["c1"]


def test_new_cluster_in_reused_row_is_evaluated(evaluations: Evaluations) -> None:
    fleet = fleet_of("prod", "dev")
    holding(fleet, ENV)
    fleet.delete_cluster("c0")
    fleet.upsert_cluster(cluster("new", labels={"env": "dev"}))
    assert fleet.snapshot().hosts.row_of["new"] == 0
    assert holding(fleet, ENV) == []


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(ENV, id="a label of the only cluster"),
        pytest.param(f"{NAME} && {ENV}", id="a label and the name"),
        pytest.param(f"{SCORED} && {ENV}", id="a label and a score"),
        pytest.param(f"{WHOLE} && {ENV}", id="a label and the whole cluster"),
        pytest.param('managedCluster.metadata["labels"].env == "prod"', id="a label by index"),
        pytest.param(
            'managedCluster.metadata.map(k, k).size() > 0 && managedCluster.metadata.labels["env"] == "prod"',
            id="all metadata",
        ),
    ],
)
def test_changed_read_changes_expression_result(text: str) -> None:
    """With a shared cache, and with followed cycles."""
    dev, prod = cluster("c1", labels={"env": "dev"}), cluster("c1", labels={"env": "prod"})
    spec = structs.replace(asking(text), numberOfClusters=1)
    world = hub(dev, score("c1", {"free": 90}), spec=spec)
    workload, memory = world.workload(KEY), Memory()
    for version, expected in ((dev, []), (prod, ["c1"]), (dev, []), (prod, ["c1"])):
        world.put(version)
        assert world.decide(KEY, now=NOW_MICROS).outcome.selected == expected
        remembered = memory.run(world.fleet.snapshot(), workload, default_profile(), now=NOW_MICROS)
        assert remembered.selected == expected


def test_change_after_a_held_snapshot_changes_expression_result() -> None:
    """The first query is for an old snapshot, so changes since then were not tracked."""
    fleet = fleet_of("dev", "dev")
    held = fleet.snapshot()
    fleet.upsert_cluster(cluster("c0", labels={"env": "prod"}))
    old = Expressions((ENV,)).holds(held, held.live, WorkBudget(2))
    assert bitmap.rows_of(old).tolist() == []
    assert holding(fleet, ENV) == ["c0"]


@pytest.mark.parametrize(
    ("text", "table"),
    [
        pytest.param(SCORED, "default", id="by a constant name"),
        pytest.param(ANY_SCORED, "prod", id="by a name read from the cluster"),
    ],
)
def test_changed_score_changes_expression_result(text: str, table: str, evaluations: Evaluations) -> None:
    fleet = fleet_of("prod", "prod")
    assert holding(fleet, text) == []
    fleet.upsert_score(score("c1", {"free": 81}, name=table))
    assert holding(fleet, text) == ["c1"]
    fleet.upsert_score(score("c1", {"free": 80}, name=table))
    assert holding(fleet, text) == []
    fleet.upsert_score(score("c1", {"free": 81}, name=table))
    fleet.delete_score("c1", table)
    assert holding(fleet, text) == []
    assert evaluations.of(text).count("c0") == 1


def test_score_of_another_name_causes_no_evaluation(evaluations: Evaluations) -> None:
    fleet = fleet_of("prod", "prod")
    holding(fleet, SCORED)
    evaluations.made.clear()
    fleet.upsert_score(score("c1", {"free": 81}, name="unrelated"))
    holding(fleet, SCORED)
    assert evaluations.made == []


def test_expressions_read_expired_scores_by_default() -> None:
    expired = score("c1", {"free": 90}, valid_until=NOW - timedelta(hours=1))
    assert look(cluster("c1"), expired, spec=asking(SCORED)).outcome.selected == ["c1"]


def test_expression_limits_equal_the_reference() -> None:
    assert (expressions.COST_LIMIT, expressions.COST_BUDGET) == (1_000_000, 10_000_000)


def test_expression_above_cost_limit_does_not_match(monkeypatch: pytest.MonkeyPatch) -> None:
    spec = asking("[1, 2, 3].all(x, x > 0)")
    assert look(cluster("c1"), spec=spec).outcome.selected == ["c1"]
    monkeypatch.setattr(expressions, "COST_LIMIT", 3)
    verdict = look(cluster("c1"), spec=spec)
    assert verdict.outcome.selected == []
    assert not verdict.status.aborts
    assert refusal(verdict, "c1") == (
        "Predicate",
        "CEL expression '[1, 2, 3].all(x, x > 0)' fails: operation cancelled: actual cost limit exceeded",
    )


def test_cost_budget_is_shared_by_expressions_of_a_predicate(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two label comparisons cost 5 each."""
    spec = asking(ENV, ENV)
    host = cluster("c1", labels={"env": "prod"})
    monkeypatch.setattr(expressions, "COST_BUDGET", 10)
    assert look(host, spec=spec).outcome.selected == ["c1"]
    monkeypatch.setattr(expressions, "COST_BUDGET", 9)
    verdict = look(host, spec=spec)
    assert verdict.outcome.selected == []
    assert refusal(verdict, "c1") == ("Predicate", expressions.OVER_BUDGET)


def test_invalid_expression_is_rejected() -> None:
    with pytest.raises(ExpressionError, match=r"^compilation failed: ERROR: <input>:1:1:"):
        Expressions(("nowhere == 1",))


two_clusters = st.builds(
    lambda name, env, note: cluster(name, labels={"env": env, "note": note}),
    st.sampled_from(["c1", "c2"]),
    st.sampled_from(["prod", "dev"]),
    st.sampled_from(["x", "y"]),
)
two_scores = st.builds(
    lambda name, table, value: score(name, {"free": value}, name=table),
    st.sampled_from(["c1", "c2"]),
    st.sampled_from(["default", "prod"]),
    st.sampled_from([80, 81]),
)
changes = st.lists(st.one_of(two_clusters, two_scores), min_size=1, max_size=3)


@given(
    steps=st.lists(changes, min_size=2, max_size=6),
    text=st.sampled_from([ENV, f"{NAME} && {ENV}", f"{SCORED} || {ENV}", f"{WHOLE} && {ENV}", ANY_SCORED]),
)
@settings(max_examples=60)
def test_cached_expression_results_equal_fresh_ones(steps: list[list[object]], text: str) -> None:
    world = hub()
    workload = PlacementWorkload(placement(spec=asking(text)))
    for things in steps:
        for obj in things:
            world.put(obj)
        snapshot = world.fleet.snapshot()
        kept = cycle.run(snapshot, workload, default_profile(), now=NOW_MICROS)
        asked = cycle.run(snapshot, workload, default_profile(), now=NOW_MICROS, whole_fleet=False)
        assert kept.selected == asked.selected


def test_missing_and_empty_conditions_are_distinguished_in_expressions() -> None:
    """Expressions read ``null`` and ``[]``."""

    def cluster_with(name: str, conditions: tuple[()] | None) -> ManagedCluster:
        bare = cluster(name)
        return structs.replace(bare, status=structs.replace(bare.status, conditions=conditions))

    fleet = Fleet()
    fleet.load([cluster_with("c1", None), cluster_with("c2", ())])
    unknown = "managedCluster.status.conditions == null"
    assert holding(fleet, unknown) == ["c1"]
    fleet.upsert_cluster(cluster_with("c1", ()))
    fleet.upsert_cluster(cluster_with("c2", None))
    assert holding(fleet, unknown) == ["c2"]
