"""Placements that differ in their names only share the work of their cycles."""

from datetime import UTC, datetime
from typing import Any

import pytest

from fairway.api.placement import (
    DecisionGroup,
    DecisionStrategy,
    GroupClusterSelector,
    GroupStrategy,
    PlacementSpec,
    Toleration,
)
from fairway.engine import cycle
from fairway.engine.memory import Memory
from fairway.hosts.clusters import Fleet
from fairway.hosts.instant import to_micros
from fairway.testing import builders as make
from fairway.workloads.placement import PlacementWorkload, default_profile
from fairway.workloads.placement.alike import AlikePlacements
from fairway.workloads.placement.plugins.trust import MISSING_SCORE
from fairway.workloads.placement.verdict import conclude
from kubewire.api.selector import LabelSelector

NOW = to_micros(datetime(2026, 1, 1, tzinfo=UTC))
BY_SCORE = make.policy(make.addon("free"), mode="Exact")


def fleet() -> Fleet:
    made = Fleet()
    made.load(make.cluster(f"c{at}") for at in range(3))
    made.upsert_set(make.cluster_set("default"))
    made.upsert_binding(make.binding("default"))
    return made


def workload_of(name: str, **spec: Any) -> PlacementWorkload:
    fields: dict[str, Any] = {"numberOfClusters": 1, "prioritizerPolicy": BY_SCORE, **spec}
    return PlacementWorkload(make.placement(name, spec=PlacementSpec(**fields)))


class Cycles:
    def __init__(self) -> None:
        self.fleet, self.memory = fleet(), Memory(alike=AlikePlacements(default_profile()))

    def followed(self, workload: PlacementWorkload) -> bool:
        """Run a cycle. Return whether it was incremental."""
        before, snapshot = self.memory.followed, self.fleet.snapshot()
        outcome = self.memory.run(snapshot, workload, default_profile(), now=NOW)
        full = cycle.run(snapshot, workload, default_profile(), now=NOW)
        assert list(outcome.reasons()) == list(full.reasons())
        return self.memory.followed > before


def test_first_cycle_of_an_alike_placement_continues_from_that_of_another() -> None:
    cycles = Cycles()
    assert not cycles.followed(workload_of("p1"))
    assert cycles.followed(workload_of("p2"))


def test_changed_score_is_evaluated_for_all_alike_placements() -> None:
    cycles, workloads = Cycles(), [workload_of("p1"), workload_of("p2")]
    for workload in workloads:
        cycles.followed(workload)
    cycles.fleet.upsert_score(make.score("c2", {"free": 10}))
    assert all(cycles.followed(workload) for workload in workloads)


def test_details_are_computed_once_for_alike_placements_although_decisions_are_written_between() -> None:
    cycles, workloads = Cycles(), [workload_of("p1"), workload_of("p2")]
    for workload in workloads:
        cycles.followed(workload)
    cycles.fleet.upsert_score(make.score("c2", {"free": 10}))
    details = []
    for workload in workloads:
        outcome = cycles.memory.run(cycles.fleet.snapshot(), workload, default_profile(), now=NOW)
        details.append(outcome.details)
        cycles.fleet.upsert_decision(make.decision(workload.name, outcome.selected, placement=workload.name))
    assert details[0] is details[1]


def test_decisions_of_alike_placements_are_derived_once_and_again_after_a_change() -> None:
    cycles, workloads = Cycles(), [workload_of("p1"), workload_of("p2")]
    for workload in workloads:
        cycles.followed(workload)
    for value in (10, 20):
        cycles.fleet.upsert_score(make.score("c2", {"free": value}))
        outcomes = [
            cycles.memory.run(cycles.fleet.snapshot(), workload, default_profile(), now=NOW)
            for workload in workloads
        ]
        pages = [
            conclude(outcome, workload).pages[0]
            for outcome, workload in zip(outcomes, workloads, strict=True)
        ]
        assert [page.name for page in pages] == ["p1-decision-1", "p2-decision-1"]
        assert [[decision.score for decision in page.decisions] for page in pages] == [[value]] * 2
        assert pages[0].decisions[0] is pages[1].decisions[0]


