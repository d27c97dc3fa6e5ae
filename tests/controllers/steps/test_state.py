"""Single things the book must get right that chance meets too rarely."""

from contextlib import AbstractAsyncContextManager, nullcontext
from datetime import timedelta
from typing import Any

import pytest
from msgspec import structs

from controllers.steps.simulation import Simulation
from controllers.steps.stepwise import CONTROLLER, Worker
from fairway.api.decision import PlacementDecision
from fairway.api.placement import PLACEMENT_LABEL, DecisionStrategy, GroupStrategy, PlacementSpec
from fairway.api.resources import (
    ADD_ON_PLACEMENT_SCORES,
    MANAGED_CLUSTERS,
    PLACEMENT_DECISIONS,
    PLACEMENTS,
)
from fairway.hosts.clusters import Fleet
from fairway.hosts.journal import Change
from fairway.testing import builders
from kubewire.client import Resource
from kubewire.client.fence import Lost
from rigs.fake_hub import FakeHub

KEY = ("ns1", "p")
BY_CPU = builders.policy(builders.addon("cpu"), mode="Exact")
ONE_TO_A_GROUP = DecisionStrategy(groupStrategy=GroupStrategy(clustersPerDecisionGroup=1))


def simulation(spec: PlacementSpec, **scores: int) -> Simulation:
    """A placement at rest, and clusters with these scores."""
    made = Simulation()
    for name, value in scores.items():
        made.hub.put(MANAGED_CLUSTERS, builders.cluster(name))
        made.hub.put(ADD_ON_PLACEMENT_SCORES, builders.score(name, {"cpu": value}))
    made.hub.put(PLACEMENTS, builders.placement("p", spec=spec))
    made.come_to_rest()
    return made


def change(made: Simulation, resource: Resource[Any], thing: Any) -> bool:
    """Whether the placement is woken by it."""
    made.hub.put(resource, thing)
    made.hear_all()
    return KEY in made.ready()


def chosen(made: Simulation) -> list[list[str]]:
    return [
        [decision.clusterName for decision in page.status.decisions]
        for _, page in sorted(made.own(KEY).items())
    ]


def test_groups_in_order_of_score_follow_it_though_the_same_clusters_are_chosen() -> None:
    spec = PlacementSpec(
        numberOfClusters=2,
        prioritizerPolicy=BY_CPU,
        sortBy="Score",
        decisionStrategy=DecisionStrategy(groupStrategy=GroupStrategy(clustersPerDecisionGroup=1)),
    )
    made = simulation(spec, a=50, b=40, c=10)
    assert chosen(made) == [["a"], ["b"]]
    made.clock.now += timedelta(seconds=5)
    change(made, ADD_ON_PLACEMENT_SCORES, builders.score("c", {"cpu": 11}))
    made.come_to_rest()  # this cycle and the next one are incremental
    change(made, ADD_ON_PLACEMENT_SCORES, builders.score("b", {"cpu": 60}))
    made.come_to_rest()
    assert chosen(made) == [["b"], ["a"]]


def reasons(made: Simulation) -> list[str]:
    pages = (page for _, page in sorted(made.own(KEY).items()))
    return [decision.reason.partition(" with ")[0] for page in pages for decision in page.status.decisions]


def test_reasons_on_all_pages_are_of_the_cycle_that_changed_one_of_them() -> None:
    groups = DecisionStrategy(groupStrategy=GroupStrategy(clustersPerDecisionGroup=1))
    spec = PlacementSpec(
        numberOfClusters=2, prioritizerPolicy=BY_CPU, decisionStrategy=groups, scoreRateLimit="10m"
    )
    made = simulation(spec, a=50, b=40, c=10)
    assert reasons(made) == ["Rank 1 of 3", "Rank 2 of 3"]
    made.clock.now += timedelta(seconds=5)
    made.hub.put(ADD_ON_PLACEMENT_SCORES, builders.score("a", {"cpu": 60}))
    made.come_to_rest()
    assert (
        made.own(KEY)["p-decision-1"].status.decisions[0].score == 50
    )  # only scores changed, so nothing is written
    made.hub.put(MANAGED_CLUSTERS, builders.cluster("d"))
    made.hub.put(ADD_ON_PLACEMENT_SCORES, builders.score("d", {"cpu": 70}))
    made.come_to_rest()
    assert chosen(made) == [["a"], ["d"]]
    assert reasons(made) == ["Rank 2 of 4", "Rank 1 of 4"]


def test_reasons_are_of_one_cycle_after_a_write_failed_half_way() -> None:
    groups = DecisionStrategy(groupStrategy=GroupStrategy(clustersPerDecisionGroup=1))
    spec = PlacementSpec(
        numberOfClusters=2, prioritizerPolicy=BY_CPU, decisionStrategy=groups, scoreRateLimit="10m"
    )
    made = simulation(spec, a=50, b=40, c=10)
    made.clock.now += timedelta(seconds=5)
    made.hub.put(MANAGED_CLUSTERS, builders.cluster("d"))
    made.hub.put(ADD_ON_PLACEMENT_SCORES, builders.score("d", {"cpu": 70}))
    made.hear_all()
    made.look()
    made.answer()
    made.refuse()
    made.come_to_rest()
    assert reasons(made) == ["Rank 2 of 4", "Rank 1 of 4"]


