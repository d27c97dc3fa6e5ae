"""Cluster sets on a hub: what is counted, bound, kept and labelled, and what cannot be."""

from collections.abc import AsyncIterator, Mapping
from typing import Any

import pytest

from controllers.hubs import HubUnderTest
from controllers.running import MARK, RunningController, at_work
from fairway.api import ManagedCluster, ManagedClusterSet, ManagedClusterSetBinding
from fairway.api.cluster import CLUSTER_SET_LABEL
from fairway.api.resources import MANAGED_CLUSTER_SET_BINDINGS, MANAGED_CLUSTER_SETS, MANAGED_CLUSTERS
from fairway.controllers.clustersets import RULES, ClusterSetController
from fairway.controllers.clustersets.conditions import (
    BOUND,
    EMPTY,
    INVALID,
    NONE_MATCHED,
    NONE_SELECTED,
    SELECTED,
    SET_BOUND,
    SET_NOT_FOUND,
)
from fairway.controllers.clustersets.defaults import AUTO_UPDATE, DEFAULT, GLOBAL, SELECTORS
from fairway.controllers.kinds import NAMESPACES
from fairway.observe.meters import Meters
from kubewire.api.meta import find_condition
from kubewire.client import Client
from rigs.waiting import edit, fresh, until

pytestmark = pytest.mark.embedded


def usual(client: Client) -> ClusterSetController:
    return ClusterSetController(client, meters=Meters())


@pytest.fixture
async def running(hub: HubUnderTest, client: Client) -> AsyncIterator[RunningController]:
    async with at_work(hub, usual, rules=RULES) as begun:
        yield begun


async def add_cluster(client: Client, name: str, **labels: str) -> ManagedCluster:
    """Underscores in keys are for the label of the set, which is no identifier."""
    written = {CLUSTER_SET_LABEL if key == "member_of" else key: value for key, value in labels.items()}
    body = {"metadata": {"name": name, "labels": {**written, **MARK}}, "spec": {"hubAcceptsClient": True}}
    return await client.create(MANAGED_CLUSTERS, body)


async def add_set(client: Client, name: str, selector: Mapping[str, Any] | None = None) -> ManagedClusterSet:
    """By the exclusive label unless a label selector is given."""
    how = {"selectorType": "LabelSelector", "labelSelector": selector}
    spec = {"clusterSelector": how} if selector is not None else {}
    body = {"metadata": {"name": name, "labels": MARK}, "spec": spec}
    return await client.create(MANAGED_CLUSTER_SETS, body)


async def bind(client: Client, name: str, namespace: str) -> ManagedClusterSetBinding:
    await client.create(NAMESPACES, {"metadata": {"name": namespace}})
    body = {"metadata": {"name": name}, "spec": {"clusterSet": name}}
    return await client.create(MANAGED_CLUSTER_SET_BINDINGS, body, namespace=namespace)


def emptiness(cluster_set: ManagedClusterSet) -> tuple[str, str, str]:
    condition = find_condition(cluster_set.status.conditions, EMPTY)
    return ("", "", "") if condition is None else (condition.status, condition.reason, condition.message)


def counted(count: int) -> tuple[str, str, str]:
    return ("False", SELECTED, f"{count} ManagedClusters selected")


NOBODY = ("True", NONE_MATCHED, NONE_SELECTED)


async def until_emptiness(client: Client, name: str, wanted: tuple[str, str, str]) -> ManagedClusterSet:
    return await until(
        client, MANAGED_CLUSTER_SETS, name, lambda cluster_set: emptiness(cluster_set) == wanted
    )


@pytest.mark.usefixtures("running")
async def test_empty_cluster_set_has_condition_empty(client: Client) -> None:
    name = fresh("set")
    await add_set(client, name)
    await until_emptiness(client, name, NOBODY)


@pytest.mark.usefixtures("running")
async def test_cluster_set_counts_added_and_deleted_clusters(client: Client) -> None:
    name, first, second = fresh("set"), fresh("c"), fresh("c")
    await add_set(client, name)
    await add_cluster(client, first, member_of=name)
    await until_emptiness(client, name, counted(1))
    await add_cluster(client, second, member_of=name)
    await until_emptiness(client, name, counted(2))
    await client.delete(MANAGED_CLUSTERS, first)
    await client.delete(MANAGED_CLUSTERS, second)
    await until_emptiness(client, name, NOBODY)


