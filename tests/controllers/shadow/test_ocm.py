"""OCM's placement controller on the same hub is detected at the start and later."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from controllers.conftest import ALONE, Rights, Start
from controllers.hub_fleet import HubFleet
from controllers.hubs import HubUnderTest
from controllers.shadow.conftest import HOLDER, Reference
from fairway.controllers.manager import running
from fairway.controllers.placement import ocm_detection
from fairway.controllers.placement.ocm_detection import OcmControllerRunning
from fairway.controllers.settings import PLACEMENT
from forked import Child
from rigs.restricted import DEPLOY, restricted, write_kubeconfig

pytestmark = pytest.mark.embedded

QUIET = ("--health-address", "off", "--metrics-address", "off", "--debug-address", "off")


@pytest.mark.both_hubs
async def test_controller_refuses_to_start_beside_ocm(
    start: Start, reference: Reference, fleet: HubFleet
) -> None:
    await fleet.cluster("a")
    await fleet.place()
    await reference.hold()
    with pytest.raises(OcmControllerRunning, match=HOLDER):
        async with start():
            pytest.fail("it started")
    assert not fleet.decisions("p")


async def test_controller_starts_beside_ocm_on_request(
    start: Start, reference: Reference, fleet: HubFleet
) -> None:
    await fleet.cluster("a")
    await fleet.place()
    await reference.hold()
    async with start(replace(ALONE, beside_ocm=True)):
        await fleet.chooses("p", "a")


@pytest.mark.parametrize(
    ("ago", "lasts", "holder"),
    [(138, ocm_detection.USUAL_LEASE, HOLDER), (16, 15, HOLDER), (138, None, HOLDER), (0, 137, "")],
    ids=["ran out", "short and ran out", "without a length", "given back"],
)
async def test_expired_ocm_lease_does_not_block_the_start(
    start: Start, reference: Reference, fleet: HubFleet, ago: float, lasts: int | None, holder: str
) -> None:
    await fleet.cluster("a")
    await fleet.place()
    await reference.hold(ago=ago, lasts=lasts, holder=holder)
    async with start():
        await fleet.chooses("p", "a")


async def test_controller_stops_when_ocm_starts_later(
    start: Start, reference: Reference, fleet: HubFleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fairway.controllers.manager.OCM_SECONDS", 0.01)
    await fleet.cluster("a")
    await fleet.place()

    async def work() -> None:
        async with start() as manager:
            await fleet.chooses("p", "a")
            await reference.hold()
            await manager.over()

    with pytest.raises(OcmControllerRunning, match=HOLDER):
        await work()


async def test_process_exits_with_the_reason_when_ocm_runs(
    hub: HubUnderTest, rights: Rights, reference: Reference, fleet: HubFleet, tmp_path: Path
) -> None:
    """It runs with its declared rights and leader election, and releases the lease before it exits."""
    namespace = await fleet.create_namespace("leases")
    connection = await restricted(hub.administrator, controllers=frozenset({PLACEMENT}), namespace=namespace)
    kubeconfig = await write_kubeconfig(connection, tmp_path / "kubeconfig")
    await fleet.cluster("a")
    await fleet.place()
    child = Child(
        "controllers.shadow.watchful",
        *("--kubeconfig", str(kubeconfig), "--lease-namespace", namespace),
        *("--controllers", PLACEMENT, *QUIET),
        log=tmp_path / "log",
    )
    await fleet.chooses("p", "a")
    await reference.hold()
    assert await child.end() == 1, child.tail()
    told = ocm_detection.RUNS.format(
        holder=HOLDER, namespace=ocm_detection.NAMESPACE, name=ocm_detection.LEASE
    )
    assert " ".join(told.split()) in " ".join(child.tail().split())
    assert "Traceback" not in child.log.read_text(encoding="utf-8")
    assert "stopped leading" in child.log.read_text(encoding="utf-8")


@pytest.mark.both_hubs
async def test_missing_right_to_read_ocm_leases_is_logged(
    hub: HubUnderTest, fleet: HubFleet, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    blind = shutil.copytree(DEPLOY, tmp_path / "deploy")
    file = blind / "controllers" / PLACEMENT / "rbac.yaml"
    text = file.read_text(encoding="utf-8").replace(ocm_detection.LEASE, "something-else")
    file.write_text(text.replace("fairway-placement", "fairway-blind"), encoding="utf-8")
    connection = await restricted(
        hub.administrator,
        controllers={PLACEMENT},
        namespace=await fleet.create_namespace("blind"),
        folder=blind,
    )
    await fleet.cluster("a")
    await fleet.place()
    async with running(connection, ALONE):
        await fleet.chooses("p", "a")
    # Twice a minute; so more than one, if this took long.
    warning, *_ = (
        record.getMessage() for record in caplog.records if record.msg == ocm_detection.CANNOT_TELL
    )
    assert ocm_detection.LEASE in warning
