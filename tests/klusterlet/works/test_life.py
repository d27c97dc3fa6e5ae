"""From the work on the hub to the object on the cluster and back, on the embedded hub and on real API servers."""

from typing import Any

import pytest

from fairway.api.work import MANIFEST_WORK_FINALIZER
from fairway.klusterlet.works import RULES_CLUSTER, RULES_HUB, RULES_HUB_TTL, hub_hash
from fairway.klusterlet.works.ownership import work_references
from fairway.kube import APPLIED_MANIFEST_WORKS, Client, Resource
from klusterlet.works.world import Finishing, World

DEPLOYMENT = {
    "replicas": 1,
    "selector": {"matchLabels": {"app": "web"}},
    "template": {
        "metadata": {"labels": {"app": "web"}, "creationTimestamp": None},
        "spec": {
            "containers": [{"name": "web", "image": "web:1", "resources": {"requests": {"cpu": "1000m"}}}]
        },
    },
}


# Without "*": all verbs on roles include escalate and bind.
VERBS = ["create", "update", "patch", "get", "delete"]


def deployment(world: World, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "namespace": world.name, "creationTimestamp": None},
        "spec": {**DEPLOYMENT, **spec},
        "status": {"replicas": 99},
    }


def about(resource: str, name: str, world: World, **config: Any) -> dict[str, Any]:
    group = "apps" if resource == "deployments" else ""
    identifier = {"group": group, "resource": resource, "namespace": world.name, "name": name}
    return {"resourceIdentifier": identifier, **config}


async def test_work_is_applied_and_reported(world: World) -> None:
    async with world.agent():
        await world.give("a", world.config_map("one", {"k": "1"}), world.config_map("two", {"k": "2"}))
        await world.applied("a")
        work, record = world.work("a"), await world.written_record("a")
    assert await world.there() == {"one": {"k": "1"}, "two": {"k": "2"}}
    assert work is not None
    assert work.metadata.finalizers == (MANIFEST_WORK_FINALIZER,)
    assert [(each.type, each.reason, each.observedGeneration) for each in work.status.conditions] == [
        ("Applied", "AppliedManifestWorkComplete", 1),
        ("Available", "ResourcesAvailable", 1),
    ]
    for ordinal, manifest in enumerate(work.status.resourceStatus.manifests):
        assert [(each.type, each.status, each.reason) for each in manifest.conditions] == [
            ("Applied", "True", "AppliedManifestComplete"),
            ("Available", "True", "ResourceAvailable"),
            ("StatusFeedbackSynced", "True", "NoStatusFeedbackSynced"),
        ]
        assert (manifest.resourceMeta.ordinal, manifest.resourceMeta.resource) == (ordinal, "configmaps")
    assert record.metadata.name == f"{hub_hash(world.hub.connection.server)}-{work.metadata.name}"
    live = await world.get(world.at("one"))
    assert live is not None
    assert [each["uid"] for each in work_references(live["metadata"]["ownerReferences"])] == [
        record.metadata.uid
    ]
    assert [(each.name, bool(each.uid)) for each in record.status.appliedResources] == [
        ("one", True),
        ("two", True),
    ]


async def test_removed_manifests_and_fields_are_deleted(world: World) -> None:
    async with world.agent():
        await world.give("a", world.config_map("one", {"k": "1", "l": "2"}), world.config_map("two", {}))
        await world.applied("a")
        await world.give("a", world.config_map("one", {"k": "3"}))
        await world.eventually(lambda: world.maps() == {"one": {"k": "3"}})
        await world.take_back("a")
        await world.gone("a")
    assert await world.there() == {}


async def test_drift_is_repaired(world: World) -> None:
    async with world.agent():
        await world.give("a", world.config_map("one", {"k": "1"}, labels={"a": "b"}))
        await world.applied("a")
        await world.edit(world.at("one"), {"data": {"k": "other", "more": "x"}})
        await world.eventually(lambda: world.maps() == {"one": {"k": "1"}})
        await world.remove("one")
        await world.eventually(lambda: world.maps() == {"one": {"k": "1"}})
        # What the work does not speak about is none of its business.
        await world.edit(world.at("one"), {"metadata": {"labels": {"c": "d"}}})
        await world.edit(world.at("one"), {"data": {"k": "again"}})
        await world.eventually(lambda: world.maps() == {"one": {"k": "1"}})
    live = await world.get(world.at("one"))
    assert live is not None
    assert live["metadata"]["labels"] == {"a": "b", "c": "d"}


