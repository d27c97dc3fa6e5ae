"""Installation, repair and removal of add-ons on a hub."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from controllers.addons.harness import DEPLOYMENT, READY, ROLE, AddOnHarness, condition, found_in, versions
from controllers.hubs import HubUnderTest
from controllers.running import MARK, RunningController, at_work
from controllers.settling import DEADLINE
from fairway.api.addon import ManagedClusterAddOn
from fairway.api.resources import (
    ADD_ON_DEPLOYMENT_CONFIGS,
    ADD_ON_TEMPLATES,
    CLUSTER_MANAGEMENT_ADD_ONS,
    MANAGED_CLUSTER_ADD_ONS,
    MANAGED_CLUSTERS,
    MANIFEST_WORKS,
    PLACEMENTS,
)
from fairway.api.work import ManifestWork
from fairway.controllers.addons import RULES, AddOnController, conditions
from fairway.controllers.addons.deployment import HOSTED
from fairway.controllers.addons.names import (
    ADD_ON_LABEL,
    FEATURE_PREFIX,
    HOSTING_CLUSTER,
    LIFECYCLE,
    ORPHAN,
    PRE_DELETE,
    binding,
    cluster_group,
    common_group,
    deploy_work,
    pre_delete_work,
    user,
)
from fairway.controllers.kinds import ROLE_BINDINGS
from fairway.observe.meters import Meters
from kubewire.client import Batch, Client, NotFound, Patch
from kubewire.client.codec import WatchEvent
from rigs.waiting import edit, fresh, until, until_deleted

pytestmark = [pytest.mark.embedded, pytest.mark.usefixtures("running")]

GROUP = CLUSTER_MANAGEMENT_ADD_ONS.group
WRITTEN = (MANAGED_CLUSTER_ADD_ONS, MANIFEST_WORKS, ROLE_BINDINGS, MANAGED_CLUSTERS)


def config(name: str, namespace: str) -> dict[str, Any]:
    return {"group": GROUP, "resource": "addondeploymentconfigs", "name": name, "namespace": namespace}


async def exists(client: Client, harness: AddOnHarness, cluster: str) -> ManagedClusterAddOn:
    return await until(client, MANAGED_CLUSTER_ADD_ONS, harness.name, lambda _: True, namespace=cluster)


async def is_running(harness: AddOnHarness, cluster: str) -> ManagedClusterAddOn:
    await harness.answer(await harness.work(cluster), READY)
    return await harness.awaited(cluster, conditions.AVAILABLE, "True", conditions.PROBE_AVAILABLE)


@pytest.mark.both_hubs
async def test_add_on_is_installed_on_selected_clusters_only(client: Client, harness: AddOnHarness) -> None:
    one, two = await harness.cluster(), await harness.cluster()
    await harness.template()
    await harness.place("p", one)
    await harness.offer("p")
    add_on = await exists(client, harness, one)
    (owner,) = add_on.metadata.ownerReferences
    assert (owner.kind, owner.name, owner.controller) == ("ClusterManagementAddOn", harness.name, True)
    await harness.choose("p", two)
    await until_deleted(client, MANAGED_CLUSTER_ADD_ONS, harness.name, namespace=one)
    await until_deleted(client, MANIFEST_WORKS, deploy_work(harness.name), namespace=one)
    await exists(client, harness, two)


async def test_add_on_waits_for_acceptance_and_namespace(
    client: Client, harness: AddOnHarness, running: RunningController
) -> None:
    name = fresh("c")
    body = {"metadata": {"name": name, "labels": MARK}, "spec": {"hubAcceptsClient": False}}
    await client.create(MANAGED_CLUSTERS, body)
    await harness.template()
    await harness.place("p", name)
    await harness.offer("p")
    accepted = await edit(client, MANAGED_CLUSTERS, name, {"spec": {"hubAcceptsClient": True}})
    await harness.accept(name)
    await running.caught_up(MANAGED_CLUSTERS, accepted)
    await client.request("POST", "/api/v1/namespaces", body={"metadata": {"name": name}})
    await exists(client, harness, name)


async def test_add_on_installed_by_a_user_is_kept(client: Client, harness: AddOnHarness) -> None:
    mine, chosen = await harness.cluster(), await harness.cluster()
    await harness.template()
    await harness.place("p", chosen)
    await harness.enable(mine)
    await harness.offer("p")
    await exists(client, harness, chosen)

    def is_owned(add_on: ManagedClusterAddOn) -> bool:
        return [owner.controller for owner in add_on.metadata.ownerReferences] == [False]

    await until(client, MANAGED_CLUSTER_ADD_ONS, harness.name, is_owned, namespace=mine)
    await harness.choose("p")
    await until_deleted(client, MANAGED_CLUSTER_ADD_ONS, harness.name, namespace=chosen)
    await client.get(MANAGED_CLUSTER_ADD_ONS, harness.name, namespace=mine)
    await client.delete(CLUSTER_MANAGEMENT_ADD_ONS, harness.name)
    await until_deleted(client, MANAGED_CLUSTER_ADD_ONS, harness.name, namespace=mine)


@pytest.mark.both_hubs
async def test_deleted_placement_removes_its_add_ons(client: Client, harness: AddOnHarness) -> None:
    cluster = await harness.cluster()
    await harness.template()
    await harness.place("p", cluster)
    await harness.offer("p")
    await exists(client, harness, cluster)
    await client.delete(PLACEMENTS, "p", namespace=harness.namespace)
    await until_deleted(client, MANAGED_CLUSTER_ADD_ONS, harness.name, namespace=cluster)


@pytest.mark.both_hubs
async def test_add_on_agent_is_deployed_with_its_rights(client: Client, harness: AddOnHarness) -> None:
    cluster = await harness.cluster()
    await harness.template()
    await harness.offer()
    made = await harness.enable(cluster)
    work = await harness.work(cluster)
    assert work.metadata.labels == {ADD_ON_LABEL: harness.name}
    assert [reference.uid for reference in work.metadata.ownerReferences] == [made.metadata.uid]
    (container,) = work.spec.workload.manifests[0]["spec"]["template"]["spec"]["containers"]
    assert container["args"] == [cluster]
    (asked,) = work.spec.manifestConfigs
    assert (asked.resourceIdentifier.resource, asked.resourceIdentifier.name) == ("deployments", "agent")
    assert [rule.type for rule in asked.feedbackRules] == ["WellKnownStatus"]
    add_on = await harness.awaited(
        cluster, conditions.REGISTRATION_APPLIED, "True", conditions.PERMISSION_APPLIED
    )
    (registration,) = add_on.status.registrations
    assert registration.signerName == "kubernetes.io/kube-apiserver-client"
    assert registration.subject.user == user(cluster, harness.name)
    assert registration.subject.groups == (cluster_group(cluster, harness.name), common_group(harness.name))
    assert add_on.status.namespace == "open-cluster-management-agent-addon"
    assert add_on.status.healthCheck is not None
    assert add_on.status.healthCheck.mode == "Customized"
    bound = await client.get(ROLE_BINDINGS, binding(harness.name), namespace=cluster)
    assert bound.role_ref.name == ROLE
    assert [(subject.kind, subject.name) for subject in bound.subjects] == [
        ("Group", cluster_group(cluster, harness.name))
    ]


async def test_add_on_reports_the_health_of_its_agent(client: Client, harness: AddOnHarness) -> None:
    cluster, label = await harness.cluster(), f"{FEATURE_PREFIX}{harness.name}"
    await harness.template()
    await harness.offer()
    await harness.enable(cluster)
    await until(
        client, MANAGED_CLUSTERS, cluster, lambda cluster: cluster.metadata.labels.get(label) == "unreachable"
    )
    await harness.awaited(cluster, conditions.MANIFEST_APPLIED, "False", conditions.WAITING)
    work = await harness.work(cluster)
    await harness.answer(work, {"Replicas": 1, "ReadyReplicas": 0})
    ill = await harness.awaited(cluster, conditions.AVAILABLE, "False", conditions.PROBE_UNAVAILABLE)
    assert "open-cluster-management-agent-addon/agent has no ready replica of 1" in str(
        found_in(ill, conditions.AVAILABLE)
    )
    await until(
        client, MANAGED_CLUSTERS, cluster, lambda cluster: cluster.metadata.labels.get(label) == "unhealthy"
    )
    await harness.answer(work, READY)
    well = await harness.awaited(cluster, conditions.AVAILABLE, "True", conditions.PROBE_AVAILABLE)
    assert found_in(well, conditions.MANIFEST_APPLIED) == (
        "True",
        conditions.APPLIED,
        conditions.APPLIED_MESSAGE,
    )
    assert found_in(well, conditions.PROGRESSING) == (
        "False",
        conditions.COMPLETED,
        conditions.COMPLETED_MESSAGE,
    )
    (reference,) = well.status.configReferences
    assert reference.desiredConfig is not None
    assert reference.desiredConfig == reference.lastAppliedConfig
    await until(
        client, MANAGED_CLUSTERS, cluster, lambda cluster: cluster.metadata.labels.get(label) == "available"
    )
    await client.delete(MANAGED_CLUSTER_ADD_ONS, harness.name, namespace=cluster)
    await until(client, MANAGED_CLUSTERS, cluster, lambda cluster: label not in cluster.metadata.labels)


async def test_rejected_manifest_is_reported_in_the_condition(client: Client, harness: AddOnHarness) -> None:
    cluster = await harness.cluster()
    await harness.template()
    await harness.offer()
    await harness.enable(cluster)
    await harness.answer(
        await harness.work(cluster), {}, applied="False", available="False", message="no room"
    )
    add_on = await harness.awaited(cluster, conditions.MANIFEST_APPLIED, "False", conditions.NOT_APPLIED)
    assert found_in(add_on, conditions.MANIFEST_APPLIED) == (
        "False",
        conditions.NOT_APPLIED,
        "Deployment agent: no room",
    )
    assert found_in(add_on, conditions.PROGRESSING) == (
        "False",
        conditions.FAILED,
        "Deployment agent: no room",
    )


async def test_add_on_of_a_silent_cluster_is_unknown(client: Client, harness: AddOnHarness) -> None:
    cluster = await harness.cluster()
    await harness.template()
    await harness.offer()
    await harness.enable(cluster)
    await is_running(harness, cluster)

    async def report_condition(status: str) -> None:
        found_in = condition("ManagedClusterConditionAvailable", status, message="hm")
        await harness.accept(cluster, found_in)

    await report_condition("Unknown")
    add_on = await harness.awaited(cluster, conditions.AVAILABLE, "Unknown", "Because")
    assert found_in(add_on, conditions.AVAILABLE) == ("Unknown", "Because", "hm")
    await report_condition("True")
    await harness.awaited(cluster, conditions.AVAILABLE, "True", conditions.PROBE_AVAILABLE)


@pytest.mark.both_hubs
async def test_second_reconcile_of_an_add_on_writes_nothing(
    hub: HubUnderTest, client: Client, harness: AddOnHarness, running: RunningController
) -> None:
    """A new controller writes nothing either."""
    cluster = await harness.cluster()
    await harness.template(
        {**DEPLOYMENT, "metadata": {**DEPLOYMENT["metadata"], "annotations": {ORPHAN: ""}}},
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x", "namespace": "y"}},
    )
    await harness.config(
        "all",
        agentInstallNamespace="elsewhere",
        nodePlacement={"tolerations": [{"operator": "Exists", "tolerationSeconds": 3}]},
        resourceRequirements=[{"containerID": "*:*:*", "resources": {"limits": {"cpu": 1}}}],
        proxyConfig={"httpProxy": "http://x", "caBundle": "UEVN"},
    )
    await harness.offer()
    await harness.enable(cluster, configs=[config("all", harness.namespace)])
    await is_running(harness, cluster)
    label = f"{FEATURE_PREFIX}{harness.name}"
    labelled = await until(
        client, MANAGED_CLUSTERS, cluster, lambda cluster: cluster.metadata.labels.get(label) == "available"
    )
    await running.caught_up(MANAGED_CLUSTERS, labelled)
    before = await versions(client, *WRITTEN)
    touched = await edit(
        client, CLUSTER_MANAGEMENT_ADD_ONS, harness.name, {"metadata": {"labels": {"touched": "yes"}}}
    )
    await running.caught_up(CLUSTER_MANAGEMENT_ADD_ONS, touched)
    async with at_work(hub, lambda other: AddOnController(other, meters=Meters()), rules=RULES) as second:
        await second.settled()
    mine = {key: value for key, value in before.items() if cluster in key}
    assert len(mine) == 4  # the add-on, its work, its binding, and the cluster with its label
    after = await versions(client, *WRITTEN)
    assert {key: after[key] for key in mine} == mine


async def test_late_watch_events_of_a_work_do_not_revert_the_reported_state(
    client: Client, harness: AddOnHarness, running: RunningController, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The response to a write contains the agent's report, which the watch has not delivered yet."""
    works, late = running.informers.of(MANIFEST_WORKS), list[WatchEvent[ManifestWork]]()
    apply, reported = works._replica.apply, asyncio.Event()
    cluster = await harness.cluster()

    def held(events: Sequence[WatchEvent[ManifestWork]], **_: Any) -> tuple[Batch[ManifestWork], str]:
        late.extend(events)
        if any(
            change.object.metadata.namespace == cluster and change.object.status.conditions for change in late
        ):
            reported.set()
        return apply(())

    await harness.template()
    await harness.offer()
    monkeypatch.setattr(works._replica, "apply", held)
    await harness.enable(cluster)
    await harness.answer(await harness.work(cluster), READY)
    # Another hash of the template: the work's annotation is written again, and its generation stays.
    await edit(client, ADD_ON_TEMPLATES, harness.name, {"spec": {"registration": []}})
    awaited = await harness.awaited(cluster, conditions.AVAILABLE, "True", conditions.PROBE_AVAILABLE)
    await running.observed(MANAGED_CLUSTER_ADD_ONS, awaited)
    async with asyncio.timeout(DEADLINE):
        await reported.wait()
    monkeypatch.undo()
    while works.get(deploy_work(harness.name), namespace=cluster) is None:
        works._deliver(*apply([late.pop(0)]))
    await running.controller.quiet()
    assert (await exists(client, harness, cluster)).metadata == awaited.metadata
    works._deliver(*apply(late))
    await running.settled()
    assert (await exists(client, harness, cluster)).metadata == awaited.metadata


