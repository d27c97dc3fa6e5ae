"""The shadow: what differs, in words, once it has lasted, and without writing anything."""

import logging
from datetime import timedelta

import pytest
from hypothesis import given
from msgspec import structs

from controllers.chaos.expected_decisions import KINDS
from controllers.steps.decision_pages import (
    Decisions,
    Situation,
    decision_of,
    labels_of,
    page_name,
    paged,
    planned,
    situations,
)
from controllers.steps.simulation import METERS
from controllers.steps.stepwise import FakeClock, Worker
from fairway.api.decision import ClusterDecision, PlacementDecisionStatus
from fairway.api.placement import DecisionGroupStatus, Placement, PlacementStatus
from fairway.api.resources import (
    MANAGED_CLUSTER_SET_BINDINGS,
    MANAGED_CLUSTER_SETS,
    MANAGED_CLUSTERS,
    PLACEMENT_DECISIONS,
    PLACEMENTS,
)
from fairway.controllers.placement.shadow import (
    MISSING,
    OTHER_CLUSTERS,
    OTHER_ORDER,
    OTHER_STATUS,
    SETTLE_SECONDS,
    SURPLUS,
    Shadow,
    differences,
)
from fairway.testing import builders
from fairway.workloads.placement.pages import Page
from fairway.workloads.placement.reconcile_plan import ReconcilePlan
from kubewire.api.meta import Condition
from rigs.fake_hub import FakeHub
from strategies import NOW

KEY = ("ns1", "p")


def pages_of(*groups: str) -> tuple[Page, ...]:
    return paged(
        [("", [ClusterDecision(clusterName=cluster, score=1) for cluster in group]) for group in groups]
    )


def differences_of(
    pages: tuple[Page, ...], there: Decisions, *, status: PlacementStatus | None = None
) -> list[str]:
    plan = ReconcilePlan(
        placement=Placement(), pages=pages, steps=planned(pages, there, refresh=True), status=status
    )
    return list(differences(plan, there))


def there_is(*pages: Page) -> Decisions:
    return {page.name: decision_of(page) for page in pages}


def test_equal_decisions_are_not_reported() -> None:
    assert differences_of(pages_of("ab"), there_is(*pages_of("ab"))) == []


def test_scores_and_reasons_are_not_compared() -> None:
    others = tuple(
        structs.replace(decision, score=99, reason="because") for decision in pages_of("ab")[0].decisions
    )
    assert differences_of(pages_of("ab"), there_is(Page(page_name(1), labels_of(0, ""), others))) == []


def test_each_difference_is_described() -> None:
    first = page_name(1)
    assert differences_of(pages_of("ab"), {}) == [MISSING.format(page=first, clusters="a, b")]
    assert differences_of(pages_of(""), {}) == [MISSING.format(page=first, clusters="nothing")]
    assert differences_of(pages_of("ab"), there_is(*pages_of("ba"))) == [OTHER_ORDER.format(page=first)]
    assert differences_of(pages_of("ab"), there_is(*pages_of("bc"))) == [
        OTHER_CLUSTERS.format(page=first, changes="lacks a, should not name c")
    ]
    assert differences_of(pages_of("a"), there_is(*pages_of("a", "b"))) == [SURPLUS.format(page=page_name(2))]
    relabelled = Page(first, labels_of(3, "x"), pages_of("a")[0].decisions)
    (text,) = differences_of(pages_of("a"), there_is(relabelled))
    assert text.startswith(f"decision {first} has labels")
    assert "decision-group-index=3" in text


def test_long_name_lists_are_shortened() -> None:
    many = tuple(ClusterDecision(clusterName=f"c{at:02}") for at in range(14))
    (text,) = differences_of((Page(page_name(1), labels_of(0, ""), many),), {})
    assert text.endswith("c09 and 4 more")


