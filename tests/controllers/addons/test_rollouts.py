"""A rollout strategy other than All keeps configurations back."""

import asyncio
from typing import Any

import pytest

from controllers.addons.harness import DEPLOYMENT, READY, AddOnHarness, found_in
from controllers.hubs import HubUnderTest
from controllers.settling import DEADLINE
from fairway.api.addon import ConfigReference, ManagedClusterAddOn
from fairway.api.addon_config import CustomizedVariable
from fairway.api.resources import (
    ADD_ON_DEPLOYMENT_CONFIGS,
    ADD_ON_TEMPLATES,
    CLUSTER_MANAGEMENT_ADD_ONS,
    MANAGED_CLUSTER_ADD_ONS,
    MANIFEST_WORKS,
)
from fairway.api.work import ManifestWork
from fairway.controllers.addons import conditions, rollouts
from fairway.controllers.addons.names import binding, deploy_work
from fairway.controllers.kinds import ROLE_BINDINGS
from kubewire.api.event import Event
from kubewire.client import Client, Informer
from kubewire.client.events import EVENTS
from rigs.waiting import edit, fresh, until

pytestmark = [pytest.mark.embedded, pytest.mark.usefixtures("running")]

GROUP = CLUSTER_MANAGEMENT_ADD_ONS.group
PROGRESSIVE: dict[str, Any] = {
    "type": "Progressive",
    "progressive": {"maxConcurrency": 1, "minSuccessTime": "10m"},
}
PER_GROUP: dict[str, Any] = {"type": "ProgressivePerGroup", "progressivePerGroup": {"minSuccessTime": "1m"}}


def deployment(image: str) -> dict[str, Any]:
    made: dict[str, Any] = {**DEPLOYMENT, "spec": {**DEPLOYMENT["spec"]}}
    containers = [{"name": "agent", "image": image}]
    made["spec"]["template"] = {"metadata": {"labels": {"app": "agent"}}, "spec": {"containers": containers}}
    return made


def image_of(work: ManifestWork) -> str:
    (manifest,) = work.spec.workload.manifests
    image: str = manifest["spec"]["template"]["spec"]["containers"][0]["image"]
    return image


def reference(add_on: ManagedClusterAddOn) -> ConfigReference:
    (only,) = add_on.status.configReferences
    return only


async def change_template(harness: AddOnHarness, image: str, **spec: Any) -> None:
    body = {"spec": {"agentSpec": {"workload": {"manifests": [deployment(image)]}}, **spec}}
    await edit(harness.client, ADD_ON_TEMPLATES, harness.name, body)


async def image_on(harness: AddOnHarness, cluster: str, image: str) -> ManifestWork:
    return await until(
        harness.client,
        MANIFEST_WORKS,
        deploy_work(harness.name),
        lambda work: image_of(work) == image,
        namespace=cluster,
    )


async def deployed(harness: AddOnHarness, *names: str, strategy: dict[str, Any]) -> list[str]:
    """Install the image one on clusters, whose agents report it."""
    clusters = [await harness.cluster() for _ in names]
    await harness.template(deployment("one"))
    await harness.place("p", *clusters)
    await harness.offer("p", rollouts={"p": strategy})
    for cluster in clusters:
        await harness.answer(await harness.work(cluster), READY)
        await harness.awaited(cluster, conditions.PROGRESSING, "False", conditions.COMPLETED)
    return clusters


@pytest.mark.both_hubs
@pytest.mark.parametrize("strategy", [PROGRESSIVE, PER_GROUP], ids=["Progressive", "ProgressivePerGroup"])
async def test_strategy_other_than_all_keeps_the_earlier_configuration(
    hub: HubUnderTest,
    client: Client,
    harness: AddOnHarness,
    strategy: dict[str, Any],
    caplog: pytest.LogCaptureFixture,
) -> None:
    clusters = await deployed(harness, "a", "b", "c", strategy=strategy)
    await change_template(harness, "two")
    for cluster in clusters:
        add_on = await harness.awaited(cluster, conditions.CONFIGURED, "False", conditions.ROLLOUT_HELD)
        condition = found_in(add_on, conditions.CONFIGURED)
        assert condition is not None
        assert strategy["type"] in condition[2]
        assert f"Placement {harness.namespace}/p" in condition[2]
        assert found_in(add_on, conditions.PROGRESSING) == condition
        assert image_of(await harness.work(cluster)) == "one"
        state = found_in(add_on, conditions.AVAILABLE)
        assert state is not None
        assert state[0] == "True"  # the agent that runs
        last = reference(add_on)
        assert last.desiredConfig is not None
        assert last.desiredConfig == last.lastAppliedConfig
    event = await written_event(client, harness.name)
    assert (event.type, event.reportingController) == ("Warning", "fairway-addons")
    assert strategy["type"] in event.note
    placement = f"{harness.namespace}/p"
    held = rollouts.HELD_LOG % (harness.name, placement, strategy["type"], clusters[0])
    assert held.rpartition(" cluster=")[0] in caplog.text

    newcomer = await harness.cluster()
    await harness.choose("p", *clusters, newcomer)
    await image_on(harness, newcomer, "two")
    assert [image_of(await harness.work(cluster)) for cluster in clusters] == ["one"] * 3

    released = {"name": "p", "namespace": harness.namespace, "rolloutStrategy": {"type": "All"}}
    body = {"spec": {"installStrategy": {"type": "Placements", "placements": [released]}}}
    await edit(client, CLUSTER_MANAGEMENT_ADD_ONS, harness.name, body)
    for cluster in clusters:
        await image_on(harness, cluster, "two")
        await harness.awaited(cluster, conditions.CONFIGURED, "True", conditions.CONFIGURATIONS_CONFIGURED)