@pytest.mark.both_hubs
async def test_edited_add_on_objects_are_repaired(client: Client, harness: AddOnHarness) -> None:
    cluster = await harness.cluster()
    await harness.template()
    await harness.offer()
    await harness.enable(cluster)
    work = await harness.work(cluster)
    await until(client, ROLE_BINDINGS, binding(harness.name), lambda _: True, namespace=cluster)
    await edit(
        client,
        MANIFEST_WORKS,
        work.metadata.name,
        {"spec": {"workload": {"manifests": []}}},
        namespace=cluster,
    )
    await until(
        client,
        MANIFEST_WORKS,
        work.metadata.name,
        lambda work: bool(work.spec.workload.manifests),
        namespace=cluster,
    )
    stranger = [{"kind": "Group", "apiGroup": "rbac.authorization.k8s.io", "name": "everybody"}]
    await edit(client, ROLE_BINDINGS, binding(harness.name), {"subjects": stranger}, namespace=cluster)
    await until(
        client,
        ROLE_BINDINGS,
        binding(harness.name),
        lambda binding: (
            [subject.name for subject in binding.subjects] == [cluster_group(cluster, harness.name)]
        ),
        namespace=cluster,
    )
    await client.delete(MANIFEST_WORKS, work.metadata.name, namespace=cluster)
    await until(
        client,
        MANIFEST_WORKS,
        work.metadata.name,
        lambda recreated: recreated.metadata.uid != work.metadata.uid,
        namespace=cluster,
    )


