"""Add-ons that are installed, looked after and removed, on a hub."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from controllers.addons.scenery import DEPLOYMENT, READY, ROLE, Scene, condition, said, versions
from controllers.hubs import HubUnderTest
from controllers.running import MARK, Running, at_work
from controllers.settling import DEADLINE
from fairway.api.addon import ManagedClusterAddOn
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
    SELF_MANAGED,
    binding,
    cluster_group,
    common_group,
    deploy_work,
    pre_delete_work,
    user,
)
from fairway.controllers.kinds import ROLE_BINDINGS
from fairway.kube import (
    ADD_ON_DEPLOYMENT_CONFIGS,
    ADD_ON_TEMPLATES,
    CLUSTER_MANAGEMENT_ADD_ONS,
    MANAGED_CLUSTER_ADD_ONS,
    MANAGED_CLUSTERS,
    MANIFEST_WORKS,
    PLACEMENTS,
    Batch,
    Client,
    NotFound,
    Patch,
)
from fairway.kube.codec import WatchEvent
from fairway.observe.meters import Meters
from rigs.waiting import edit, fresh, gone, until

pytestmark = pytest.mark.embedded

GROUP = CLUSTER_MANAGEMENT_ADD_ONS.group
WRITTEN = (MANAGED_CLUSTER_ADD_ONS, MANIFEST_WORKS, ROLE_BINDINGS, MANAGED_CLUSTERS)


def config(name: str, namespace: str) -> dict[str, Any]:
    return {"group": GROUP, "resource": "addondeploymentconfigs", "name": name, "namespace": namespace}


async def exists(client: Client, scene: Scene, cluster: str) -> ManagedClusterAddOn:
    return await until(client, MANAGED_CLUSTER_ADD_ONS, scene.name, lambda _: True, namespace=cluster)


async def is_running(scene: Scene, cluster: str) -> ManagedClusterAddOn:
    await scene.answer(await scene.work(cluster), READY)
    return await scene.told(cluster, conditions.AVAILABLE, "True", conditions.PROBE_AVAILABLE)


@pytest.mark.both_hubs
async def test_add_on_is_installed_on_selected_clusters_only(
    client: Client, scene: Scene, stage: Running
) -> None:
    one, two = await scene.cluster(), await scene.cluster()
    await scene.template()
    await scene.place("p", one)
    await scene.offer("p")
    add_on = await exists(client, scene, one)
    (owner,) = add_on.metadata.ownerReferences
    assert (owner.kind, owner.name, owner.controller) == ("ClusterManagementAddOn", scene.name, True)
    await scene.choose("p", two)
    await gone(client, MANAGED_CLUSTER_ADD_ONS, scene.name, namespace=one)
    await gone(client, MANIFEST_WORKS, deploy_work(scene.name), namespace=one)
    await exists(client, scene, two)


async def test_add_on_waits_for_acceptance_and_namespace(
    client: Client, scene: Scene, stage: Running
) -> None:
    name = fresh("c")
    body = {"metadata": {"name": name, "labels": MARK}, "spec": {"hubAcceptsClient": False}}
    await client.create(MANAGED_CLUSTERS, body)
    await scene.template()
    await scene.place("p", name)
    await scene.offer("p")
    accepted = await edit(client, MANAGED_CLUSTERS, name, {"spec": {"hubAcceptsClient": True}})
    await scene.let_in(name)
    await stage.caught_up(MANAGED_CLUSTERS, accepted)
    await client.request("POST", "/api/v1/namespaces", body={"metadata": {"name": name}})
    await exists(client, scene, name)


async def test_add_on_installed_by_a_user_is_kept(client: Client, scene: Scene, stage: Running) -> None:
    mine, chosen = await scene.cluster(), await scene.cluster()
    await scene.template()
    await scene.place("p", chosen)
    await scene.enable(mine)
    await scene.offer("p")
    await exists(client, scene, chosen)

    def is_owned(each: ManagedClusterAddOn) -> bool:
        return [owner.controller for owner in each.metadata.ownerReferences] == [False]

    await until(client, MANAGED_CLUSTER_ADD_ONS, scene.name, is_owned, namespace=mine)
    await scene.choose("p")
    await gone(client, MANAGED_CLUSTER_ADD_ONS, scene.name, namespace=chosen)
    await client.get(MANAGED_CLUSTER_ADD_ONS, scene.name, namespace=mine)
    await client.delete(CLUSTER_MANAGEMENT_ADD_ONS, scene.name)
    await gone(client, MANAGED_CLUSTER_ADD_ONS, scene.name, namespace=mine)


@pytest.mark.both_hubs
async def test_deleted_placement_removes_its_add_ons(client: Client, scene: Scene, stage: Running) -> None:
    cluster = await scene.cluster()
    await scene.template()
    await scene.place("p", cluster)
    await scene.offer("p")
    await exists(client, scene, cluster)
    await client.delete(PLACEMENTS, "p", namespace=scene.namespace)
    await gone(client, MANAGED_CLUSTER_ADD_ONS, scene.name, namespace=cluster)


@pytest.mark.both_hubs
async def test_add_on_agent_is_deployed_with_its_rights(client: Client, scene: Scene, stage: Running) -> None:
    cluster = await scene.cluster()
    await scene.template()
    await scene.offer()
    made = await scene.enable(cluster)
    work = await scene.work(cluster)
    assert work.metadata.labels == {ADD_ON_LABEL: scene.name}
    assert [each.uid for each in work.metadata.ownerReferences] == [made.metadata.uid]
    (container,) = work.spec.workload.manifests[0]["spec"]["template"]["spec"]["containers"]
    assert container["args"] == [cluster]
    (asked,) = work.spec.manifestConfigs
    assert (asked.resourceIdentifier.resource, asked.resourceIdentifier.name) == ("deployments", "agent")
    assert [each.type for each in asked.feedbackRules] == ["WellKnownStatus"]
    add_on = await scene.told(cluster, conditions.REGISTRATION_APPLIED, "True", conditions.PERMISSION_APPLIED)
    (registration,) = add_on.status.registrations
    assert registration.signerName == "kubernetes.io/kube-apiserver-client"
    assert registration.subject.user == user(cluster, scene.name)
    assert registration.subject.groups == (cluster_group(cluster, scene.name), common_group(scene.name))
    assert add_on.status.namespace == "open-cluster-management-agent-addon"
    assert add_on.status.healthCheck is not None
    assert add_on.status.healthCheck.mode == "Customized"
    bound = await client.get(ROLE_BINDINGS, binding(scene.name), namespace=cluster)
    assert bound.role_ref.name == ROLE
    assert [(each.kind, each.name) for each in bound.subjects] == [
        ("Group", cluster_group(cluster, scene.name))
    ]


async def test_add_on_reports_the_health_of_its_agent(client: Client, scene: Scene, stage: Running) -> None:
    cluster, label = await scene.cluster(), f"{FEATURE_PREFIX}{scene.name}"
    await scene.template()
    await scene.offer()
    await scene.enable(cluster)
    await until(
        client, MANAGED_CLUSTERS, cluster, lambda each: each.metadata.labels.get(label) == "unreachable"
    )
    await scene.told(cluster, conditions.MANIFEST_APPLIED, "False", conditions.WAITING)
    work = await scene.work(cluster)
    await scene.answer(work, {"Replicas": 1, "ReadyReplicas": 0})
    ill = await scene.told(cluster, conditions.AVAILABLE, "False", conditions.PROBE_UNAVAILABLE)
    assert "open-cluster-management-agent-addon/agent has no ready replica of 1" in str(
        said(ill, conditions.AVAILABLE)
    )
    await until(
        client, MANAGED_CLUSTERS, cluster, lambda each: each.metadata.labels.get(label) == "unhealthy"
    )
    await scene.answer(work, READY)
    well = await scene.told(cluster, conditions.AVAILABLE, "True", conditions.PROBE_AVAILABLE)
    assert said(well, conditions.MANIFEST_APPLIED) == ("True", conditions.APPLIED, conditions.APPLIED_MESSAGE)
    assert said(well, conditions.PROGRESSING) == ("False", conditions.COMPLETED, conditions.COMPLETED_MESSAGE)
    (reference,) = well.status.configReferences
    assert reference.desiredConfig is not None
    assert reference.desiredConfig == reference.lastAppliedConfig
    await until(
        client, MANAGED_CLUSTERS, cluster, lambda each: each.metadata.labels.get(label) == "available"
    )
    await client.delete(MANAGED_CLUSTER_ADD_ONS, scene.name, namespace=cluster)
    await until(client, MANAGED_CLUSTERS, cluster, lambda each: label not in each.metadata.labels)


async def test_rejected_manifest_is_reported_in_the_condition(
    client: Client, scene: Scene, stage: Running
) -> None:
    cluster = await scene.cluster()
    await scene.template()
    await scene.offer()
    await scene.enable(cluster)
    await scene.answer(await scene.work(cluster), {}, applied="False", available="False", message="no room")
    add_on = await scene.told(cluster, conditions.MANIFEST_APPLIED, "False", conditions.NOT_APPLIED)
    assert said(add_on, conditions.MANIFEST_APPLIED) == (
        "False",
        conditions.NOT_APPLIED,
        "Deployment agent: no room",
    )
    assert said(add_on, conditions.PROGRESSING) == ("False", conditions.FAILED, "Deployment agent: no room")


async def test_add_on_of_a_silent_cluster_is_unknown(client: Client, scene: Scene, stage: Running) -> None:
    cluster = await scene.cluster()
    await scene.template()
    await scene.offer()
    await scene.enable(cluster)
    await is_running(scene, cluster)

    async def cluster_says(status: str) -> None:
        said = condition("ManagedClusterConditionAvailable", status, message="hm")
        await scene.let_in(cluster, said)

    await cluster_says("Unknown")
    add_on = await scene.told(cluster, conditions.AVAILABLE, "Unknown", "Because")
    assert said(add_on, conditions.AVAILABLE) == ("Unknown", "Because", "hm")
    await cluster_says("True")
    await scene.told(cluster, conditions.AVAILABLE, "True", conditions.PROBE_AVAILABLE)


@pytest.mark.both_hubs
async def test_second_reconcile_of_an_add_on_writes_nothing(
    hub: HubUnderTest, client: Client, scene: Scene, stage: Running
) -> None:
    """And neither does a controller that comes after this one."""
    cluster = await scene.cluster()
    await scene.template(
        {**DEPLOYMENT, "metadata": {**DEPLOYMENT["metadata"], "annotations": {ORPHAN: ""}}},
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x", "namespace": "y"}},
    )
    await scene.config(
        "all",
        agentInstallNamespace="elsewhere",
        nodePlacement={"tolerations": [{"operator": "Exists", "tolerationSeconds": 3}]},
        resourceRequirements=[{"containerID": "*:*:*", "resources": {"limits": {"cpu": 1}}}],
        proxyConfig={"httpProxy": "http://x", "caBundle": "UEVN"},
    )
    await scene.offer()
    await scene.enable(cluster, configs=[config("all", scene.namespace)])
    await is_running(scene, cluster)
    label = f"{FEATURE_PREFIX}{scene.name}"
    labelled = await until(
        client, MANAGED_CLUSTERS, cluster, lambda each: each.metadata.labels.get(label) == "available"
    )
    await stage.caught_up(MANAGED_CLUSTERS, labelled)
    before = await versions(client, *WRITTEN)
    touched = await edit(
        client, CLUSTER_MANAGEMENT_ADD_ONS, scene.name, {"metadata": {"labels": {"touched": "yes"}}}
    )
    await stage.caught_up(CLUSTER_MANAGEMENT_ADD_ONS, touched)
    async with at_work(hub, lambda other: AddOnController(other, meters=Meters()), rules=RULES) as second:
        await second.settled()
    mine = {key: value for key, value in before.items() if cluster in key}
    assert len(mine) == 4  # the add-on, its work, its binding, and the cluster with its label
    after = await versions(client, *WRITTEN)
    assert {key: after[key] for key in mine} == mine


async def test_late_watch_events_of_a_work_do_not_revert_the_reported_state(
    client: Client, scene: Scene, stage: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The response to a write contains the agent's report, which the watch has not delivered yet."""
    works, late = stage.informers.of(MANIFEST_WORKS), list[WatchEvent[ManifestWork]]()
    apply, reported = works._replica.apply, asyncio.Event()
    cluster = await scene.cluster()

    def held(events: Sequence[WatchEvent[ManifestWork]], **_: Any) -> tuple[Batch[ManifestWork], str]:
        late.extend(events)
        if any(each.object.metadata.namespace == cluster and each.object.status.conditions for each in late):
            reported.set()
        return apply(())

    await scene.template()
    await scene.offer()
    monkeypatch.setattr(works._replica, "apply", held)
    await scene.enable(cluster)
    await scene.answer(await scene.work(cluster), READY)
    # Another hash of the template: the work's annotation is written again, and its generation stays.
    await edit(client, ADD_ON_TEMPLATES, scene.name, {"spec": {"registration": []}})
    told = await scene.told(cluster, conditions.AVAILABLE, "True", conditions.PROBE_AVAILABLE)
    await stage.told(MANAGED_CLUSTER_ADD_ONS, told)
    async with asyncio.timeout(DEADLINE):
        await reported.wait()
    monkeypatch.undo()
    while works.get(deploy_work(scene.name), namespace=cluster) is None:
        works._hear(*apply([late.pop(0)]))
    await stage.controller.quiet()
    assert (await exists(client, scene, cluster)).metadata == told.metadata
    works._hear(*apply(late))
    await stage.settled()
    assert (await exists(client, scene, cluster)).metadata == told.metadata


