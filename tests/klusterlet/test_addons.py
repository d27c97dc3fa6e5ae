"""Add-on identities as Secrets on the cluster, and add-on health."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager, suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest

from fairway.api.addon import (
    INSTALL_NAMESPACE,
    ManagedClusterAddOn,
    ManagedClusterAddOnStatus,
    RegistrationConfig,
    RegistrationSubject,
)
from fairway.api.resources import MANAGED_CLUSTER_ADD_ONS
from fairway.controllers.acceptance.requests import Request, approve
from fairway.klusterlet import names
from fairway.klusterlet.addon_health import NOT_FOUND, RENEWED, STOPPED, AddOnHealth
from fairway.klusterlet.addons import AddOnCredentials, identities
from fairway.klusterlet.kinds import SECRETS, Secret
from fairway.klusterlet.renewal import UPDATE_FAILED, UPDATED
from klusterlet.clocks import ShiftedClock
from klusterlet.fleet import Joined, at_work
from kubewire.api.lease import format_micro_time
from kubewire.api.meta import Condition, ObjectMeta, find_condition
from kubewire.client import SYSTEM_CLOCK, Client, Informer, Patch, load
from kubewire.client.csr import CLIENT_SIGNER, SIGNING_REQUESTS
from kubewire.client.lease import LEASES
from rigs.waiting import DEADLINE, fresh, until, until_deleted


def registered(*registrations: RegistrationConfig, namespace: str = "") -> ManagedClusterAddOn:
    return ManagedClusterAddOn(
        metadata=ObjectMeta(name="score", namespace="c1"),
        status=ManagedClusterAddOnStatus(registrations=registrations, namespace=namespace),
    )


def test_default_identity_of_addon_agent() -> None:
    add_on = registered(RegistrationConfig(signerName=CLIENT_SIGNER))
    (identity,) = identities(add_on, cluster="c1").values()
    assert identity.secret == (INSTALL_NAMESPACE, "score-hub-kubeconfig")
    assert identity.subject.user == "system:open-cluster-management:cluster:c1:addon:score:agent:score"
    assert identity.subject.groups == ("system:open-cluster-management:cluster:c1:addon:score",)
    assert identity.agent == "score"


def test_registration_overrides_default_identity() -> None:
    subject = RegistrationSubject(user="u:agent:a", groups=("g", "system:authenticated"))
    add_on = registered(RegistrationConfig(signerName=CLIENT_SIGNER, subject=subject), namespace="here")
    (identity,) = identities(add_on, cluster="c1").values()
    assert identity.secret == ("here", "score-hub-kubeconfig")
    assert (identity.subject.user, identity.subject.groups, identity.agent) == ("u:agent:a", ("g",), "a")


def test_custom_signer_gets_its_own_secret() -> None:
    subject = RegistrationSubject(user="u", organizationUnit=("o",))
    add_on = registered(
        RegistrationConfig(signerName="example.com/signer", subject=subject),
        RegistrationConfig(signerName=CLIENT_SIGNER),
    )
    by_secret = identities(add_on, cluster="c1")
    assert set(by_secret) == {
        (INSTALL_NAMESPACE, "score-example.com-signer-client-cert"),
        (INSTALL_NAMESPACE, "score-hub-kubeconfig"),
    }
    assert by_secret[INSTALL_NAMESPACE, "score-example.com-signer-client-cert"].subject.units == ("o",)


async def approving(admin: Client, cluster: str) -> None:
    """As the controller of add-ons does."""
    labels = f"{names.CLUSTER_LABEL}={cluster},{names.ADD_ON_LABEL}"
    async with (
        Informer(admin, SIGNING_REQUESTS, labels=labels) as requests,
        aclosing(requests.changes()) as changes,
    ):
        async for _ in changes:
            for request in requests.store.values():
                if not request.decided:
                    await approve(
                        admin, Request(name=request.metadata.name, verdict="approve"), dry_run=False
                    )


@asynccontextmanager
async def running_add_ons(member: Joined, **options: Any) -> AsyncIterator[AddOnCredentials]:
    add_ons = AddOnCredentials(member.hub, member.cluster, member.state, **options)
    async with at_work(add_ons.run(), approving(member.admin, member.name)):
        yield add_ons


async def install(member: Joined, name: str, *, finalizers: tuple[str, ...] = (), **status: Any) -> None:
    meta = {"name": name, "finalizers": list(finalizers)}
    await member.admin.create(MANAGED_CLUSTER_ADD_ONS, {"metadata": meta, "spec": {}}, namespace=member.name)
    subject = {
        "user": names.user_of_add_on(member.name, name, f"{name}-agent"),
        "groups": [names.group_of_add_on(member.name, name), f"{names.SUBJECT_PREFIX}addon:{name}"],
    }
    registration = {"signerName": CLIENT_SIGNER, "subject": subject}
    wanted = {"status": {"registrations": [registration], "namespace": f"{name}-ns"} | status}
    await member.admin.patch(
        MANAGED_CLUSTER_ADD_ONS, name, wanted, kind=Patch.MERGE, namespace=member.name, subresource="status"
    )


async def secret_of(member: Joined, add_on: str, *, not_with: bytes = b"") -> Secret:
    return await until(
        member.cluster,
        SECRETS,
        f"{add_on}-hub-kubeconfig",
        lambda secret: secret.data.get(names.KEY, b"") not in (b"", not_with),
        namespace=f"{add_on}-ns",
    )


async def rotated_of(member: Joined, add_on: str) -> Condition:
    """The condition about its certificate on the hub."""
    live = await until(
        member.admin,
        MANAGED_CLUSTER_ADD_ONS,
        add_on,
        lambda current: find_condition(current.status.conditions, names.ROTATED) is not None,
        namespace=member.name,
    )
    rotated = find_condition(live.status.conditions, names.ROTATED)
    assert rotated is not None
    return rotated


async def test_addon_credentials_are_stored_in_secret(member: Joined, tmp_path: Path) -> None:
    add_on = fresh("score")
    async with running_add_ons(member):
        await install(member, add_on)
        secret = await secret_of(member, add_on)
        rotated = await rotated_of(member, add_on)
        assert (rotated.status, rotated.reason) == ("True", UPDATED)
    assert secret.data[names.CLUSTER_NAME] == member.name.encode()
    assert secret.data[names.AGENT_NAME] == f"{add_on}-agent".encode()
    for name, content in secret.data.items():  # as a kubelet mounts it
        (tmp_path / name).write_bytes(content)
    async with Client(load(tmp_path / names.KUBECONFIG).context()) as agent:
        answer = await agent.request("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", body={})
    user = msgspec.json.decode(answer.body)["status"]["userInfo"]
    assert user["username"] == names.user_of_add_on(member.name, add_on, f"{add_on}-agent")
    assert names.group_of_add_on(member.name, add_on) in user["groups"]
    labels = f"{names.ADD_ON_LABEL}={add_on}"
    (request,) = (await member.admin.list(SIGNING_REQUESTS, labels=labels)).items
    assert request.metadata.name.startswith(f"addon-{member.name}-{add_on}-")
    assert request.metadata.labels[names.CLUSTER_LABEL] == member.name


async def test_addon_certificate_is_renewed_in_time_and_when_lost(member: Joined) -> None:
    add_on = fresh("score")
    clock = ShiftedClock()
    async with running_add_ons(member, seconds=600, clock=clock):
        await install(member, add_on)
        first = await secret_of(member, add_on)
        await rotated_of(member, add_on)  # from now on it reads the clock only when it is woken
        clock.ahead = 500
        # Any change of the Secret makes it look.
        touch = {"metadata": {"annotations": {"touched": "yes"}}}
        await member.cluster.patch(
            SECRETS, first.metadata.name, touch, kind=Patch.MERGE, namespace=first.metadata.namespace
        )
        second = await secret_of(member, add_on, not_with=first.data[names.KEY])
        clock.ahead = 0
        await member.cluster.delete(SECRETS, first.metadata.name, namespace=first.metadata.namespace)
        await secret_of(member, add_on, not_with=second.data[names.KEY])


async def test_addon_secret_is_deleted_with_the_addon(
    member: Joined, caplog: pytest.LogCaptureFixture
) -> None:
    add_on = fresh("score")
    async with running_add_ons(member):
        await install(member, add_on, finalizers=("test.dev/holds",))
        secret = await secret_of(member, add_on)
        await member.admin.delete(MANAGED_CLUSTER_ADD_ONS, add_on, namespace=member.name)
        await until(
            member.admin,
            MANAGED_CLUSTER_ADD_ONS,
            add_on,
            lambda current: current.metadata.deletionTimestamp is not None,
            namespace=member.name,
        )
        free = {"metadata": {"finalizers": None}, "status": {}}
        assert (await secret_of(member, add_on)).metadata.uid == secret.metadata.uid
        await member.admin.patch(
            MANAGED_CLUSTER_ADD_ONS, add_on, free, kind=Patch.MERGE, namespace=member.name
        )
        await until_deleted(
            member.cluster, SECRETS, secret.metadata.name, namespace=secret.metadata.namespace
        )
    assert not [record for record in caplog.records if record.levelname == "ERROR"]


@pytest.mark.parametrize("labels", [{}, {names.JOINED_LABEL: "another-hubs"}])
async def test_foreign_secret_is_not_changed(member: Joined, labels: dict[str, str]) -> None:
    """Otherwise a user who sets the install namespace of an add-on could have any Secret of that name replaced."""
    add_on = fresh("score")
    namespace, name = f"{add_on}-ns", f"{add_on}-hub-kubeconfig"
    await member.cluster.request("POST", "/api/v1/namespaces", body={"metadata": {"name": namespace}})
    theirs = {"metadata": {"name": name, "labels": labels}, "data": {"tls.key": b"theirs"}}
    before = await member.cluster.create(SECRETS, theirs, namespace=namespace)
    async with running_add_ons(member):
        await install(member, add_on)
        rotated = await rotated_of(member, add_on)
    assert (rotated.status, rotated.reason) == ("False", UPDATE_FAILED)
    assert f"Secret {namespace}/{name} has no label" in rotated.message
    assert await member.cluster.get(SECRETS, name, namespace=namespace) == before
    # No certificate is asked for that could not be kept.
    assert not (await member.admin.list(SIGNING_REQUESTS, labels=f"{names.ADD_ON_LABEL}={add_on}")).items


async def test_invalid_install_namespace_affects_only_its_addon(
    member: Joined, caplog: pytest.LogCaptureFixture
) -> None:
    bad, good = fresh("bad"), fresh("score")
    async with running_add_ons(member) as add_ons:
        await install(member, bad, namespace="../kube-system")
        await install(member, good)
        await secret_of(member, good)
        health = health_of(member, add_ons.informer, ShiftedClock())
        await health.check()
        assert await available(member, good) == ("Unknown", NOT_FOUND)
    logged = [record.getMessage() for record in caplog.records if bad in record.getMessage()]
    assert any("'../kube-system'" in message for message in logged)


async def test_secret_of_addon_deleted_while_stopped_is_removed(member: Joined) -> None:
    add_on = fresh("score")
    async with running_add_ons(member):
        await install(member, add_on)
        secret = await secret_of(member, add_on)
    await member.admin.delete(MANAGED_CLUSTER_ADD_ONS, add_on, namespace=member.name)
    other = {"metadata": {"name": "other-hub-kubeconfig"}}
    await member.cluster.create(SECRETS, other, namespace=secret.metadata.namespace)
    async with running_add_ons(member):
        await until_deleted(
            member.cluster, SECRETS, secret.metadata.name, namespace=secret.metadata.namespace
        )
    await member.cluster.get(SECRETS, "other-hub-kubeconfig", namespace=secret.metadata.namespace)


async def test_restarted_agent_keeps_stored_identity(member: Joined) -> None:
    add_on = fresh("score")
    async with running_add_ons(member):
        await install(member, add_on)
        first = await secret_of(member, add_on)
    async with running_add_ons(member) as again, asyncio.timeout(DEADLINE):
        await again.informer.synced.wait()
        second = await secret_of(member, add_on)
    assert second.data == first.data


def health_of(member: Joined, informer: Informer[ManagedClusterAddOn], clock: ShiftedClock) -> AddOnHealth:
    return AddOnHealth(member.hub, member.cluster, informer, name=member.name, clock=clock)


async def renew(member: Joined, add_on: str) -> None:
    namespace = f"{add_on}-ns"
    with suppress(Exception):
        await member.cluster.request("POST", "/api/v1/namespaces", body={"metadata": {"name": namespace}})
    now = SYSTEM_CLOCK.wall() - timedelta(seconds=1)
    lease = {"metadata": {"name": add_on}, "spec": {"renewTime": format_micro_time(now)}}
    await member.cluster.patch(LEASES, add_on, lease, kind=Patch.APPLY, namespace=namespace, force=True)


async def available(member: Joined, add_on: str) -> tuple[str, str]:
    live = await member.admin.get(MANAGED_CLUSTER_ADD_ONS, add_on, namespace=member.name)
    condition = find_condition(live.status.conditions, "Available")
    return ("", "") if condition is None else (condition.status, condition.reason)


async def test_addon_health_follows_its_lease(member: Joined) -> None:
    add_on, clock = fresh("score"), ShiftedClock()
    await install(member, add_on)
    async with Informer(member.hub, MANAGED_CLUSTER_ADD_ONS, namespace=member.name) as informer:
        await informer.synced.wait()
        health = health_of(member, informer, clock)
        await health.check()
        assert await available(member, add_on) == ("Unknown", NOT_FOUND)
        await renew(member, add_on)
        await health.check()
        assert await available(member, add_on) == ("True", RENEWED)
        clock.ahead = 301
        await health.check()
        assert await available(member, add_on) == ("False", STOPPED)
        await renew(member, add_on)
        await health.check()
        assert await available(member, add_on) == ("True", RENEWED)


@pytest.mark.parametrize("mode", ["Customized"])
async def test_customized_addon_health_is_not_reported(member: Joined, mode: str) -> None:
    add_on = fresh("score")
    await install(member, add_on, healthCheck={"mode": mode})
    async with Informer(member.hub, MANAGED_CLUSTER_ADD_ONS, namespace=member.name) as informer:
        await informer.synced.wait()
        await health_of(member, informer, ShiftedClock()).check()
    assert await available(member, add_on) == ("", "")