async def test_unchanged_object_is_not_written(world: World) -> None:
    async with world.agent() as agent:
        await world.give("a", world.config_map("one", {"k": "1"}), deployment(world))
        await world.applied("a")
        await agent.quiet()
        path = f"/apis/apps/v1/namespaces/{world.name}/deployments/web"
        before = [await world.get(world.at("one")), await world.get(path)]
        # A change of the work that does not concern them, and a change of theirs that does not concern the work.
        await world.give(
            "a", world.config_map("one", {"k": "1"}), deployment(world), world.config_map("two", {})
        )
        await world.applied("a")
        await agent.quiet()
    async with world.agent() as agent:
        await world.give(
            "a", world.config_map("one", {"k": "1"}), deployment(world), world.config_map("x", {})
        )
        await world.applied("a")
        await agent.quiet()
    for old, new in zip(before, [await world.get(world.at("one")), await world.get(path)], strict=True):
        assert old is not None
        assert new is not None
        assert (
            old["metadata"]["generation" if "spec" in old else "resourceVersion"]
            == (new["metadata"]["generation" if "spec" in new else "resourceVersion"])
        )


async def test_status_feedback_is_reported(world: World) -> None:
    rules = [
        {"type": "WellKnownStatus"},
        {
            "type": "JSONPaths",
            "jsonPaths": [
                {"name": "image", "path": ".spec.template.spec.containers[0].image"},
                {"name": "ready", "path": '.status.conditions[?(@.type=="Available")].status'},
            ],
        },
    ]
    path = f"/apis/apps/v1/namespaces/{world.name}/deployments/web/status"
    async with world.agent():
        config = about("deployments", "web", world, feedbackRules=rules)
        await world.give("a", deployment(world), manifestConfigs=[config])
        await world.applied("a")
        await world.edit(
            path,
            {
                "status": {
                    "replicas": 1,
                    "readyReplicas": 1,
                    "availableReplicas": 1,
                    "conditions": [{"type": "Available", "status": "True"}],
                }
            },
        )
        wanted = {
            "ReadyReplicas": 1,
            "Replicas": 1,
            "AvailableReplicas": 1,
            "image": "web:1",
            "ready": "True",
        }
        await world.eventually(lambda: world.values("a") == wanted)


@pytest.mark.parametrize("policy", ["Foreground", "Orphan", "SelectivelyOrphan"])
async def test_delete_option_decides_which_objects_stay(world: World, policy: str) -> None:
    rule = {"resource": "configmaps", "namespace": world.name, "name": "one"}
    option: dict[str, Any] = {"propagationPolicy": policy}
    if policy == "SelectivelyOrphan":
        option["selectivelyOrphans"] = {"orphaningRules": [rule]}
    manifests = [world.config_map("one", {"k": "1"}), world.config_map("two", {"k": "2"})]
    async with world.agent():
        # First owned: that they are to stay must also hold for a work that is deleted right after it was changed.
        await world.give("a", *manifests)
        await world.applied("a")
    await world.give("a", *manifests, deleteOption=option)
    await world.take_back("a")
    async with world.agent():
        await world.gone("a")
        left = {"Foreground": set(), "Orphan": {"one", "two"}, "SelectivelyOrphan": {"one"}}[policy]
        await world.eventually(lambda: set(world.maps()) == left)
    for name in left:
        live = await world.get(world.at(name))
        assert live is not None
        assert not live["metadata"].get("ownerReferences")


async def test_shared_object_stays_until_last_work_is_deleted(world: World) -> None:
    async with world.agent():
        await world.give("a", world.config_map("one", {"k": "1"}))
        await world.applied("a")
        await world.give("b", world.config_map("one", {"k": "1"}))
        await world.applied("b")
        live, records = await world.get(world.at("one")), [await world.written_record(each) for each in "ab"]
        assert live is not None
        assert {each["uid"] for each in live["metadata"]["ownerReferences"]} == {
            each.metadata.uid for each in records
        }
        await world.take_back("a")
        await world.gone("a")
        assert await world.there() == {"one": {"k": "1"}}
        await world.take_back("b")
        await world.gone("b")
    assert await world.there() == {}


async def test_object_of_another_hub_stays(world: World) -> None:
    other = {
        "metadata": {"name": f"other-{world.name}"},
        "spec": {"hubHash": "other", "manifestWorkName": world.name},
    }
    record = await world.cluster.create(APPLIED_MANIFEST_WORKS, other)
    theirs = {
        "apiVersion": APPLIED_MANIFEST_WORKS.api_version,
        "kind": "AppliedManifestWork",
        "name": record.metadata.name,
        "uid": record.metadata.uid,
    }
    made = world.config_map("one", {"k": "0"}, ownerReferences=[theirs])
    await world.cluster.request("POST", f"/api/v1/namespaces/{world.name}/configmaps", body=made)
    async with world.agent():
        await world.give("a", world.config_map("one", {"k": "1"}))
        await world.applied("a")
        await world.take_back("a")
        await world.gone("a")
    live = await world.get(world.at("one"))
    assert live is not None
    assert [each["uid"] for each in live["metadata"]["ownerReferences"]] == [record.metadata.uid]
    await world.cluster.delete(APPLIED_MANIFEST_WORKS, record.metadata.name)