async def test_configuration_named_for_one_cluster_is_applied_there_only(
    client: Client, harness: AddOnHarness
) -> None:
    one, two = await deployed(harness, "a", "b", strategy=PROGRESSIVE)
    name = f"{harness.name}-2"
    await harness.template(deployment("two"), name=name)
    mine = {"spec": {"configs": [{"group": GROUP, "resource": "addontemplates", "name": name}]}}
    await edit(client, MANAGED_CLUSTER_ADD_ONS, harness.name, mine, namespace=one)
    await image_on(harness, one, "two")
    assert image_of(await harness.work(two)) == "one"

    # A change of what it names is held back again: many clusters may name the same one.
    body = {"spec": {"agentSpec": {"workload": {"manifests": [deployment("three")]}}}}
    await edit(client, ADD_ON_TEMPLATES, name, body)
    await harness.awaited(one, conditions.CONFIGURED, "False", conditions.ROLLOUT_HELD)
    assert image_of(await harness.work(one)) == "two"


async def test_configuration_named_anew_does_not_release_another_change(
    client: Client, harness: AddOnHarness
) -> None:
    (one,) = await deployed(harness, "a", strategy=PROGRESSIVE)
    await change_template(harness, "two")
    await harness.awaited(one, conditions.CONFIGURED, "False", conditions.ROLLOUT_HELD)
    await harness.config("mine", customizedVariables=[{"name": "A", "value": "b"}])
    mine = {
        "group": GROUP,
        "resource": "addondeploymentconfigs",
        "name": "mine",
        "namespace": harness.namespace,
    }
    written = await edit(
        client, MANAGED_CLUSTER_ADD_ONS, harness.name, {"spec": {"configs": [mine]}}, namespace=one
    )
    assert written.spec.configs
    config = await client.get(ADD_ON_DEPLOYMENT_CONFIGS, "mine", namespace=harness.namespace)
    assert config.spec.customizedVariables == (CustomizedVariable(name="A", value="b"),)
    await settled(harness, one)
    assert image_of(await harness.work(one)) == "one"


async def test_rights_of_the_deployed_agent_stay_while_its_configuration_is_held(
    client: Client, harness: AddOnHarness
) -> None:
    (one,) = await deployed(harness, "a", strategy=PROGRESSIVE)
    before = await client.get(ROLE_BINDINGS, binding(harness.name), namespace=one)
    await change_template(harness, "two", registration=[])
    await harness.awaited(one, conditions.CONFIGURED, "False", conditions.ROLLOUT_HELD)
    after = await client.get(ROLE_BINDINGS, binding(harness.name), namespace=one)
    assert after.metadata.resourceVersion == before.metadata.resourceVersion


async def test_deleted_work_of_a_held_add_on_is_written_from_the_present_configuration(
    client: Client, harness: AddOnHarness
) -> None:
    (one,) = await deployed(harness, "a", strategy=PROGRESSIVE)
    await change_template(harness, "two")
    await harness.awaited(one, conditions.CONFIGURED, "False", conditions.ROLLOUT_HELD)
    await client.delete(MANIFEST_WORKS, deploy_work(harness.name), namespace=one)
    await image_on(harness, one, "two")


async def settled(harness: AddOnHarness, cluster: str) -> None:
    """Wait until the controller has reacted to all that was written before."""
    mark = fresh("mark")
    await edit(
        harness.client,
        MANAGED_CLUSTER_ADD_ONS,
        harness.name,
        {"status": {"conditions": [{**MARK, "type": conditions.PROGRESSING, "message": mark}]}},
        namespace=cluster,
        subresource="status",
    )
    await harness.awaited(cluster, conditions.PROGRESSING, "False", conditions.ROLLOUT_HELD)


MARK = {"status": "Unknown", "reason": "Mark", "lastTransitionTime": "2031-05-05T12:00:00Z"}


async def written_event(client: Client, name: str) -> Event:
    async with asyncio.timeout(DEADLINE), Informer(client, EVENTS, namespace="default") as events:
        async for _ in events.changes():
            for event in events.store.values():
                if (event.regarding.name, event.reason) == (name, conditions.ROLLOUT_HELD):
                    return event
    raise AssertionError