@pytest.mark.usefixtures("running")
async def test_cluster_that_changes_its_set_updates_both(client: Client) -> None:
    before, after, mover, stayer = fresh("set"), fresh("set"), fresh("c"), fresh("c")
    await add_set(client, before)
    await add_set(client, after)
    await add_cluster(client, mover, member_of=before)
    await add_cluster(client, stayer, member_of=before)
    await until_emptiness(client, before, counted(2))
    await until_emptiness(client, after, NOBODY)
    await edit(client, MANAGED_CLUSTERS, mover, {"metadata": {"labels": {CLUSTER_SET_LABEL: after}}})
    await until_emptiness(client, before, counted(1))
    await until_emptiness(client, after, counted(1))


@pytest.mark.usefixtures("running")
@pytest.mark.both_hubs
async def test_label_selector_set_follows_label_changes(client: Client) -> None:
    name, cluster, zone = fresh("set"), fresh("c"), fresh("zone")
    await add_set(client, name, {"matchLabels": {"zone": zone}})
    await add_cluster(client, cluster)
    await until_emptiness(client, name, NOBODY)
    await edit(client, MANAGED_CLUSTERS, cluster, {"metadata": {"labels": {"zone": zone}}})
    await until_emptiness(client, name, counted(1))
    await edit(client, MANAGED_CLUSTERS, cluster, {"metadata": {"labels": {"zone": None}}})
    await until_emptiness(client, name, NOBODY)


@pytest.mark.usefixtures("running")
async def test_invalid_selector_is_reported_and_does_not_affect_other_sets(client: Client) -> None:
    broken, sound, zone = fresh("set"), fresh("set"), fresh("zone")
    expressions = [
        {"key": "zone", "operator": "Exists"},
        {"key": "zone", "operator": "Near", "values": ["here"]},
    ]
    await add_set(client, broken, {"matchExpressions": expressions})
    await add_set(client, sound, {"matchLabels": {"zone": zone}})
    await add_cluster(client, fresh("c"), zone=zone)
    place = "spec.clusterSelector.labelSelector.matchExpressions[1].operator"
    problem = '"Near" is not a valid label selector operator'
    await until_emptiness(client, broken, ("Unknown", INVALID, f"{place}: {problem}"))
    await until_emptiness(client, sound, counted(1))

    await edit(
        client,
        MANAGED_CLUSTER_SETS,
        broken,
        {"spec": {"clusterSelector": {"labelSelector": {"matchExpressions": expressions[:1]}}}},
    )
    await until(
        client,
        MANAGED_CLUSTER_SETS,
        broken,
        lambda cluster_set: emptiness(cluster_set)[:2] == ("False", SELECTED),
    )


@pytest.mark.usefixtures("running")
async def test_edited_set_status_is_repaired(client: Client) -> None:
    name = fresh("set")
    await add_set(client, name)
    seen = await until_emptiness(client, name, NOBODY)
    stranger = {
        "type": EMPTY,
        "status": "False",
        "reason": "Told",
        "message": "full",
        "lastTransitionTime": "2020-01-01T00:00:00Z",
    }
    other = {**stranger, "type": "Painted"}
    conditions = [stranger, other, {**stranger, "reason": "Again"}]
    await edit(
        client, MANAGED_CLUSTER_SETS, name, {"status": {"conditions": conditions}}, subresource="status"
    )
    repaired = await until_emptiness(client, name, NOBODY)
    assert [condition.type for condition in repaired.status.conditions] == [EMPTY, "Painted"]
    assert repaired.metadata.uid == seen.metadata.uid