async def test_next_agent_continues_after_crash(world: World) -> None:
    async with world.agent():
        await world.give("a", world.config_map("one", {"k": "1"}), world.config_map("two", {"k": "2"}))
        await world.give("b", world.config_map("three", {"k": "3"}))
        await world.applied("a")
        await world.applied("b")
    await world.give("a", world.config_map("one", {"k": "9"}))
    await world.take_back("b")
    await world.edit(world.at("two"), {"data": {"k": "drifted"}})
    async with world.agent():
        await world.applied("a")
        await world.gone("b")
        await world.eventually(lambda: world.maps() == {"one": {"k": "9"}})


async def test_deleted_record_removes_objects_and_is_recreated(world: World) -> None:
    async with world.agent():
        await world.give("a", world.config_map("one", {"k": "1"}))
        await world.applied("a")
        first = await world.written_record("a")
        await world.cluster.delete(APPLIED_MANIFEST_WORKS, first.metadata.name)

        def anew() -> bool:
            record = world.record("a")
            return (
                record is not None
                and record.metadata.uid != first.metadata.uid
                and any(each.uid for each in record.status.appliedResources)
                and world.maps() == {"one": {"k": "1"}}
            )

        await world.eventually(anew)


async def test_object_is_applied_when_its_kind_is_installed_later(world: World) -> None:
    group = f"{world.name}.example.com"
    boat = {"apiVersion": f"{group}/v1", "kind": "Boat", "metadata": {"name": "b", "namespace": world.name}}
    definition = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"boats.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"kind": "Boat", "plural": "boats", "singular": "boat", "listKind": "BoatList"},
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "schema": {
                        "openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
                    },
                }
            ],
        },
    }
    async with world.agent():
        await world.give("a", boat, world.config_map("one", {}))
        message = await world.refused("a", 0)
        assert message == (
            f"Failed to apply manifest: manifest 0 (Boat {world.name}/b): the server doesn't have a resource type "
            f"'Boat' in {group}/v1; install its CustomResourceDefinition on the cluster, or add it to the work"
        )
        assert world.says("a", "Applied", "True", manifest=1)
        await world.give("b", definition)
        await world.applied("b")
        await world.applied("a")


async def test_server_side_apply_without_force_reports_conflict(world: World) -> None:
    def strategy(**options: Any) -> list[Any]:
        apply = {"type": "ServerSideApply", "serverSideApply": {"fieldManager": "work-agent-x", **options}}
        return [about("configmaps", "one", world, updateStrategy=apply)]

    mine = world.config_map("one", {"k": "mine"})
    query = (("fieldManager", "me"), ("force", "true"))
    await world.cluster.request(
        "PATCH", world.at("one"), body=mine, content_type="application/apply-patch+yaml", query=query
    )
    async with world.agent():
        theirs = world.config_map("one", {"k": "theirs", "more": "x"})
        await world.give("a", theirs, manifestConfigs=strategy())
        message = await world.refused("a", 0)
        assert 'conflict with "me"' in message
        assert "set updateStrategy.serverSideApply.force" in message
        assert await world.there() == {"one": {"k": "mine"}}
        await world.give("a", theirs, manifestConfigs=strategy(force=True))
        await world.applied("a")
    assert await world.there() == {"one": {"k": "theirs", "more": "x"}}


async def test_create_only_and_read_only_strategies(world: World) -> None:
    create = about("configmaps", "one", world, updateStrategy={"type": "CreateOnly"})
    read = about(
        "configmaps",
        "two",
        world,
        updateStrategy={"type": "ReadOnly"},
        feedbackRules=[{"type": "JSONPaths", "jsonPaths": [{"name": "k", "path": ".data.k"}]}],
    )
    manifests = [world.config_map("one", {"k": "1"}), world.config_map("two", {"k": "ignored"})]
    async with world.agent():
        await world.give("a", *manifests, manifestConfigs=[create, read])
        await world.eventually(lambda: world.says("a", "Available", "False"))
        assert world.says("a", "Applied", "True")
        await world.create("two", {"k": "theirs"})
        await world.eventually(lambda: world.values("a", 1) == {"k": "theirs"})
        await world.edit(world.at("one"), {"data": {"k": "changed"}})
        await world.give("a", *manifests, world.config_map("three", {}), manifestConfigs=[create, read])
        await world.applied("a")
        assert await world.there() == {"one": {"k": "changed"}, "two": {"k": "theirs"}, "three": {}}
        await world.recorded("a", {"one", "three"})
        assert "two" not in world.ever_recorded
        await world.take_back("a")
        await world.gone("a")
        await world.eventually(lambda: world.maps() == {"two": {"k": "theirs"}})


