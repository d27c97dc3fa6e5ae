"""The machines controller on an embedded hub, with exactly its rights."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from controllers.conftest import Start
from fairway.api.pod import Pod
from fairway.api.resources import NODES, PODS
from fairway.controllers.settings import MACHINES, Settings
from fairway.history import POD
from fairway.history.archive import Archive
from fairway.history.recorder import Recorder
from kubewire.client import Client, Patch
from kubewire.client.events import EVENTS
from rigs.waiting import fresh, until, until_deleted

pytestmark = pytest.mark.embedded

SETTINGS = Settings(controllers=frozenset({MACHINES}), election=None, event_updates=0)
NAMESPACE = "default"


async def create_node(client: Client, pool: str, *, cpu: str) -> str:
    name = f"node-{pool}"
    await client.create(NODES, {"metadata": {"name": name, "labels": {"pool": pool}}})
    status = {
        "allocatable": {"cpu": cpu, "memory": "8Gi", "pods": "110"},
        "conditions": [{"type": "Ready", "status": "True"}],
    }
    await client.patch(NODES, name, {"status": status}, kind=Patch.MERGE, subresource="status")
    return name


async def create_pod(client: Client, name: str, pool: str, *, cpu: str = "1", **spec: Any) -> None:
    container = {"name": "main", "image": "example.com/app", "resources": {"requests": {"cpu": cpu}}}
    body = {"schedulerName": "fairway", "nodeSelector": {"pool": pool}, "containers": [container], **spec}
    await client.create(PODS, {"metadata": {"name": name}, "spec": body}, namespace=NAMESPACE)


async def test_pods_are_bound_reported_and_preempted_with_the_rights_of_the_controller(
    start: Start, client: Client, tmp_path: Path
) -> None:
    history = Recorder(tmp_path)
    pool = fresh("pool")
    node = await create_node(client, pool, cpu="1")
    low, high, large = f"low-{pool}", f"high-{pool}", f"large-{pool}"

    def is_bound(pod: Pod) -> bool:
        return pod.spec.nodeName == node

    def is_refused(pod: Pod) -> bool:
        return [
            (condition.type, condition.status, condition.reason) for condition in pod.status.conditions
        ] == [("PodScheduled", "False", "Unschedulable")]

    async with start(replace(SETTINGS, history=history)):
        await create_pod(client, low, pool, terminationGracePeriodSeconds=0)
        await create_pod(client, large, pool, cpu="2")
        await until(client, PODS, low, is_bound, namespace=NAMESPACE)
        await until(client, PODS, large, is_refused, namespace=NAMESPACE)
        await create_pod(client, high, pool, priorityClassName="system-node-critical")
        bound = await until(client, PODS, high, is_bound, namespace=NAMESPACE)
        await until_deleted(client, PODS, low, namespace=NAMESPACE)
    history.close()
    with Archive.open(tmp_path) as archive:
        records = [stored.record for stored in archive.records()]
    assert [(record.kind, record.name, record.after) for record in records] == [
        (POD, low, (node,)),
        (POD, high, (node,)),
    ]
    assert [(condition.type, condition.status) for condition in bound.status.conditions] == [
        ("PodScheduled", "True")
    ]
    events = await client.list(EVENTS, namespace=NAMESPACE)
    reasons = {
        (event.reportingController, event.regarding.name, event.reason)
        for event in events.items
        if event.regarding.name in (low, high, large)
    }
    assert reasons == {
        ("fairway", low, "Scheduled"),
        ("fairway", low, "Preempted"),
        ("fairway", high, "FailedScheduling"),
        ("fairway", high, "Scheduled"),
        ("fairway", large, "FailedScheduling"),
    }
    for name in (high, large):
        await client.delete(PODS, name, namespace=NAMESPACE, grace_period=0)
    await client.delete(NODES, node)