@pytest.mark.parametrize(
    ("manifest", "complaint"),
    [
        ({**DEPLOYMENT, "data": {"x": "{{MAXCPU}}"}}, "undefined variable {{MAXCPU}}"),
        ({**DEPLOYMENT, "metadata": {"namespace": "x"}}, "metadata.name is missing"),
    ],
)
async def test_invalid_template_is_reported(
    client: Client, harness: AddOnHarness, manifest: dict[str, Any], complaint: str
) -> None:
    cluster = await harness.cluster()
    await harness.template(manifest)
    await harness.offer()
    await harness.enable(cluster)
    add_on = await harness.awaited(cluster, conditions.MANIFEST_APPLIED, "False", conditions.TEMPLATE_INVALID)
    message = str(found_in(add_on, conditions.MANIFEST_APPLIED))
    assert f"AddOnTemplate {harness.name}" in message
    assert complaint in message
    with pytest.raises(NotFound):
        await client.get(MANIFEST_WORKS, deploy_work(harness.name), namespace=cluster)
    mended = {"spec": {"agentSpec": {"workload": {"manifests": [DEPLOYMENT]}}}}
    await edit(client, ADD_ON_TEMPLATES, harness.name, mended)
    await is_running(harness, cluster)


async def test_template_that_becomes_invalid_keeps_the_agent(client: Client, harness: AddOnHarness) -> None:
    cluster = await harness.cluster()
    await harness.template()
    await harness.offer()
    await harness.enable(cluster)
    await is_running(harness, cluster)
    before = await harness.work(cluster)
    bad = {"spec": {"agentSpec": {"workload": {"manifests": [{**DEPLOYMENT, "x": "{{NO}}"}]}}}}
    await edit(client, ADD_ON_TEMPLATES, harness.name, bad)
    add_on = await harness.awaited(cluster, conditions.MANIFEST_APPLIED, "False", conditions.TEMPLATE_INVALID)
    assert found_in(add_on, conditions.AVAILABLE) is not None
    assert (await harness.work(cluster)).spec == before.spec


