"""The lease that is renewed."""

import asyncio

from fairway.api.lease import Lease
from fairway.klusterlet import names
from fairway.klusterlet.heartbeat import Heartbeat
from fairway.klusterlet.membership import Membership
from fairway.kube import MANAGED_CLUSTERS, Patch
from fairway.kube.lease import LEASES
from klusterlet.fleet import DEADLINE, Fleet, Joined, at_work, until


async def lease_of(member: Joined, *, not_at: str = "") -> Lease:
    return await until(
        member.admin,
        LEASES,
        names.LEASE,
        lambda lease: lease.spec.renewTime != not_at,
        namespace=member.name,
    )


async def test_it_is_renewed_at_once_and_then_as_the_hub_wants(member: Joined) -> None:
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


async def test_nothing_is_renewed_while_the_cluster_is_not_accepted(fleet: Fleet, member: Joined) -> None:
    await lease_of(member)
    often = {"spec": {"leaseDurationSeconds": 1, "hubAcceptsClient": False}}
    await member.admin.patch(MANAGED_CLUSTERS, member.name, often, kind=Patch.MERGE)
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
