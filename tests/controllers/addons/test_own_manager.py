"""Add-ons with their own manager get the references, conditions and rollouts that OCM's addon-manager writes.

The expectations are those of OCM's integration tests of configurations, deployment and upgrades.
"""

from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest

from controllers.addons.harness import AddOnHarness, found_in
from controllers.addons.own_manager import MANIFEST, OwnManager
from controllers.clocks import Stopped
from controllers.hubs import HubUnderTest
from controllers.running import RunningController, at_work
from fairway.api.addon import ClusterManagementAddOn, ConfigSpecHash, ManagedClusterAddOn
from fairway.api.placement import GROUP_INDEX_LABEL, PLACEMENT_LABEL
from fairway.api.resources import (
    ADD_ON_DEPLOYMENT_CONFIGS,
    CLUSTER_MANAGEMENT_ADD_ONS,
    MANAGED_CLUSTER_ADD_ONS,
    MANIFEST_WORKS,
    PLACEMENT_DECISIONS,
    PLACEMENTS,
)
from fairway.controllers.addons import RULES, AddOnController, conditions
from fairway.controllers.addons.names import ADD_ON_LABEL, ADD_ON_NAMESPACE_LABEL, HOSTING_CLUSTER, PRE_DELETE
from fairway.observe.meters import Meters
from kubewire.api.meta import find_condition
from kubewire.client import NotFound
from rigs.waiting import edit, fresh

pytestmark = pytest.mark.embedded

CONFIGURED = ("True", "ConfigurationsConfigured", "Configurations configured")
NOT_CONFIGURED = ("False", "ConfigurationsNotConfigured", "Configurations updated and not configured yet")
COMPLETED = ("False", "Completed", "completed with no errors.")
NOT_READY = ("True", "Progressing", "progressing... work is not ready")


@pytest.fixture
def clock() -> Stopped:
    return Stopped()


@pytest.fixture
async def running(
    hub: HubUnderTest, harness: AddOnHarness, clock: Stopped, no_error_logs: None
) -> AsyncIterator[RunningController]:
    async with at_work(
        hub, lambda client: AddOnController(client, meters=Meters(), clock=clock), rules=RULES
    ) as begun:
        yield begun


@pytest.fixture
async def manager(harness: AddOnHarness) -> OwnManager:
    for name in ("default", "update"):
        await harness.config(name, customizedVariables=[{"name": name, "value": "1"}])
    return OwnManager(harness)


async def add_on_on(manager: OwnManager, cluster: str) -> ManagedClusterAddOn:
    return await manager.client.get(MANAGED_CLUSTER_ADD_ONS, manager.harness.name, namespace=cluster)


async def states(manager: OwnManager, cluster: str) -> tuple[Any, Any]:
    add_on = await add_on_on(manager, cluster)
    return found_in(add_on, conditions.CONFIGURED), found_in(add_on, conditions.PROGRESSING)


async def offer_of(manager: OwnManager) -> ClusterManagementAddOn:
    return await manager.client.get(CLUSTER_MANAGEMENT_ADD_ONS, manager.harness.name)


async def progress(manager: OwnManager) -> tuple[str, str, str]:
    (progression,) = (await offer_of(manager)).status.installProgressions
    condition = find_condition(progression.conditions, conditions.PROGRESSING)
    assert condition is not None
    return condition.status, condition.reason, condition.message


async def hashed(manager: OwnManager, name: str) -> ConfigSpecHash:
    config = {"name": name, "namespace": manager.harness.namespace}
    return ConfigSpecHash(**config, specHash=await manager.hash_of(config))


async def change_config(manager: OwnManager, name: str, value: str) -> None:
    body = {"spec": {"customizedVariables": [{"name": name, "value": value}]}}
    await edit(manager.client, ADD_ON_DEPLOYMENT_CONFIGS, name, body, namespace=manager.harness.namespace)