async def test_configuration_of_cluster_placement_and_default_apply_in_order(
    client: Client, harness: AddOnHarness
) -> None:
    plain, placed, own = await harness.cluster(), await harness.cluster(), await harness.cluster()
    await harness.template({**DEPLOYMENT, "spec": {**DEPLOYMENT["spec"], "paused": "{{WORD}}"}})
    for word in ("default", "placement", "cluster"):
        await harness.config(
            word, customizedVariables=[{"name": "WORD", "value": word}], agentInstallNamespace=""
        )
    await harness.place("p", placed, own)
    await harness.place("q", plain)
    await harness.offer("p", "q", configs={"p": [config("placement", harness.namespace)]})
    default = {
        "group": GROUP,
        "resource": "addondeploymentconfigs",
        "defaultConfig": {"name": "default", "namespace": harness.namespace},
    }
    templates = {"group": GROUP, "resource": "addontemplates", "defaultConfig": {"name": harness.name}}
    await edit(
        client, CLUSTER_MANAGEMENT_ADD_ONS, harness.name, {"spec": {"supportedConfigs": [templates, default]}}
    )
    await exists(client, harness, own)
    await edit(
        client,
        MANAGED_CLUSTER_ADD_ONS,
        harness.name,
        {"spec": {"configs": [config("cluster", harness.namespace)]}},
        namespace=own,
    )

    async def word_is(cluster: str, word: str) -> None:
        await until(
            client,
            MANIFEST_WORKS,
            deploy_work(harness.name),
            lambda work: work.spec.workload.manifests[0]["spec"]["paused"] == word,
            namespace=cluster,
        )

    await word_is(plain, "default")
    await word_is(placed, "placement")
    await word_is(own, "cluster")
    await client.patch(
        ADD_ON_DEPLOYMENT_CONFIGS,
        "default",
        {"spec": {"customizedVariables": [{"name": "WORD", "value": "changed"}]}},
        kind=Patch.MERGE,
        namespace=harness.namespace,
    )
    await word_is(plain, "changed")


