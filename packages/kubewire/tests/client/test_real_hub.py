"""The client and a real kube-apiserver with etcd: what the faulty hub pretends is what the real one does."""

import shutil
from collections.abc import AsyncIterator
from contextlib import aclosing, suppress
from pathlib import Path

import pytest
from client.mirror import Mirror

from fairway.api.cluster import ManagedCluster
from fairway.api.crd import crds
from fairway.api.resources import MANAGED_CLUSTERS
from kubewire.client.clock import Backoff
from kubewire.client.errors import (
    AlreadyExists,
    Conflict,
    Expired,
    Forbidden,
    Invalid,
    NotFound,
    UnsupportedMediaType,
)
from kubewire.client.informer import Informer
from kubewire.client.request_options import Patch
from kubewire.client.rest import Client
from rigs.cleanup import delete_all
from rigs.kubernetes import ALICE, API_SERVER, ETCD, RealHub, Tools
from rigs.kubernetes import real_hub as start

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
QUICK = Backoff(base=0.05, cap=0.5)
OURS = "suite=client"


async def install(client: Client) -> None:
    for document in crds():
        with suppress(AlreadyExists):
            await client.request("POST", CRDS, body=document)
    # A kind is served a moment after its definition was accepted.
    async with Informer(client, MANAGED_CLUSTERS, backoff=QUICK) as informer:
        await informer.synced.wait()


@pytest.fixture
async def client(real_hub: RealHub) -> AsyncIterator[Client]:
    async with Client.from_kubeconfig(real_hub.kubeconfig) as opened:
        await install(opened)
        yield opened
        await delete_all(opened, MANAGED_CLUSTERS, labels=OURS)


def cluster(name: str) -> dict[str, object]:
    return {"metadata": {"name": name, "labels": {"suite": "client"}}, "spec": {"hubAcceptsClient": True}}


async def test_all_verbs_on_a_real_hub(client: Client) -> None:
    made = await client.create(MANAGED_CLUSTERS, cluster("verbs"))
    assert made.spec.hubAcceptsClient
    with pytest.raises(AlreadyExists):
        await client.create(MANAGED_CLUSTERS, cluster("verbs"))
    applied = await client.patch(
        MANAGED_CLUSTERS, "verbs", {"spec": {"leaseDurationSeconds": 7}}, kind=Patch.APPLY, force=True
    )
    assert applied.spec.leaseDurationSeconds == 7
    status = {"status": {"version": {"kubernetes": "v1.33.0"}}}
    patched = await client.patch(MANAGED_CLUSTERS, "verbs", status, kind=Patch.MERGE, subresource="status")
    assert patched.status.version.kubernetes == "v1.33.0"
    operations = [{"op": "remove", "path": "/spec/leaseDurationSeconds"}]
    await client.patch(MANAGED_CLUSTERS, "verbs", operations, kind=Patch.JSON, dry_run=True)
    assert (await client.get(MANAGED_CLUSTERS, "verbs")).spec.leaseDurationSeconds == 7
    old = {"metadata": {"resourceVersion": made.metadata.resourceVersion, "labels": {"x": "1"}}}
    with pytest.raises(Conflict):
        await client.patch(MANAGED_CLUSTERS, "verbs", old, kind=Patch.MERGE)
    with pytest.raises(Invalid) as invalid:
        await client.patch(
            MANAGED_CLUSTERS, "verbs", {"spec": {"leaseDurationSeconds": "x"}}, kind=Patch.MERGE
        )
    assert invalid.value.details.causes[0].field == "spec.leaseDurationSeconds"
    with pytest.raises(UnsupportedMediaType):
        await client.patch(MANAGED_CLUSTERS, "verbs", {}, kind=Patch.STRATEGIC)
    with pytest.raises(Conflict):
        await client.delete(MANAGED_CLUSTERS, "verbs", uid="another")
    await client.delete(MANAGED_CLUSTERS, "verbs", uid=made.metadata.uid)
    with pytest.raises(NotFound):
        await client.get(MANAGED_CLUSTERS, "verbs")


async def test_user_without_rights_gets_forbidden(client: Client, real_hub: RealHub) -> None:
    async with Client.from_kubeconfig(real_hub.kubeconfig_for(ALICE)) as alice:
        with pytest.raises(Forbidden, match="alice"):
            await alice.list(MANAGED_CLUSTERS)