@pytest.mark.both_hubs
async def test_edited_add_on_objects_are_repaired(client: Client, scene: Scene, stage: Running) -> None:
    cluster = await scene.cluster()
    await scene.template()
    await scene.offer()
    await scene.enable(cluster)
    work = await scene.work(cluster)
    await until(client, ROLE_BINDINGS, binding(scene.name), lambda _: True, namespace=cluster)
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
        lambda each: bool(each.spec.workload.manifests),
        namespace=cluster,
    )
    stranger = [{"kind": "Group", "apiGroup": "rbac.authorization.k8s.io", "name": "everybody"}]
    await edit(client, ROLE_BINDINGS, binding(scene.name), {"subjects": stranger}, namespace=cluster)
    await until(
        client,
        ROLE_BINDINGS,
        binding(scene.name),
        lambda each: [subject.name for subject in each.subjects] == [cluster_group(cluster, scene.name)],
        namespace=cluster,
    )
    await client.delete(MANIFEST_WORKS, work.metadata.name, namespace=cluster)
    await until(
        client,
        MANIFEST_WORKS,
        work.metadata.name,
        lambda each: each.metadata.uid != work.metadata.uid,
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
    client: Client, scene: Scene, stage: Running, manifest: dict[str, Any], complaint: str
) -> None:
    cluster = await scene.cluster()
    await scene.template(manifest)
    await scene.offer()
    await scene.enable(cluster)
    add_on = await scene.told(cluster, conditions.MANIFEST_APPLIED, "False", conditions.TEMPLATE_INVALID)
    message = str(said(add_on, conditions.MANIFEST_APPLIED))
    assert f"AddOnTemplate {scene.name}" in message
    assert complaint in message
    with pytest.raises(NotFound):
        await client.get(MANIFEST_WORKS, deploy_work(scene.name), namespace=cluster)
    mended = {"spec": {"agentSpec": {"workload": {"manifests": [DEPLOYMENT]}}}}
    await edit(client, ADD_ON_TEMPLATES, scene.name, mended)
    await is_running(scene, cluster)