async def test_executor_permissions_are_enforced(world: World) -> None:
    account = {"namespace": world.name, "name": "deployer"}
    executor = {"subject": {"type": "ServiceAccount", "serviceAccount": account}}
    role = {
        "metadata": {"name": "deployer", "namespace": world.name},
        "rules": [
            {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["*"]},
            {"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["roles"], "verbs": VERBS},
        ],
    }
    escalating = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "Role",
        "metadata": {"name": "more", "namespace": world.name},
        "rules": [{"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]}],
    }
    async with world.agent():
        await world.give("a", world.config_map("one", {}), escalating, executor=executor)
        message = await world.refused("a", 0)
        assert (
            f"the executor {world.name}/deployer is not allowed to create the resource ConfigMap {world.name}/one"
            in message
        )
        base = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{world.name}"
        await world.cluster.request("POST", f"{base}/roles", body=role)
        binding = {
            "metadata": {"name": "deployer", "namespace": world.name},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "deployer"},
            "subjects": [{"kind": "ServiceAccount", **account}],
        }
        await world.cluster.request("POST", f"{base}/rolebindings", body=binding)
        await world.give("a", world.config_map("one", {"k": "1"}), escalating, executor=executor)
        await world.eventually(lambda: world.maps() == {"one": {"k": "1"}})

        def escalates() -> bool:
            # A hub may take notice of new rights one after the other.
            found = world.condition("a", "Applied", manifest=1)
            return found is not None and found.status == "False" and "permission escalation" in found.message

        await world.eventually(escalates)
    assert await world.get(f"{base}/roles/more") is None


async def test_work_agent_runs_with_declared_rights_only(world: World) -> None:
    hub = await world.restricted(world.hub, (*RULES_HUB, *RULES_HUB_TTL), namespace=world.name)
    cluster = await world.restricted(world.cluster, RULES_CLUSTER)
    reader = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": f"{world.name}-reader"},
        "rules": [{"nonResourceURLs": ["/metrics"], "verbs": ["get"]}],
    }
    async with (
        Client(hub) as at_hub,
        Client(cluster) as at_cluster,
        world.agent(hub=at_hub, cluster=at_cluster),
    ):
        await world.give("a", world.config_map("one", {"k": "1"}), reader)
        await world.applied("a")
        await world.edit(world.at("one"), {"data": {"k": "2"}})
        await world.eventually(lambda: world.maps() == {"one": {"k": "1"}})
        await world.take_back("a")
        await world.gone("a")
    assert await world.there() == {}


async def test_missing_rights_are_reported(world: World) -> None:
    hub = await world.restricted(world.hub, RULES_HUB, namespace=world.name)
    own = [each for each in RULES_CLUSTER if each.groups == ("work.open-cluster-management.io",)]
    cluster = await world.restricted(world.cluster, own)
    async with (
        Client(hub) as at_hub,
        Client(cluster) as at_cluster,
        world.agent(hub=at_hub, cluster=at_cluster),
    ):
        await world.give("a", world.config_map("one", {"k": "1"}))
        message = await world.refused("a", 0)
    assert "cannot get resource" in message
    assert message.endswith("; grant it to the work agent")
    found = world.condition("a", "Available", manifest=0)
    assert found is not None
    assert (found.status, found.reason) == ("Unknown", "FetchingResourceFailed")


async def test_object_made_anew_by_someone_else_is_not_deleted_with_the_work(small_world: World) -> None:
    world = small_world

    class Replacing(Finishing):
        """Between the agent's last look at an object and its deletion, someone else replaces it."""

        async def delete(self, resource: Resource[Any], name: str, **options: Any) -> None:
            if name == "one":
                await world.remove("one")
                await world.create("one", {"k": "theirs"})
            await super().delete(resource, name, **options)

    async with (
        Replacing(world.cluster.connection, field_manager="somebody") as cluster,
        world.agent(cluster=cluster),
    ):
        await world.give("a", world.config_map("one", {"k": "ours"}))
        await world.applied("a")
        await world.take_back("a")
        await world.gone("a")
    assert await world.there() == {"one": {"k": "theirs"}}
