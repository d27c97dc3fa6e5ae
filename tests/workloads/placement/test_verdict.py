from datetime import timedelta

import pytest
from msgspec import structs

from fairway.api.placement import (
    PLACEMENT_LABEL,
    SCHEDULING_DISABLED_ANNOTATION,
    Placement,
    PlacementSpec,
    PlacementStatus,
    Toleration,
)
from fairway.engine.status import Code
from fairway.hosts.instant import SECOND
from fairway.testing.builders import (
    addon,
    binding,
    builtin,
    cluster,
    cluster_set,
    decision,
    placement,
    policy,
    score,
)
from fairway.whatif.world import World
from fairway.workloads.placement.verdict import NAME_TOO_LONG
from kubewire.api.meta import Condition, ObjectMeta
from strategies import NOW, NOW_MICROS
from workloads.placement.plugins.verdicts import KEY, hub, look


def conditions(source: Placement) -> dict[str, tuple[str, str]]:
    return {condition.type: (condition.status, condition.reason) for condition in source.status.conditions}


def test_decision_records_score_and_reason_of_every_cluster() -> None:
    spec = PlacementSpec(numberOfClusters=2, prioritizerPolicy=policy(addon("free", 2), builtin("Steady", 0)))
    world = hub(
        cluster("c1"),
        cluster("c2"),
        cluster("c3"),
        score("c2", {"free": 7}),
        score("c3", {"free": -1}),
        spec=spec,
    )
    world.place(KEY, now=NOW_MICROS)
    (page,) = world.decisions("ns1").values()
    assert [
        (decision.clusterName, decision.score, decision.reason) for decision in page.status.decisions
    ] == [
        ("c1", 100, "Rank 2 of 3 with 100 points: Balance 100, AddOn/default/free missing, counts 0"),
        ("c2", 114, "Rank 1 of 3 with 114 points: Balance 100, AddOn/default/free 7 x 2"),
    ]


def test_reason_without_prioritizers_is_the_rank() -> None:
    verdict = look(cluster("c1"), spec=PlacementSpec(prioritizerPolicy=policy(mode="Exact")))
    assert [decision.reason for page in verdict.pages for decision in page.decisions] == [
        "Rank 1 of 1 with 0 points"
    ]


def test_new_decision_is_owned_by_its_placement() -> None:
    world = hub(cluster("c1"))
    world.place(KEY, now=NOW_MICROS)
    (page,) = world.decisions("ns1").values()
    (owner,) = page.metadata.ownerReferences
    assert (owner.kind, owner.name, owner.controller, owner.blockOwnerDeletion) == (
        "Placement",
        "p1",
        True,
        True,
    )
    assert page.metadata.labels[PLACEMENT_LABEL] == "p1"


@pytest.mark.parametrize(
    "meta",
    [
        pytest.param(
            ObjectMeta(name="p1", namespace="ns1", annotations={SCHEDULING_DISABLED_ANNOTATION: "true"}),
            id="switched off",
        ),
        pytest.param(ObjectMeta(name="p1", namespace="ns1", deletionTimestamp=NOW), id="being deleted"),
    ],
)
def test_disabled_placement_gets_no_writes(meta: ObjectMeta) -> None:
    old = decision("p1-decision-1", ["gone"], placement="p1")
    world = hub(cluster("c1"), old)
    world.put(Placement(metadata=meta))
    world.place(KEY, now=NOW_MICROS)
    assert world.decisions("ns1") == {"p1-decision-1": old}
    assert world.placements[KEY].status == PlacementStatus()


@pytest.mark.parametrize(("length", "frozen"), [(63, False), (64, True)])
def test_placement_name_longer_than_a_label_is_an_error(length: int, frozen: bool) -> None:
    name = "p" * length
    world = hub(cluster("c1"), placement(name))
    verdict = world.place(("ns1", name), now=NOW_MICROS)
    assert verdict.frozen is frozen
    assert verdict.error == (NAME_TOO_LONG.format(name=name, length=64) if frozen else None)
    assert list(world.decisions("ns1")) == ([] if frozen else [f"{name}-decision-1"])


@pytest.mark.parametrize(
    ("spec", "selected", "satisfied"),
    [
        pytest.param(PlacementSpec(), 2, ("True", "AllDecisionsScheduled"), id="all"),
        pytest.param(PlacementSpec(numberOfClusters=1), 1, ("True", "AllDecisionsScheduled"), id="one"),
        pytest.param(
            PlacementSpec(numberOfClusters=3), 2, ("False", "NotAllDecisionsScheduled"), id="too many"
        ),
        pytest.param(PlacementSpec(numberOfClusters=0), 0, ("False", "NoManagedClusterMatched"), id="none"),
        pytest.param(
            PlacementSpec(clusterSets=("other",)), 0, ("False", "NoIntersection"), id="of a set not bound"
        ),
    ],
)
def test_status_has_number_of_clusters_and_satisfied_condition(
    spec: PlacementSpec, selected: int, satisfied: tuple[str, str]
) -> None:
    world = hub(cluster("c1"), cluster("c2"), spec=spec)
    world.place(KEY, now=NOW_MICROS)
    status = world.placements[KEY].status
    assert status.numberOfSelectedClusters == selected
    assert sum(group.clusterCount for group in status.decisionGroups) == selected
    assert conditions(world.placements[KEY])["PlacementSatisfied"] == satisfied