def test_decision_groups_of_alike_placements_follow_labels_that_no_filter_reads() -> None:
    canaries = DecisionGroup(
        groupName="canaries",
        groupClusterSelector=GroupClusterSelector(labelSelector=LabelSelector(matchLabels={"canary": "yes"})),
    )
    grouped = DecisionStrategy(groupStrategy=GroupStrategy(decisionGroups=(canaries,)))
    cycles = Cycles()
    workloads = [workload_of(name, numberOfClusters=3, decisionStrategy=grouped) for name in ("p1", "p2")]
    for label, names in (("no", [""]), ("yes", ["canaries", ""])):
        cycles.fleet.upsert_cluster(make.cluster("c1", labels={"canary": label}))
        for workload in workloads:
            outcome = cycles.memory.run(cycles.fleet.snapshot(), workload, default_profile(), now=NOW)
            assert [group.decisionGroupName for group in conclude(outcome, workload).groups] == names
    assert cycles.memory.followed


def test_alike_placements_have_the_same_feasible_rows() -> None:
    cycles, first, other = Cycles(), workload_of("p1"), workload_of("p2")
    cycles.followed(first)
    assert cycles.memory.feasible(first, default_profile()) is cycles.memory.feasible(
        other, default_profile()
    )


@pytest.mark.parametrize(
    "spec",
    [
        {"prioritizerPolicy": None},
        {"prioritizerPolicy": make.policy(make.builtin("Steady"), mode="Exact")},
        {"tolerations": (Toleration(key="gpu", operator="Exists", tolerationSeconds=10),)},
        {"predicates": (make.predicate(cel=['managedCluster.metadata.labels["env"] == "prod"']),)},
    ],
    ids=["defaults", "steady", "timed toleration", "expressions"],
)
def test_placements_that_read_their_own_decision_share_nothing(spec: dict[str, Any]) -> None:
    cycles = Cycles()
    assert not cycles.followed(workload_of("p1", **spec))
    assert not cycles.followed(workload_of("p2", **spec))


def test_placements_that_read_their_own_decision_get_a_memo_in_their_second_cycle() -> None:
    cycles = Cycles()
    spec = {"prioritizerPolicy": make.policy(make.builtin("Balance"), mode="Exact")}
    first, second = workload_of("p1", **spec), workload_of("p2", **spec)
    assert [cycles.followed(first) for _ in range(2)] == [False, True], (
        "the first one shows what its spec reads"
    )
    assert [cycles.followed(second) for _ in range(3)] == [False, False, True]
    cycles.memory.forget(second.namespace, second.name)
    assert [cycles.followed(second) for _ in range(3)] == [False, False, True]


def test_placements_with_other_annotations_share_nothing() -> None:
    cycles, spec = Cycles(), PlacementSpec(numberOfClusters=1, prioritizerPolicy=BY_SCORE)
    assert not cycles.followed(PlacementWorkload(make.placement("p1", spec=spec)))
    worst = make.placement("p2", spec=spec, annotations={MISSING_SCORE: "worst"})
    assert not cycles.followed(PlacementWorkload(worst))


def test_forgetting_a_placement_keeps_what_others_share() -> None:
    cycles = Cycles()
    cycles.followed(workload_of("p1"))
    cycles.memory.forget("ns1", "p1")
    assert cycles.followed(workload_of("p2"))


def test_restart_runs_a_full_cycle_of_a_shared_memo() -> None:
    cycles, workload = Cycles(), workload_of("p1")
    cycles.followed(workload)
    number = cycles.memory.memo_of(workload, default_profile())
    cycles.memory.restart(workload, default_profile())
    assert not cycles.followed(workload_of("p2"))
    assert cycles.memory.memo_of(workload, default_profile()) != number
