"""When a cluster counts as silent, in virtual time: by timers, on the hub's own running clock."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import datetime, timedelta
from typing import Any

import pytest

from clocks import START, LoopClock
from fairway.api.cluster import (
    CONDITION_ACCEPTED,
    CONDITION_AVAILABLE,
    TAINT_UNAVAILABLE,
    TAINT_UNREACHABLE,
    WEBHOOK_SETS_TIME_ADDED,
)
from fairway.api.resources import MANAGED_CLUSTERS
from fairway.controllers.availability import AvailabilityController
from fairway.controllers.availability.clock_sync import CLOCK_SYNCED
from fairway.controllers.availability.controller import STOPPED, STOPPED_MESSAGE
from fairway.controllers.runtime.leadership import ALONE
from fairway.observe.meters import Meters
from kubehub.patches import mergepatch
from kubewire.api.lease import format_micro_time
from kubewire.api.meta import find_condition
from kubewire.client import BadRequest
from kubewire.client.lease import LEASES
from rigs.fake_hub import FakeHub, reported_condition

pytestmark = pytest.mark.looptime


class ClusterHub(FakeHub):
    """With clusters, which report conditions and renew their Leases."""

    def cluster(self, name: str = "c", **spec: Any) -> None:
        document = {"metadata": {"name": name}, "spec": {"hubAcceptsClient": True, **spec}, "status": {}}
        self.put(MANAGED_CLUSTERS, document)

    def edit(self, name: str = "c", **parts: Any) -> None:
        self.put(MANAGED_CLUSTERS, mergepatch.apply(self.documents["managedclusters", "", name], parts))

    def say(self, type_: str, status: str, *, name: str = "c") -> None:
        old = self.documents["managedclusters", "", name]["status"].get("conditions", [])
        self.edit(
            name,
            status={
                "conditions": [
                    *(condition for condition in old if condition["type"] != type_),
                    reported_condition(type_, status),
                ]
            },
        )

    def renew(self, moment: datetime, *, name: str = "c") -> None:
        spec = {"holderIdentity": "agent", "renewTime": format_micro_time(moment)}
        self.put(LEASES, {"metadata": {"name": "managed-cluster-lease"}, "spec": spec}, namespace=name)


@asynccontextmanager
async def watching(
    hub: ClusterHub, *, clock: LoopClock | None = None, **options: Any
) -> AsyncIterator[AvailabilityController]:
    controller = AvailabilityController(hub.client, meters=Meters(), clock=clock or LoopClock(), **options)
    controller.watch(hub.informers)
    work = asyncio.create_task(controller.run(ALONE))
    try:
        yield controller
    finally:
        work.cancel()
        with suppress(asyncio.CancelledError):
            await work


def available(hub: ClusterHub, name: str = "c") -> tuple[str, str]:
    cluster = hub.of(MANAGED_CLUSTERS).get(name)
    condition = find_condition(cluster.status.conditions or (), CONDITION_AVAILABLE)
    return ("", "") if condition is None else (condition.status, condition.reason)


def keys(hub: ClusterHub, name: str = "c") -> list[str]:
    return [taint.key for taint in hub.of(MANAGED_CLUSTERS).get(name).spec.taints]


def now() -> float:
    return asyncio.get_running_loop().time()


def agreeing() -> Any:
    """The time an agent writes whose clock agrees with the hub's."""
    return START + timedelta(seconds=now())


SILENT = ("Unknown", STOPPED)
SAID = ("True", "Said")


def joined(**spec: Any) -> ClusterHub:
    hub = ClusterHub()
    hub.cluster(**spec)
    hub.say(CONDITION_ACCEPTED, "True")
    hub.say(CONDITION_AVAILABLE, "True")
    hub.say(CLOCK_SYNCED, "True")
    return hub


def renewed() -> ClusterHub:
    """Return a hub whose cluster has joined, and renewed its lease at the start."""
    hub = joined()
    hub.renew(START)
    return hub


async def reaches(hub: ClusterHub, wanted: tuple[str, str], name: str = "c") -> float:
    return await hub.until(lambda: available(hub, name) == wanted)


async def test_cluster_is_silent_after_five_lease_durations() -> None:
    hub = renewed()
    async with watching(hub):
        assert await reaches(hub, SILENT) == pytest.approx(300, abs=0.5)
    condition = find_condition(hub.of(MANAGED_CLUSTERS).get("c").status.conditions, CONDITION_AVAILABLE)
    assert condition is not None
    assert condition.message == STOPPED_MESSAGE
    assert condition.lastTransitionTime == START + timedelta(seconds=300)