async def test_list_in_pages_on_a_real_hub(client: Client) -> None:
    for number in range(7):
        await client.create(MANAGED_CLUSTERS, cluster(f"page-{number}"))
    listing = await client.list(MANAGED_CLUSTERS, labels=OURS, limit=3)
    assert [obj.metadata.name for obj in listing.items] == [f"page-{number}" for number in range(7)]
    assert int(listing.resource_version) <= int(await client.newest(MANAGED_CLUSTERS))


async def test_watches_on_a_real_hub(client: Client) -> None:
    with pytest.raises(Expired):
        await anext(client.watch(MANAGED_CLUSTERS, resource_version="1"))
    # It does not say that it has not come that far, it waits: hence the question for the newest version.
    future = client.watch(MANAGED_CLUSTERS, resource_version="999999999", timeout=1)
    assert [event async for event in future if event.type != "BOOKMARK"] == []
    async with aclosing(client.watch(MANAGED_CLUSTERS, initial_events=True, labels=OURS)) as events:
        assert (await anext(events)).ends_initial_events


@pytest.mark.parametrize("streaming", [True, False])
async def test_informer_on_a_real_hub(client: Client, real_hub: RealHub, streaming: bool) -> None:
    await client.create(MANAGED_CLUSTERS, cluster("kept"))
    informer = Informer(client, MANAGED_CLUSTERS, labels=OURS, streaming=streaming, page=1, backoff=QUICK)
    mirror: Mirror[ManagedCluster] = Mirror()
    informer.subscribe(mirror)
    async with informer:
        await informer.synced.wait()
        assert set(mirror.store) == {("", "kept")}
        await client.create(MANAGED_CLUSTERS, cluster("new"))
        await mirror.until(lambda: ("", "new") in mirror.store)
        # Without the label it is deleted for a watch with that selector.
        unlabelled = {"metadata": {"labels": {"suite": None}}}
        await client.patch(MANAGED_CLUSTERS, "new", unlabelled, kind=Patch.MERGE)
        await mirror.until(lambda: ("", "new") not in mirror.store)
        await client.delete(MANAGED_CLUSTERS, "new")
        await real_hub.restart(grace=0)
        await client.delete(MANAGED_CLUSTERS, "kept")
        await mirror.until(lambda: not mirror.store)
    assert mirror.broken == []
    assert informer.epoch == 0


async def test_informer_follows_a_restored_backup(kube_tools: Tools, tmp_path: Path) -> None:
    """The data of etcd is put back to what it was: a new epoch, and the hub's state."""
    async with start(kube_tools, folder=tmp_path) as hub:
        api_server, etcd = hub.processes[API_SERVER], hub.processes[ETCD]

        async def down() -> None:
            await api_server.stop(grace=0)
            await etcd.stop()

        async def up() -> None:
            await etcd.restart()
            await api_server.restart()
            await hub.ready()

        async with Client.from_kubeconfig(hub.kubeconfig) as client:
            await install(client)
            await client.create(MANAGED_CLUSTERS, cluster("a"))
            await client.create(MANAGED_CLUSTERS, cluster("b"))
            await down()
            shutil.copytree(tmp_path / "etcd", tmp_path / "backup")
            await up()
            informer = Informer(client, MANAGED_CLUSTERS, backoff=QUICK)
            mirror: Mirror[ManagedCluster] = Mirror()
            informer.subscribe(mirror)
            async with informer:
                await informer.synced.wait()
                # More writes than a starting API server makes on its own.
                for number in range(300):
                    await client.patch(
                        MANAGED_CLUSTERS, "a", {"metadata": {"labels": {"n": str(number)}}}, kind=Patch.MERGE
                    )
                await client.delete(MANAGED_CLUSTERS, "b")
                await client.create(MANAGED_CLUSTERS, cluster("c"))
                await mirror.until(lambda: set(mirror.store) == {("", "a"), ("", "c")})
                await down()
                shutil.rmtree(tmp_path / "etcd")
                shutil.copytree(tmp_path / "backup", tmp_path / "etcd")
                await up()
                await mirror.until(lambda: set(mirror.store) == {("", "a"), ("", "b")})
                assert mirror.store["", "a"].metadata.labels == {"suite": "client"}
                assert informer.epoch == 1
                await client.delete(MANAGED_CLUSTERS, "a")
                await mirror.until(lambda: set(mirror.store) == {("", "b")})
            assert mirror.broken == []
