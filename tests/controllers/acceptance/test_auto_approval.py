"""Clusters of listed bootstrap users are accepted with their first certificate request; all others wait."""

from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from controllers.acceptance.test_csr_approval import (
    EVERYBODY,
    PREFIX,
    RenewalRequest,
    ask,
    is_accepted,
    joined,
)
from controllers.hubs import HubUnderTest
from controllers.running import MARK, RunningController, at_work
from fairway.api import ManagedCluster
from fairway.api.cluster import CONDITION_JOINED
from fairway.api.resources import MANAGED_CLUSTERS
from fairway.controllers.acceptance import RULES, AcceptanceController
from fairway.controllers.acceptance.auto_approval import ACCEPTED_ON, DENIED, JOINED, MESSAGE, check_user
from fairway.controllers.acceptance.csr_approval import NOT_APPROVED
from fairway.controllers.csr_approval import REASON
from fairway.controllers.runtime.writer import with_condition
from fairway.observe.meters import Meters
from kubewire.api.encoding import encode
from kubewire.api.meta import TRUE, Condition
from kubewire.client import SYSTEM_CLOCK, Client
from kubewire.client.csr import APPROVED, SIGNING_REQUESTS, CertificateSigningRequest
from rigs.waiting import edit, fresh, until

LISTED = "system:serviceaccount:open-cluster-management:agent-registration-bootstrap"
OTHER = "system:serviceaccount:open-cluster-management:other"
GROUPS = ("system:masters",)
"""They may create requests, as a bootstrap role allows."""


@pytest.fixture
async def running(hub: HubUnderTest, client: Client) -> AsyncIterator[RunningController]:
    async with at_work(
        hub,
        lambda limited: AcceptanceController(limited, meters=Meters(), auto_approve_users=(LISTED,)),
        rules=RULES,
    ) as begun:
        yield begun


def first_request(name: str, *, user: str = LISTED) -> RenewalRequest:
    return RenewalRequest(
        cluster=name,
        user=user,
        groups=GROUPS,
        asked_user=f"{PREFIX}{name}:a1",
        asked_groups=(f"{PREFIX}{name}", EVERYBODY),
    )


async def created(client: Client, name: str, *, accepts: bool = False) -> ManagedCluster:
    body = {"metadata": {"name": name, "labels": MARK}, "spec": {"hubAcceptsClient": accepts}}
    return await client.create(MANAGED_CLUSTERS, body)


async def approved(client: Client, request: CertificateSigningRequest) -> CertificateSigningRequest:
    return await until(
        client, SIGNING_REQUESTS, request.metadata.name, lambda seen: seen.condition(APPROVED) is not None
    )


async def check_waits(client: Client, running: RunningController, request: CertificateSigningRequest) -> None:
    await running.caught_up(SIGNING_REQUESTS, request)
    assert (await client.get(SIGNING_REQUESTS, request.metadata.name)).status.conditions == ()


@pytest.mark.parametrize("cluster_first", [True, False])
async def test_cluster_of_a_listed_user_is_accepted_with_its_request(
    hub: HubUnderTest, client: Client, running: RunningController, cluster_first: bool
) -> None:
    name = fresh("c")
    if cluster_first:
        await created(client, name)
    request = await ask(hub, first_request(name))
    if not cluster_first:
        await running.observed(SIGNING_REQUESTS, request)
        await created(client, name)
    condition = (await approved(client, request)).condition(APPROVED)
    assert condition is not None
    assert (condition.reason, condition.message) == (REASON, MESSAGE.format(cluster=name, user=LISTED))
    cluster = await until(client, MANAGED_CLUSTERS, name, is_accepted)
    assert cluster.spec.hubAcceptsClient
    assert ACCEPTED_ON in cluster.metadata.annotations


async def test_cluster_of_an_unlisted_user_waits(
    hub: HubUnderTest, client: Client, running: RunningController
) -> None:
    name = fresh("c")
    await created(client, name)
    request = await ask(hub, first_request(name, user=OTHER))
    await check_waits(client, running, request)
    assert not (await client.get(MANAGED_CLUSTERS, name)).spec.hubAcceptsClient


async def test_request_for_another_identity_accepts_no_cluster(
    hub: HubUnderTest, client: Client, running: RunningController
) -> None:
    name = fresh("c")
    await created(client, name)
    own = first_request(name)
    for wrong in (
        replace(own, asked_groups=(*own.asked_groups, "system:admins")),
        replace(own, asked_user="system:kube-controller-manager"),
        replace(own, hosts=("kubernetes.default",)),
        replace(own, labels={"open-cluster-management.io/addon-name": "score"}),
    ):
        await check_waits(client, running, await ask(hub, wrong))
    assert not (await client.get(MANAGED_CLUSTERS, name)).spec.hubAcceptsClient


async def test_denial_by_an_administrator_holds(
    hub: HubUnderTest, client: Client, running: RunningController, caplog: pytest.LogCaptureFixture
) -> None:
    name = fresh("c")
    await created(client, name)
    await approved(client, await ask(hub, first_request(name)))
    denied = await edit(client, MANAGED_CLUSTERS, name, {"spec": {"hubAcceptsClient": False}})
    await running.caught_up(MANAGED_CLUSTERS, denied)
    request = await ask(hub, first_request(name))
    await check_waits(client, running, request)
    assert not (await client.get(MANAGED_CLUSTERS, name)).spec.hubAcceptsClient
    reason = DENIED.format(cluster=name)
    assert NOT_APPROVED % (request.metadata.name, name, reason) in caplog.messages

    await edit(client, MANAGED_CLUSTERS, name, {"spec": {"hubAcceptsClient": True}})
    await approved(client, request)


async def test_listed_user_gets_no_identity_of_a_cluster_that_joined_otherwise(
    hub: HubUnderTest, client: Client, running: RunningController, caplog: pytest.LogCaptureFixture
) -> None:
    name = await joined(client)
    joining = Condition(type=CONDITION_JOINED, status=TRUE, reason="Test", message="joined")
    cluster = await client.get(MANAGED_CLUSTERS, name)
    states = with_condition(cluster.status.conditions, joining, clock=SYSTEM_CLOCK)
    status = {"conditions": [encode(state) for state in states]}
    seen = await edit(client, MANAGED_CLUSTERS, name, {"status": status}, subresource="status")
    await running.observed(MANAGED_CLUSTERS, seen)
    request = await ask(hub, first_request(name))
    await check_waits(client, running, request)
    reason = JOINED.format(cluster=name)
    assert NOT_APPROVED % (request.metadata.name, name, reason) in caplog.messages


async def test_cluster_accepted_in_advance_gets_its_first_certificate(
    hub: HubUnderTest, client: Client, running: RunningController
) -> None:
    name = await joined(client)
    await approved(client, await ask(hub, first_request(name)))
    assert ACCEPTED_ON in (await client.get(MANAGED_CLUSTERS, name)).metadata.annotations


@pytest.mark.parametrize(
    ("user", "text"),
    [
        ("", "empty"),
        ("a b", "spaces"),
        ("system:bootstrap:*", "pattern"),
        ("system:anonymous", "without credentials"),
        ("system:open-cluster-management:c1:a1", "agent"),
        ("system:serviceaccounts", "group"),
        ("system:serviceaccounts:open-cluster-management", "group"),
        ("system:bootstrappers:managedcluster", "group"),
    ],
)
def test_user_that_stands_for_many_is_refused(user: str, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        check_user(user)


def test_bootstrap_users_may_be_listed() -> None:
    for user in (LISTED, "system:bootstrap:abcdef"):
        assert check_user(user) == user
