"""Renewals of agents' certificates are approved for the same identity only."""

from collections.abc import AsyncIterator
from dataclasses import dataclass, field, replace

import pytest

from controllers.hubs import HubUnderTest
from controllers.running import MARK, RunningController, at_work, once_allowed
from fairway.api import ManagedCluster
from fairway.api.cluster import CONDITION_ACCEPTED
from fairway.api.resources import MANAGED_CLUSTERS
from fairway.controllers.acceptance import RULES, AcceptanceController
from fairway.controllers.acceptance.csr_approval import (
    MESSAGE,
    NO_REQUEST,
    OTHER_CLUSTER,
    OTHER_GROUP,
    OTHER_SUBJECT,
    OTHER_USAGES,
    refusal,
)
from fairway.controllers.cluster_names import PREFIX as CLUSTER_PREFIX
from fairway.controllers.csr_approval import REASON
from fairway.controllers.kinds import CLUSTER_NAME_LABEL, CLUSTER_ROLES
from fairway.klusterlet import certificates
from fairway.observe.meters import Meters
from kubewire.api.meta import find_condition
from kubewire.client import Client
from kubewire.client.credentials import Impersonation
from kubewire.client.csr import (
    APPROVED,
    CLIENT_SIGNER,
    SIGNING_REQUESTS,
    CertificateSigningRequest,
    CsrSpec,
)
from rigs.waiting import edit, fresh, until, until_deleted

PREFIX = "system:open-cluster-management:"
EVERYBODY = f"{PREFIX}managed-clusters"
USAGES = ("digital signature", "key encipherment", "client auth")
_KEY = certificates.new_key()


def request_for(user: str, *groups: str, hosts: tuple[str, ...] = ()) -> bytes:
    return certificates.request_for(_KEY, certificates.Subject(user=user, groups=groups), hosts=hosts)


@dataclass(frozen=True, kw_only=True)
class RenewalRequest:
    """By default what an agent of cluster ``c`` asks for that renews its certificate."""

    cluster: str = "c"
    user: str = f"{PREFIX}c:a1"
    groups: tuple[str, ...] = (f"{PREFIX}c", EVERYBODY)
    asked_user: str = f"{PREFIX}c:a1"
    asked_groups: tuple[str, ...] = (f"{PREFIX}c", EVERYBODY)
    usages: tuple[str, ...] = USAGES
    labels: dict[str, str] = field(default_factory=dict)
    hosts: tuple[str, ...] = ()
    before: bytes = b""
    after: bytes = b""

    @property
    def request(self) -> bytes:
        own = request_for(self.asked_user, *self.asked_groups, hosts=self.hosts)
        return self.before + own + self.after

    def seen(self) -> CertificateSigningRequest:
        made = CsrSpec(
            request=self.request,
            signer_name=CLIENT_SIGNER,
            usages=self.usages,
            username=self.user,
            groups=self.groups,
        )
        return CertificateSigningRequest(spec=made)


def test_renewal_with_the_same_subject_is_valid() -> None:
    assert refusal(RenewalRequest().seen(), cluster="c") is None


def test_group_of_all_clusters_is_optional_in_a_renewal() -> None:
    assert refusal(RenewalRequest(asked_groups=(f"{PREFIX}c",)).seen(), cluster="c") is None


@pytest.mark.parametrize(
    ("asked", "fault"),
    [
        (RenewalRequest(asked_user=f"{PREFIX}c:other"), OTHER_SUBJECT),
        (RenewalRequest(asked_user=f"{PREFIX}d:a1"), OTHER_SUBJECT),
        (RenewalRequest(asked_groups=(f"{PREFIX}c", "system:admins")), OTHER_SUBJECT),
        (RenewalRequest(asked_groups=(f"{PREFIX}d",)), OTHER_SUBJECT),
        (RenewalRequest(asked_groups=(EVERYBODY,)), OTHER_SUBJECT),
        (RenewalRequest(user=f"{PREFIX}c:a:b", asked_user=f"{PREFIX}c:a:b"), OTHER_SUBJECT),
        (RenewalRequest(user=f"{PREFIX}c:", asked_user=f"{PREFIX}c:"), OTHER_SUBJECT),
        (RenewalRequest(groups=(EVERYBODY,)), OTHER_GROUP),
        (RenewalRequest(usages=("client auth", "server auth")), OTHER_USAGES),
        (RenewalRequest(usages=("digital signature",)), OTHER_USAGES),
        (RenewalRequest(hosts=("hub.example",)), OTHER_SUBJECT),
        (RenewalRequest(user=f"{PREFIX}c:\u0430", asked_user=f"{PREFIX}c:\u0430"), OTHER_SUBJECT),
        (RenewalRequest(before=b"x"), NO_REQUEST),
        (RenewalRequest(after=request_for(f"{PREFIX}d:a1", f"{PREFIX}d")), NO_REQUEST),
    ],
)
def test_renewal_with_another_subject_or_usage_is_refused(asked: RenewalRequest, fault: str) -> None:
    reason = refusal(asked.seen(), cluster="c")
    assert reason is not None
    assert fault.partition("{")[0] in reason


def test_malformed_csr_is_refused() -> None:
    assert refusal(CertificateSigningRequest(spec=CsrSpec(request=b"nonsense")), cluster="c") == NO_REQUEST


@pytest.fixture
async def running(hub: HubUnderTest, client: Client) -> AsyncIterator[RunningController]:
    async with at_work(
        hub, lambda limited: AcceptanceController(limited, meters=Meters()), rules=RULES
    ) as begun:
        yield begun