async def test_missing_configuration_is_named(client: Client, harness: AddOnHarness) -> None:
    cluster = await harness.cluster()
    await harness.offer()
    await harness.enable(cluster)
    add_on = await harness.awaited(
        cluster, conditions.CONFIGURED, "False", conditions.CONFIGURATION_NOT_FOUND
    )
    assert f"AddOnTemplate {harness.name} is referenced as a configuration, but does not exist" in str(
        found_in(add_on, conditions.CONFIGURED)
    )
    await harness.template()
    await is_running(harness, cluster)
    gone_config = {"spec": {"configs": [config("nowhere", harness.namespace)]}}
    await edit(client, MANAGED_CLUSTER_ADD_ONS, harness.name, gone_config, namespace=cluster)
    add_on = await harness.awaited(
        cluster, conditions.CONFIGURED, "False", conditions.CONFIGURATION_NOT_FOUND
    )
    assert f"AddOnDeploymentConfig {harness.namespace}/nowhere" in str(
        found_in(add_on, conditions.CONFIGURED)
    )
    strange = {"spec": {"configs": [{"group": "example.com", "resource": "things", "name": "x"}]}}
    await edit(client, MANAGED_CLUSTER_ADD_ONS, harness.name, strange, namespace=cluster)
    add_on = await harness.awaited(
        cluster, conditions.CONFIGURED, "False", conditions.CONFIGURATION_UNSUPPORTED
    )
    assert "things.example.com" in str(found_in(add_on, conditions.CONFIGURED))


