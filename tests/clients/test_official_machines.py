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


def test_official_machines_defaults_of_a_pod(core: Any, room: str) -> None:
    made = core.create_namespaced_pod(room, pod("p"))
    assert (made.status.phase, made.status.qos_class) == ("Pending", "BestEffort")
    spec = made.spec
    assert (spec.restart_policy, spec.dns_policy, spec.scheduler_name) == (
        "Always",
        "ClusterFirst",
        "default-scheduler",
    )
    assert (spec.termination_grace_period_seconds, spec.enable_service_links, spec.priority) == (30, True, 0)
    assert [t.key for t in spec.tolerations] == [
        "node.kubernetes.io/not-ready",
        "node.kubernetes.io/unreachable",
    ]
    (container,) = spec.containers
    assert (container.image_pull_policy, container.termination_message_path) == (
        "IfNotPresent",
        "/dev/termination-log",
    )


def test_official_machines_binding(core: Any, room: str) -> None:
    core.create_namespaced_pod(room, pod("p"))
    assert bind(core, room, "p", "node-1") == SUCCESS
    found = core.read_namespaced_pod("p", room)
    assert found.spec.node_name == "node-1"
    assert [(c.type, c.status) for c in found.status.conditions] == [("PodScheduled", "True")]
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


def test_a_bound_pod_is_deleted_gracefully(core: Any, room: str) -> None:
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


def test_an_unbound_pod_goes_at_once(core: Any, room: str) -> None:
    core.create_namespaced_pod(room, pod("p"))
    core.delete_namespaced_pod("p", room)
    with refused(absent("pods", "p")):
        core.read_namespaced_pod("p", room)


def test_pods_cannot_be_rewritten(core: Any, room: str) -> None:
    core.create_namespaced_pod(room, pod("p"))
    with pytest.raises(client.ApiException, match="pod updates may not change fields other than") as caught:
        core.patch_namespaced_pod("p", room, {"spec": {"hostNetwork": True}}, _content_type=MERGE)
    assert caught.value.status == 422
    body = {"spec": {"containers": [{"name": "main", "image": "image:2"}]}}
    patched = core.patch_namespaced_pod("p", room, body, _content_type=STRATEGIC)
    assert patched.spec.containers[0].image == "image:2"


def evict(core: Any, namespace: str, name: str) -> Any:
    body = client.V1Eviction(metadata=client.V1ObjectMeta(name=name))
    return core.create_namespaced_pod_eviction(name, namespace, body, _preload_content=False).json()


