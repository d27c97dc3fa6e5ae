"""Lost hosting clusters in virtual time: what counts as lost, what is placed again, and what a person must approve."""

import asyncio
from typing import Any

import pytest

from controllers.hosting.hosting_hub import HostingHub, controlling, living, wall
from fairway.api.hosted_request import CONFIRMED
from fairway.api.resources import MANAGED_CLUSTERS, MANIFEST_WORKS
from fairway.observe.meters import Meters
from fairway.workloads.hosting.workload import loss_of
from kubewire.api.meta import find_condition

pytestmark = [pytest.mark.looptime, pytest.mark.usefixtures("no_error_logs")]

AFTER = 600
"""Seconds of an outage after which a host counts as lost, by default."""
MOST_WRITES = 30


def two_hosts(**policy: Any) -> HostingHub:
    """h1 is preferred."""
    hub = HostingHub()
    hub.host("h1")
    hub.host("h2")
    hub.others = {"h2": 5}
    hub.policy(capacity={"maxAge": "9h"}, **policy)
    for name in ("h1", "h2"):
        hub.publish(name, lasts=36000)
    return hub


async def confirmed(hub: HostingHub, name: str = "web") -> None:
    await hub.until(lambda: hub.phase(name) == "Bound")
    hub.work()
    await hub.until(lambda: hub.phase(name) == CONFIRMED)


async def reaches(hub: HostingHub, name: str, phase: str, *, on: str = "") -> None:
    await hub.until(lambda: hub.phase(name) == phase and on in ("", hub.place(name)))


async def loses_host(hub: HostingHub, name: str = "web") -> None:
    """Wait until the loss of its host is recorded, or the request is elsewhere, or the controller dies."""
    await hub.until(lambda: hub.dead or hub.place(name) != "h1" or loss_of(hub.request(name)) != "")


async def reports_loss(hub: HostingHub, name: str) -> None:
    await hub.until(lambda: host_reason(hub, name) == "HostingClusterGone")


async def names_way_out(hub: HostingHub, name: str) -> None:
    await hub.until(lambda: "waits for the agent of h1" in hub.message(name, "HostAvailable"))


def host_reason(hub: HostingHub, name: str = "web") -> str:
    return hub.reason(name, "HostAvailable")


async def test_unreported_request_is_placed_again_when_its_host_is_lost_and_not_before() -> None:
    hub = two_hosts(reservationTimeout="2h")
    hub.ask("web")
    async with controlling(hub) as events:
        await hub.until(lambda: hub.phase("web") == "Bound")
        hub.mark("h1", "Unknown")
        began = wall()
        await hub.until(lambda: host_reason(hub) == "HostingClusterUnavailable")
        condition = find_condition(hub.request("web").status.conditions, "HostAvailable")
        assert condition is not None
        assert (condition.status, condition.lastTransitionTime) == ("False", began.replace(microsecond=0))
        assert "h1 is not available since" in condition.message
        await hub.until(lambda: hub.place("web") == "h2")
        assert (wall() - began).total_seconds() == pytest.approx(AFTER, abs=2)
        await hub.until(lambda: hub.phase("web") == "Bound")
        assert [host for host, _ in hub.works()] == ["h2"]
        assert host_reason(hub) == ""
        assert "HostingClusterLost" in events.reasons()


async def test_host_that_is_back_in_time_keeps_everything() -> None:
    hub = two_hosts(reservationTimeout="2h")
    hub.ask("web")
    async with controlling(hub) as events:
        await hub.until(lambda: hub.phase("web") == "Bound")
        for _ in range(3):
            hub.mark("h1", "Unknown")
            await asyncio.sleep(AFTER - 60)
            hub.mark("h1", "True")
            await hub.until(lambda: host_reason(hub) == "HostingClusterAvailable")
        await asyncio.sleep(2 * AFTER)
        assert (hub.place("web"), [host for host, _ in hub.works()]) == ("h1", ["h1"])
        assert "HostingClusterLost" not in events.reasons()


