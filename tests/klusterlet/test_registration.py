"""The first registration of a cluster: its objects on the hub, and their acceptance."""

import asyncio
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from fairway.api.cluster import CONDITION_ACCEPTED, CONDITION_AVAILABLE, ManagedCluster
from fairway.api.resources import MANAGED_CLUSTERS
from fairway.controllers.acceptance.conditions import ENDING_MESSAGE
from fairway.klusterlet.enrolment import REQUEST_DENIED, SIGNING_FAILED
from fairway.klusterlet.errors import Refused
from fairway.klusterlet.kinds import NAMESPACES
from fairway.klusterlet.names import CLUSTER_LABEL
from fairway.klusterlet.registration import (
    BEING_REMOVED,
    NOT_ACCEPTED,
    NOT_ACCEPTED_YET,
    UNACCEPTED,
    ClusterRegistration,
    register,
    wait_for_acceptance,
)
from fairway.klusterlet.state import State
from fairway.testing.hub import hub_in_thread
from klusterlet.fleet import Fleet, Joined, controllers, join
from kubewire.api.meta import TRUE, find_condition
from kubewire.client import Client, Patch, Unauthorized
from kubewire.client.credentials import StoredCredentials
from kubewire.client.csr import SIGNING_REQUESTS, CertificateSigningRequest
from rigs.waiting import DEADLINE, fresh, until, until_deleted


class JoiningCluster:
    """One that registers in the background; ``request`` is its request once it waits."""

    def __init__(self, bootstrap: Client, state: State) -> None:
        self._asked: asyncio.Queue[str] = asyncio.Queue()
        self.lines: list[str] = []
        introduction = ClusterRegistration(
            name=state.cluster, url="https://here", authority=b"ca", lease_seconds=30
        )
        self.task = asyncio.create_task(register(bootstrap, introduction, state, notify=self._tell))

    def _tell(self, line: str) -> None:
        self.lines.append(line)
        if line.startswith("certificate request"):
            self._asked.put_nowait(line.split()[2])

    async def request(self) -> str:
        async with asyncio.timeout(DEADLINE):
            return await self._asked.get()

    async def leave(self) -> None:
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)


async def decide(admin: Client, name: str, kind: str, message: str) -> None:
    condition = {"type": kind, "status": "True", "reason": "Test", "message": message}
    path = SIGNING_REQUESTS.path(name=name)
    document = msgspec.json.decode((await admin.request("GET", path)).body)
    document["status"] = {**document.get("status", {}), "conditions": [condition]}
    await admin.update(
        SIGNING_REQUESTS, name, document, subresource="status" if kind == "Failed" else "approval"
    )


async def requests_of(admin: Client, cluster: str) -> list[CertificateSigningRequest]:
    labels = f"open-cluster-management.io/cluster-name={cluster}"
    return list((await admin.list(SIGNING_REQUESTS, labels=labels)).items)


def why_of(cluster: ManagedCluster) -> str:
    """Return the hub's reason for not accepting the cluster."""
    condition = find_condition(cluster.status.conditions or (), CONDITION_ACCEPTED)
    return "" if condition is None else condition.message


def is_available(cluster: ManagedCluster) -> bool:
    available = find_condition(cluster.status.conditions or (), CONDITION_AVAILABLE)
    return available is not None and available.status == TRUE


async def test_registered_agent_authenticates_with_its_certificate(member: Joined) -> None:
    cluster = await member.admin.get(MANAGED_CLUSTERS, member.name)
    assert cluster.spec.leaseDurationSeconds == 60
    assert [config.url for config in cluster.spec.managedClusterClientConfigs] == ["https://cluster"]
    certificate = member.state.certificate()
    assert certificate is not None
    user = f"system:open-cluster-management:{member.name}:{member.state.agent}"
    assert certificate.subject.user == user
    assert set(certificate.subject.groups) == {
        f"system:open-cluster-management:{member.name}",
        "system:open-cluster-management:managed-clusters",
    }
    answer = await member.hub.request("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", body={})
    assert msgspec.json.decode(answer.body)["status"]["userInfo"]["username"] == user
    (request,) = await requests_of(member.admin, member.name)
    assert request.metadata.name.startswith(f"{member.name}-")
    assert len(request.metadata.name) == len(member.name) + 6


