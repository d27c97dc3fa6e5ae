"""Built-in kinds are stored as by a real kube-apiserver, with its defaults and managers.

The manifests are those of the client suite, which compares both hubs through kubectl.
"""

from datetime import UTC, datetime
from pathlib import Path

import pytest
import yaml
from clients.exchanges import normal

from fairway.testing.hub import embedded_hub
from kubehub.crd.kind import Definition
from kubehub.hub import Hub
from kubehub.options import Write
from kubehub.registry import Registry
from kubehub.resource import Document
from kubehub.serialization import representation
from kubehub.status import Refusal
from kubehub.user import MASTERS, User
from kubehub.write_request import WriteRequest

SUITE = Path(__file__).parents[1] / "clients" / "kubectl" / "manifests"
REQUEST = WriteRequest(user=User(name="test", groups=(MASTERS,)), options=Write(manager="kubectl-create"))


def given() -> list[Document]:
    return [
        document
        for document in yaml.safe_load_all((SUITE / "kinds.yaml").read_text(encoding="utf-8"))
        if document
    ]


def wanted() -> dict[tuple[str, str], Document]:
    text = (SUITE / "kinds.kept").read_text(encoding="utf-8").replace("suite-of-tests", "<namespace>")
    lists = [yaml.safe_load(part.partition("\n")[2]) for part in text.split("== ")[1:]]
    return {(item["kind"], item["metadata"]["name"]): item for listing in lists for item in listing["items"]}


async def create(hub: Hub, document: Document, *, namespace: str = "suite") -> Document:
    group, _, version = document["apiVersion"].rpartition("/")
    resource = hub.registry.of_kind(group, version, document["kind"])
    assert resource is not None
    made = await hub.writer.create(resource, namespace if resource.namespaced else "", document, REQUEST)
    return representation.decode(resource, made.raw)


async def test_every_kind_gets_its_defaults_and_they_their_owner() -> None:
    expected = wanted()
    async with embedded_hub(definitions=()) as hub:
        await create(hub, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "suite"}})
        made = [normal(await create(hub, document), namespace="suite") for document in given()]
    for document in made:
        about = (document["kind"], document["metadata"]["name"])
        if about in expected:
            assert document == expected.pop(about), about
    assert expected == {}


async def test_classes_and_volumes_get_theirs() -> None:
    async with embedded_hub(definitions=()) as hub:
        storage = await create(
            hub,
            {
                "apiVersion": "storage.k8s.io/v1",
                "kind": "StorageClass",
                "metadata": {"name": "oak"},
                "provisioner": "oak.example",
            },
        )
        volume = await create(
            hub,
            {
                "apiVersion": "v1",
                "kind": "PersistentVolume",
                "metadata": {"name": "hold"},
                "spec": {
                    "capacity": {"storage": "1Gi"},
                    "accessModes": ["ReadWriteOnce"],
                    "nfs": {"server": "store.example", "path": "/"},
                },
            },
        )
        system = hub.store.get(("priorityclasses.scheduling.k8s.io", "", "system-node-critical"))
    assert (storage["reclaimPolicy"], storage["volumeBindingMode"]) == ("Delete", "Immediate")
    assert volume["spec"]["persistentVolumeReclaimPolicy"] == "Retain"
    assert volume["status"]["phase"] == "Pending"
    assert system is not None


async def test_jobs_that_take_their_work_from_elsewhere_complete_when_one_does() -> None:
    job = next(document for document in given() if document["kind"] == "Job")
    job["spec"]["parallelism"] = 3
    async with embedded_hub(definitions=()) as hub:
        made = await create(hub, job, namespace="default")
    assert "completions" not in made["spec"]


async def test_daemon_set_template_generation_is_counted() -> None:
    daemon = next(document for document in given() if document["kind"] == "DaemonSet")
    async with embedded_hub(definitions=()) as hub:
        made = await create(hub, daemon, namespace="default")
        resource = hub.registry.of_key("daemonsets.apps")
        assert resource is not None
        counts = [made["metadata"]["annotations"]]
        for image in ("registry.example/main:1", "registry.example/main:2"):
            daemon["spec"]["template"]["spec"]["containers"][0]["image"] = image
            written = await hub.writer.update(
                resource, "default", daemon["metadata"]["name"], daemon, REQUEST
            )
            counts.append(representation.decode(resource, written.raw)["metadata"]["annotations"])
    assert [annotations["deprecated.daemonset.template.generation"] for annotations in counts] == [
        "1",
        "1",
        "2",
    ]


def test_crd_is_not_removable_before_its_deletion() -> None:
    kind = Definition(registry=Registry(()), clock=lambda: datetime.now(UTC))
    assert not kind.is_removable({"metadata": {"name": "ships.example"}})
    assert kind.is_removable(
        {"metadata": {"name": "ships.example", "deletionTimestamp": "2026-01-01T00:00:00Z"}}
    )


@pytest.mark.parametrize("kind", ["ReplicaSet", "Deployment", "StatefulSet", "DaemonSet"])
async def test_workload_selector_is_immutable(kind: str) -> None:
    document: Document = {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": "fleet"},
        "spec": {
            "selector": {"matchLabels": {"app": "fleet"}},
            "template": {
                "metadata": {"labels": {"app": "fleet", "deck": "top"}},
                "spec": {"containers": [{"name": "main", "image": "registry.example/main:1"}]},
            },
        },
    }
    async with embedded_hub(definitions=()) as hub:
        await create(hub, document, namespace="default")
        resource = hub.registry.of_kind("apps", "v1", kind)
        assert resource is not None
        document["spec"]["selector"]["matchLabels"] = {"deck": "top"}
        with pytest.raises(Refusal, match="field is immutable"):
            await hub.writer.update(resource, "default", "fleet", document, REQUEST)
