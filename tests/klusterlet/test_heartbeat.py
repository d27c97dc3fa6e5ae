"""The lease that is renewed."""

import asyncio

import pytest

from fairway.api.resources import MANAGED_CLUSTERS
from fairway.klusterlet import heartbeat, names
from fairway.klusterlet.heartbeat import AHEAD_OF, BEHIND, Heartbeat
from fairway.klusterlet.membership import Membership
from klusterlet.clocks import ShiftedClock
from klusterlet.fleet import Fleet, Joined, at_work, is_accepted
from kubewire.api.lease import Lease
from kubewire.client import Patch
from kubewire.client.lease import LEASES
from rigs.waiting import DEADLINE, until


async def lease_of(member: Joined, *, not_at: str = "") -> Lease:
    return await until(
        member.admin, LEASES, names.LEASE, lambda lease: lease.spec.renewTime != not_at, namespace=member.name
    )


async def test_lease_is_renewed_at_once_and_then_by_hub_duration(member: Joined) -> None:
    made = await lease_of(member)
    often = {"spec": {"leaseDurationSeconds": 1}}
    await member.admin.patch(MANAGED_CLUSTERS, member.name, often, kind=Patch.MERGE)
    async with (
        Membership(member.hub, member.name) as membership,
        at_work(Heartbeat(member.hub, membership).run()),
    ):
        first = await lease_of(member, not_at=made.spec.renewTime)
        second = await lease_of(member, not_at=first.spec.renewTime)
    assert made.spec.renewTime < first.spec.renewTime < second.spec.renewTime
    assert first.spec.holderIdentity == made.spec.holderIdentity


async def test_lease_is_not_renewed_while_cluster_is_not_accepted(fleet: Fleet, member: Joined) -> None:
    await lease_of(member)
    often = {"spec": {"leaseDurationSeconds": 1, "hubAcceptsClient": False}}
    await member.admin.patch(MANAGED_CLUSTERS, member.name, often, kind=Patch.MERGE)
    await until(member.admin, MANAGED_CLUSTERS, member.name, lambda cluster: not is_accepted(cluster))
    async with Membership(member.admin, member.name) as membership:
        heard = asyncio.Event()
        membership.subscribe(heard.set)
        async with at_work(Heartbeat(member.hub, membership).run()), asyncio.timeout(DEADLINE):
            while membership.cluster is None:
                await heard.wait()
                heard.clear()
            assert not membership.accepted
            before = await lease_of(member)
            await asyncio.to_thread(fleet.accept, member.name)
            await lease_of(member, not_at=before.spec.renewTime)
            assert membership.accepted


@pytest.mark.parametrize(("ahead", "words"), [(-120.0, BEHIND), (0.0, ""), (120.0, AHEAD_OF)])
async def test_wrong_clock_is_logged_once(
    member: Joined, caplog: pytest.LogCaptureFixture, ahead: float, words: str
) -> None:
    clock = ShiftedClock()
    clock.ahead = ahead
    made = await lease_of(member)
    async with Membership(member.hub, member.name) as membership:
        beating = Heartbeat(member.hub, membership, clock=clock)
        await beating.renew()
        await beating.renew()
    logged = [message for message in caplog.messages if message.startswith("the clock of this machine")]
    assert len(logged) == bool(words)
    assert all(words in message for message in logged)
    await lease_of(member, not_at=made.spec.renewTime)


@pytest.mark.parametrize("date", ["", "yesterday", "Mon, 32 Foo 2026 99:99:99 GMT"])
async def test_missing_date_header_is_ignored(
    member: Joined, caplog: pytest.LogCaptureFixture, date: str
) -> None:
    async with Membership(member.hub, member.name) as membership:
        Heartbeat(member.hub, membership)._check_clock(date)
    # The hub and its controllers log here, too, whatever they happen to do.
    assert [record for record in caplog.records if record.name == heartbeat.log.name] == []