def test_score_of_a_filtered_cluster_wakes_no_placement() -> None:
    in_prod = builders.predicate(labels=builders.selector(labels={"env": "prod"}))
    made = Simulation()
    made.hub.put(MANAGED_CLUSTERS, builders.cluster("a", labels={"env": "prod"}))
    made.hub.put(MANAGED_CLUSTERS, builders.cluster("b"))
    made.hub.put(MANAGED_CLUSTERS, builders.cluster("c", labels={"env": "prod"}))
    spec = PlacementSpec(numberOfClusters=1, predicates=(in_prod,), prioritizerPolicy=BY_CPU)
    made.hub.put(PLACEMENTS, builders.placement("p", spec=spec))
    made.come_to_rest()
    assert not change(made, ADD_ON_PLACEMENT_SCORES, builders.score("b", {"cpu": 90}))
    assert not change(made, ADD_ON_PLACEMENT_SCORES, builders.score("c", {"mem": 90}))
    assert change(made, ADD_ON_PLACEMENT_SCORES, builders.score("c", {"cpu": 90}))


def test_foreign_decisions_wake_no_placement() -> None:
    made = simulation(PlacementSpec(numberOfClusters=1), a=1, b=2)
    assert not change(made, PLACEMENT_DECISIONS, builders.decision("q", ["a", "b"], placement="other"))
    assert not change(made, PLACEMENT_DECISIONS, builders.decision("q", ["a"], placement="other"))


def test_watch_event_of_an_own_write_wakes_no_placement() -> None:
    made = simulation(PlacementSpec(numberOfClusters=1), a=1, b=2)
    made.hub.put(MANAGED_CLUSTERS, builders.cluster("a", member_of=""))
    made.hear_all()
    made.look()
    while made.workers:
        made.answer()
    made.hear_all()
    assert not made.ready()
    assert chosen(made) == [["b"]]


def test_unused_label_wakes_no_placement() -> None:
    made = simulation(PlacementSpec(prioritizerPolicy=BY_CPU), a=1)
    assert not change(made, MANAGED_CLUSTERS, builders.cluster("a", labels={"other": "thing"}))
    assert change(made, MANAGED_CLUSTERS, builders.cluster("a", member_of=""))


def test_deleted_page_returns_after_a_restored_backup() -> None:
    made = simulation(
        PlacementSpec(
            decisionStrategy=DecisionStrategy(groupStrategy=GroupStrategy(clustersPerDecisionGroup=1))
        ),
        a=1,
        b=2,
    )
    before = made.hub.revision
    made.hub.drop(MANAGED_CLUSTERS, "b")
    for plural, informed in made.informed.items():
        if plural != PLACEMENT_DECISIONS.plural:
            informed.deliver()
    made.look()
    while made.workers:
        made.answer()
    assert [*made.own(KEY)] == ["p-decision-1"]
    # Its deletion was not observed, and is undone by the restore.
    made.restore_to(before)
    made.come_to_rest()
    assert chosen(made) == [["a"], ["b"]]


def test_changed_order_is_written_at_once() -> None:
    made = simulation(PlacementSpec(prioritizerPolicy=BY_CPU, sortBy="Score", scoreRateLimit="10m"), a=1, b=2)
    assert chosen(made) == [["b", "a"]]
    made.clock.now += timedelta(seconds=5)
    old = made.hub.all(PLACEMENTS)[KEY]
    made.hub.put(PLACEMENTS, structs.replace(old, spec=structs.replace(old.spec, sortBy="ClusterName")))
    made.come_to_rest()
    assert chosen(made) == [["a", "b"]]


def test_readopted_page_is_not_deleted() -> None:
    """The placement planned the deletion before the page was assigned to it."""
    made = simulation(PlacementSpec(prioritizerPolicy=BY_CPU), a=1)
    other = ("ns1", "q")
    made.hub.put(PLACEMENTS, builders.placement("q", spec=PlacementSpec(prioritizerPolicy=BY_CPU)))
    made.come_to_rest()
    page = made.own(KEY)["p-decision-1"]
    given = structs.replace(page.metadata, labels={**page.metadata.labels, PLACEMENT_LABEL: "q"})
    made.hub.put(PLACEMENT_DECISIONS, structs.replace(page, metadata=given))
    made.hub.drop(
        PLACEMENT_DECISIONS, "q-decision-1", namespace=other[0]
    )  # so that it has something to do first
    made.hear_all()
    for key in (other, KEY):
        made.look_at(key)
    while KEY in made.workers:
        made.answer_to(KEY)
    assert chosen(made) == [["a"]]
    made.come_to_rest()
    assert chosen(made) == [["a"]]