def test_eviction_within_a_budget(core: Any, api: Any, room: str) -> None:
    budgets = client.PolicyV1Api(api)
    for name in ("a", "b"):
        core.create_namespaced_pod(room, pod(name, labels={"app": "fleet"}))
        bind(core, room, name, "node-1")
        core.patch_namespaced_pod_status(
            name,
            room,
            {"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}},
            _content_type=STRATEGIC,
        )
    selector = client.V1LabelSelector(match_labels={"app": "fleet"})
    budgets.create_namespaced_pod_disruption_budget(
        room,
        client.V1PodDisruptionBudget(
            metadata=client.V1ObjectMeta(name="fleet"),
            spec=client.V1PodDisruptionBudgetSpec(selector=selector, min_available=1),
        ),
    )

    def allow(count: int, *, healthy: int = 2, observed: int = 1) -> None:
        told = {
            "disruptionsAllowed": count,
            "currentHealthy": healthy,
            "desiredHealthy": 1,
            "expectedPods": 2,
            "observedGeneration": observed,
        }
        budgets.patch_namespaced_pod_disruption_budget_status(
            "fleet", room, {"status": told}, _content_type=MERGE
        )

    allow(1)
    assert evict(core, room, "a") == SUCCESS
    assert core.read_namespaced_pod("a", room).metadata.deletion_timestamp is not None
    budget = budgets.read_namespaced_pod_disruption_budget("fleet", room)
    assert (budget.status.disruptions_allowed, list(budget.status.disrupted_pods or {})) == (0, ["a"])
    message = "Cannot evict pod as it would violate the pod's disruption budget."
    cause = {
        "reason": "DisruptionBudget",
        "message": "The disruption budget fleet does not allow evicting pods currently",
    }
    with refused(status(429, "TooManyRequests", message, causes=[cause])):
        evict(core, room, "b")
    allow(0, healthy=1)
    cause["message"] = "The disruption budget fleet needs 1 healthy pods and has 1 currently"
    with refused(status(429, "TooManyRequests", message, causes=[cause])):
        evict(core, room, "b")
    allow(1, observed=0)
    cause["message"] = "The disruption budget fleet is still being processed by the server."
    with refused(status(429, "TooManyRequests", message, causes=[cause], retryAfterSeconds=10)):
        evict(core, room, "b")


def test_eviction_without_a_budget(core: Any, room: str) -> None:
    core.create_namespaced_pod(room, pod("p"))
    assert evict(core, room, "p") == SUCCESS
    with refused(absent("pods", "p")):
        evict(core, room, "p")


def test_official_machines_nodes(core: Any, namespace: str) -> None:
    node = client.V1Node(
        metadata=client.V1ObjectMeta(name=namespace, labels={"zone": "a"}),
        spec=client.V1NodeSpec(unschedulable=True),
    )
    core.create_node(node)
    body = {
        "status": {
            "capacity": {"cpu": "4", "memory": "8Gi"},
            "conditions": [{"type": "Ready", "status": "True"}],
        }
    }
    told = core.patch_node_status(namespace, body, _content_type=STRATEGIC)
    assert told.status.capacity == {"cpu": "4", "memory": "8Gi"}
    told = core.patch_node_status(
        namespace, {"status": {"conditions": [{"type": "Fast", "status": "True"}]}}, _content_type=STRATEGIC
    )
    assert sorted(c.type for c in told.status.conditions) == ["Fast", "Ready"]
    found = core.list_node(field_selector=f"metadata.name={namespace},spec.unschedulable=true").items
    assert [n.metadata.name for n in found] == [namespace]
    core.delete_node(namespace)


def test_events_are_of_both_groups(core: Any, api: Any, room: str) -> None:
    now = datetime.now(UTC)
    core.create_namespaced_event(
        room,
        client.CoreV1Event(
            metadata=client.V1ObjectMeta(name="e1"),
            involved_object=client.V1ObjectReference(kind="Pod", name="p", namespace=room),
            reason="Sunk",
            message="glug",
            type="Warning",
            count=3,
            first_timestamp=now,
            last_timestamp=now,
            source=client.V1EventSource(component="suite"),
        ),
    )
    events = client.EventsV1Api(api)
    # The client's own model of these insists on a time that may be missing.
    listing = events.list_namespaced_event(
        room, field_selector="regarding.name=p", _preload_content=False
    ).json()
    (new,) = listing["items"]
    assert (new["regarding"]["name"], new["note"], new["deprecatedCount"]) == ("p", "glug", 3)
    assert new["eventTime"] is None
    events.create_namespaced_event(
        room,
        client.EventsV1Event(
            metadata=client.V1ObjectMeta(name="e2"),
            regarding=client.V1ObjectReference(kind="Pod", name="p", namespace=room),
            event_time=now,
            reporting_controller="suite.fairway.dev/one",
            reporting_instance="one-1",
            action="Sinking",
            reason="Sunk",
            note="glug",
            type="Normal",
        ),
    )
    found = core.list_namespaced_event(room, field_selector="involvedObject.name=p,type=Normal").items
    (old,) = found
    assert (old.metadata.name, old.message, old.reporting_component) == (
        "e2",
        "glug",
        "suite.fairway.dev/one",
    )
    assert old.event_time.replace(microsecond=0) == now.replace(microsecond=0)