@pytest.mark.parametrize(
    ("duration", "grace", "seconds"), [(10, 5.0, 50), (600, 0.5, 300), (0, 5.0, 300), (-7, 5.0, 300)]
)
async def test_grace_period_multiplies_the_lease_duration_of_the_cluster(
    duration: int, grace: float, seconds: float
) -> None:
    hub = joined(leaseDurationSeconds=duration)
    hub.renew(START)
    async with watching(hub, grace=grace):
        assert await reaches(hub, SILENT) == pytest.approx(seconds, abs=0.5)


async def test_renewals_keep_a_cluster_available_without_reconciles() -> None:
    hub = renewed()
    async with watching(hub) as controller:
        await asyncio.sleep(1)
        for _ in range(20):
            adds = controller.queue.stats().adds
            hub.renew(agreeing())
            assert controller.queue.stats().adds == adds
            await asyncio.sleep(60)
            assert available(hub) == SAID
        assert hub.writes == []
        assert controller.queue.stats().adds <= 1 + 20 * 60 / 240
        last = now() - 60
        assert await reaches(hub, SILENT) == pytest.approx(last + 300, abs=0.5)


async def test_second_silence_of_a_cluster_is_detected() -> None:
    hub = renewed()
    async with watching(hub):
        await reaches(hub, SILENT)
        await asyncio.sleep(500)
        hub.renew(agreeing())
        hub.say(CONDITION_AVAILABLE, "True")
        began = now()
        await asyncio.sleep(1)
        assert available(hub) == SAID
        assert await reaches(hub, SILENT) == pytest.approx(began + 300, abs=0.5)


async def test_available_condition_without_renewals_is_overridden() -> None:
    hub = renewed()
    async with watching(hub):
        await reaches(hub, SILENT)
        hub.say(CONDITION_AVAILABLE, "True")
        began = now()
        assert await reaches(hub, SILENT) == pytest.approx(began, abs=0.5)


@pytest.mark.parametrize("off", [timedelta(hours=-3), timedelta(hours=3)])
async def test_wrong_clock_of_an_agent_does_not_affect_renewals(off: timedelta) -> None:
    hub = renewed()
    async with watching(hub):
        for _ in range(8):
            hub.renew(agreeing() + off)
            await asyncio.sleep(60)
        assert available(hub) == SAID
        assert await reaches(hub, SILENT) == pytest.approx(7 * 60 + 300, abs=0.5)


async def test_future_renew_time_at_start_counts_as_now() -> None:
    hub = joined()
    hub.renew(START + timedelta(days=365))
    async with watching(hub):
        assert await reaches(hub, SILENT) == pytest.approx(300, abs=0.5)


async def test_renew_time_counts_at_start() -> None:
    hub = joined()
    hub.renew(START - timedelta(seconds=200))
    async with watching(hub):
        assert await reaches(hub, SILENT) == pytest.approx(100, abs=0.5)


async def test_lease_without_renew_time_counts_from_its_creation() -> None:
    hub = joined()
    meta = {"name": "managed-cluster-lease", "creationTimestamp": "2026-03-01T11:58:20Z"}
    hub.put(LEASES, {"metadata": meta, "spec": {"renewTime": "soon"}}, namespace="c")
    async with watching(hub):
        assert await reaches(hub, SILENT) == pytest.approx(200, abs=0.5)


async def test_lease_change_without_renewal_is_ignored() -> None:
    hub = renewed()
    async with watching(hub):
        await asyncio.sleep(100)
        hub.renew(START)  # the same renew time again, as after a label change
        assert await reaches(hub, SILENT) == pytest.approx(300, abs=0.5)


async def test_shorter_lease_duration_applies_at_once() -> None:
    hub = renewed()
    async with watching(hub):
        await asyncio.sleep(100)
        hub.edit(spec={"leaseDurationSeconds": 10})
        assert await reaches(hub, SILENT) == pytest.approx(100, abs=0.5)


async def test_missing_lease_of_an_accepted_cluster_is_created() -> None:
    hub = joined()
    async with watching(hub):
        await asyncio.sleep(1)
        lease = hub.documents["leases", "c", "managed-cluster-lease"]
        assert lease["spec"]["renewTime"] == "2026-03-01T12:00:00.000000Z"
        assert lease["metadata"]["labels"] == {"open-cluster-management.io/cluster-name": "c"}
        assert await reaches(hub, SILENT) == pytest.approx(300, abs=0.5)
        hub.drop(LEASES, "managed-cluster-lease", namespace="c")
        await asyncio.sleep(1)
        assert ("leases", "c", "managed-cluster-lease") in hub.documents