async def test_template_that_becomes_invalid_keeps_the_agent(
    client: Client, scene: Scene, stage: Running
) -> None:
    cluster = await scene.cluster()
    await scene.template()
    await scene.offer()
    await scene.enable(cluster)
    await is_running(scene, cluster)
    before = await scene.work(cluster)
    bad = {"spec": {"agentSpec": {"workload": {"manifests": [{**DEPLOYMENT, "x": "{{NO}}"}]}}}}
    await edit(client, ADD_ON_TEMPLATES, scene.name, bad)
    add_on = await scene.told(cluster, conditions.MANIFEST_APPLIED, "False", conditions.TEMPLATE_INVALID)
    assert said(add_on, conditions.AVAILABLE) is not None
    assert (await scene.work(cluster)).spec == before.spec


async def test_configuration_of_cluster_placement_and_default_apply_in_order(
    client: Client, scene: Scene, stage: Running
) -> None:
    plain, placed, own = await scene.cluster(), await scene.cluster(), await scene.cluster()
    await scene.template({**DEPLOYMENT, "spec": {**DEPLOYMENT["spec"], "paused": "{{WORD}}"}})
    for word in ("default", "placement", "cluster"):
        await scene.config(
            word, customizedVariables=[{"name": "WORD", "value": word}], agentInstallNamespace=""
        )
    await scene.place("p", placed, own)
    await scene.place("q", plain)
    await scene.offer("p", "q", configs={"p": [config("placement", scene.namespace)]})
    default = {
        "group": GROUP,
        "resource": "addondeploymentconfigs",
        "defaultConfig": {"name": "default", "namespace": scene.namespace},
    }
    templates = {"group": GROUP, "resource": "addontemplates", "defaultConfig": {"name": scene.name}}
    await edit(
        client, CLUSTER_MANAGEMENT_ADD_ONS, scene.name, {"spec": {"supportedConfigs": [templates, default]}}
    )
    await exists(client, scene, own)
    await edit(
        client,
        MANAGED_CLUSTER_ADD_ONS,
        scene.name,
        {"spec": {"configs": [config("cluster", scene.namespace)]}},
        namespace=own,
    )

    async def word_is(cluster: str, word: str) -> None:
        await until(
            client,
            MANIFEST_WORKS,
            deploy_work(scene.name),
            lambda each: each.spec.workload.manifests[0]["spec"]["paused"] == word,
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
        namespace=scene.namespace,
    )
    await word_is(plain, "changed")


