"""`fairway join forget` for lost, deleted, denied and running clusters."""

from collections.abc import Iterable
from typing import Any

import pytest

from cli.live_hub import act
from fairway.api.cluster import CONDITION_AVAILABLE
from fairway.api.resources import MANAGED_CLUSTER_ADD_ONS, MANAGED_CLUSTERS, MANIFEST_WORKS
from fairway.api.work import MANIFEST_WORK_FINALIZER, ManifestWork
from fairway.cli.join.forget import ANSWERS, KEPT, MEMBER, NOT_YET, NOTHING, OBJECTS_STAY, RELEASED
from fairway.cli.main import run
from fairway.cli.options.dry_run import DRY_RUN
from fairway.controllers.addons.names import OLD_PRE_DELETE, PRE_DELETE
from fairway.klusterlet.names import CLUSTER_LABEL
from fairway.testing.hub import HubAddress
from kubewire.client import Client, Patch

Capture = pytest.CaptureFixture[str]
HELD = "test.dev/holds"


def forget(hub: HubAddress, *arguments: str) -> int:
    return run(["join", "forget", *arguments, "--kubeconfig", str(hub.kubeconfig)])


async def _namespace(client: Client, name: str, *finalizers: str) -> None:
    body = {"metadata": {"name": name, "labels": {CLUSTER_LABEL: name}, "finalizers": finalizers}}
    await client.request("POST", "/api/v1/namespaces", body=body)


async def _work(client: Client, name: str, *, cluster: str = "c1", finalizers: Iterable[str] = ()) -> None:
    body = {
        "metadata": {"name": name, "finalizers": [MANIFEST_WORK_FINALIZER, *finalizers]},
        "spec": {"workload": {"manifests": []}},
    }
    await client.create(MANIFEST_WORKS, body, namespace=cluster)


async def _cluster(client: Client, *, available: str = "", finalizers: Iterable[str] = ()) -> None:
    meta = {"name": "c1", "finalizers": list(finalizers)}
    await client.create(MANAGED_CLUSTERS, {"metadata": meta, "spec": {"hubAcceptsClient": True}})
    if available:
        condition = {
            "type": CONDITION_AVAILABLE,
            "status": available,
            "reason": "Test",
            "message": "",
            "lastTransitionTime": "2031-05-05T12:00:00Z",
        }
        status: dict[str, Any] = {"status": {"conditions": [condition]}}
        await client.patch(MANAGED_CLUSTERS, "c1", status, kind=Patch.MERGE, subresource="status")


def works(hub: HubAddress) -> dict[str, ManifestWork]:
    async def found(client: Client) -> dict[str, ManifestWork]:
        listed = await client.list(MANIFEST_WORKS, namespace="c1")
        return {item.metadata.name: item for item in listed.items}

    return act(hub.kubeconfig, found)


async def _left_behind(client: Client) -> None:
    """One deleted work, one with another finalizer, and one that is not deleted."""
    await _namespace(client, "c1")
    await _work(client, "app")
    await _work(client, "backed-up", finalizers=[HELD])
    await _work(client, "kept")
    for name in ("app", "backed-up"):
        await client.delete(MANIFEST_WORKS, name, namespace="c1")


def test_forget_removes_finalizers_of_a_lost_cluster(fairway_hub: HubAddress, capsys: Capture) -> None:
    act(fairway_hub.kubeconfig, _left_behind)
    assert forget(fairway_hub, "c1", "--dry-run") == 0
    assert (
        f"{RELEASED.format(kind='ManifestWork', namespace='c1', name='app')}{DRY_RUN}"
        in capsys.readouterr().out.splitlines()
    )
    assert works(fairway_hub)["app"].metadata.finalizers == (MANIFEST_WORK_FINALIZER,)

    assert forget(fairway_hub, "c1") == 0
    told = capsys.readouterr()
    assert told.out.splitlines() == [
        RELEASED.format(kind="ManifestWork", namespace="c1", name="app"),
        RELEASED.format(kind="ManifestWork", namespace="c1", name="backed-up"),
        KEPT.format(namespace="c1", name="kept"),
    ]
    assert OBJECTS_STAY in told.err
    left = works(fairway_hub)
    assert {name: work.metadata.finalizers for name, work in left.items()} == {
        "backed-up": (HELD,),
        "kept": (MANIFEST_WORK_FINALIZER,),
    }

    assert forget(fairway_hub, "c1") == 0
    assert NOTHING.format(name="c1") in capsys.readouterr().out


