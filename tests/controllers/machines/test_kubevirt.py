"""KubeVirt's machines on a hub: they count on their nodes, and move to make room."""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from controllers.machines.kubevirt_stand_in import LAUNCHER, KubeVirt, kubevirt_crds
from controllers.machines.machine_rig import NAMESPACE, MachineRig, embedded_machine_hub, machine_rig
from fairway.controllers.machines.kinds import INSTANCE_MIGRATIONS
from fairway.workloads.machines.kubevirt import INSTANCE_KIND
from fairway.workloads.machines.machine import VIRTUAL_MACHINE
from fairway.workloads.machines.permit_protocol import PermitError

pytestmark = [pytest.mark.embedded, pytest.mark.usefixtures("no_error_logs")]

BOTH = frozenset({VIRTUAL_MACHINE, INSTANCE_KIND})


@pytest.fixture(scope="module")
def kubevirt_hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The kubeconfig of a hub with the kinds of NeonVM and KubeVirt."""
    with embedded_machine_hub(tmp_path_factory.mktemp("kubevirt"), more=kubevirt_crds()) as kubeconfig:
        yield kubeconfig


@asynccontextmanager
async def scene(
    hub: Path, *, kinds: frozenset[str] = BOTH, **args: Any
) -> AsyncIterator[tuple[MachineRig, KubeVirt]]:
    """Two nodes of 10 units; on n1, the instance B has 3, the pod X has 3."""
    async with machine_rig(hub, **args) as rig, KubeVirt(rig).running() as kubevirt:
        rig.kinds = kinds
        await rig.add_node("n1", 10)
        await rig.add_node("n2", 10)
        await kubevirt.add("b", 3, "n1")
        await rig.add_pod("x", 3, node="n1")
        yield rig, kubevirt


async def test_instance_moves_to_make_room_for_a_machine_of_neonvm(kubevirt_hub: Path) -> None:
    async with scene(kubevirt_hub) as (rig, kubevirt):
        await rig.add_vm("a", 4, "n1")
        async with rig.controlling():
            permit = await rig.ask("a", 6)
            assert permit.resources["cpu"] == 4000
            assert len(permit.migrations) == 1
            await rig.until(lambda: rig.approved("a") == 6)
            await rig.until(lambda: not (kubevirt.migrations.store or rig.recorded.store))
            assert kubevirt.planned == ["n2"]
            assert kubevirt.instance("b").status.nodeName == "n2"
            await rig.until(lambda: rig.account("n2").used["cpu"] == 3000)
            await rig.until(lambda: rig.account("n1").free()["cpu"] == 1000)
            assert not rig.has_migrations()
            rig.check()


async def test_instance_moves_from_a_node_above_its_watermark_on_a_hub_without_neonvm(
    kubevirt_hub: Path,
) -> None:
    settings = {"watermark": 0.5, "migration": {"pressureDelaySeconds": 0}}
    only = frozenset({INSTANCE_KIND})
    async with scene(kubevirt_hub, kinds=only, **settings) as (rig, kubevirt), rig.controlling():
        await rig.until(lambda: kubevirt.instance("b").status.nodeName == "n2")
        await rig.until(lambda: not (kubevirt.migrations.store or rig.recorded.store))
        await rig.until(lambda: rig.account("n1").used["cpu"] == 3000)


async def test_instance_that_moved_can_move_to_another_node_again(kubevirt_hub: Path) -> None:
    settings = {"watermark": 0.5, "migration": {"pressureDelaySeconds": 0, "cooldownSeconds": 0}}
    async with scene(kubevirt_hub, kinds=BOTH, **settings) as (rig, kubevirt), rig.controlling():
        await rig.until(lambda: kubevirt.instance("b").status.nodeName == "n2")
        await rig.until(lambda: not (kubevirt.migrations.store or rig.recorded.store))
        await rig.delete_pod("x")
        await rig.add_pod("y", 3, node="n2")
        await rig.until(lambda: kubevirt.instance("b").status.nodeName == "n1")
        assert kubevirt.planned == ["n2", "n1"]


async def test_migration_of_an_instance_is_cancelled_when_room_appears(kubevirt_hub: Path) -> None:
    async with scene(kubevirt_hub) as (rig, kubevirt):
        await rig.add_vm("a", 4, "n1")
        kubevirt.hold = True
        async with rig.controlling():
            await rig.ask("a", 6)
            await rig.until(lambda: kubevirt.phases() == ["Copying"])
            await rig.delete_pod("x")
            await rig.until(lambda: rig.approved("a") == 6)
            await rig.until(lambda: not (kubevirt.migrations.store or rig.recorded.store))
            await rig.until(lambda: len(kubevirt.pods("b")) == 1)
            assert kubevirt.instance("b").status.nodeName == "n1"
            await rig.until(lambda: rig.account("n2").used.get("cpu", 0) == 0)


async def test_instance_moved_by_another_client_runs_in_its_new_pod(kubevirt_hub: Path) -> None:
    async with scene(kubevirt_hub) as (rig, kubevirt), rig.controlling():
        spec = {"vmiName": "b", "addedNodeSelector": {"kubernetes.io/hostname": "n2"}}
        body = {"metadata": {"name": "theirs"}, "spec": spec}
        await rig.client.create(INSTANCE_MIGRATIONS, body, namespace=NAMESPACE)
        await rig.until(lambda: kubevirt.instance("b").status.nodeName == "n2")
        table, moved = rig.state.state.table, (INSTANCE_KIND, NAMESPACE, "b")
        await rig.until(lambda: getattr(table.owner_of(moved), "name", "") == f"{LAUNCHER}-theirs")
        await rig.until(lambda: rig.account("n1").used["cpu"] == 3000)
        assert list(kubevirt.migrations.store) == [(NAMESPACE, "theirs")]


async def test_next_leader_continues_the_migration_of_an_instance(kubevirt_hub: Path) -> None:
    async with scene(kubevirt_hub) as (rig, kubevirt):
        await rig.add_vm("a", 4, "n1")
        kubevirt.hold = True
        async with rig.controlling():
            await rig.ask("a", 6)
            await rig.until(lambda: kubevirt.phases() == ["Copying"])
        async with rig.controlling():
            kubevirt.release()
            await rig.until(lambda: rig.approved("a") == 6)
            await rig.until(lambda: not (kubevirt.migrations.store or rig.recorded.store))
            assert kubevirt.planned == ["n2"]


async def test_instance_has_no_permits(kubevirt_hub: Path) -> None:
    async with scene(kubevirt_hub) as (rig, _), rig.controlling() as controller:
        await controller.quiet()  # a term begins in slices
        with pytest.raises(PermitError, match="KubeVirt, which has no permits") as refused:
            await rig.ask_once(f"{LAUNCHER}-b", 4)
        assert refused.value.status == 400


PRESSED = {
    "watermark": 0.5,
    "migration": {
        "pressureDelaySeconds": 0,
        "cooldownSeconds": 0,
        "maxPerSourceNode": 9,
        "maxPerTargetNode": 9,
    },
}
"""Every node above half of its capacity is relieved, as far as KubeVirt allows."""


@asynccontextmanager
async def pressed(
    hub: Path, *, nodes: int, **configuration: int
) -> AsyncIterator[tuple[MachineRig, KubeVirt]]:
    """Full nodes of 10 units with eight instances each, and an empty node for all; nothing is copied yet."""
    async with machine_rig(hub, **PRESSED) as rig, KubeVirt(rig).running() as kubevirt:
        rig.kinds = frozenset({INSTANCE_KIND})
        if configuration:
            await kubevirt.configure(**configuration)
        await rig.add_node("empty", 100)
        for node in range(nodes):
            await rig.add_node(f"full-{node}", 10)
            for instance in range(8):
                await kubevirt.add(f"i{node}-{instance}", 1, f"full-{node}")
        kubevirt.hold = True
        yield rig, kubevirt


async def check_limit(rig: MachineRig, kubevirt: KubeVirt, limit: int) -> None:
    """Check that so many migrations run at once and none waits, until the nodes are relieved."""
    async with rig.controlling() as controller:
        await rig.until(lambda: kubevirt.phases() == ["Copying"] * limit)
        await controller.quiet()
        assert len(kubevirt.migrations.store) == limit
        kubevirt.release()
        full = [host.name for host in rig.state.objects.hosts.values() if host.name != "empty"]
        await rig.until(lambda: all(rig.account(node).used["cpu"] <= 5000 for node in full))
        await rig.until(lambda: not (kubevirt.migrations.store or rig.recorded.store))
        assert not kubevirt.waited


@pytest.mark.parametrize(("nodes", "limit"), [(1, 2), (3, 5)])
async def test_migrations_of_instances_keep_to_the_default_limits_of_kubevirt(
    kubevirt_hub: Path, nodes: int, limit: int
) -> None:
    async with pressed(kubevirt_hub, nodes=nodes) as (rig, kubevirt):
        await check_limit(rig, kubevirt, limit)


async def test_migrations_of_instances_keep_to_the_configured_limits_of_kubevirt(kubevirt_hub: Path) -> None:
    limits = {"parallelMigrationsPerCluster": 4, "parallelOutboundMigrationsPerNode": 3}
    async with pressed(kubevirt_hub, nodes=2, **limits) as (rig, kubevirt):
        await check_limit(rig, kubevirt, 4)


async def test_migrations_of_other_clients_take_places_until_they_end(kubevirt_hub: Path) -> None:
    async with pressed(kubevirt_hub, nodes=1) as (rig, kubevirt):
        for name in ("i0-6", "i0-7"):
            body = {"metadata": {"name": f"their-{name}"}, "spec": {"vmiName": name}}
            await rig.client.create(INSTANCE_MIGRATIONS, body, namespace=NAMESPACE)
        await rig.until(lambda: len(kubevirt.pods("i0-6")) == len(kubevirt.pods("i0-7")) == 2)
        async with rig.controlling() as controller:
            await rig.until(lambda: rig.account("full-0").used["cpu"] == 8000)
            await controller.quiet()
            assert not rig.records()
            kubevirt.release()
            await rig.until(lambda: rig.account("full-0").used["cpu"] <= 5000)
            assert not kubevirt.waited


async def test_changed_limits_of_kubevirt_apply_at_once(kubevirt_hub: Path) -> None:
    none = {"parallelMigrationsPerCluster": 0}
    async with pressed(kubevirt_hub, nodes=1, **none) as (rig, kubevirt), rig.controlling() as controller:
        await rig.until(lambda: rig.account("full-0").used["cpu"] == 8000)
        await controller.quiet()
        assert not rig.records()
        await kubevirt.configure(parallelMigrationsPerCluster=1)
        await rig.until(lambda: kubevirt.phases() == ["Copying"])
        kubevirt.release()
        await rig.until(lambda: rig.account("full-0").used["cpu"] <= 5000)