async def test_missing_configuration_is_named(client: Client, scene: Scene, stage: Running) -> None:
    cluster = await scene.cluster()
    await scene.offer()
    await scene.enable(cluster)
    add_on = await scene.told(cluster, conditions.CONFIGURED, "False", conditions.CONFIGURATION_NOT_FOUND)
    assert f"AddOnTemplate {scene.name} is referenced as a configuration, but does not exist" in str(
        said(add_on, conditions.CONFIGURED)
    )
    await scene.template()
    await is_running(scene, cluster)
    gone_config = {"spec": {"configs": [config("nowhere", scene.namespace)]}}
    await edit(client, MANAGED_CLUSTER_ADD_ONS, scene.name, gone_config, namespace=cluster)
    add_on = await scene.told(cluster, conditions.CONFIGURED, "False", conditions.CONFIGURATION_NOT_FOUND)
    assert f"AddOnDeploymentConfig {scene.namespace}/nowhere" in str(said(add_on, conditions.CONFIGURED))
    strange = {"spec": {"configs": [{"group": "example.com", "resource": "things", "name": "x"}]}}
    await edit(client, MANAGED_CLUSTER_ADD_ONS, scene.name, strange, namespace=cluster)
    add_on = await scene.told(cluster, conditions.CONFIGURED, "False", conditions.CONFIGURATION_UNSUPPORTED)
    assert "things.example.com" in str(said(add_on, conditions.CONFIGURED))