@pytest.mark.parametrize(
    ("objects", "reason"),
    [
        pytest.param((), "NoManagedClusterSetBindings", id="no binding"),
        pytest.param((binding("s"),), "NoManagedClusterSetBindings", id="a binding to no set"),
        pytest.param((binding("s"), cluster_set("s")), "AllManagedClusterSetsEmpty", id="an empty set"),
        pytest.param(
            (binding("s"), cluster_set("s"), cluster("c1", member_of="s", deleting=NOW)),
            "AllManagedClusterSetsEmpty",
            id="a set whose only cluster is being deleted",
        ),
    ],
)
def test_placement_without_clusters_writes_an_empty_decision(
    objects: tuple[object, ...], reason: str
) -> None:
    world = World([*objects, placement()])
    verdict = world.place(KEY, now=NOW_MICROS)
    assert verdict.error is None
    assert conditions(world.placements[KEY])["PlacementSatisfied"] == ("False", reason)
    assert [page.status.decisions for page in world.decisions("ns1").values()] == [()]


def test_misconfigured_placement_empties_its_decision() -> None:
    wrong = PlacementSpec(tolerations=(Toleration(value="x"),))
    world = hub(
        cluster("c1"),
        decision("p1-decision-1", ["c1"], placement="p1"),
        decision("p1-decision-2", ["c2"], placement="p1"),
        spec=wrong,
    )
    verdict = world.place(KEY, now=NOW_MICROS)
    assert verdict.status.code is Code.MISCONFIGURED
    assert verdict.error == "If the key is empty, operator must be Exists."
    assert {name: page.status.decisions for name, page in world.decisions("ns1").items()} == {
        "p1-decision-1": ()
    }
    assert conditions(world.placements[KEY]) == {
        "PlacementMisconfigured": ("True", "Misconfigured"),
        "PlacementSatisfied": ("False", "NoManagedClusterMatched"),
    }


def test_warning_writes_decision_and_requeues() -> None:
    spec = PlacementSpec(prioritizerPolicy=policy(addon("free")))
    world = hub(cluster("c1"), score("c1", {"free": 1}, valid_until=NOW - timedelta(seconds=1)), spec=spec)
    verdict = world.place(KEY, now=NOW_MICROS)
    assert verdict.error == "AddOnPlacementScores c1/default expired"
    assert verdict.outcome.selected == ["c1"]
    assert conditions(world.placements[KEY]) == {
        "PlacementMisconfigured": ("False", "Succeedconfigured"),
        "PlacementSatisfied": ("True", "AllDecisionsScheduled"),
    }


def with_conditions(*given: Condition) -> Placement:
    return structs.replace(placement(), status=PlacementStatus(conditions=given))


def test_foreign_conditions_are_kept_before_own_ones() -> None:
    world = hub(cluster("c1"))
    foreign = Condition(type="Reviewed", status="True", reason="ByHand", lastTransitionTime=NOW)
    world.put(with_conditions(foreign))
    world.place(KEY, now=NOW_MICROS)
    status = world.placements[KEY].status
    assert status.conditions[0] == foreign
    assert [condition.type for condition in status.conditions] == [
        "Reviewed",
        "PlacementMisconfigured",
        "PlacementSatisfied",
    ]


def test_condition_transition_time_changes_only_with_status() -> None:
    world = hub(cluster("c1"), spec=PlacementSpec(numberOfClusters=2))

    def satisfied() -> tuple[str, str, float]:
        (condition,) = [
            condition
            for condition in world.placements[KEY].status.conditions
            if condition.type == "PlacementSatisfied"
        ]
        assert condition.lastTransitionTime is not None
        return condition.status, condition.message, (condition.lastTransitionTime - NOW).total_seconds()

    world.place(KEY, now=NOW_MICROS)
    assert satisfied() == ("False", "1 cluster decisions unscheduled", 0)
    world.fleet.delete_cluster("c1")
    world.place(KEY, now=NOW_MICROS + 10 * SECOND)
    assert satisfied() == ("False", "All ManagedClusterSets [default] have no member ManagedCluster", 0)
    world.put(cluster("c1"))
    world.put(cluster("c2"))
    world.place(KEY, now=NOW_MICROS + 20 * SECOND)
    assert satisfied() == ("True", "All cluster decisions scheduled", 20)


def test_verdict_does_not_change_its_inputs() -> None:
    world = hub(cluster("c1"))
    generation = world.fleet.generation
    verdict = world.decide(KEY, now=NOW_MICROS)
    assert [page.name for page in verdict.pages] == ["p1-decision-1"]
    assert world.plan(KEY, verdict, now=NOW_MICROS).steps
    assert world.decisions("ns1") == {}
    assert world.fleet.generation == generation


def test_written_decision_is_stable_in_the_next_cycle() -> None:
    """Steady adds 100 points, so a new cluster with the same balance does not replace a decided one."""
    world = hub(cluster("c5"), spec=PlacementSpec(numberOfClusters=1))
    assert world.place(KEY, now=NOW_MICROS).outcome.selected == ["c5"]
    world.put(cluster("c1"))
    again = world.place(KEY, now=NOW_MICROS)
    assert again.outcome.selected == ["c5"]
    assert again.outcome.totals_by_name() == {"c1": 100, "c5": 200}
    assert world.plan(KEY, again, now=NOW_MICROS).steps == ()