async def desired_on(manager: OwnManager, cluster: str) -> list[tuple[ConfigSpecHash | None, int]]:
    references = (await add_on_on(manager, cluster)).status.configReferences
    return [(reference.desiredConfig, reference.lastObservedGeneration) for reference in references]


@pytest.mark.both_hubs
async def test_default_configuration_is_referenced_and_overridden(
    running: RunningController, harness: AddOnHarness, manager: OwnManager
) -> None:
    """Defaults, then the Placement's, then the cluster's own; a changed one has a new hash and generation."""
    cluster = await harness.cluster()
    await manager.offer()
    await harness.enable(cluster)
    await manager.settle(running, cluster)
    default = await hashed(manager, "default")
    status = (await offer_of(manager)).status
    assert [reference.desiredConfig for reference in status.defaultconfigReferences] == [default]
    assert status.installProgressions == ()
    assert await desired_on(manager, cluster) == [(default, 1)]
    (reference,) = (await add_on_on(manager, cluster)).status.configReferences
    assert (reference.name, reference.namespace) == ("default", harness.namespace)

    await harness.place("p", cluster)
    await manager.change(config="update")
    await manager.settle(running, cluster)
    update = await hashed(manager, "update")
    (progression,) = (await offer_of(manager)).status.installProgressions
    assert [reference.desiredConfig for reference in progression.configReferences] == [update]
    assert await desired_on(manager, cluster) == [(update, 1)]

    body = {"spec": {"configs": [manager.config("default")]}}
    await edit(manager.client, MANAGED_CLUSTER_ADD_ONS, harness.name, body, namespace=cluster)
    await manager.settle(running, cluster)
    assert await desired_on(manager, cluster) == [(default, 1)]
    await change_config(manager, "default", "2")
    await manager.settle(running, cluster)
    changed = await hashed(manager, "default")
    assert changed != default
    assert await desired_on(manager, cluster) == [(changed, 2)]


async def test_unsupported_configuration_keeps_no_hash(
    running: RunningController, harness: AddOnHarness, manager: OwnManager
) -> None:
    cluster = await harness.cluster()
    await manager.offer()
    strange = {"group": "example.com", "resource": "things", "name": "one", "namespace": "ns"}
    await harness.enable(cluster, configs=[strange])
    await manager.settle(running, cluster)
    nothing = ConfigSpecHash(name="one", namespace="ns")
    assert await desired_on(manager, cluster) == [(await hashed(manager, "default"), 1), (nothing, 0)]
    message = "Configuration with gvr example.com/things is not supported for this addon"
    assert await states(manager, cluster) == (CONFIGURED, ("False", "ConfigurationUnsupported", message))


async def test_progress_follows_the_work_of_the_manager(
    running: RunningController, harness: AddOnHarness, manager: OwnManager
) -> None:
    cluster = await harness.cluster()
    await manager.offer()
    await harness.enable(cluster)
    await running.settled()
    with pytest.raises(NotFound):
        await manager.client.get(MANIFEST_WORKS, manager.work_name, namespace=cluster)
    message = "Waiting for ManagedClusterAddOn ManifestApplied condition"
    assert await states(manager, cluster) == (CONFIGURED, ("False", "WaitingForManifestApplied", message))

    await manager.settle(running, cluster)
    await manager.report(cluster, available="False")
    await manager.settle(running, cluster)
    assert await states(manager, cluster) == (CONFIGURED, NOT_READY)
    await manager.report(cluster)
    await manager.settle(running, cluster)
    assert await states(manager, cluster) == (CONFIGURED, COMPLETED)
    (reference,) = (await add_on_on(manager, cluster)).status.configReferences
    assert reference.lastAppliedConfig == reference.desiredConfig == await hashed(manager, "default")

    await change_config(manager, "default", "2")
    await manager._hash_defaults()
    await running.settled()
    mismatch = ("True", "Progressing", "progressing... mca and work configs mismatch")
    assert await states(manager, cluster) == (CONFIGURED, mismatch)
    await manager.client.delete(MANIFEST_WORKS, manager.work_name, namespace=cluster)
    await running.settled()
    none = ("True", "Progressing", "progressing... no addon works")
    assert await states(manager, cluster) == (CONFIGURED, none)