@pytest.mark.both_hubs
async def test_ungrantable_role_is_named(client: Client, scene: Scene, stage: Running) -> None:
    """The controller may bind the role of the add-on that comes with Fairway, and no other."""
    cluster, role = await scene.cluster(), fresh("role")
    await client.request(
        "POST",
        "/apis/rbac.authorization.k8s.io/v1/clusterroles",
        body={
            "metadata": {"name": role},
            "rules": [{"apiGroups": [""], "resources": ["secrets"], "verbs": ["*"]}],
        },
    )
    await scene.template(role=role)
    await scene.offer()
    await scene.enable(cluster)
    add_on = await scene.told(cluster, conditions.REGISTRATION_APPLIED, "False", conditions.PERMISSION_FAILED)
    assert f"Fairway may not bind ClusterRole {role}" in str(said(add_on, conditions.REGISTRATION_APPLIED))
    await scene.work(cluster)  # the agent comes all the same
    await client.delete(ADD_ON_TEMPLATES, scene.name)


async def test_rights_in_other_namespaces_are_unsupported(
    client: Client, scene: Scene, stage: Running
) -> None:
    cluster = await scene.cluster()
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "x"}
    single = {"type": "SingleNamespace", "singleNamespace": {"namespace": "y", "roleRef": reference}}
    await scene.template(registration=[{"type": "KubeClient", "kubeClient": {"hubPermissions": [single]}}])
    await scene.offer()
    await scene.enable(cluster)
    add_on = await scene.told(
        cluster, conditions.REGISTRATION_APPLIED, "False", conditions.PERMISSION_UNSUPPORTED
    )
    assert common_group(scene.name) in str(said(add_on, conditions.REGISTRATION_APPLIED))