async def test_unaccepted_cluster_is_never_declared_silent() -> None:
    hub = ClusterHub()
    hub.cluster()
    async with watching(hub):
        await asyncio.sleep(500)
    assert available(hub) == ("", "")
    assert hub.writes == [("patch", "managedclusters")], "the taint"


async def test_refused_cluster_gets_no_lease_in_a_foreign_namespace() -> None:
    hub = ClusterHub()
    hub.cluster()
    hub.say(CONDITION_ACCEPTED, "False")
    async with watching(hub):
        await asyncio.sleep(500)
    assert available(hub) == ("", "")
    assert not any(verb == "create" for verb, _ in hub.writes)


@pytest.mark.parametrize("parts", [{"metadata": {"deletionTimestamp": "2026-03-01T12:00:00Z"}}, {}])
async def test_cluster_that_will_get_no_lease_is_silent_at_once(parts: dict[str, Any]) -> None:
    hub = joined()
    hub.edit(**parts)
    if not parts:
        hub.say(CONDITION_ACCEPTED, "False")
    async with watching(hub):
        assert await reaches(hub, SILENT) == pytest.approx(0, abs=0.5)
        assert not any(verb == "create" for verb, _ in hub.writes)


async def test_standby_remembers_renewals_before_it_leads() -> None:
    hub = renewed()
    controller = AvailabilityController(hub.client, meters=Meters(), clock=LoopClock())
    controller.watch(hub.informers)
    for _ in range(10):
        await asyncio.sleep(60)
        hub.renew(agreeing() - timedelta(hours=1))  # a slow clock, which only a start would be misled by
    work = asyncio.create_task(controller.run(ALONE))
    await asyncio.sleep(1)
    assert available(hub) == SAID
    assert await reaches(hub, SILENT) == pytest.approx(900, abs=0.5)
    work.cancel()
    with suppress(asyncio.CancelledError):
        await work


async def test_no_cluster_is_silent_while_the_lease_watch_is_down() -> None:
    hub = renewed()
    leases = hub.of(LEASES)
    async with watching(hub):
        await asyncio.sleep(10)
        leases.cut()
        await asyncio.sleep(900)
        assert available(hub) == SAID
        leases.mend()
        # Its agent was disconnected, too, and returns after this process.
        await asyncio.sleep(240)
        assert available(hub) == SAID
        hub.renew(agreeing())
        last = now()
        assert await reaches(hub, SILENT) == pytest.approx(last + 300, abs=0.5)


async def test_grace_period_restarts_after_the_lease_watch_returns() -> None:
    hub = renewed()
    leases = hub.of(LEASES)
    async with watching(hub):
        await asyncio.sleep(10)
        leases.cut()
        await asyncio.sleep(900)
        leases.mend()
        assert await reaches(hub, SILENT) == pytest.approx(910 + 300, abs=2)


async def test_short_watch_gap_does_not_restart_the_grace_period() -> None:
    hub = renewed()
    leases = hub.of(LEASES)
    async with watching(hub):
        await asyncio.sleep(298)
        leases.cut()
        await asyncio.sleep(3)
        assert available(hub) == SAID
        leases.mend()
        assert await reaches(hub, SILENT) == pytest.approx(301, abs=2)


async def test_renewal_missed_during_a_watch_gap_counts_when_observed() -> None:
    hub = renewed()
    leases = hub.of(LEASES)
    async with watching(hub):
        await asyncio.sleep(298)
        leases.cut()
        hub.renew(agreeing())
        await asyncio.sleep(3)
        leases.mend()
        assert await reaches(hub, SILENT) == pytest.approx(301 + 300, abs=2)


async def test_new_leader_declares_no_cluster_silent_before_the_watch_returns() -> None:
    hub = renewed()
    leases = hub.of(LEASES)
    controller = AvailabilityController(hub.client, meters=Meters(), clock=LoopClock())
    controller.watch(hub.informers)
    await asyncio.sleep(10)
    leases.cut()
    await asyncio.sleep(900)  # the leader's own lease could not be renewed either
    work = asyncio.create_task(controller.run(ALONE))
    await asyncio.sleep(20)
    leases.mend()
    await asyncio.sleep(240)
    assert available(hub) == SAID
    assert await reaches(hub, SILENT) == pytest.approx(930 + 300, abs=2)
    work.cancel()
    with suppress(asyncio.CancelledError):
        await work