async def test_last_placement_configures_a_cluster_that_two_select(
    running: RunningController, harness: AddOnHarness, manager: OwnManager
) -> None:
    one, both = await harness.cluster(), await harness.cluster()
    await harness.place("p", one, both)
    await harness.place("q", both)
    await manager.offer(config="default")
    strategies = [
        {"name": name, "namespace": harness.namespace, "configs": [manager.config(config)]}
        for name, config in (("p", "default"), ("q", "update"))
    ]
    body = {"spec": {"installStrategy": {"type": "Placements", "placements": strategies}}}
    await edit(manager.client, CLUSTER_MANAGEMENT_ADD_ONS, harness.name, body)
    await manager.settle(running, one, both)
    assert await desired_on(manager, one) == [(await hashed(manager, "default"), 1)]
    assert await desired_on(manager, both) == [(await hashed(manager, "update"), 1)]
    for cluster in (one, both):
        await manager.report(cluster)
    await manager.settle(running, one, both)
    references = [
        find_condition(progression.conditions, conditions.PROGRESSING)
        for progression in (await offer_of(manager)).status.installProgressions
    ]
    assert [state and state.message for state in references] == [
        "selected clusters 2. configured addons 1/1 completed with no errors, 0 failed 0 timeout.",
        "selected clusters 1. configured addons 1/1 completed with no errors, 0 failed 0 timeout.",
    ]


async def test_invalid_strategy_is_named_and_releases_no_cluster(
    running: RunningController, manager: OwnManager, upgraded: tuple[str, str, str, str]
) -> None:
    limits = {"minSuccessTime": "soon"}
    await manager.change(config="update", rollout={"type": "Progressive", "progressive": limits})
    await manager.settle(running, *upgraded)
    message = "rolloutStrategy.minSuccessTime is invalid; got 'soon'"
    assert await progress(manager) == ("False", "RolloutStrategyInvalid", message)
    for cluster in upgraded:
        assert await states(manager, cluster) == (NOT_CONFIGURED, COMPLETED)


async def test_works_on_the_hosting_cluster_count(
    running: RunningController, harness: AddOnHarness, manager: OwnManager
) -> None:
    cluster, host = await harness.cluster(), await harness.cluster()
    await manager.offer()
    await harness.enable(cluster)
    annotations = {"metadata": {"annotations": {HOSTING_CLUSTER: host}}}
    await edit(manager.client, MANAGED_CLUSTER_ADD_ONS, harness.name, annotations, namespace=cluster)
    await manager.settle(running, cluster)
    await manager.report(cluster)
    await manager.settle(running, cluster)
    message = "Waiting for ManagedClusterAddOn HostingManifestApplied condition"
    waiting = ("False", "WaitingForHostingManifestApplied", message)
    assert await states(manager, cluster) == (CONFIGURED, waiting)

    add_on = await add_on_on(manager, cluster)
    kept = [
        {
            "type": state.type,
            "status": state.status,
            "reason": state.reason,
            "message": state.message,
            "lastTransitionTime": "2031-05-05T12:00:00Z",
        }
        for state in add_on.status.conditions
    ]
    hosting = {**kept[0], "type": "HostingManifestApplied", "status": "True", "reason": "Applied"}
    await edit(
        manager.client,
        MANAGED_CLUSTER_ADD_ONS,
        harness.name,
        {"status": {"conditions": [*kept, hosting]}},
        namespace=cluster,
        subresource="status",
    )
    labels = {ADD_ON_LABEL: harness.name, ADD_ON_NAMESPACE_LABEL: cluster}
    work = {"metadata": {"name": "hosted", "labels": labels}, "spec": {"workload": {"manifests": [MANIFEST]}}}
    await running.settled()
    assert (await states(manager, cluster))[1] == COMPLETED
    await manager.client.create(MANIFEST_WORKS, work, namespace=host)
    await running.settled()
    assert (await states(manager, cluster))[1] != COMPLETED


