"""Renewal of identities before they expire."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import aclosing
from errno import ENOSPC
from pathlib import Path

import pytest
from cryptography import x509

from fairway.api.cluster import CONDITION_ACCEPTED
from fairway.api.resources import MANAGED_CLUSTERS
from fairway.controllers.acceptance.grants import of_denied
from fairway.controllers.cluster_names import PREFIX
from fairway.controllers.kinds import CLUSTER_ROLES
from fairway.klusterlet import names
from fairway.klusterlet.certificates import Subject
from fairway.klusterlet.enrolment import CertificateSpec
from fairway.klusterlet.klusterlet import StateCredentialStore
from fairway.klusterlet.membership import Membership
from fairway.klusterlet.registration import certificate_spec
from fairway.klusterlet.renewal import UPDATE_FAILED, UPDATED, Renewal
from klusterlet.clocks import ShiftedClock
from klusterlet.fleet import Fleet, Joined, at_work, joined
from kubewire.api.meta import Condition, find_condition
from kubewire.client import Informer, Patch
from kubewire.client.csr import SIGNING_REQUESTS, CertificateSigningRequest
from rigs.waiting import DEADLINE, until

LIFE = 600
"""Seconds: the shortest that is signed. Five minutes of it are over when it is signed."""


@pytest.fixture
async def member(fleet: Fleet, tmp_path: Path) -> AsyncIterator[Joined]:
    async with joined(fleet, tmp_path, seconds=LIFE) as made:
        yield made


class RecordedConditions:
    def __init__(self) -> None:
        self.conditions: list[Condition] = []
        self.spoke = asyncio.Event()

    async def __call__(self, condition: Condition) -> None:
        self.conditions.append(condition)
        self.spoke.set()


def renewal_of(
    member: Joined, clock: ShiftedClock, say: RecordedConditions, *, beside: Mapping[str, bytes] | None = None
) -> Renewal:
    return Renewal(
        member.hub,
        certificate_spec(member.state, seconds=LIFE),
        StateCredentialStore(member.state),
        pending=member.state.pending("hub"),
        report=say,
        beside=beside,
        clock=clock,
    )


async def test_certificate_is_renewed_at_a_fifth_of_its_validity(member: Joined) -> None:
    clock, recorded = ShiftedClock(), RecordedConditions()
    renewal = renewal_of(member, clock, recorded)
    first = member.state.hub.read()
    left = await renewal.check()
    certificate = member.state.certificate()
    assert certificate is not None
    total = (certificate.ends - certificate.begins).total_seconds()
    assert total == 900
    assert 300 >= left > 0
    assert member.state.hub.read() == first

    clock.ahead = LIFE - total * 0.25 - 10
    await renewal.check()
    assert member.state.hub.read() == first
    clock.ahead = LIFE - total * 0.2 + 10
    await renewal.check()
    second = member.state.hub.read()
    assert second[names.KEY] != first[names.KEY]
    assert second[names.CERTIFICATE] != first[names.CERTIFICATE]
    assert second[names.KUBECONFIG] == first[names.KUBECONFIG]
    assert [condition.reason for condition in recorded.conditions] == [UPDATED]


async def test_client_uses_renewed_certificate(member: Joined) -> None:
    """And its request was made with the old one, which is why it was approved."""
    clock = ShiftedClock()
    clock.ahead = LIFE - 60
    await renewal_of(member, clock, RecordedConditions()).check()
    await member.hub.get(MANAGED_CLUSTERS, member.name)
    labels = f"{names.CLUSTER_LABEL}={member.name}"
    requests = (await member.admin.list(SIGNING_REQUESTS, labels=labels)).items
    by = {request.spec.username.rpartition(":")[2]: request for request in requests}
    assert set(by) == {"agent-registration-bootstrap", member.state.agent}
    assert by[member.state.agent].spec.expiration_seconds == LIFE


class FullDisk(StateCredentialStore):
    full = True

    async def write(self, files: Mapping[str, bytes]) -> None:
        if self.full:
            raise OSError(ENOSPC, "No space left on device")
        await super().write(files)


async def test_unstored_certificate_is_not_requested_again(member: Joined) -> None:
    clock, vault = ShiftedClock(), FullDisk(member.state)
    clock.ahead = LIFE - 60
    renewal = Renewal(
        member.hub,
        certificate_spec(member.state, seconds=LIFE),
        vault,
        pending=member.state.pending("hub"),
        report=RecordedConditions(),
        clock=clock,
    )
    first = member.state.hub.read()
    for _ in range(3):
        with pytest.raises(OSError, match="No space"):
            await renewal.check()
    assert member.state.hub.read() == first
    vault.full = False
    await renewal.check()
    assert member.state.hub.read() != first
    labels = f"{names.CLUSTER_LABEL}={member.name}"
    assert len((await member.admin.list(SIGNING_REQUESTS, labels=labels)).items) == 2
    assert member.state.pending("hub").read() is None


async def asked_under(member: Joined, prefix: str) -> CertificateSigningRequest:
    """Wait for the request with this prefix of its name."""
    async with (
        asyncio.timeout(DEADLINE),
        Informer(member.admin, SIGNING_REQUESTS) as requests,
        aclosing(requests.changes()) as changes,
    ):
        async for _ in changes:
            for request in requests.store.values():
                if request.metadata.name.startswith(prefix):
                    return request
    raise AssertionError


async def test_certificate_for_another_subject_is_replaced(member: Joined) -> None:
    """As for an add-on whose registration changed."""
    recorded = RecordedConditions()
    vault = StateCredentialStore(member.state)
    other = CertificateSpec(subject=Subject(user="somebody"), prefix=f"{member.name}-x-")
    looking = Renewal(member.hub, other, vault, pending=member.state.pending("x"), report=recorded)
    task = asyncio.create_task(looking.check())
    renewal = await asked_under(member, f"{member.name}-x-")
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    asked = x509.load_pem_x509_csr(renewal.spec.request).subject
    assert asked.rfc4514_string() == "CN=somebody"
    assert recorded.conditions == []


async def test_renewal_retries_until_a_denied_cluster_is_accepted_again(fleet: Fleet, member: Joined) -> None:
    clock, recorded = ShiftedClock(), RecordedConditions()
    clock.ahead = LIFE - 60
    renewal = renewal_of(member, clock, recorded)
    members = member.state.hub.read()
    denied = {"spec": {"hubAcceptsClient": False}}
    await member.admin.patch(MANAGED_CLUSTERS, member.name, denied, kind=Patch.MERGE)
    await until(
        member.admin,
        MANAGED_CLUSTERS,
        member.name,
        lambda cluster: any(c.reason == "HubClusterAdminDenied" for c in cluster.status.conditions or ()),
    )
    # The controller reduces rights only after it has observed granting them.
    reduced = of_denied(member.name)
    await until(
        member.admin, CLUSTER_ROLES, f"{PREFIX}{member.name}", lambda role: tuple(role.rules) == reduced
    )
    async with at_work(renewal.run()), asyncio.timeout(DEADLINE):
        await recorded.spoke.wait()
        assert recorded.conditions[0].reason == UPDATE_FAILED
        assert member.state.hub.read() == members
        recorded.spoke.clear()
        await asyncio.to_thread(fleet.accept, member.name)
        while recorded.conditions[-1].reason != UPDATED:
            renewal.wake()
            await recorded.spoke.wait()
            recorded.spoke.clear()
        clock.ahead = 0
    assert member.state.hub.read() != members


async def test_renewal_is_reported_to_hub(member: Joined) -> None:
    clock = ShiftedClock()
    clock.ahead = LIFE - 60
    async with Membership(member.hub, member.name) as membership:
        renewal = Renewal(
            member.hub,
            certificate_spec(member.state, seconds=LIFE),
            StateCredentialStore(member.state),
            pending=member.state.pending("hub"),
            report=membership.report,
            clock=clock,
        )
        await renewal.check()
    cluster = await member.admin.get(MANAGED_CLUSTERS, member.name)
    condition = find_condition(cluster.status.conditions or (), names.ROTATED)
    assert condition is not None
    assert (condition.status, condition.reason) == ("True", UPDATED)
    assert find_condition(cluster.status.conditions or (), CONDITION_ACCEPTED) is not None


async def test_changed_files_beside_certificate_are_restored(member: Joined) -> None:
    recorded = RecordedConditions()
    renewal = renewal_of(member, ShiftedClock(), recorded, beside={names.AGENT_NAME: b"another"})
    before = member.state.hub.read()
    await renewal.check()
    assert member.state.hub.read()[names.KEY] != before[names.KEY]