async def test_restarted_registration_reuses_pending_request(fleet: Fleet, tmp_path: Path) -> None:
    name = fresh()
    async with Client(await fleet.bootstrap()) as bootstrap, Client.from_kubeconfig(fleet.hub) as admin:
        with State.locked(tmp_path / name, cluster=name) as state:
            first = JoiningCluster(bootstrap, state)
            asked = await first.request()
            agent = state.agent
            await first.leave()
        with State.locked(tmp_path / name, cluster=name) as state:
            second = JoiningCluster(bootstrap, state)
            assert await second.request() == asked
            await asyncio.to_thread(fleet.accept, name)
            async with asyncio.timeout(DEADLINE):
                await second.task
            assert state.agent == agent
            assert state.certificate() is not None
        assert len(await requests_of(admin, name)) == 1


async def test_deleted_request_is_created_again(fleet: Fleet, tmp_path: Path) -> None:
    name = fresh()
    async with Client(await fleet.bootstrap()) as bootstrap, Client.from_kubeconfig(fleet.hub) as admin:
        with State.locked(tmp_path / name, cluster=name) as state:
            guest = JoiningCluster(bootstrap, state)
            first = await guest.request()
            await admin.delete(SIGNING_REQUESTS, first)
            await until_deleted(admin, SIGNING_REQUESTS, first)
            async with asyncio.timeout(DEADLINE):
                await asyncio.to_thread(fleet.accept, name)
                # The request may appear later; if none is pending, accept again.
                while not guest.task.done():
                    await asyncio.wait({guest.task}, timeout=0.1)
                    await asyncio.to_thread(fleet.accept, name)
            await guest.task
            assert [request.metadata.name for request in await requests_of(admin, name)] != [first]


@pytest.mark.parametrize(("kind", "text"), [("Denied", REQUEST_DENIED), ("Failed", SIGNING_FAILED)])
async def test_denied_request_ends_registration(fleet: Fleet, tmp_path: Path, kind: str, text: str) -> None:
    name = fresh()
    async with Client(await fleet.bootstrap()) as bootstrap, Client.from_kubeconfig(fleet.hub) as admin:
        with State.locked(tmp_path / name, cluster=name) as state:
            guest = JoiningCluster(bootstrap, state)
            request = await guest.request()
            await decide(admin, request, kind, "not this one")
            async with asyncio.timeout(DEADLINE):
                with pytest.raises(Refused) as refused:
                    await guest.task
            assert str(refused.value) == text.format(name=request, why=": not this one")
            again = JoiningCluster(bootstrap, state)
            assert await again.request() != request
            await again.leave()


async def test_rejection_of_cluster_is_reported(fleet: Fleet, tmp_path: Path) -> None:
    name = fresh()
    async with Client(await fleet.bootstrap()) as bootstrap, Client.from_kubeconfig(fleet.hub) as admin:
        await admin.request("POST", "/api/v1/namespaces", body={"metadata": {"name": name}})
        body = {"metadata": {"name": name}, "spec": {"hubAcceptsClient": True}}
        await admin.create(MANAGED_CLUSTERS, body)
        cluster = await until(admin, MANAGED_CLUSTERS, name, lambda cluster: why_of(cluster) != "")
        with State.locked(tmp_path / name, cluster=name) as state, pytest.raises(Refused) as refused:
            await JoiningCluster(bootstrap, state).task
        assert str(refused.value) == NOT_ACCEPTED.format(name=name, why=why_of(cluster))
        assert await requests_of(admin, name) == []


async def test_acceptance_after_denial_ends_waiting(fleet: Fleet, tmp_path: Path) -> None:
    name = fresh()
    lines: asyncio.Queue[str] = asyncio.Queue()
    async with Client(await fleet.bootstrap()) as bootstrap, Client.from_kubeconfig(fleet.hub) as admin:
        await admin.request("POST", "/api/v1/namespaces", body={"metadata": {"name": name}})
        await admin.create(MANAGED_CLUSTERS, {"metadata": {"name": name}})
        waiting = asyncio.create_task(wait_for_acceptance(bootstrap, name, notify=lines.put_nowait))
        async with asyncio.timeout(DEADLINE):
            assert await lines.get() == UNACCEPTED.format(name=name)
            accepted = {"spec": {"hubAcceptsClient": True}}
            await admin.patch(MANAGED_CLUSTERS, name, accepted, kind=Patch.MERGE)
            with pytest.raises(Refused, match="may have another owner"):
                await waiting