async def test_hook_of_an_own_manager_is_left_to_it(
    running: RunningController, harness: AddOnHarness, manager: OwnManager
) -> None:
    cluster = await harness.cluster()
    await manager.offer()
    body = {"metadata": {"name": harness.name, "finalizers": [PRE_DELETE]}, "spec": {}}
    await manager.client.create(MANAGED_CLUSTER_ADD_ONS, body, namespace=cluster)
    await running.settled()
    await manager.client.delete(MANAGED_CLUSTER_ADD_ONS, harness.name, namespace=cluster)
    await running.settled()
    assert (await add_on_on(manager, cluster)).metadata.finalizers == (PRE_DELETE,)


@pytest.fixture
async def upgraded(
    running: RunningController, harness: AddOnHarness, manager: OwnManager
) -> tuple[str, str, str, str]:
    """Four clusters in two decision groups with the default configuration, completely rolled out."""
    clusters = sorted([await harness.cluster() for _ in range(4)])
    await harness.client.create(
        PLACEMENTS, {"metadata": {"name": "p"}, "spec": {}}, namespace=harness.namespace
    )
    for index in (0, 1):
        labels = {PLACEMENT_LABEL: "p", GROUP_INDEX_LABEL: str(index)}
        page = {"metadata": {"name": f"p-decision-{index}", "labels": labels}}
        await harness.client.create(PLACEMENT_DECISIONS, page, namespace=harness.namespace)
        chosen = [{"clusterName": cluster, "reason": ""} for cluster in clusters[2 * index : 2 * index + 2]]
        await edit(
            harness.client,
            PLACEMENT_DECISIONS,
            f"p-decision-{index}",
            {"status": {"decisions": chosen}},
            namespace=harness.namespace,
            subresource="status",
        )
    await manager.offer(config="default")
    await manager.settle(running, *clusters)
    for cluster in clusters:
        await manager.report(cluster)
    await manager.settle(running, *clusters)
    one, two, three, four = clusters
    return one, two, three, four


async def check_rolled_out(manager: OwnManager, name: str, clusters: tuple[str, ...]) -> None:
    config = await hashed(manager, name)
    for cluster in clusters:
        assert await states(manager, cluster) == (CONFIGURED, COMPLETED)
        (reference,) = (await add_on_on(manager, cluster)).status.configReferences
        assert (reference.desiredConfig, reference.lastAppliedConfig) == (config, config)
    (progression,) = (await offer_of(manager)).status.installProgressions
    (installed,) = progression.configReferences
    assert (installed.desiredConfig, installed.lastAppliedConfig, installed.lastKnownGoodConfig) == (
        config,
    ) * 3
    done = "selected clusters 4. configured addons 4/4 completed with no errors, 0 failed 0 timeout."
    assert await progress(manager) == ("False", "Completed", done)


async def test_strategy_all_updates_all_clusters(
    running: RunningController, manager: OwnManager, upgraded: tuple[str, str, str, str]
) -> None:
    await check_rolled_out(manager, "default", upgraded)
    await change_config(manager, "default", "2")
    await manager.settle(running, *upgraded)
    await check_rolled_out(manager, "default", upgraded)