def test_forget_refuses_a_joined_cluster(fairway_hub: HubAddress, capsys: Capture) -> None:
    act(fairway_hub.kubeconfig, _left_behind)
    act(fairway_hub.kubeconfig, _cluster)
    assert forget(fairway_hub, "c1") == 1
    assert MEMBER.format(name="c1") in capsys.readouterr().err
    assert works(fairway_hub)["app"].metadata.finalizers == (MANIFEST_WORK_FINALIZER,)


@pytest.mark.parametrize(("available", "status"), [("True", 1), ("Unknown", 0), ("", 0)])
def test_forget_waits_for_a_deleted_cluster_only_while_its_agent_reports(
    fairway_hub: HubAddress, capsys: Capture, available: str, status: int
) -> None:
    """As OCM removes clusters: the ManagedCluster stays until its works are deleted."""

    async def leaving(client: Client) -> None:
        await _cluster(client, available=available, finalizers=[HELD])
        await client.delete(MANAGED_CLUSTERS, "c1")

    act(fairway_hub.kubeconfig, _left_behind)
    act(fairway_hub.kubeconfig, leaving)
    assert forget(fairway_hub, "c1") == status
    assert (ANSWERS.format(name="c1") in capsys.readouterr().err) is bool(status)
    assert ("app" in works(fairway_hub)) is bool(status)


def test_forget_releases_add_ons_that_wait_for_a_lost_cluster(
    fairway_hub: HubAddress, capsys: Capture
) -> None:
    async def leaving(client: Client) -> None:
        await _namespace(client, "c1")
        await _cluster(client, available="Unknown", finalizers=[HELD])
        await client.delete(MANAGED_CLUSTERS, "c1")
        for name, finalizer in (("new", PRE_DELETE), ("old", OLD_PRE_DELETE)):
            body = {"metadata": {"name": name, "finalizers": [finalizer]}, "spec": {}}
            await client.create(MANAGED_CLUSTER_ADD_ONS, body, namespace="c1")
            await client.delete(MANAGED_CLUSTER_ADD_ONS, name, namespace="c1")
        await _work(client, "later")

    act(fairway_hub.kubeconfig, leaving)
    assert forget(fairway_hub, "c1") == 0
    assert capsys.readouterr().out.splitlines() == [
        RELEASED.format(kind="ManagedClusterAddOn", namespace="c1", name="new"),
        RELEASED.format(kind="ManagedClusterAddOn", namespace="c1", name="old"),
        NOT_YET.format(namespace="c1", name="later"),
    ]

    async def left(client: Client) -> int:
        return len((await client.list(MANAGED_CLUSTER_ADD_ONS, namespace="c1")).items)

    assert act(fairway_hub.kubeconfig, left) == 0


def test_forget_works_in_a_terminating_namespace(fairway_hub: HubAddress, capsys: Capture) -> None:
    async def ending(client: Client) -> None:
        await _namespace(client, "c1", HELD)
        await _work(client, "app")
        await _cluster(client, available="True")
        await client.delete(MANIFEST_WORKS, "app", namespace="c1")
        await client.request("DELETE", "/api/v1/namespaces/c1")

    act(fairway_hub.kubeconfig, ending)
    assert forget(fairway_hub, "c1") == 0
    assert RELEASED.format(kind="ManifestWork", namespace="c1", name="app") in capsys.readouterr().out
    assert works(fairway_hub) == {}


def test_forget_of_an_unknown_cluster_suggests_a_name(fairway_hub: HubAddress, capsys: Capture) -> None:
    act(fairway_hub.kubeconfig, lambda client: _namespace(client, "edge-1"))
    assert forget(fairway_hub, "egde-1") == 2
    assert "edge-1" in capsys.readouterr().err
    assert forget(fairway_hub, "../c1") == 2


def test_forget_without_cluster_exits_2(capsys: Capture) -> None:
    assert run(["join", "forget"]) == 2
    assert "CLUSTER" in capsys.readouterr().err