@pytest.mark.both_hubs
async def test_cluster_sets_without_changes_write_nothing(client: Client, running: RunningController) -> None:
    name, zone = fresh("set"), fresh("zone")
    await add_set(client, name, {"matchLabels": {"zone": zone}})
    cluster = await add_cluster(client, fresh("c"), zone=zone)
    seen = await until_emptiness(client, name, counted(1))
    changed = await edit(
        client, MANAGED_CLUSTERS, cluster.metadata.name, {"metadata": {"labels": {"tier": "gold"}}}
    )
    await running.caught_up(MANAGED_CLUSTERS, changed)
    assert (await client.get(MANAGED_CLUSTER_SETS, name)).metadata == seen.metadata


@pytest.mark.usefixtures("running")
@pytest.mark.both_hubs
async def test_binding_is_bound_when_its_set_exists(client: Client) -> None:
    name, namespace = fresh("set"), fresh("ns")
    await bind(client, name, namespace)

    async def bound(status: str, reason: str) -> None:
        def wanted(binding: ManagedClusterSetBinding) -> bool:
            condition = find_condition(binding.status.conditions, BOUND)
            return condition is not None and (condition.status, condition.reason, condition.message) == (
                status,
                reason,
                "",
            )

        await until(client, MANAGED_CLUSTER_SET_BINDINGS, name, wanted, namespace=namespace)

    await bound("False", SET_NOT_FOUND)
    await add_set(client, name)
    await bound("True", SET_BOUND)
    await client.delete(MANAGED_CLUSTER_SETS, name)
    await bound("False", SET_NOT_FOUND)


@pytest.mark.usefixtures("running")
async def test_edited_binding_status_is_repaired(client: Client) -> None:
    name, namespace = fresh("set"), fresh("ns")
    await add_set(client, name)
    await bind(client, name, namespace)

    def bound(binding: ManagedClusterSetBinding) -> bool:
        return [(one.type, one.status) for one in binding.status.conditions] == [(BOUND, "True")]

    await until(client, MANAGED_CLUSTER_SET_BINDINGS, name, bound, namespace=namespace)
    await edit(
        client,
        MANAGED_CLUSTER_SET_BINDINGS,
        name,
        {"status": {"conditions": []}},
        namespace=namespace,
        subresource="status",
    )
    await until(client, MANAGED_CLUSTER_SET_BINDINGS, name, bound, namespace=namespace)


@pytest.mark.usefixtures("running")
async def test_binding_to_another_set_updates_its_status(client: Client) -> None:
    missing, existing, namespace = fresh("set"), fresh("set"), fresh("ns")
    await add_set(client, existing)
    await bind(client, missing, namespace)

    def saying(status: str) -> Any:
        return lambda binding: [one.status for one in binding.status.conditions] == [status]

    await until(client, MANAGED_CLUSTER_SET_BINDINGS, missing, saying("False"), namespace=namespace)
    await edit(
        client, MANAGED_CLUSTER_SET_BINDINGS, missing, {"spec": {"clusterSet": existing}}, namespace=namespace
    )
    await until(client, MANAGED_CLUSTER_SET_BINDINGS, missing, saying("True"), namespace=namespace)
    await add_set(client, missing)
    await client.delete(MANAGED_CLUSTER_SETS, existing)
    await until(client, MANAGED_CLUSTER_SET_BINDINGS, missing, saying("False"), namespace=namespace)


@pytest.mark.usefixtures("running")
@pytest.mark.both_hubs
@pytest.mark.parametrize("name", [DEFAULT, GLOBAL])
async def test_default_and_global_sets_are_recreated(name: str, client: Client) -> None:
    made = await until(
        client,
        MANAGED_CLUSTER_SETS,
        name,
        lambda cluster_set: cluster_set.spec.clusterSelector == SELECTORS[name],
    )
    await client.delete(MANAGED_CLUSTER_SETS, name)
    await until(
        client,
        MANAGED_CLUSTER_SETS,
        name,
        lambda cluster_set: (
            cluster_set.metadata.uid != made.metadata.uid
            and cluster_set.spec.clusterSelector == SELECTORS[name]
        ),
    )