async def joined(client: Client) -> str:
    name = fresh("c")
    body = {"metadata": {"name": name, "labels": MARK}, "spec": {"hubAcceptsClient": True}}
    await client.create(MANAGED_CLUSTERS, body)
    await until(client, MANAGED_CLUSTERS, name, is_accepted)
    return name


def is_accepted(cluster: ManagedCluster) -> bool:
    condition = find_condition(cluster.status.conditions or (), CONDITION_ACCEPTED)
    return condition is not None and condition.status == "True"


async def ask(hub: HubUnderTest, asked: RenewalRequest) -> CertificateSigningRequest:
    """A CSR as stored by the hub, which sets the user."""
    who = Impersonation(user=asked.user, groups=(*asked.groups, "system:authenticated"))
    body = {
        "metadata": {
            "name": fresh("request"),
            "labels": {CLUSTER_NAME_LABEL: asked.cluster, **MARK, **asked.labels},
        },
        "spec": {"request": asked.request, "signerName": CLIENT_SIGNER, "usages": asked.usages},
    }
    async with Client(replace(hub.administrator, impersonation=who)) as agent:
        return await once_allowed(lambda: agent.create(SIGNING_REQUESTS, body))


def of(name: str) -> RenewalRequest:
    own = (f"{PREFIX}{name}", EVERYBODY)
    user = f"{PREFIX}{name}:a1"
    return RenewalRequest(cluster=name, user=user, groups=own, asked_user=user, asked_groups=own)


async def test_csr_of_an_accepted_agent_is_approved(
    hub: HubUnderTest, client: Client, running: RunningController
) -> None:
    name = await joined(client)
    made = await ask(hub, of(name))
    request = await until(
        client, SIGNING_REQUESTS, made.metadata.name, lambda request: request.condition(APPROVED) is not None
    )
    approved = request.condition(APPROVED)
    assert approved is not None
    assert (approved.reason, approved.message) == (REASON, MESSAGE.format(cluster=name))


async def test_request_by_another_user_is_not_approved(
    hub: HubUnderTest, client: Client, running: RunningController
) -> None:
    name, neighbour = await joined(client), await joined(client)
    own, other = of(name), of(neighbour)
    wrong = [
        replace(own, asked_user=other.user, asked_groups=other.groups, cluster=neighbour),
        replace(own, asked_user=other.user, asked_groups=other.groups),
        replace(own, asked_groups=(*own.groups, "system:admins")),
        replace(own, labels={"open-cluster-management.io/addon-name": "score"}),
        replace(own, hosts=("kubernetes.default",)),
        replace(own, usages=(*USAGES, "cert sign")),
        # Text before a block hides it from the signer, but not from every reader.
        replace(own, before=b"x", after=other.request),
        replace(own, before=b" ", after=request_for("system:kube-controller-manager")),
        replace(own, after=other.request),
    ]
    for asked in wrong:
        made = await ask(hub, asked)
        await running.caught_up(SIGNING_REQUESTS, made)
        request = await client.get(SIGNING_REQUESTS, made.metadata.name)
        assert request.status.conditions == ()


async def test_csr_for_another_cluster_is_logged(
    hub: HubUnderTest, client: Client, running: RunningController, caplog: pytest.LogCaptureFixture
) -> None:
    name, neighbour = await joined(client), await joined(client)
    own, other = of(name), of(neighbour)
    made = await ask(hub, replace(own, cluster=neighbour, asked_user=other.user, asked_groups=other.groups))
    await running.caught_up(SIGNING_REQUESTS, made)
    warning = OTHER_CLUSTER % (made.metadata.name, neighbour, own.user)
    assert [record.getMessage() for record in caplog.records].count(warning) == 1


async def test_csr_of_a_deleted_cluster_is_not_judged_by_its_successor(
    hub: HubUnderTest, client: Client, running: RunningController
) -> None:
    """Not by the name it had: the agent of old has no right to ask before the new one is accepted."""
    name = await joined(client)
    await client.delete(MANAGED_CLUSTERS, name)
    await until_deleted(client, CLUSTER_ROLES, f"{CLUSTER_PREFIX}{name}")
    await (
        running.settled()
    )  # the hub itself takes the rights away, and may be quicker than the news of the cluster
    late = await ask(hub, replace(of(name), groups=(*of(name).groups, "system:masters")))
    await running.caught_up(SIGNING_REQUESTS, late)
    body = {"metadata": {"name": name, "labels": MARK}, "spec": {"hubAcceptsClient": False}}
    again = await client.create(MANAGED_CLUSTERS, body)
    await running.caught_up(MANAGED_CLUSTERS, again)
    request = await client.get(SIGNING_REQUESTS, late.metadata.name)
    assert request.status.conditions == ()


async def test_csr_waits_until_the_cluster_is_accepted_again(
    hub: HubUnderTest, client: Client, running: RunningController
) -> None:
    name = await joined(client)
    made = await ask(hub, of(name))
    await until(client, SIGNING_REQUESTS, made.metadata.name, lambda request: request.decided)

    denied = await edit(client, MANAGED_CLUSTERS, name, {"spec": {"hubAcceptsClient": False}})
    await running.caught_up(MANAGED_CLUSTERS, denied)
    # The agent's rights are revoked by now; the rejection must not depend on that.
    who = replace(of(name), groups=(*of(name).groups, "system:masters"))
    made = await ask(hub, who)
    await running.caught_up(SIGNING_REQUESTS, made)
    assert (await client.get(SIGNING_REQUESTS, made.metadata.name)).status.conditions == ()

    await edit(client, MANAGED_CLUSTERS, name, {"spec": {"hubAcceptsClient": True}})
    await until(
        client, SIGNING_REQUESTS, made.metadata.name, lambda request: request.condition(APPROVED) is not None
    )