async def test_existing_hosted_cluster_keeps_its_place_unless_the_policy_permits_and_a_person_approves() -> (
    None
):
    hub = two_hosts()
    hub.ask("web")
    async with controlling(hub):
        await confirmed(hub)
        hub.mark("h1", "Unknown")
        await hub.until(lambda: host_reason(hub) == "HostingClusterLost")
        assert "hostLoss.recreate" in hub.message("web", "HostAvailable")
        hub.recover("web", "h2")
        await asyncio.sleep(AFTER)
        assert hub.place("web") == "h1"
        hub.policy(capacity={"maxAge": "9h"}, hostLoss={"recreate": "Approved"})
        await hub.until(lambda: hub.place("web") == "h2")


async def test_recovered_hosted_cluster_is_removed_from_a_host_that_returns() -> None:
    hub = two_hosts(hostLoss={"recreate": "Approved", "after": "5m"})
    hub.ask("web")
    async with controlling(hub) as events:
        await confirmed(hub)
        hub.mark("h1", "Unknown")
        await hub.until(lambda: host_reason(hub) == "HostingClusterLost")
        assert "fairway hosting recover h1" in hub.message("web", "HostAvailable")
        await asyncio.sleep(AFTER)
        assert hub.place("web") == "h1", "nothing happens without an approval"
        hub.recover("web", "h2")
        await hub.until(lambda: hub.place("web") == "h2" and hub.phase("web") == "Bound")
        assert "RecoveryApproved" in events.reasons()
        hub.work("h2")
        await hub.until(lambda: hub.phase("web") == CONFIRMED)
        hub.mark("h1", "True")
        await asyncio.sleep(1)
        hub.work("h1")
        await hub.until(lambda: [host for host, _ in hub.works()] == ["h2"])
        assert hub.hosted == {"h1": {}, "h2": {"web": hub.request("web").metadata.uid}}
        assert (hub.place("web"), hub.phase("web")) == ("h2", CONFIRMED)


async def test_approval_of_an_earlier_loss_does_not_apply_to_a_later_one() -> None:
    hub = two_hosts(hostLoss={"recreate": "Approved"})
    hub.ask("web")
    async with controlling(hub):
        await confirmed(hub)
        hub.mark("h1", "Unknown")
        await hub.until(lambda: host_reason(hub) == "HostingClusterLost")
        earlier = loss_of(hub.request("web"))
        hub.mark("h1", "True")
        await hub.until(lambda: host_reason(hub) == "HostingClusterAvailable")
        hub.recover("web", "h2", loss=earlier)
        await asyncio.sleep(60)
        hub.mark("h1", "Unknown")
        await hub.until(lambda: host_reason(hub) == "HostingClusterLost")
        await asyncio.sleep(AFTER)
    # The controller does not run while the host returns and is lost again.
    hub.mark("h1", "True")
    await asyncio.sleep(60)
    hub.mark("h1", "Unknown")
    later = loss_of(hub.request("web"))
    hub.recover("web", "h2", loss=later)
    async with controlling(hub):
        await asyncio.sleep(2 * AFTER)
        assert (hub.place("web"), host_reason(hub)) == ("h1", "HostingClusterLost")
        assert loss_of(hub.request("web")) not in (earlier, later)


async def test_release_that_waits_for_a_lost_agent_names_the_way_out_and_recovery_finishes_it() -> None:
    hub = two_hosts(reservationTimeout="20m")
    hub.ask("web")
    hub.ask("old")
    async with controlling(hub):
        await hub.until(lambda: hub.phase("web") == hub.phase("old") == "Bound")
        # The agent has the works, and does not report the HostedClusters.
        hub.refusing["h1", "HostedCluster"] = "webhook does not answer"
        hub.work("h1")
        hub.refusing.clear()
        hub.withdraw("old")
        hub.mark("h1", "Unknown")
        await hub.until(lambda: hub.phase("web") == hub.phase("old") == "Releasing")
        for name in ("web", "old"):
            await loses_host(hub, name)
            await names_way_out(hub, name)
            message = hub.message(name, "HostAvailable")
            assert "fairway hosting recover h1" in message
            assert "fairway join forget h1" in message
        assert hub.place("web") == "h1", "the agent may have created it"
        hub.recover("web", "h2")
        hub.recover("old", "")
        await hub.until(
            lambda: hub.place("web") == "h2" and hub.phase("web") == "Bound" and not hub.has("old")
        )
        assert {host for host, _ in hub.works()} == {"h1", "h2"}
        hub.mark("h1", "True")
        hub.work()
        await hub.until(lambda: [host for host, _ in hub.works()] == ["h2"])