@pytest.mark.usefixtures("running")
@pytest.mark.parametrize(
    ("name", "edited"),
    [
        (DEFAULT, {"selectorType": "LabelSelector", "labelSelector": {}}),
        (GLOBAL, {"selectorType": "LabelSelector", "labelSelector": {"matchLabels": {"a": "b"}}}),
        (GLOBAL, {"selectorType": "ExclusiveClusterSetLabel", "labelSelector": None}),
    ],
)
async def test_selectors_of_default_sets_are_restored(
    name: str, edited: Mapping[str, Any], client: Client
) -> None:
    await until(client, MANAGED_CLUSTER_SETS, name, lambda cluster_set: cluster_set.metadata.name != "")
    spec = {"clusterSelector": edited, "managedNamespaces": [{"name": "mine"}]}
    changed = await edit(client, MANAGED_CLUSTER_SETS, name, {"spec": spec})
    assert changed.spec.clusterSelector != SELECTORS[name]
    restored = await until(
        client,
        MANAGED_CLUSTER_SETS,
        name,
        lambda cluster_set: cluster_set.spec.clusterSelector == SELECTORS[name],
    )
    assert [namespace.name for namespace in restored.spec.managedNamespaces] == ["mine"], (
        "the rest is the user's"
    )


@pytest.mark.usefixtures("running")
async def test_annotated_default_set_keeps_a_changed_selector(client: Client) -> None:
    await until(client, MANAGED_CLUSTER_SETS, GLOBAL, lambda cluster_set: cluster_set.metadata.name != "")
    zone = fresh("zone")
    mine = {"selectorType": "LabelSelector", "labelSelector": {"matchLabels": {"zone": zone}}}
    annotated = {"metadata": {"annotations": {AUTO_UPDATE: "false"}}, "spec": {"clusterSelector": mine}}
    await edit(client, MANAGED_CLUSTER_SETS, GLOBAL, annotated)
    await until_emptiness(client, GLOBAL, NOBODY)
    await add_cluster(client, fresh("c"), zone=zone)
    await until_emptiness(client, GLOBAL, counted(1))
    await edit(client, MANAGED_CLUSTER_SETS, GLOBAL, {"metadata": {"annotations": {AUTO_UPDATE: None}}})
    await until(
        client,
        MANAGED_CLUSTER_SETS,
        GLOBAL,
        lambda cluster_set: cluster_set.spec.clusterSelector == SELECTORS[GLOBAL],
    )


@pytest.mark.usefixtures("running")
async def test_cluster_without_a_set_joins_the_default_set(client: Client) -> None:
    bare, blank = fresh("c"), fresh("c")
    await add_cluster(client, bare, zone="z")
    await add_cluster(client, blank, member_of="")
    for name in (bare, blank):
        labelled = await until(
            client,
            MANAGED_CLUSTERS,
            name,
            lambda cluster: cluster.metadata.labels.get(CLUSTER_SET_LABEL) == DEFAULT,
        )
        assert labelled.metadata.labels.get("zone") == ("z" if name == bare else None)


async def test_new_leader_repairs_existing_sets(hub: HubUnderTest, client: Client) -> None:
    cluster, name, namespace = fresh("c"), fresh("set"), fresh("ns")
    await add_cluster(client, cluster)
    await add_set(client, name)
    await bind(client, name, namespace)
    async with at_work(hub, usual, rules=RULES):
        await until_emptiness(client, name, NOBODY)
        await until(
            client, MANAGED_CLUSTERS, cluster, lambda cluster: CLUSTER_SET_LABEL in cluster.metadata.labels
        )
        await until(
            client,
            MANAGED_CLUSTER_SET_BINDINGS,
            name,
            lambda binding: [one.status for one in binding.status.conditions] == ["True"],
            namespace=namespace,
        )


async def test_cluster_without_a_set_stays_without_where_a_webhook_assigns_sets(
    hub: HubUnderTest, client: Client
) -> None:
    def unlabelled(client: Client) -> ClusterSetController:
        return ClusterSetController(client, meters=Meters(), default_label=False)

    async with at_work(hub, unlabelled, rules=RULES) as running:
        cluster = await add_cluster(client, fresh("c"))
        await running.caught_up(MANAGED_CLUSTERS, cluster)
        now = await client.get(MANAGED_CLUSTERS, cluster.metadata.name)
        assert CLUSTER_SET_LABEL not in now.metadata.labels
