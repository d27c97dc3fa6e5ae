"""Decisions that are divided into groups: by name, by number and by percentage."""

from typing import Any

import pytest

from controllers.hub_fleet import HubFleet
from fairway.api.placement import (
    DecisionGroup,
    DecisionStrategy,
    GroupClusterSelector,
    GroupStrategy,
    PlacementSpec,
)
from fairway.api.resources import MANAGED_CLUSTERS
from fairway.controllers.manager import Manager
from kubewire.api.selector import LabelSelector, LabelSelectorRequirement

pytestmark = pytest.mark.embedded


def divided(*groups: DecisionGroup, per_group: int | str | None = None, **rest: Any) -> PlacementSpec:
    strategy = GroupStrategy(decisionGroups=groups, clustersPerDecisionGroup=per_group)
    return PlacementSpec(decisionStrategy=DecisionStrategy(groupStrategy=strategy), **rest)


def by_label(name: str, key: str, value: str) -> DecisionGroup:
    selector = GroupClusterSelector(labelSelector=LabelSelector(matchLabels={key: value}))
    return DecisionGroup(groupName=name, groupClusterSelector=selector)


CANARY = by_label("canary", "cloud", "azure")


async def clouds(fleet: HubFleet, **members: str) -> None:
    for cloud, words in members.items():
        for word in words:
            await fleet.cluster(word, labels={"cloud": cloud})


async def test_canary_group_is_filled_one_by_one(manager: Manager, fleet: HubFleet) -> None:
    await clouds(fleet, amazon="ab", azure="cd")
    await fleet.place("p", divided(CANARY, per_group=1))
    await fleet.chooses("p", *"cdab")
    assert fleet.groups("p") == [
        ("0", "canary", ("c",)),
        ("1", "canary", ("d",)),
        ("2", "", ("a",)),
        ("3", "", ("b",)),
    ]
    assert list(fleet.pages("p")) == [f"p-decision-{number}" for number in (1, 2, 3, 4)]
    assert [
        (group.decisionGroupIndex, group.decisionGroupName, group.decisions, group.clusterCount)
        for group in fleet.status("p").decisionGroups
    ] == [
        (0, "canary", ("p-decision-1",), 1),
        (1, "canary", ("p-decision-2",), 1),
        (2, "", ("p-decision-3",), 1),
        (3, "", ("p-decision-4",), 1),
    ]


async def test_groups_are_repacked_when_clusters_change(manager: Manager, fleet: HubFleet) -> None:
    await clouds(fleet, azure="ab", amazon="cde")
    await fleet.place("p", divided(CANARY, per_group=2))
    await fleet.chooses("p", *"abcde")
    assert fleet.groups("p") == [("0", "canary", ("a", "b")), ("1", "", ("c", "d")), ("2", "", ("e",))]
    await fleet.delete(MANAGED_CLUSTERS, fleet.name("c"))
    await fleet.eventually(lambda: fleet.groups("p") == [("0", "canary", ("a", "b")), ("1", "", ("d", "e"))])
    await fleet.delete(MANAGED_CLUSTERS, fleet.name("a"))
    await fleet.eventually(lambda: fleet.groups("p") == [("0", "canary", ("b",)), ("1", "", ("d", "e"))])
    await clouds(fleet, azure="fg", amazon="c")
    await fleet.eventually(
        lambda: (
            fleet.groups("p")
            == [
                ("0", "canary", ("b", "f")),
                ("1", "canary", ("g",)),
                ("2", "", ("c", "d")),
                ("3", "", ("e",)),
            ]
        )
    )
    await fleet.chooses("p", *"bfgcde")
    assert [group.clusterCount for group in fleet.status("p").decisionGroups] == [2, 1, 2, 1]


async def test_cluster_moves_between_decision_groups(manager: Manager, fleet: HubFleet) -> None:
    """No prioritizer reads the label, and the cluster is on a page at any time."""
    await clouds(fleet, azure="ab", amazon="cd")
    await fleet.place("p", divided(CANARY))
    await fleet.chooses("p", *"abcd")
    begun = len(fleet.history)
    await fleet.change_cluster("b", labels={"cloud": "amazon"})
    await fleet.eventually(lambda: fleet.groups("p") == [("0", "canary", ("a",)), ("1", "", ("b", "c", "d"))])
    for pages in fleet.history[begun:]:
        assert {word for words in pages.values() for word in words} == set("abcd")


async def test_changed_group_strategy_takes_effect(manager: Manager, fleet: HubFleet) -> None:
    await clouds(fleet, azure="ab", amazon="cd")
    await fleet.place()
    await fleet.chooses("p", *"abcd")
    await fleet.replace("p", decisionStrategy={"groupStrategy": {"clustersPerDecisionGroup": 3}})
    await fleet.eventually(lambda: fleet.groups("p") == [("0", "", ("a", "b", "c")), ("1", "", ("d",))])
    group = {
        "groupName": "late",
        "groupClusterSelector": {"labelSelector": {"matchLabels": {"cloud": "azure"}}},
    }
    await fleet.replace("p", decisionStrategy={"groupStrategy": {"decisionGroups": [group]}})
    await fleet.eventually(lambda: fleet.groups("p") == [("0", "late", ("a", "b")), ("1", "", ("c", "d"))])
    await fleet.replace("p", decisionStrategy=None)
    await fleet.eventually(lambda: fleet.groups("p") == [("0", "", ("a", "b", "c", "d"))])


async def test_invalid_group_size_is_misconfigured(manager: Manager, fleet: HubFleet) -> None:
    """As in OCM: no decision, although all clusters count as selected."""
    await fleet.clusters("a", "b")
    await fleet.place()
    await fleet.chooses("p", "a", "b")
    await fleet.replace("p", decisionStrategy={"groupStrategy": {"clustersPerDecisionGroup": "5"}})
    await fleet.eventually(lambda: not fleet.decisions("p") and bool(fleet.mistake("p")))
    assert fleet.mistake("p") == ":5 invalid type: string is not a percentage"
    assert fleet.status("p").decisionGroups == ()
    assert fleet.status("p").numberOfSelectedClusters == 2
    await fleet.replace("p", decisionStrategy={"groupStrategy": {"clustersPerDecisionGroup": 5}})
    await fleet.eventually(lambda: not fleet.mistake("p"))
    await fleet.chooses("p", "a", "b")


async def test_groups_before_an_invalid_group_are_kept(manager: Manager, fleet: HubFleet) -> None:
    await clouds(fleet, azure="ab", amazon="cd")
    wrong = LabelSelector(matchExpressions=(LabelSelectorRequirement(key="cloud", operator="Near"),))
    broken = DecisionGroup(groupName="broken", groupClusterSelector=GroupClusterSelector(labelSelector=wrong))
    await fleet.place("p", divided(CANARY, broken))
    await fleet.eventually(lambda: bool(fleet.mistake("p")))
    assert fleet.mistake("p") == ':"Near" is not a valid label selector operator'
    assert fleet.groups("p") == [("0", "canary", ("a", "b"))]
