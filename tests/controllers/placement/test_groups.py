"""Decisions that are divided into groups: by name, by number and by percentage."""

from typing import Any

import pytest

from controllers.world import World
from fairway.api.placement import (
    DecisionGroup,
    DecisionStrategy,
    GroupClusterSelector,
    GroupStrategy,
    PlacementSpec,
)
from fairway.api.selector import LabelSelector, LabelSelectorRequirement
from fairway.controllers.manager import Manager
from fairway.kube import MANAGED_CLUSTERS

pytestmark = pytest.mark.embedded


def divided(*groups: DecisionGroup, per_group: int | str | None = None, **rest: Any) -> PlacementSpec:
    strategy = GroupStrategy(decisionGroups=groups, clustersPerDecisionGroup=per_group)
    return PlacementSpec(decisionStrategy=DecisionStrategy(groupStrategy=strategy), **rest)


def by_label(name: str, key: str, value: str) -> DecisionGroup:
    selector = GroupClusterSelector(labelSelector=LabelSelector(matchLabels={key: value}))
    return DecisionGroup(groupName=name, groupClusterSelector=selector)


CANARY = by_label("canary", "cloud", "azure")


async def clouds(world: World, **members: str) -> None:
    for cloud, words in members.items():
        for word in words:
            await world.cluster(word, labels={"cloud": cloud})


async def test_a_canary_group_one_by_one(manager: Manager, world: World) -> None:
    await clouds(world, amazon="ab", azure="cd")
    await world.place("p", divided(CANARY, per_group=1))
    await world.chooses("p", *"cdab")
    assert world.groups("p") == [
        ("0", "canary", ("c",)),
        ("1", "canary", ("d",)),
        ("2", "", ("a",)),
        ("3", "", ("b",)),
    ]
    assert list(world.pages("p")) == [f"p-decision-{number}" for number in (1, 2, 3, 4)]
    assert [
        (each.decisionGroupIndex, each.decisionGroupName, each.decisions, each.clusterCount)
        for each in world.status("p").decisionGroups
    ] == [
        (0, "canary", ("p-decision-1",), 1),
        (1, "canary", ("p-decision-2",), 1),
        (2, "", ("p-decision-3",), 1),
        (3, "", ("p-decision-4",), 1),
    ]


async def test_groups_are_packed_anew_when_clusters_come_and_go(manager: Manager, world: World) -> None:
    await clouds(world, azure="ab", amazon="cde")
    await world.place("p", divided(CANARY, per_group=2))
    await world.chooses("p", *"abcde")
    assert world.groups("p") == [("0", "canary", ("a", "b")), ("1", "", ("c", "d")), ("2", "", ("e",))]
    await world.delete(MANAGED_CLUSTERS, world.full("c"))
    await world.eventually(lambda: world.groups("p") == [("0", "canary", ("a", "b")), ("1", "", ("d", "e"))])
    await world.delete(MANAGED_CLUSTERS, world.full("a"))
    await world.eventually(lambda: world.groups("p") == [("0", "canary", ("b",)), ("1", "", ("d", "e"))])
    await clouds(world, azure="fg", amazon="c")
    await world.eventually(
        lambda: (
            world.groups("p")
            == [
                ("0", "canary", ("b", "f")),
                ("1", "canary", ("g",)),
                ("2", "", ("c", "d")),
                ("3", "", ("e",)),
            ]
        )
    )
    await world.chooses("p", *"bfgcde")
    assert [each.clusterCount for each in world.status("p").decisionGroups] == [2, 1, 2, 1]


async def test_a_cluster_changes_groups(manager: Manager, world: World) -> None:
    """Nothing else reads its label; it is on some page all the time."""
    await clouds(world, azure="ab", amazon="cd")
    await world.place("p", divided(CANARY))
    await world.chooses("p", *"abcd")
    begun = len(world.history)
    await world.change_cluster("b", labels={"cloud": "amazon"})
    await world.eventually(lambda: world.groups("p") == [("0", "canary", ("a",)), ("1", "", ("b", "c", "d"))])
    for pages in world.history[begun:]:
        assert {word for words in pages.values() for word in words} == set("abcd")


async def test_changed_group_strategy_takes_effect(manager: Manager, world: World) -> None:
    await clouds(world, azure="ab", amazon="cd")
    await world.place()
    await world.chooses("p", *"abcd")
    await world.replace("p", decisionStrategy={"groupStrategy": {"clustersPerDecisionGroup": 3}})
    await world.eventually(lambda: world.groups("p") == [("0", "", ("a", "b", "c")), ("1", "", ("d",))])
    group = {
        "groupName": "late",
        "groupClusterSelector": {"labelSelector": {"matchLabels": {"cloud": "azure"}}},
    }
    await world.replace("p", decisionStrategy={"groupStrategy": {"decisionGroups": [group]}})
    await world.eventually(lambda: world.groups("p") == [("0", "late", ("a", "b")), ("1", "", ("c", "d"))])
    await world.replace("p", decisionStrategy=None)
    await world.eventually(lambda: world.groups("p") == [("0", "", ("a", "b", "c", "d"))])


async def test_a_size_that_is_neither_number_nor_percentage(manager: Manager, world: World) -> None:
    """As in OCM no decision is left, though all clusters count as chosen."""
    await world.clusters("a", "b")
    await world.place()
    await world.chooses("p", "a", "b")
    await world.replace("p", decisionStrategy={"groupStrategy": {"clustersPerDecisionGroup": "5"}})
    await world.eventually(lambda: not world.decisions("p") and bool(world.mistake("p")))
    assert world.mistake("p") == ":5 invalid type: string is not a percentage"
    assert world.status("p").decisionGroups == ()
    assert world.status("p").numberOfSelectedClusters == 2
    await world.replace("p", decisionStrategy={"groupStrategy": {"clustersPerDecisionGroup": 5}})
    await world.eventually(lambda: not world.mistake("p"))
    await world.chooses("p", "a", "b")


async def test_groups_before_a_mistake_are_kept(manager: Manager, world: World) -> None:
    await clouds(world, azure="ab", amazon="cd")
    wrong = LabelSelector(matchExpressions=(LabelSelectorRequirement(key="cloud", operator="Near"),))
    broken = DecisionGroup(groupName="broken", groupClusterSelector=GroupClusterSelector(labelSelector=wrong))
    await world.place("p", divided(CANARY, broken))
    await world.eventually(lambda: bool(world.mistake("p")))
    assert world.mistake("p") == ':"Near" is not a valid label selector operator'
    assert world.groups("p") == [("0", "canary", ("a", "b"))]
