"""The official Python client and what schedulers and kubelets do: bind, report, evict, record."""

from datetime import UTC, datetime
from typing import Any

import pytest
from clients.official import MERGE, STRATEGIC, client, pod
from clients.refusals import absent, refused, status


@pytest.fixture
def core(api: Any) -> Any:
    return client.CoreV1Api(api)


def binding(name: str, node: str) -> Any:
    return client.V1Binding(
        metadata=client.V1ObjectMeta(name=name), target=client.V1ObjectReference(kind="Node", name=node)
    )


def bind(core: Any, namespace: str, name: str, node: str) -> Any:
    return core.create_namespaced_pod_binding(
        name, namespace, binding(name, node), _preload_content=False
    ).json()


SUCCESS = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}


def test_official_machines_binding(core: Any, room: str) -> None:
    core.create_namespaced_pod(room, pod("p"))
    assert bind(core, room, "p", "node-1") == SUCCESS
    bound = core.read_namespaced_pod("p", room)
    assert bound.spec.node_name == "node-1"
    assert [(c.type, c.status) for c in bound.status.conditions] == [("PodScheduled", "True")]
    message = 'Operation cannot be fulfilled on pods/binding "p": pod p is already assigned to node "node-1"'
    with refused(status(409, "Conflict", message, name="p", kind="pods/binding")):
        bind(core, room, "p", "node-2")
    with refused(absent("pods", "ghost")):
        bind(core, room, "ghost", "node-1")
    assert [p.metadata.name for p in of_node(core, room, "node-1")] == ["p"]
    assert of_node(core, room, "node-2") == []


def of_node(core: Any, namespace: str, node: str) -> list[Any]:
    return list(core.list_namespaced_pod(namespace, field_selector=f"spec.nodeName={node}").items)


def test_official_machines_kubelet_reports(core: Any, room: str) -> None:
    core.create_namespaced_pod(room, pod("p"))
    bind(core, room, "p", "node-1")
    body = {
        "status": {
            "phase": "Running",
            "podIP": "10.0.0.7",
            "podIPs": [{"ip": "10.0.0.7"}],
            "conditions": [{"type": "Ready", "status": "True"}],
        },
        "spec": {"nodeName": "elsewhere"},
    }
    told = core.patch_namespaced_pod_status("p", room, body, _content_type=STRATEGIC)
    assert (told.status.phase, told.status.pod_ip, told.spec.node_name) == ("Running", "10.0.0.7", "node-1")
    assert {c.type for c in told.status.conditions} == {"PodScheduled", "Ready"}
    running = core.list_namespaced_pod(room, field_selector="status.phase=Running").items
    assert [p.metadata.name for p in running] == ["p"]


def test_bound_pod_is_deleted_gracefully(core: Any, room: str) -> None:
    core.create_namespaced_pod(room, pod("p"))
    bind(core, room, "p", "node-1")
    asked = datetime.now(UTC)
    marked = core.delete_namespaced_pod("p", room, grace_period_seconds=20)
    assert marked.metadata.deletion_grace_period_seconds == 20
    assert marked.metadata.deletion_timestamp > asked
    shorter = core.delete_namespaced_pod("p", room, grace_period_seconds=5)
    assert shorter.metadata.deletion_grace_period_seconds == 5
    core.delete_namespaced_pod("p", room, grace_period_seconds=0)
    with refused(absent("pods", "p")):
        core.read_namespaced_pod("p", room)


def test_pod_spec_is_immutable(core: Any, room: str) -> None:
    core.create_namespaced_pod(room, pod("p"))
    with pytest.raises(client.ApiException, match="pod updates may not change fields other than") as caught:
        core.patch_namespaced_pod("p", room, {"spec": {"hostNetwork": True}}, _content_type=MERGE)
    assert caught.value.status == 422
    body = {"spec": {"containers": [{"name": "main", "image": "image:2"}]}}
    patched = core.patch_namespaced_pod("p", room, body, _content_type=STRATEGIC)
    assert patched.spec.containers[0].image == "image:2"