async def test_request_that_returns_to_its_host_waits_for_the_end_of_its_earlier_work() -> None:
    """What the earlier work reports says nothing about the hosted cluster that is created next."""
    hub = two_hosts(hostLoss={"recreate": "Approved"})
    hub.ask("web")
    async with controlling(hub):
        await confirmed(hub)
        hub.mark("h1", "Unknown")
        await loses_host(hub)
        hub.others["h2"] = 90
        hub.publish("h2", lasts=36000)
        hub.recover("web", "h2")
        await hub.until(lambda: hub.phase("web") == "Unschedulable")
        hub.recover("web", "h1", loss="none")
        hub.mark("h1", "True")
        await hub.until(lambda: hub.reason("web", "Bound") == "ManifestWorkPending")
        assert hub.phase("web") == "Reserved"
        hub.work("h1")
        assert hub.hosted["h1"] == {}
        await hub.until(lambda: hub.phase("web") == "Bound")
        hub.work("h1")
        await hub.until(lambda: hub.phase("web") == CONFIRMED)


async def test_metrics_count_the_requests_on_unavailable_hosts() -> None:
    hub, meters = two_hosts(), Meters()
    hub.ask("web")

    def counted(state: str) -> float | None:
        labels = {"state": state}
        return meters.registry.get_sample_value("fairway_hosting_requests_on_unavailable_hosts", labels)

    async with controlling(hub, meters=meters):
        await confirmed(hub)
        hub.mark("h1", "Unknown")
        await asyncio.sleep(AFTER / 2)
        assert (counted("unavailable"), counted("lost")) == (1, 0)
        await asyncio.sleep(AFTER)
        assert (counted("unavailable"), counted("lost")) == (0, 1)


async def test_unreported_request_of_a_deleted_host_is_placed_again() -> None:
    hub = two_hosts()
    hub.ask("web")
    async with controlling(hub):
        await hub.until(lambda: hub.phase("web") == "Bound")
        hub.lose("h1")
        await hub.until(lambda: hub.place("web") == "h2" and hub.phase("web") == "Bound")


async def test_hosted_cluster_of_a_deleted_host_is_recovered_with_approval() -> None:
    hub = two_hosts(hostLoss={"recreate": "Approved"})
    hub.ask("web")
    async with controlling(hub):
        await confirmed(hub)
        hub.lose("h1")
        await hub.until(lambda: hub.reason("web", "Confirmed") == host_reason(hub) == "HostingClusterGone")
        hub.recover("web", "h2")
        await hub.until(lambda: hub.place("web") == "h2")
        await confirmed(hub)
        assert host_reason(hub) == ""


async def being_deleted(hub: HostingHub) -> None:
    """The agent of h1 still answers."""
    key = (MANAGED_CLUSTERS.plural, "", "h1")
    old = hub.documents[key]
    hub.write(key, {**old, "metadata": {**old["metadata"], "finalizers": ["example.com/cleanup"]}})
    hub.remove(key)
    await hub.until(lambda: host_reason(hub) == "HostingClusterDeleting")


async def test_cluster_that_is_being_deleted_gets_no_work_again() -> None:
    hub = two_hosts()
    hub.ask("web")
    async with controlling(hub):
        await confirmed(hub)
        await being_deleted(hub)
        hub.remove((MANIFEST_WORKS.plural, *hub.works()[0]))
        hub.work("h1")
        await asyncio.sleep(AFTER)
        assert (hub.works(), hub.place("web"), hub.phase("web")) == ([], "h1", CONFIRMED)


async def test_recovery_waits_for_an_agent_that_still_answers() -> None:
    hub = two_hosts(hostLoss={"recreate": "Approved"})
    hub.ask("web")
    async with controlling(hub):
        await confirmed(hub)
        await being_deleted(hub)
        hub.recover("web", "h2")
        await hub.until(lambda: hub.phase("web") == "Releasing")
        await asyncio.sleep(AFTER)
        assert (hub.place("web"), hub.hosted["h2"]) == ("h1", {})
        hub.work("h1")
        await hub.until(lambda: hub.place("web") == "h2")
        assert hub.hosted["h1"] == {}


