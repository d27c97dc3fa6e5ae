"""Beside OCM's own addon-manager, and after it."""

from datetime import UTC, datetime, timedelta

import pytest

from controllers.addons.harness import AddOnHarness
from controllers.clocks import NOON, Stopped
from controllers.hubs import HubUnderTest
from controllers.running import RunningController, at_work
from fairway.api.resources import MANAGED_CLUSTER_ADD_ONS, MANIFEST_WORKS
from fairway.controllers import ocm_lease
from fairway.controllers.addons import RULES, AddOnController, conditions, ocm_detection
from fairway.controllers.addons.names import deploy_work
from fairway.observe.meters import Meters
from kubewire.api.lease import Lease, LeaseSpec, format_micro_time
from kubewire.client import Client, NotFound
from kubewire.client.lease import LEASES, LONGEST_LEASE
from rigs.waiting import fresh

pytestmark = pytest.mark.embedded


@pytest.mark.parametrize(
    ("holder", "renewed", "seconds", "wanted"),
    [("x", 0, 60, 60), ("x", 45, 60, 15), ("x", 60, 60, 0), ("x", 100, 0, 37), ("", 0, 60, 0)],
)
def test_addon_manager_counts_as_running_while_its_lease_lasts(
    holder: str, renewed: int, seconds: int, wanted: float
) -> None:
    lease = Lease(
        spec=LeaseSpec(
            holderIdentity=holder,
            renewTime=format_micro_time(NOON - timedelta(seconds=renewed)),
            leaseDurationSeconds=seconds,
        )
    )
    assert ocm_lease.remaining(lease, NOON) == wanted
    assert ocm_lease.remaining(None, NOON) == 0
    assert ocm_lease.remaining(Lease(), NOON) == 0


def test_addon_manager_lease_in_the_far_future_is_ignored() -> None:
    last = format_micro_time(datetime.max.replace(tzinfo=UTC))
    lease = Lease(spec=LeaseSpec(holderIdentity="x", renewTime=last, leaseDurationSeconds=2**31 - 1))
    assert ocm_lease.remaining(lease, NOON) == 0
    lease = Lease(
        spec=LeaseSpec(holderIdentity="x", renewTime=format_micro_time(NOON), leaseDurationSeconds=2**31 - 1)
    )
    assert ocm_lease.remaining(lease, NOON) == LONGEST_LEASE


async def test_add_ons_are_left_to_a_running_addon_manager(
    hub: HubUnderTest, client: Client, harness: AddOnHarness, caplog: pytest.LogCaptureFixture
) -> None:
    namespace = fresh("ocm")
    await client.request("POST", "/api/v1/namespaces", body={"metadata": {"name": namespace}})
    spec = {"holderIdentity": "theirs", "renewTime": format_micro_time(NOON), "leaseDurationSeconds": 60}
    lease = {"metadata": {"name": ocm_detection.LEASE}, "spec": spec}
    await client.create(LEASES, lease, namespace=namespace)
    clock = Stopped(NOON)

    def beside(client: Client) -> AddOnController:
        return AddOnController(client, meters=Meters(), clock=clock, ocm_namespace=namespace)

    cluster = await harness.cluster()
    async with at_work(hub, beside, rules=RULES) as running:
        await harness.template()
        await harness.offer()
        made = await harness.enable(cluster)
        await running.caught_up(MANAGED_CLUSTER_ADD_ONS, made)
        assert caplog.messages.count(ocm_detection.RUNS % ("theirs", namespace, ocm_detection.LEASE)) == 1
        with pytest.raises(NotFound):
            await client.get(MANIFEST_WORKS, deploy_work(harness.name), namespace=cluster)
        # Its lease has expired; deleting it triggers the controller.
        clock.now = NOON + timedelta(seconds=61)
        await client.delete(LEASES, ocm_detection.LEASE, namespace=namespace)
        await harness.awaited(cluster, conditions.MANIFEST_APPLIED, "False", conditions.WAITING)
    assert ocm_detection.GONE in caplog.messages


async def test_missing_addon_manager_logs_nothing(
    harness: AddOnHarness, running: RunningController, caplog: pytest.LogCaptureFixture
) -> None:
    cluster = await harness.cluster()
    await harness.template()
    await harness.offer()
    await harness.enable(cluster)
    await harness.work(cluster)
    assert "addon-manager" not in caplog.text