@pytest.mark.both_hubs
async def test_ungrantable_role_is_named(client: Client, harness: AddOnHarness) -> None:
    """The controller may bind only the role of Fairway's own add-on."""
    cluster, role = await harness.cluster(), fresh("role")
    await client.request(
        "POST",
        "/apis/rbac.authorization.k8s.io/v1/clusterroles",
        body={
            "metadata": {"name": role},
            "rules": [{"apiGroups": [""], "resources": ["secrets"], "verbs": ["*"]}],
        },
    )
    await harness.template(role=role)
    await harness.offer()
    await harness.enable(cluster)
    add_on = await harness.awaited(
        cluster, conditions.REGISTRATION_APPLIED, "False", conditions.PERMISSION_FAILED
    )
    assert f"Fairway may not bind ClusterRole {role}" in str(
        found_in(add_on, conditions.REGISTRATION_APPLIED)
    )
    await harness.work(cluster)  # the agent is deployed nevertheless
    await client.delete(ADD_ON_TEMPLATES, harness.name)


async def test_rights_in_other_namespaces_are_unsupported(client: Client, harness: AddOnHarness) -> None:
    cluster = await harness.cluster()
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "x"}
    single = {"type": "SingleNamespace", "singleNamespace": {"namespace": "y", "roleRef": reference}}
    await harness.template(registration=[{"type": "KubeClient", "kubeClient": {"hubPermissions": [single]}}])
    await harness.offer()
    await harness.enable(cluster)
    add_on = await harness.awaited(
        cluster, conditions.REGISTRATION_APPLIED, "False", conditions.PERMISSION_UNSUPPORTED
    )
    assert common_group(harness.name) in str(found_in(add_on, conditions.REGISTRATION_APPLIED))


async def test_custom_signer_is_unsupported(client: Client, harness: AddOnHarness) -> None:
    cluster = await harness.cluster()
    signer = {"signerName": "example.com/signer", "signingCA": {"name": "ca"}}
    await harness.template(registration=[{"type": "CustomSigner", "customSigner": signer}])
    await harness.offer()
    await harness.enable(cluster)
    add_on = await harness.awaited(
        cluster, conditions.REGISTRATION_APPLIED, "False", conditions.PERMISSION_UNSUPPORTED
    )
    assert [registration.signerName for registration in add_on.status.registrations] == ["example.com/signer"]
    assert "example.com/signer" in str(found_in(add_on, conditions.REGISTRATION_APPLIED))


@pytest.mark.parametrize("value", ["self", ""])
async def test_add_ons_with_their_own_controller_are_skipped(
    client: Client, harness: AddOnHarness, running: RunningController, value: str
) -> None:
    cluster = await harness.cluster()
    await harness.template()
    await harness.place("p", cluster)
    await harness.offer("p", annotations={LIFECYCLE: value})
    made = await harness.enable(cluster)
    await running.caught_up(MANAGED_CLUSTER_ADD_ONS, made)
    now = await client.get(MANAGED_CLUSTER_ADD_ONS, harness.name, namespace=cluster)
    assert now.status.conditions == ()
    with pytest.raises(NotFound):
        await client.get(MANIFEST_WORKS, deploy_work(harness.name), namespace=cluster)


