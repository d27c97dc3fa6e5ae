"""From the work on the hub to the object on the cluster and back, on the embedded hub and on real API servers."""

from typing import Any

import pytest

from fairway.api.resources import APPLIED_MANIFEST_WORKS
from fairway.api.work import MANIFEST_WORK_FINALIZER
from fairway.klusterlet.works import RULES_CLUSTER, RULES_HUB, RULES_HUB_TTL, hub_hash
from fairway.klusterlet.works.ownership import work_references
from klusterlet.works.harness import Finishing, WorksHarness
from kubewire.client import Client, Resource

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


def deployment(harness: WorksHarness, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "namespace": harness.name, "creationTimestamp": None},
        "spec": {**DEPLOYMENT, **spec},
        "status": {"replicas": 99},
    }


def about(resource: str, name: str, harness: WorksHarness, **config: Any) -> dict[str, Any]:
    group = "apps" if resource == "deployments" else ""
    identifier = {"group": group, "resource": resource, "namespace": harness.name, "name": name}
    return {"resourceIdentifier": identifier, **config}


async def test_work_is_applied_and_reported(harness: WorksHarness) -> None:
    async with harness.agent():
        await harness.give("a", harness.config_map("one", {"k": "1"}), harness.config_map("two", {"k": "2"}))
        await harness.applied("a")
        work, record = harness.work("a"), await harness.written_record("a")
    assert await harness.there() == {"one": {"k": "1"}, "two": {"k": "2"}}
    assert work is not None
    assert work.metadata.finalizers == (MANIFEST_WORK_FINALIZER,)
    assert [
        (condition.type, condition.reason, condition.observedGeneration)
        for condition in work.status.conditions
    ] == [
        ("Applied", "AppliedManifestWorkComplete", 1),
        ("Available", "ResourcesAvailable", 1),
    ]
    for ordinal, manifest in enumerate(work.status.resourceStatus.manifests):
        assert [
            (condition.type, condition.status, condition.reason) for condition in manifest.conditions
        ] == [
            ("Applied", "True", "AppliedManifestComplete"),
            ("Available", "True", "ResourceAvailable"),
            ("StatusFeedbackSynced", "True", "NoStatusFeedbackSynced"),
        ]
        assert (manifest.resourceMeta.ordinal, manifest.resourceMeta.resource) == (ordinal, "configmaps")
    assert record.metadata.name == f"{hub_hash(harness.hub.connection)}-{work.metadata.name}"
    live = await harness.get(harness.at("one"))
    assert live is not None
    assert [
        work_reference["uid"] for work_reference in work_references(live["metadata"]["ownerReferences"])
    ] == [record.metadata.uid]
    assert [(entry.name, bool(entry.uid)) for entry in record.status.appliedResources] == [
        ("one", True),
        ("two", True),
    ]


async def test_removed_manifests_and_fields_are_deleted(harness: WorksHarness) -> None:
    async with harness.agent():
        await harness.give(
            "a", harness.config_map("one", {"k": "1", "l": "2"}), harness.config_map("two", {})
        )
        await harness.applied("a")
        await harness.give("a", harness.config_map("one", {"k": "3"}))
        await harness.eventually(lambda: harness.maps() == {"one": {"k": "3"}})
        await harness.take_back("a")
        await harness.until_deleted("a")
    assert await harness.there() == {}


async def test_drift_is_repaired(harness: WorksHarness) -> None:
    async with harness.agent():
        await harness.give("a", harness.config_map("one", {"k": "1"}, labels={"a": "b"}))
        await harness.applied("a")
        await harness.edit(harness.at("one"), {"data": {"k": "other", "more": "x"}})
        await harness.eventually(lambda: harness.maps() == {"one": {"k": "1"}})
        await harness.remove("one")
        await harness.eventually(lambda: harness.maps() == {"one": {"k": "1"}})
        # Fields that the work does not set stay.
        await harness.edit(harness.at("one"), {"metadata": {"labels": {"c": "d"}}})
        await harness.edit(harness.at("one"), {"data": {"k": "again"}})
        await harness.eventually(lambda: harness.maps() == {"one": {"k": "1"}})
    live = await harness.get(harness.at("one"))
    assert live is not None
    assert live["metadata"]["labels"] == {"a": "b", "c": "d"}