def test_odd_decision_does_not_block_the_reload_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    made = simulation(PlacementSpec(), a=1)
    for name in ("odd", "other"):
        made.hub.put(PLACEMENT_DECISIONS, builders.decision(name, ["a"]))
    made.come_to_rest()
    before = made.hub.revision
    for name in ("odd", "other"):
        made.hub.put(PLACEMENT_DECISIONS, builders.decision(name, ["b"]))
    made.come_to_rest()
    known = Fleet.upsert_decision

    def upsert(self: Fleet, decision: PlacementDecision) -> Change:
        if decision.metadata.name == "odd":
            raise RuntimeError("nobody foresaw this")
        return known(self, decision)

    monkeypatch.setattr(Fleet, "upsert_decision", upsert)
    made.restore_to(before)
    there = made.controller.state.decision("ns1", "other")
    assert there is not None
    assert [decision.clusterName for decision in there.status.decisions] == ["a"]


class TermOf:
    """Leadership that is over once the controller has made so many writes."""

    def __init__(self, hub: FakeHub, writes: int) -> None:
        self._hub, self._writes = hub, writes

    def made(self) -> int:
        return sum(write.author == CONTROLLER for write in self._hub.log)

    def batch(self) -> AbstractAsyncContextManager[None]:
        return nullcontext()

    def ensure(self) -> None:
        if self.made() >= self._writes:
            raise Lost("over")


def write_until_lost(allowed: int) -> tuple[int, bool]:
    """How many writes the controller makes for a new placement in a term of so many, and whether it was lost."""
    made = Simulation()
    for name in "ab":
        made.hub.put(MANAGED_CLUSTERS, builders.cluster(name))
    made.hub.put(PLACEMENTS, builders.placement("p", spec=PlacementSpec(decisionStrategy=ONE_TO_A_GROUP)))
    made.hear_all()
    term = TermOf(made.hub, allowed)
    try:
        worker = Worker(KEY, made.attempt(KEY), leadership=term)
        while not worker.done:
            worker.carry_out(made.hub)
            worker.answer()
    except Lost:
        return term.made(), True
    return term.made(), False


def test_no_write_is_made_after_the_term_has_ended() -> None:
    writes, lost = write_until_lost(allowed=1000)
    assert writes == 5  # two pages are created and filled, then the status
    assert not lost
    for allowed in range(writes):
        assert write_until_lost(allowed) == (allowed, True)


def test_reason_changed_by_another_client_during_the_write_is_repaired() -> None:
    spec = PlacementSpec(numberOfClusters=1, prioritizerPolicy=BY_CPU, scoreRateLimit="10m")
    made = simulation(spec, a=50, b=40)
    made.clock.now += timedelta(minutes=11)
    change(made, ADD_ON_PLACEMENT_SCORES, builders.score("a", {"cpu": 55}))
    made.look()
    made.carry_out()
    page = made.own(KEY)["p-decision-1"]
    (decided,) = page.status.decisions
    status = structs.replace(page.status, decisions=(structs.replace(decided, reason="made up"),))
    made.hub.put(PLACEMENT_DECISIONS, structs.replace(page, status=status))
    made.excused.add(KEY)
    made.hear_all()
    while made.workers:
        made.answer()
    made.come_to_rest()
    assert reasons(made) == ["Rank 1 of 2"]


def test_deleted_placement_leaves_no_timer() -> None:
    made = Simulation()
    made.hub.put(MANAGED_CLUSTERS, builders.cluster("a"))
    expires = made.clock.now + timedelta(minutes=5)
    made.hub.put(ADD_ON_PLACEMENT_SCORES, builders.score("a", {"cpu": 5}, valid_until=expires))
    made.hub.put(PLACEMENTS, builders.placement("p", spec=PlacementSpec(prioritizerPolicy=BY_CPU)))
    made.come_to_rest()
    explanation = made.queue.explain(KEY)
    assert explanation is not None
    assert explanation.next_try is not None
    made.hub.drop(PLACEMENTS, KEY[1], namespace=KEY[0])
    made.hear_all()
    assert made.queue.explain(KEY) is None
    made.clock.now += timedelta(minutes=6)
    assert made.ready() == []


def test_page_whose_deletion_was_rejected_still_holds_its_cluster() -> None:
    spec = PlacementSpec(numberOfClusters=2, prioritizerPolicy=BY_CPU, decisionStrategy=ONE_TO_A_GROUP)
    made = simulation(spec, a=50, b=40)
    change(made, PLACEMENTS, builders.placement("p", spec=structs.replace(spec, numberOfClusters=1)))
    made.look()
    while (call := made.workers[KEY].call) is not None and call.verb != "delete":
        made.answer()
    made.refuse()
    decisions = made.controller.state.fleet.snapshot().decisions
    assert decisions.get("ns1", "p-decision-2") is not None
    made.come_to_rest()
    assert chosen(made) == [["a"]]


def test_planned_page_counts_as_written_during_the_write() -> None:
    """Otherwise other placements that balance would use a cluster that this one is about to take."""
    made = simulation(PlacementSpec(numberOfClusters=1, prioritizerPolicy=BY_CPU), a=50, b=40)
    change(made, ADD_ON_PLACEMENT_SCORES, builders.score("b", {"cpu": 90}))
    made.look()
    held = made.controller.state.fleet.snapshot().decisions.get("ns1", "p-decision-1")
    assert held is not None
    assert held.clusters == ("b",)
    made.come_to_rest()