async def test_annotations_of_the_cluster_are_those_of_its_installed_add_ons(
    client: Client, harness: AddOnHarness, running: RunningController
) -> None:
    """As in OCM's tests of installation; an add-on that a user created keeps its own."""
    one, other = f"{GROUP}/one", f"{GROUP}/other"
    installed, created = await harness.cluster(annotations={one: "1", "x": "y"}), await harness.cluster()
    await harness.offer("p")
    body = {"metadata": {"name": harness.name, "annotations": {one: "mine"}}, "spec": {}}
    await client.create(MANAGED_CLUSTER_ADD_ONS, body, namespace=created)
    await harness.place("p", installed, created)
    assert dict((await exists(client, harness, installed)).metadata.annotations) == {one: "1"}

    changed = {"metadata": {"annotations": {one: None, other: "2"}}}
    await edit(client, MANAGED_CLUSTERS, installed, changed)
    await until(
        client,
        MANAGED_CLUSTER_ADD_ONS,
        harness.name,
        lambda add_on: dict(add_on.metadata.annotations) == {other: "2"},
        namespace=installed,
    )
    await running.settled()
    add_on = await client.get(MANAGED_CLUSTER_ADD_ONS, harness.name, namespace=created)
    assert dict(add_on.metadata.annotations) == {one: "mine"}


async def test_hosted_agent_is_refused(client: Client, harness: AddOnHarness) -> None:
    cluster = await harness.cluster(annotations={HOSTING_CLUSTER: "host"})
    await harness.template()
    await harness.place("p", cluster)
    await harness.offer("p")
    add_on = await harness.awaited(
        cluster, conditions.CONFIGURED, "False", conditions.CONFIGURATION_UNSUPPORTED
    )
    assert HOSTED.format(cluster="host", annotation=HOSTING_CLUSTER) in str(
        found_in(add_on, conditions.CONFIGURED)
    )


async def held(client: Client, harness: AddOnHarness) -> str:
    """A cluster whose add-on has a pre-delete hook."""
    cluster = await harness.cluster()
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "bye", "namespace": "x", "annotations": {PRE_DELETE: ""}},
    }
    await harness.template(DEPLOYMENT, job)
    await harness.offer()
    await harness.enable(cluster)
    await until(
        client,
        MANAGED_CLUSTER_ADD_ONS,
        harness.name,
        lambda add_on: add_on.metadata.finalizers == (PRE_DELETE,),
        namespace=cluster,
    )
    return cluster


async def test_pre_delete_hook_completes_before_removal(client: Client, harness: AddOnHarness) -> None:
    cluster = await held(client, harness)
    await is_running(harness, cluster)
    await client.delete(MANAGED_CLUSTER_ADD_ONS, harness.name, namespace=cluster)
    work = await harness.work(cluster, name=pre_delete_work(harness.name))
    assert [manifest["kind"] for manifest in work.spec.workload.manifests] == ["Job"]
    await harness.awaited(cluster, conditions.HOOK_COMPLETED, "False", conditions.HOOK_RUNS)
    await harness.answer(work, {"JobComplete": "False"})
    await client.get(MANIFEST_WORKS, deploy_work(harness.name), namespace=cluster)
    await harness.answer(work, {"JobComplete": "True"})
    await until_deleted(client, MANAGED_CLUSTER_ADD_ONS, harness.name, namespace=cluster)
    await until_deleted(client, MANIFEST_WORKS, deploy_work(harness.name), namespace=cluster)


@pytest.mark.parametrize("lost", ["template", "cluster", "acceptance"])
async def test_hook_that_no_agent_can_run_is_not_waited_for(
    client: Client, harness: AddOnHarness, running: RunningController, lost: str
) -> None:
    cluster = await held(client, harness)
    if lost == "template":
        await client.delete(ADD_ON_TEMPLATES, harness.name)
    elif lost == "acceptance":
        await edit(client, MANAGED_CLUSTERS, cluster, {"spec": {"hubAcceptsClient": False}})
    else:
        await client.delete(MANAGED_CLUSTERS, cluster)
    await running.settled()  # otherwise the hook could start before the change is observed
    await client.delete(MANAGED_CLUSTER_ADD_ONS, harness.name, namespace=cluster)
    await until_deleted(client, MANAGED_CLUSTER_ADD_ONS, harness.name, namespace=cluster)