async def test_recovery_uses_the_room_that_is_kept_for_the_failure_of_a_host() -> None:
    hub = HostingHub()
    for name in ("h1", "h2", "h3"):
        hub.host(name)
    hub.policy(spareHosts=1, maxPerHost=2, hostLoss={"recreate": "Approved"}, strategy="Spread")
    async with living(hub), controlling(hub):
        for name in ("a", "b", "c", "d"):
            hub.ask(name)
            await reaches(hub, name, CONFIRMED)
        placed = {name: hub.place(name) for name in ("a", "b", "c", "d") if hub.place(name)}
        lost = placed["a"]
        hub.lose(lost)
        stranded = [name for name, host in placed.items() if host == lost]
        free = [name for name in ("h1", "h2", "h3") if name != lost]
        for name in stranded:
            await reports_loss(hub, name)
            target = min(free, key=lambda host: len(hub.hosted[host]))
            hub.recover(name, target)
            await reaches(hub, name, CONFIRMED, on=target)
        assert sum(map(len, hub.hosted.values())) == len(placed) == 4


async def recover(hub: HostingHub) -> None:
    """Two existing hosted clusters and a request that is being deleted leave a lost host."""
    for name in ("a", "b", "c"):
        if hub.has(name) and hub.place(name) == "h1":
            await loses_host(hub, name)
            if not hub.dead and hub.place(name) == "h1":
                hub.recover(name, "h2")
    await hub.until(
        lambda: (
            hub.dead
            or (
                not hub.has("c")
                and all(hub.place(n) == "h2" and hub.phase(n) == CONFIRMED for n in ("a", "b"))
            )
        )
    )


async def lost_with_three(hub: HostingHub) -> None:
    async with controlling(hub):
        for name in ("a", "b", "c"):
            hub.ask(name)
            await confirmed(hub, name)
            assert hub.place(name) == "h1"
        hub.withdraw("c")
        await hub.until(lambda: hub.phase("c") == "Releasing")
        hub.mark("h1", "Unknown")
        await asyncio.sleep(AFTER + 10)


async def recovered(*, kill_at: tuple[int, bool] | None) -> tuple[HostingHub, int]:
    hub = two_hosts(hostLoss={"recreate": "Approved"})
    await lost_with_three(hub)
    before = hub.sent
    if kill_at is not None:
        hub.kill_at = (before + kill_at[0], kill_at[1])

    async def agent() -> None:
        while True:
            hub.work("h2")
            await asyncio.sleep(1)

    async with asyncio.TaskGroup() as group:
        task = group.create_task(agent())
        for _ in range(2 if kill_at is not None else 1):
            async with controlling(hub):
                await recover(hub)
            if hub.dead:
                hub.revive()
        task.cancel()
    return hub, hub.sent - before


async def test_controller_that_is_killed_at_any_write_of_a_recovery_binds_each_request_once() -> None:
    _, writes = await recovered(kill_at=None)
    assert 6 < writes < MOST_WRITES
    for write in range(1, writes + 1):
        for carried_out in (False, True):
            hub, _ = await recovered(kill_at=(write, carried_out))
            assert sorted(hub.hosted["h2"]) == ["a", "b"], (write, carried_out)
            assert not hub.has("c")
            alive = [key for key in hub.works() if "deletionTimestamp" not in _meta(hub, key)]
            assert [host for host, _ in alive] == ["h2", "h2"], (write, carried_out)
            await come_back(hub)
            assert hub.hosted["h1"] == {}, (write, carried_out)


async def come_back(hub: HostingHub) -> None:
    hub.mark("h1", "True")
    async with controlling(hub):
        hub.work()
        await hub.until(lambda: [host for host, _ in hub.works()] == ["h2", "h2"])


def _meta(hub: HostingHub, key: tuple[str, str]) -> dict[str, object]:
    meta: dict[str, object] = hub.documents[MANIFEST_WORKS.plural, *key]["metadata"]
    return meta