async def test_terminating_namespace_is_waited_for(fleet: Fleet) -> None:
    name = fresh()
    lines: asyncio.Queue[str] = asyncio.Queue()
    path = f"/api/v1/namespaces/{name}"
    async with Client(await fleet.bootstrap()) as bootstrap, Client.from_kubeconfig(fleet.hub) as admin:
        held = {"name": name, "labels": {CLUSTER_LABEL: name}, "finalizers": ["test.dev/holds"]}
        await admin.request("POST", "/api/v1/namespaces", body={"metadata": held})
        await admin.request("DELETE", path)
        await admin.create(MANAGED_CLUSTERS, {"metadata": {"name": name}})
        waiting = asyncio.create_task(wait_for_acceptance(bootstrap, name, notify=lines.put_nowait))
        async with asyncio.timeout(DEADLINE):
            assert await lines.get() == UNACCEPTED.format(name=name)
            accepted = {"spec": {"hubAcceptsClient": True}}
            await admin.patch(MANAGED_CLUSTERS, name, accepted, kind=Patch.MERGE)
            before, after = NOT_ACCEPTED_YET.format(name=name, why="|").split("|")
            # The controller may try to use the namespace before it hears of its end.
            while not (line := await lines.get()).startswith(f"{before}{ENDING_MESSAGE.format(name=name)}"):
                assert line.startswith(before)
            assert line.endswith(after)
            free = {"metadata": {"finalizers": None}}
            await admin.patch(NAMESPACES, name, free, kind=Patch.MERGE)
            await waiting
        assert lines.empty()


async def test_terminating_cluster_cannot_join(fleet: Fleet, tmp_path: Path) -> None:
    name = fresh()
    async with Client(await fleet.bootstrap()) as bootstrap, Client.from_kubeconfig(fleet.hub) as admin:
        await admin.create(MANAGED_CLUSTERS, {"metadata": {"name": name, "finalizers": ["test.dev/holds"]}})
        await admin.delete(MANAGED_CLUSTERS, name)
        with State.locked(tmp_path / name, cluster=name) as state, pytest.raises(Refused) as refused:
            await JoiningCluster(bootstrap, state).task
        assert str(refused.value) == BEING_REMOVED.format(name=name)
        free = {"metadata": {"finalizers": None}}
        await admin.patch(MANAGED_CLUSTERS, name, free, kind=Patch.MERGE)


async def test_identity_has_no_rights_before_acceptance(fleet: Fleet, tmp_path: Path) -> None:
    name = fresh()
    async with Client(await fleet.bootstrap()) as bootstrap, Client.from_kubeconfig(fleet.hub) as admin:
        with State.locked(tmp_path / name, cluster=name) as state:
            guest = JoiningCluster(bootstrap, state)
            await decide(admin, await guest.request(), "Approved", "")
            async with asyncio.timeout(DEADLINE):
                await guest.task
            async with Client(state.connection()) as agent:
                with pytest.raises(Exception, match="403 Forbidden"):
                    await agent.get(MANAGED_CLUSTERS, name)


async def test_invalid_token_is_reported(fleet: Fleet, tmp_path: Path) -> None:
    connection = replace(await fleet.bootstrap(), credentials=StoredCredentials(token="x.y.z"))
    async with Client(connection) as bootstrap:
        with State.locked(tmp_path / "c", cluster="c") as state, pytest.raises(Unauthorized):
            await JoiningCluster(bootstrap, state).task


async def test_agent_of_a_listed_bootstrap_user_joins_without_an_administrator(tmp_path: Path) -> None:
    """The program, with a token of `fairway join token`; a hub that lists another user leaves it waiting."""
    with (
        hub_in_thread(folder=tmp_path / "hub") as hub,
        hub_in_thread(folder=tmp_path / "cluster", definitions=()) as cluster,
    ):
        fleet = Fleet(hub=hub.kubeconfig, cluster=cluster.kubeconfig)
        bootstrap = ("--hub-bootstrap-kubeconfig", await asyncio.to_thread(fleet.bootstrap_file, tmp_path))
        own = ("--name", "self-joining", "--kubeconfig", fleet.cluster, "--state", tmp_path / "state")
        waiting = "is waiting for approval"
        async with Client.from_kubeconfig(fleet.hub) as admin:
            with join(tmp_path, *own, *bootstrap, "--lease-seconds", 2) as process:
                async with controllers(fleet.hub, auto_approve_users=("system:serviceaccount:other:one",)):
                    await asyncio.to_thread(process.until, waiting)
                assert not (await admin.get(MANAGED_CLUSTERS, "self-joining")).spec.hubAcceptsClient
                (request,) = await requests_of(admin, "self-joining")
                assert not request.decided
                async with controllers(fleet.hub, auto_approve_users=(request.spec.username,)):
                    await asyncio.to_thread(process.until, "has joined hub")
                    await until(admin, MANAGED_CLUSTERS, "self-joining", is_available)
                    assert await asyncio.to_thread(process.stop) == 0