@pytest.mark.parametrize("strategy", ["Update", "ServerSideApply"])
async def test_finalizer_that_its_controller_removed_stays_removed(
    harness: WorksHarness, strategy: str
) -> None:
    finalizers = ["example.com/one", "example.com/two"]
    configs = [about("configmaps", "one", harness, updateStrategy={"type": strategy})]

    async def left() -> list[str]:
        live = await harness.get(harness.at("one"))
        assert live is not None
        finalizers: list[str] = live["metadata"].get("finalizers") or []
        return finalizers

    async def give(value: str) -> None:
        manifest = harness.config_map("one", {"k": value}, finalizers=finalizers)
        await harness.give("a", manifest, manifestConfigs=configs)
        await harness.eventually(lambda: harness.maps() == {"one": {"k": value}})
        await harness.applied("a")

    async with harness.agent() as agent:
        await give("1")
        assert await left() == finalizers
        await harness.edit(harness.at("one"), {"metadata": {"finalizers": finalizers[1:]}})
        await give("2")
        assert await left() == finalizers[1:]
    async with harness.agent() as agent:
        await agent.wait_until_synced()
        await agent.wait_until_idle()
        await give("3")
        assert await left() == finalizers[1:]
        await harness.edit(harness.at("one"), {"metadata": {"finalizers": None}})
        await harness.take_back("a")
        await harness.until_deleted("a")
    assert await harness.there() == {}


async def test_finalizers_are_not_added_to_an_object_that_exists(harness: WorksHarness) -> None:
    await harness.create("one", {"k": "0"})
    async with harness.agent():
        await harness.give("a", harness.config_map("one", {"k": "1"}, finalizers=["example.com/one"]))
        await harness.applied("a")
        live = await harness.get(harness.at("one"))
        assert live is not None
        assert "finalizers" not in live["metadata"]


async def test_unchanged_object_is_not_written(harness: WorksHarness) -> None:
    async with harness.agent() as agent:
        await harness.give("a", harness.config_map("one", {"k": "1"}), deployment(harness))
        await harness.applied("a")
        await agent.wait_until_idle()
        path = f"/apis/apps/v1/namespaces/{harness.name}/deployments/web"
        before = [await harness.get(harness.at("one")), await harness.get(path)]
        # A change of the work that does not concern them, and a change of theirs that does not concern the work.
        await harness.give(
            "a", harness.config_map("one", {"k": "1"}), deployment(harness), harness.config_map("two", {})
        )
        await harness.applied("a")
        await agent.wait_until_idle()
    async with harness.agent() as agent:
        await harness.give(
            "a", harness.config_map("one", {"k": "1"}), deployment(harness), harness.config_map("x", {})
        )
        await harness.applied("a")
        await agent.wait_until_idle()
    for old, new in zip(before, [await harness.get(harness.at("one")), await harness.get(path)], strict=True):
        assert old is not None
        assert new is not None
        assert (
            old["metadata"]["generation" if "spec" in old else "resourceVersion"]
            == (new["metadata"]["generation" if "spec" in new else "resourceVersion"])
        )


