"""Hypervisors that are installed and removed while the controller runs."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from controllers.conftest import Start
from controllers.machines.agents import permit_request
from controllers.machines.kubevirt_stand_in import KubeVirt, kubevirt_crds
from controllers.machines.machine_rig import MachineRig, machine_rig
from controllers.pods.test_on_hub import SETTINGS, create_node, create_pod
from fairway.api.crd import machine_crds
from fairway.api.resources import NODES, PODS
from fairway.controllers import controller_factory
from fairway.controllers.controller_factory import ControllerFactory
from fairway.controllers.kinds import DEFINITIONS
from fairway.controllers.machines.hypervisors import served_hypervisors
from fairway.controllers.settings import MACHINES
from fairway.observe.meters import Meters
from fairway.workloads.machines.kubevirt import INSTANCE_KIND
from fairway.workloads.machines.machine import VIRTUAL_MACHINE
from fairway.workloads.machines.permit_protocol import PermitError, decode_request
from kubewire.client import SYSTEM_CLOCK, Client
from rigs.waiting import DEADLINE, fresh, until, until_deleted

pytestmark = pytest.mark.usefixtures("no_error_logs")


async def install(client: Client, definitions: Sequence[dict[str, Any]]) -> None:
    for definition in definitions:
        await client.create(DEFINITIONS, definition)


async def remove(client: Client, definitions: Sequence[dict[str, Any]]) -> None:
    """Delete definitions, and wait until they are deleted."""
    for definition in definitions:
        await client.delete(DEFINITIONS, definition["metadata"]["name"])
    for definition in definitions:
        await until_deleted(client, DEFINITIONS, definition["metadata"]["name"])


async def when(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(DEADLINE):
        while not condition():
            await asyncio.sleep(0.01)


@asynccontextmanager
async def scene(hub: Path) -> AsyncIterator[MachineRig]:
    """One node of 10 units, and the machine A of 4, on a hub that serves machines of NeonVM only."""
    async with machine_rig(hub) as rig:
        rig.kinds = None
        await rig.add_node("n1", 10)
        await rig.add_vm("a", 4, "n1")
        yield rig


def served(rig: MachineRig) -> set[str]:
    assert rig.controller is not None
    return set(served_hypervisors(rig.controller._hypervisors))


async def test_hypervisor_that_is_installed_later_is_served_until_it_is_removed(machine_hub: Path) -> None:
    crds = kubevirt_crds()
    async with scene(machine_hub) as rig, rig.controlling():
        await rig.ask("a", 5)
        assert served(rig) == {VIRTUAL_MACHINE}
        await install(rig.client, crds)
        await rig.until(lambda: served(rig) == {VIRTUAL_MACHINE, INSTANCE_KIND})
        async with KubeVirt(rig).running() as kubevirt:
            await kubevirt.instances.synced.wait()
            await kubevirt.add("b", 3, "n1")
            await rig.until(lambda: rig.machine("b").kind == INSTANCE_KIND)
            await rig.until(lambda: rig.account("n1").used["cpu"] == 8000)
            assert (await rig.ask("a", 6)).resources["cpu"] == 6000
            rig.check()
        await remove(rig.client, crds)
        await rig.until(lambda: served(rig) == {VIRTUAL_MACHINE})
        assert (await rig.ask("a", 5)).resources["cpu"] == 5000
        await rig.add_pod("x", 1)
        await rig.until(lambda: rig.scheduled("x") == "n1")


@pytest.mark.embedded
async def test_pods_are_scheduled_without_with_and_again_without_a_hypervisor(
    start: Start, client: Client
) -> None:
    pool, crds = fresh("pool"), machine_crds()
    node = await create_node(client, pool, cpu="4")

    async def schedule(name: str) -> None:
        await create_pod(client, f"{name}-{pool}", pool)
        await until(
            client, PODS, f"{name}-{pool}", lambda pod: pod.spec.nodeName == node, namespace="default"
        )

    async with start(SETTINGS) as manager:
        machines = manager.machines
        assert machines is not None
        await schedule("before")
        with pytest.raises(PermitError, match="serves no virtual machines"):
            await machines.ask(decode_request(json.dumps(permit_request("x", 1)).encode()), node)
        await install(client, crds)
        await when(lambda: machines._machine_state() is not None)
        assert not manager.unready()
        await schedule("with")
        state = machines._machine_state()
        assert state is not None
        account = state.ledger.account_named(node)
        assert account is not None
        assert account.used["cpu"] == 2000
        await remove(client, crds)
        await when(lambda: machines._term is not None and machines._machine_state() is None)
        await schedule("after")
        assert not manager.unready()
    for name in ("before", "with", "after"):
        await client.delete(PODS, f"{name}-{pool}", namespace="default", grace_period=0)
    await client.delete(NODES, node)


async def test_pods_are_scheduled_on_a_hub_without_apiextensions(
    machine_hub: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A hub answers for a group that it does not serve as kube-apiserver does for one that is disabled.
    absent = replace(DEFINITIONS, group="disabled.k8s.io")
    monkeypatch.setattr(controller_factory, "DEFINITIONS", absent)
    async with machine_rig(machine_hub) as rig:
        factory = ControllerFactory(SETTINGS, client=rig.client, meters=Meters(), clock=SYSTEM_CLOCK)
        async with factory:
            assert list(await factory.create()) == [MACHINES]