def test_shadow_describes_a_status_difference() -> None:
    status = PlacementStatus(
        numberOfSelectedClusters=2,
        decisionGroups=(DecisionGroupStatus(decisionGroupName="canary"),),
        conditions=(Condition(type="PlacementSatisfied", status="True", reason="All", message="well"),),
    )
    texts = differences_of(pages_of("a"), there_is(*pages_of("a")), status=status)
    assert texts == [
        "condition PlacementSatisfied is not set, expected True/All (well)",
        OTHER_STATUS.format(field="numberOfSelectedClusters", got=0, want=2),
        OTHER_STATUS.format(field="decisionGroups", got="nothing", want="canary"),
    ]


@given(situation=situations)
def test_every_planned_write_except_scores_and_owners_is_a_difference(situation: Situation) -> None:
    before, pages = situation
    own = {name: decision for name, decision in before.items() if "p" in decision.metadata.labels.values()}
    steps = planned(pages, before, refresh=True)
    differing = list(differences(ReconcilePlan(placement=Placement(), pages=pages, steps=steps), own))
    wanted = {page.name: (dict(page.labels), list(page.clusters)) for page in pages}
    there = {
        name: (dict(decision.metadata.labels), [one.clusterName for one in decision.status.decisions])
        for name, decision in own.items()
    }
    stranger = any(page.name in before and page.name not in own for page in pages)
    assert bool(differing) == (wanted != there) or stranger


class ShadowHarness:
    """A shadow on a fake hub."""

    def __init__(self) -> None:
        self.hub = FakeHub(live=False)
        self.clock = FakeClock(NOW)
        self.shadow = Shadow(meters=METERS, clock=self.clock)
        for resource, thing in (
            (MANAGED_CLUSTER_SETS, builders.cluster_set("default")),
            (MANAGED_CLUSTER_SET_BINDINGS, builders.binding("default")),
            (MANAGED_CLUSTERS, builders.cluster("a")),
            (PLACEMENTS, builders.placement("p")),
        ):
            self.hub.put(resource, thing)
        self.shadow.watch(self.hub.informers)
        for kind in KINDS:
            self.hub.of(kind).relist()

    def look(self) -> tuple[str, ...]:
        """Compare all placements, and return the differences."""
        for kind in KINDS:
            self.hub.of(kind).deliver()
        while (key := self.shadow.queue.pop()) is not None:
            assert Worker(key, self.shadow.attempt(key)).done, "it asked the hub for something"
        return self.shadow.differences.get(KEY, ())

    def write(self, *clusters: str) -> None:
        """As the controller does that is being watched."""
        old = builders.decision("p-decision-1", (), placement="p")
        labels = labels_of(0, "")
        named = tuple(ClusterDecision(clusterName=cluster) for cluster in clusters)
        self.hub.put(
            PLACEMENT_DECISIONS,
            structs.replace(
                old,
                metadata=structs.replace(old.metadata, labels=labels),
                status=PlacementDecisionStatus(decisions=named),
            ),
        )


def test_lasting_difference_is_counted(caplog: pytest.LogCaptureFixture) -> None:
    harness = ShadowHarness()
    assert harness.look() == ()
    assert harness.shadow.compared == 0
    with caplog.at_level(logging.INFO):
        harness.clock.now += timedelta(seconds=SETTLE_SECONDS)
        differing = harness.look()
        assert differing[0] == MISSING.format(page="p-decision-1", clusters="a")
        assert harness.shadow.compared == 1
        harness.write("a")
        assert MISSING.format(page="p-decision-1", clusters="a") not in harness.look()
    assert "placement ns1/p: decision p-decision-1 is missing" in caplog.text


def test_short_difference_is_never_reported() -> None:
    harness = ShadowHarness()
    harness.look()
    harness.clock.now += timedelta(seconds=SETTLE_SECONDS / 2)
    harness.write("a")
    harness.look()
    harness.clock.now += timedelta(seconds=SETTLE_SECONDS)
    assert not [text for text in harness.look() if "decision p-decision-1" in text]