async def test_one_silent_cluster_causes_no_reconcile_of_others() -> None:
    hub = ClusterHub()
    for number in range(200):
        name = f"c{number}"
        hub.cluster(name)
        hub.say(CONDITION_ACCEPTED, "True", name=name)
        hub.say(CONDITION_AVAILABLE, "True", name=name)
        hub.say(CLOCK_SYNCED, "True", name=name)
        hub.renew(START, name=name)
    async with watching(hub) as controller:
        await asyncio.sleep(150)
        for number in range(1, 200):
            hub.renew(agreeing(), name=f"c{number}")
        adds = controller.queue.stats().adds
        await reaches(hub, SILENT, "c0")
        assert [verb for verb, _ in hub.writes] == ["patch", "patch"], "its condition and its taint"
        # Timers of the others fire once and are set again.
        assert controller.queue.stats().adds - adds <= 200 + 4


async def test_taints_follow_the_condition() -> None:
    hub = renewed()
    async with watching(hub):
        await asyncio.sleep(1)
        assert keys(hub) == []
        hub.say(CONDITION_AVAILABLE, "False")
        await asyncio.sleep(1)
        assert keys(hub) == [TAINT_UNAVAILABLE]
        await reaches(hub, SILENT)
        await asyncio.sleep(1)
        assert keys(hub) == [TAINT_UNREACHABLE]
        hub.renew(agreeing())
        hub.say(CONDITION_AVAILABLE, "True")
        await asyncio.sleep(1)
        assert keys(hub) == []


async def test_taint_has_the_time_it_was_added() -> None:
    hub = renewed()
    async with watching(hub):
        await reaches(hub, SILENT)
        await asyncio.sleep(1)
    (taint,) = hub.of(MANAGED_CLUSTERS).get("c").spec.taints
    assert (taint.effect, taint.value) == ("NoSelect", "")
    assert taint.timeAdded == START + timedelta(seconds=300)


async def test_taints_can_be_switched_off() -> None:
    hub = joined(taints=[{"key": "mine", "effect": "NoSelect"}])
    hub.renew(START)
    async with watching(hub, taints=False):
        await reaches(hub, SILENT)
        await asyncio.sleep(500)
    assert keys(hub) == ["mine"]
    assert hub.writes == [("patch", "managedclusters/status")]


async def test_terminating_cluster_is_not_tainted() -> None:
    hub = renewed()
    hub.edit(metadata={"deletionTimestamp": "2026-03-01T12:00:00Z"})
    async with watching(hub):
        await reaches(hub, SILENT)
        await asyncio.sleep(500)
    assert keys(hub) == []


async def test_taints_are_written_without_time_beside_ocms_webhook() -> None:
    hub = joined(taints=[{"key": "mine", "effect": "NoSelect"}])
    hub.renew(START)

    def webhook(body: Any) -> None:
        if "timeAdded" in repr(body):
            raise BadRequest(
                f'admission webhook denied the request: {WEBHOOK_SETS_TIME_ADDED} of Taint "mine".'
            )

    hub.reject = webhook
    async with watching(hub):
        await asyncio.sleep(10)
        assert keys(hub) == ["mine"], "nothing was left to do without a time"
        await reaches(hub, SILENT)
        await asyncio.sleep(10)
        assert keys(hub) == ["mine", TAINT_UNREACHABLE]
    taints = hub.of(MANAGED_CLUSTERS).get("c").spec.taints
    assert [taint.timeAdded for taint in taints] == [None, None]


async def test_rejected_taint_write_is_retried() -> None:
    hub = joined()
    hub.say(CONDITION_AVAILABLE, "False")
    hub.renew(START)
    refused: list[Any] = []

    def once(body: Any) -> None:
        if len(refused) < 3:
            refused.append(body)
            raise BadRequest("not today")

    hub.reject = once
    async with watching(hub):
        await asyncio.sleep(10)
    assert keys(hub) == [TAINT_UNAVAILABLE]
    assert len(refused) == 3


async def test_status_heartbeat_causes_no_reconcile() -> None:
    hub = renewed()
    async with watching(hub) as controller:
        await asyncio.sleep(1)
        adds = controller.queue.stats().adds
        hub.edit(status={"allocatable": {"cpu": "3"}}, metadata={"labels": {"zone": "a"}})
        assert controller.queue.stats().adds == adds
        hub.drop(MANAGED_CLUSTERS, "c")
        await asyncio.sleep(500)
    assert hub.writes == []