async def test_progressive_strategy_stops_after_too_many_timeouts(
    running: RunningController, manager: OwnManager, clock: Stopped, upgraded: tuple[str, str, str, str]
) -> None:
    default = await hashed(manager, "default")
    for cluster in upgraded[:2]:
        await manager.report(cluster, available="False")
    limits = {"maxConcurrency": 2, "progressDeadline": "5s", "maxFailures": 1}
    await manager.change(config="update", rollout={"type": "Progressive", "progressive": limits})
    await manager.settle(running, *upgraded)
    update = await hashed(manager, "update")
    for cluster in upgraded[:2]:
        assert await states(manager, cluster) == (CONFIGURED, NOT_READY)
        assert [config for config, _ in await desired_on(manager, cluster)] == [update]
    for cluster in upgraded[2:]:
        assert (await states(manager, cluster))[0] == NOT_CONFIGURED
        assert [config for config, _ in await desired_on(manager, cluster)] == [default]
    running_out = "selected clusters 4. configured addons {}/4 progressing..., 0 failed {} timeout."
    assert await progress(manager) == ("True", "Progressing", running_out.format(2, 0))

    clock.now += timedelta(seconds=5)
    await touch(manager)
    await manager.settle(running, *upgraded)
    assert await progress(manager) == ("True", "Progressing", running_out.format(0, 2))
    assert (await states(manager, upgraded[2]))[0] == NOT_CONFIGURED

    await manager.report(upgraded[3], available="False")
    for cluster in upgraded[:2]:
        await manager.report(cluster)
    await manager.settle(running, *upgraded)
    assert [await states(manager, cluster) for cluster in upgraded] == [
        *[(CONFIGURED, COMPLETED)] * 3,
        (CONFIGURED, NOT_READY),
    ]
    assert await progress(manager) == ("True", "Progressing", running_out.format(4, 0))
    await manager.report(upgraded[3])
    await manager.settle(running, *upgraded)
    await check_rolled_out(manager, "update", upgraded)


async def test_next_group_waits_for_the_success_time_of_the_first(
    running: RunningController, manager: OwnManager, clock: Stopped, upgraded: tuple[str, str, str, str]
) -> None:
    before = await hashed(manager, "default")
    for cluster in upgraded:
        await manager.report(cluster, available="False")
    limits = {"minSuccessTime": "3s"}
    await manager.change(
        config="default", rollout={"type": "ProgressivePerGroup", "progressivePerGroup": limits}
    )
    await manager.settle(running, *upgraded)
    await change_config(manager, "default", "3")
    await manager.settle(running, *upgraded)
    assert [(await states(manager, cluster))[0] for cluster in upgraded] == [
        *[CONFIGURED] * 2,
        *[NOT_CONFIGURED] * 2,
    ]
    part = "selected clusters 4. configured addons {}/4 progressing..., 0 failed 0 timeout."
    assert await progress(manager) == ("True", "Progressing", part.format(2))
    (progression,) = (await offer_of(manager)).status.installProgressions
    assert progression.configReferences[0].lastAppliedConfig == before

    for cluster in upgraded[:2]:
        await manager.report(cluster)
    await manager.settle(running, *upgraded)
    assert (await states(manager, upgraded[2]))[0] == NOT_CONFIGURED
    assert await progress(manager) == ("True", "Progressing", part.format(2))
    clock.now += timedelta(seconds=3)
    await touch(manager)
    await manager.settle(running, *upgraded)
    assert (await states(manager, upgraded[2]))[0] == CONFIGURED
    assert await progress(manager) == ("True", "Progressing", part.format(4))

    for cluster in upgraded[2:]:
        await manager.report(cluster)
    await manager.settle(running, *upgraded)
    assert await progress(manager) == ("True", "Progressing", part.format(4))
    clock.now += timedelta(seconds=3)
    await touch(manager)
    await manager.settle(running, *upgraded)
    await check_rolled_out(manager, "default", upgraded)


async def touch(manager: OwnManager) -> None:
    """The timer of a deadline runs by the machine's clock; this write comes before it."""
    body = {"metadata": {"labels": {"touched": fresh()}}}
    await edit(manager.client, CLUSTER_MANAGEMENT_ADD_ONS, manager.harness.name, body)