async def test_status_feedback_is_reported(harness: WorksHarness) -> None:
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
    path = f"/apis/apps/v1/namespaces/{harness.name}/deployments/web/status"
    async with harness.agent():
        config = about("deployments", "web", harness, feedbackRules=rules)
        await harness.give("a", deployment(harness), manifestConfigs=[config])
        await harness.applied("a")
        await harness.edit(
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
        await harness.eventually(lambda: harness.values("a") == wanted)


@pytest.mark.parametrize("policy", ["Foreground", "Orphan", "SelectivelyOrphan"])
async def test_delete_option_decides_which_objects_stay(harness: WorksHarness, policy: str) -> None:
    rule = {"resource": "configmaps", "namespace": harness.name, "name": "one"}
    option: dict[str, Any] = {"propagationPolicy": policy}
    if policy == "SelectivelyOrphan":
        option["selectivelyOrphans"] = {"orphaningRules": [rule]}
    manifests = [harness.config_map("one", {"k": "1"}), harness.config_map("two", {"k": "2"})]
    async with harness.agent():
        # First owned: that they are to stay must also hold for a work that is deleted right after it was changed.
        await harness.give("a", *manifests)
        await harness.applied("a")
    await harness.give("a", *manifests, deleteOption=option)
    await harness.take_back("a")
    async with harness.agent():
        await harness.until_deleted("a")
        left = {"Foreground": set(), "Orphan": {"one", "two"}, "SelectivelyOrphan": {"one"}}[policy]
        await harness.eventually(lambda: set(harness.maps()) == left)
    for name in left:
        live = await harness.get(harness.at(name))
        assert live is not None
        assert not live["metadata"].get("ownerReferences")


async def test_shared_object_stays_until_last_work_is_deleted(harness: WorksHarness) -> None:
    async with harness.agent():
        await harness.give("a", harness.config_map("one", {"k": "1"}))
        await harness.applied("a")
        await harness.give("b", harness.config_map("one", {"k": "1"}))
        await harness.applied("b")
        live, records = (
            await harness.get(harness.at("one")),
            [await harness.written_record(word) for word in "ab"],
        )
        assert live is not None
        assert {owner_reference["uid"] for owner_reference in live["metadata"]["ownerReferences"]} == {
            record.metadata.uid for record in records
        }
        await harness.take_back("a")
        await harness.until_deleted("a")
        assert await harness.there() == {"one": {"k": "1"}}
        await harness.take_back("b")
        await harness.until_deleted("b")
    assert await harness.there() == {}


async def test_object_of_another_hub_stays(harness: WorksHarness) -> None:
    other = {
        "metadata": {"name": f"other-{harness.name}"},
        "spec": {"hubHash": "other", "manifestWorkName": harness.name},
    }
    record = await harness.cluster.create(APPLIED_MANIFEST_WORKS, other)
    theirs = {
        "apiVersion": APPLIED_MANIFEST_WORKS.api_version,
        "kind": "AppliedManifestWork",
        "name": record.metadata.name,
        "uid": record.metadata.uid,
    }
    made = harness.config_map("one", {"k": "0"}, ownerReferences=[theirs])
    await harness.cluster.request("POST", f"/api/v1/namespaces/{harness.name}/configmaps", body=made)
    async with harness.agent():
        await harness.give("a", harness.config_map("one", {"k": "1"}))
        await harness.applied("a")
        await harness.take_back("a")
        await harness.until_deleted("a")
    live = await harness.get(harness.at("one"))
    assert live is not None
    assert [owner_reference["uid"] for owner_reference in live["metadata"]["ownerReferences"]] == [
        record.metadata.uid
    ]
    await harness.cluster.delete(APPLIED_MANIFEST_WORKS, record.metadata.name)


async def test_next_agent_continues_after_crash(harness: WorksHarness) -> None:
    async with harness.agent():
        await harness.give("a", harness.config_map("one", {"k": "1"}), harness.config_map("two", {"k": "2"}))
        await harness.give("b", harness.config_map("three", {"k": "3"}))
        await harness.applied("a")
        await harness.applied("b")
    await harness.give("a", harness.config_map("one", {"k": "9"}))
    await harness.take_back("b")
    await harness.edit(harness.at("two"), {"data": {"k": "drifted"}})
    async with harness.agent():
        await harness.applied("a")
        await harness.until_deleted("b")
        await harness.eventually(lambda: harness.maps() == {"one": {"k": "9"}})


async def test_deleted_record_removes_objects_and_is_recreated(harness: WorksHarness) -> None:
    async with harness.agent():
        await harness.give("a", harness.config_map("one", {"k": "1"}))
        await harness.applied("a")
        first = await harness.written_record("a")
        await harness.cluster.delete(APPLIED_MANIFEST_WORKS, first.metadata.name)

        def anew() -> bool:
            record = harness.record("a")
            return (
                record is not None
                and record.metadata.uid != first.metadata.uid
                and any(entry.uid for entry in record.status.appliedResources)
                and harness.maps() == {"one": {"k": "1"}}
            )

        await harness.eventually(anew)


async def test_object_is_applied_when_its_kind_is_installed_later(harness: WorksHarness) -> None:
    group = f"{harness.name}.example.com"
    boat = {"apiVersion": f"{group}/v1", "kind": "Boat", "metadata": {"name": "b", "namespace": harness.name}}
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
    async with harness.agent():
        await harness.give("a", boat, harness.config_map("one", {}))
        message = await harness.refused("a", 0)
        assert message == (
            f"Failed to apply manifest: manifest 0 (Boat {harness.name}/b): the server doesn't have a resource type "
            f"'Boat' in {group}/v1; install its CustomResourceDefinition on the cluster, or add it to the work"
        )
        assert harness.has_condition("a", "Applied", "True", manifest=1)
        await harness.give("b", definition)
        await harness.applied("b")
        await harness.applied("a")


async def test_server_side_apply_without_force_reports_conflict(harness: WorksHarness) -> None:
    def strategy(**options: Any) -> list[Any]:
        apply = {"type": "ServerSideApply", "serverSideApply": {"fieldManager": "work-agent-x", **options}}
        return [about("configmaps", "one", harness, updateStrategy=apply)]

    mine = harness.config_map("one", {"k": "mine"})
    query = (("fieldManager", "me"), ("force", "true"))
    await harness.cluster.request(
        "PATCH", harness.at("one"), body=mine, content_type="application/apply-patch+yaml", query=query
    )
    async with harness.agent():
        theirs = harness.config_map("one", {"k": "theirs", "more": "x"})
        await harness.give("a", theirs, manifestConfigs=strategy())
        message = await harness.refused("a", 0)
        assert 'conflict with "me"' in message
        assert "set updateStrategy.serverSideApply.force" in message
        assert await harness.there() == {"one": {"k": "mine"}}
        await harness.give("a", theirs, manifestConfigs=strategy(force=True))
        await harness.applied("a")
    assert await harness.there() == {"one": {"k": "theirs", "more": "x"}}


async def test_create_only_and_read_only_strategies(harness: WorksHarness) -> None:
    create = about("configmaps", "one", harness, updateStrategy={"type": "CreateOnly"})
    read = about(
        "configmaps",
        "two",
        harness,
        updateStrategy={"type": "ReadOnly"},
        feedbackRules=[{"type": "JSONPaths", "jsonPaths": [{"name": "k", "path": ".data.k"}]}],
    )
    manifests = [harness.config_map("one", {"k": "1"}), harness.config_map("two", {"k": "ignored"})]
    async with harness.agent():
        await harness.give("a", *manifests, manifestConfigs=[create, read])
        await harness.eventually(lambda: harness.has_condition("a", "Available", "False"))
        assert harness.has_condition("a", "Applied", "True")
        await harness.create("two", {"k": "theirs"})
        await harness.eventually(lambda: harness.values("a", 1) == {"k": "theirs"})
        await harness.edit(harness.at("one"), {"data": {"k": "changed"}})
        await harness.give("a", *manifests, harness.config_map("three", {}), manifestConfigs=[create, read])
        await harness.applied("a")
        assert await harness.there() == {"one": {"k": "changed"}, "two": {"k": "theirs"}, "three": {}}
        await harness.recorded("a", {"one", "three"})
        assert "two" not in harness.ever_recorded
        await harness.take_back("a")
        await harness.until_deleted("a")
        await harness.eventually(lambda: harness.maps() == {"two": {"k": "theirs"}})


async def test_executor_permissions_are_enforced(harness: WorksHarness) -> None:
    account = {"namespace": harness.name, "name": "deployer"}
    executor = {"subject": {"type": "ServiceAccount", "serviceAccount": account}}
    role = {
        "metadata": {"name": "deployer", "namespace": harness.name},
        "rules": [
            {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["*"]},
            {"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["roles"], "verbs": VERBS},
        ],
    }
    escalating = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "Role",
        "metadata": {"name": "more", "namespace": harness.name},
        "rules": [{"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]}],
    }
    async with harness.agent():
        await harness.give("a", harness.config_map("one", {}), escalating, executor=executor)
        message = await harness.refused("a", 0)
        assert (
            f"the executor {harness.name}/deployer is not allowed to create the resource ConfigMap {harness.name}/one"
            in message
        )
        base = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{harness.name}"
        await harness.cluster.request("POST", f"{base}/roles", body=role)
        binding = {
            "metadata": {"name": "deployer", "namespace": harness.name},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "deployer"},
            "subjects": [{"kind": "ServiceAccount", **account}],
        }
        await harness.cluster.request("POST", f"{base}/rolebindings", body=binding)
        await harness.give("a", harness.config_map("one", {"k": "1"}), escalating, executor=executor)
        await harness.eventually(lambda: harness.maps() == {"one": {"k": "1"}})

        def escalates() -> bool:
            # A hub may take notice of new rights one after the other.
            condition = harness.condition("a", "Applied", manifest=1)
            return (
                condition is not None
                and condition.status == "False"
                and "permission escalation" in condition.message
            )

        await harness.eventually(escalates)
    assert await harness.get(f"{base}/roles/more") is None


async def test_work_agent_runs_with_declared_rights_only(harness: WorksHarness) -> None:
    hub = await harness.restricted(harness.hub, (*RULES_HUB, *RULES_HUB_TTL), namespace=harness.name)
    cluster = await harness.restricted(harness.cluster, RULES_CLUSTER)
    reader = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": f"{harness.name}-reader"},
        "rules": [{"nonResourceURLs": ["/metrics"], "verbs": ["get"]}],
    }
    async with (
        Client(hub) as at_hub,
        Client(cluster) as at_cluster,
        harness.agent(hub=at_hub, cluster=at_cluster),
    ):
        await harness.give("a", harness.config_map("one", {"k": "1"}), reader)
        await harness.applied("a")
        await harness.edit(harness.at("one"), {"data": {"k": "2"}})
        await harness.eventually(lambda: harness.maps() == {"one": {"k": "1"}})
        await harness.take_back("a")
        await harness.until_deleted("a")
    assert await harness.there() == {}


async def test_missing_rights_are_reported(harness: WorksHarness) -> None:
    hub = await harness.restricted(harness.hub, RULES_HUB, namespace=harness.name)
    own = [rule for rule in RULES_CLUSTER if rule.groups == ("work.open-cluster-management.io",)]
    cluster = await harness.restricted(harness.cluster, own)
    async with (
        Client(hub) as at_hub,
        Client(cluster) as at_cluster,
        harness.agent(hub=at_hub, cluster=at_cluster),
    ):
        await harness.give("a", harness.config_map("one", {"k": "1"}))
        message = await harness.refused("a", 0)
    assert "cannot get resource" in message
    assert message.endswith("; grant it to the work agent")
    condition = harness.condition("a", "Available", manifest=0)
    assert condition is not None
    assert (condition.status, condition.reason) == ("Unknown", "FetchingResourceFailed")


async def test_object_recreated_by_another_client_is_not_deleted_with_the_work(
    small_world: WorksHarness,
) -> None:
    harness = small_world

    class Replacing(Finishing):
        """Another client replaces an object between the agent's last read and its deletion."""

        async def delete(self, resource: Resource[Any], name: str, **options: Any) -> None:
            if name == "one":
                await harness.remove("one")
                await harness.create("one", {"k": "theirs"})
            await super().delete(resource, name, **options)

    async with (
        Replacing(harness.cluster.connection, field_manager="somebody") as cluster,
        harness.agent(cluster=cluster),
    ):
        await harness.give("a", harness.config_map("one", {"k": "ours"}))
        await harness.applied("a")
        await harness.take_back("a")
        await harness.until_deleted("a")
    assert await harness.there() == {"one": {"k": "theirs"}}
