"""The condition ManagedClusterConditionClockSynced, in virtual time."""

import asyncio
from datetime import timedelta

import pytest

from controllers.availability.test_silence import ClusterHub, agreeing, joined, watching
from fairway.api.resources import MANAGED_CLUSTERS
from fairway.controllers.availability.clock_sync import CLOCK_SYNCED, SKIPPED
from kubewire.api.meta import find_condition
from kubewire.client.lease import LEASES

pytestmark = pytest.mark.looptime

SYNCED = (
    "True",
    "ManagedClusterClockSynced",
    "The clock of the managed cluster is synced with the hub.",
)
OUT_OF_SYNC = (
    "False",
    "ManagedClusterClockOutOfSync",
    "The clock of hub and agent is out of sync. This may cause the Unknown status and affect agent functionalities.",
)


def clock(hub: ClusterHub) -> tuple[str, str, str] | None:
    cluster = hub.of(MANAGED_CLUSTERS).get("c")
    condition = find_condition(cluster.status.conditions or (), CLOCK_SYNCED)
    return None if condition is None else (condition.status, condition.reason, condition.message)


def started(**spec: int) -> ClusterHub:
    """Return a hub with a cluster without the condition."""
    hub = joined(**spec)
    hub.edit(
        status={
            "conditions": [condition for condition in _conditions(hub) if condition["type"] != CLOCK_SYNCED]
        }
    )
    hub.renew(agreeing())
    return hub


def _conditions(hub: ClusterHub) -> list[dict[str, str]]:
    conditions: list[dict[str, str]] = hub.documents["managedclusters", "", "c"]["status"]["conditions"]
    return conditions


@pytest.mark.parametrize(
    ("duration", "off", "wanted"),
    [
        (60, 0, SYNCED),
        (60, 299, SYNCED),
        (60, -299, SYNCED),
        (60, 300, OUT_OF_SYNC),
        (60, -300, OUT_OF_SYNC),
        (10, 50, OUT_OF_SYNC),
        (600, 2999, SYNCED),
        (0, 299, SYNCED),
        (0, 300, OUT_OF_SYNC),
    ],
)
async def test_clock_counts_as_synced_within_five_lease_durations(
    duration: int, off: int, wanted: tuple[str, str, str]
) -> None:
    hub = started(leaseDurationSeconds=duration)
    async with watching(hub):
        await asyncio.sleep(1)
        assert clock(hub) is None, "a lease that was found may have been renewed long ago"
        hub.renew(agreeing() + timedelta(seconds=off))
        await asyncio.sleep(1)
        assert clock(hub) == wanted


async def test_corrected_clock_is_reported_with_the_next_renewal() -> None:
    hub = started()
    async with watching(hub):
        await asyncio.sleep(1)
        hub.renew(agreeing() + timedelta(hours=1))
        await asyncio.sleep(60)
        assert clock(hub) == OUT_OF_SYNC
        hub.renew(agreeing())
        await asyncio.sleep(1)
        assert clock(hub) == SYNCED


async def test_annotation_turns_the_check_off() -> None:
    hub = started()
    hub.edit(metadata={"annotations": {SKIPPED: "true"}})
    async with watching(hub):
        await asyncio.sleep(1)
        hub.renew(agreeing() - timedelta(days=1))
        await asyncio.sleep(1)
        assert clock(hub) == SYNCED


async def test_renewal_that_was_delivered_late_says_nothing_about_the_clock() -> None:
    hub = started()
    async with watching(hub):
        await asyncio.sleep(1)
        hub.renew(agreeing())
        await asyncio.sleep(1)
        assert clock(hub) == SYNCED
        hub.of(LEASES).cut()
        hub.renew(agreeing())
        await asyncio.sleep(1000)
        hub.of(LEASES).mend()
        await asyncio.sleep(1)
        assert clock(hub) == SYNCED
        hub.renew(agreeing() - timedelta(hours=1))
        await asyncio.sleep(1)
        assert clock(hub) == SYNCED, "too soon after the gap"
        await asyncio.sleep(60)
        hub.renew(agreeing() - timedelta(hours=1))
        await asyncio.sleep(1)
        assert clock(hub) == OUT_OF_SYNC