async def test_custom_signer_is_unsupported(client: Client, scene: Scene, stage: Running) -> None:
    cluster = await scene.cluster()
    signer = {"signerName": "example.com/signer", "signingCA": {"name": "ca"}}
    await scene.template(registration=[{"type": "CustomSigner", "customSigner": signer}])
    await scene.offer()
    await scene.enable(cluster)
    add_on = await scene.told(
        cluster, conditions.REGISTRATION_APPLIED, "False", conditions.PERMISSION_UNSUPPORTED
    )
    assert [each.signerName for each in add_on.status.registrations] == ["example.com/signer"]
    assert "example.com/signer" in str(said(add_on, conditions.REGISTRATION_APPLIED))


async def test_add_ons_with_their_own_controller_are_skipped(
    client: Client, scene: Scene, stage: Running
) -> None:
    cluster = await scene.cluster()
    await scene.template()
    await scene.place("p", cluster)
    await scene.offer("p", annotations={LIFECYCLE: SELF_MANAGED})
    made = await scene.enable(cluster)
    await stage.caught_up(MANAGED_CLUSTER_ADD_ONS, made)
    now = await client.get(MANAGED_CLUSTER_ADD_ONS, scene.name, namespace=cluster)
    assert now.status.conditions == ()
    with pytest.raises(NotFound):
        await client.get(MANIFEST_WORKS, deploy_work(scene.name), namespace=cluster)


async def test_hosted_agent_is_refused(client: Client, scene: Scene, stage: Running) -> None:
    cluster = await scene.cluster(annotations={HOSTING_CLUSTER: "host"})
    await scene.template()
    await scene.place("p", cluster)
    await scene.offer("p")
    add_on = await scene.told(cluster, conditions.CONFIGURED, "False", conditions.CONFIGURATION_UNSUPPORTED)
    assert HOSTED.format(cluster="host", annotation=HOSTING_CLUSTER) in str(
        said(add_on, conditions.CONFIGURED)
    )


async def held(client: Client, scene: Scene) -> str:
    """A cluster whose add-on has something to do before it goes."""
    cluster = await scene.cluster()
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "bye", "namespace": "x", "annotations": {PRE_DELETE: ""}},
    }
    await scene.template(DEPLOYMENT, job)
    await scene.offer()
    await scene.enable(cluster)
    await until(
        client,
        MANAGED_CLUSTER_ADD_ONS,
        scene.name,
        lambda each: each.metadata.finalizers == (PRE_DELETE,),
        namespace=cluster,
    )
    return cluster


async def test_pre_delete_hook_completes_before_removal(client: Client, scene: Scene, stage: Running) -> None:
    cluster = await held(client, scene)
    await is_running(scene, cluster)
    await client.delete(MANAGED_CLUSTER_ADD_ONS, scene.name, namespace=cluster)
    work = await scene.work(cluster, name=pre_delete_work(scene.name))
    assert [each["kind"] for each in work.spec.workload.manifests] == ["Job"]
    await scene.told(cluster, conditions.HOOK_COMPLETED, "False", conditions.HOOK_RUNS)
    await scene.answer(work, {"JobComplete": "False"})
    await client.get(MANIFEST_WORKS, deploy_work(scene.name), namespace=cluster)
    await scene.answer(work, {"JobComplete": "True"})
    await gone(client, MANAGED_CLUSTER_ADD_ONS, scene.name, namespace=cluster)
    await gone(client, MANIFEST_WORKS, deploy_work(scene.name), namespace=cluster)


@pytest.mark.parametrize("lost", ["template", "cluster", "acceptance"])
async def test_hook_that_no_agent_can_run_is_not_waited_for(
    client: Client, scene: Scene, stage: Running, lost: str
) -> None:
    cluster = await held(client, scene)
    if lost == "template":
        await client.delete(ADD_ON_TEMPLATES, scene.name)
    elif lost == "acceptance":
        await edit(client, MANAGED_CLUSTERS, cluster, {"spec": {"hubAcceptsClient": False}})
    else:
        await client.delete(MANAGED_CLUSTERS, cluster)
    await stage.settled()  # whoever learns of the end of the add-on first begins what others can still do
    await client.delete(MANAGED_CLUSTER_ADD_ONS, scene.name, namespace=cluster)
    await gone(client, MANAGED_CLUSTER_ADD_ONS, scene.name, namespace=cluster)
