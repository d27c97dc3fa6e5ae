"""The story on a hub: a machine grows, its node is full, another one moves away, and no pod takes the room."""

import asyncio
import dataclasses
from pathlib import Path
from typing import Any

import pytest
from msgspec import json

from controllers.machines.machine_rig import HIGH, MachineRig, machine_rig
from fairway.api.resources import NODES
from fairway.controllers.machines.objects import key_of
from fairway.controllers.runtime.leadership import ALONE, leading
from fairway.history import MIGRATION
from fairway.history.archive import Archive
from fairway.history.recorder import Recorder
from fairway.simulation.machines.kubelet import SYNTHETIC
from fairway.simulation.machines.neonvm import Step
from fairway.workloads.machines.events import PermitConflict, PermitWritten
from fairway.workloads.machines.instructions import WritePermit
from fairway.workloads.machines.machine import Demand
from fairway.workloads.machines.migration import Migration, migration_id
from fairway.workloads.machines.migration_record import ANNOTATION
from fairway.workloads.machines.neonvm import MIGRATION_KIND, migration_object, moved_at
from fairway.workloads.machines.permit_protocol import PermitError
from kubewire.client import Patch

pytestmark = [pytest.mark.embedded, pytest.mark.usefixtures("no_error_logs")]


def pinned(node: str) -> dict[str, Any]:
    return {"nodeSelector": {"kubernetes.io/hostname": node}}


async def scene(rig: MachineRig) -> None:
    """Two nodes of 10 units; on n1, A has 4, B has 3 and may move, X has 3."""
    await rig.add_node("n1", 10)
    await rig.add_node("n2", 10)
    await rig.add_vm("vm-a", 4, "n1")
    await rig.add_vm("vm-b", 3, "n1", movable=True)
    await rig.add_pod("x", 3, node="n1")


@pytest.mark.both_hubs
async def test_machine_grows_into_the_room_of_the_one_that_moved(machine_hub: Path, tmp_path: Path) -> None:
    history = Recorder(tmp_path)
    async with machine_rig(machine_hub) as rig:
        await scene(rig)
        async with rig.controlling(history=history):
            permit = await rig.ask("vm-a", 6, node="n1")
            assert permit.resources["cpu"] == 4000
            assert len(permit.migrations) == 1
            await rig.until(lambda: rig.approved("vm-a") == 6)
            await rig.until(lambda: not rig.has_migrations())
            assert (rig.node_of("vm-b"), rig.node_of("vm-a")) == ("n2", "n1")
            assert rig.mortal is not None
            assert MIGRATION_KIND not in rig.mortal.patched
            await rig.resize_vm("vm-a", 6)
            assert (await rig.ask("vm-a", 6)).resources["cpu"] == 6000
            await rig.until(lambda: rig.account("n1").free()["cpu"] == 1000)
            rig.check()
    history.close()
    with Archive.open(tmp_path) as archive:
        records = [stored.record for stored in archive.records()]
    (moved,) = [record for record in records if record.kind == MIGRATION]
    assert (moved.name, moved.before, moved.after, moved.error) == ("vm-b", ("n1",), ("n2",), "")


async def test_machine_that_moved_stays_for_the_cooldown_after_its_migration_is_deleted(
    machine_hub: Path,
) -> None:
    async with machine_rig(machine_hub) as rig:
        await scene(rig)
        async with rig.controlling():
            await rig.ask("vm-a", 6)
            await rig.until(lambda: rig.approved("vm-a") == 6)
            await rig.until(lambda: not rig.has_migrations())
            await rig.until(lambda: [owner.kind for owner in rig.owners("vm-b")] == ["VirtualMachine"])
            # Once it has placed a later pod, the controller has seen the earlier change, too.
            await rig.add_pod("later", 1)
            await rig.until(lambda: rig.scheduled("later"))
            assert rig.machine("vm-b").moved is not None


async def test_new_leader_keeps_the_cooldown_of_a_machine_that_moved(machine_hub: Path) -> None:
    async with machine_rig(machine_hub) as rig:
        await scene(rig)
        async with rig.controlling():
            await rig.ask("vm-a", 6)
            await rig.until(lambda: not rig.has_migrations() and rig.node_of("vm-b") == "n2")
            await rig.until(lambda: [owner.kind for owner in rig.owners("vm-b")] == ["VirtualMachine"])
            await rig.until(lambda: moved_at(rig.vm("vm-b")) is not None)
        async with rig.controlling():
            await rig.until(lambda: rig.machine("vm-b"))
            assert rig.machine("vm-b").moved == moved_at(rig.vm("vm-b"))
            assert rig.machine("vm-b").moved is not None
            assert rig.machine("vm-a").moved is None


@pytest.mark.both_hubs
async def test_plain_pods_never_get_the_room_that_is_made_for_a_machine(
    machine_hub: Path,
) -> None:
    async with machine_rig(machine_hub) as rig:
        await scene(rig)
        rig.neonvm.hold(Step.CLEANUP)
        async with rig.controlling() as controller:
            await rig.ask("vm-a", 6)
            await rig.add_pod("thief", 2, **pinned("n1"))
            await rig.add_pod("small", 1, **pinned("n1"))
            await rig.until(lambda: rig.approved("vm-a") == 6)
            await rig.until(lambda: rig.scheduled("small") == "n1")
            await controller.quiet()
            assert rig.scheduled("thief") == ""
            assert rig.account("n1").free()["cpu"] == 0
            rig.check()
            await rig.delete_pod("x")
            await rig.until(lambda: rig.scheduled("thief") == "n1")


ZONE = {"metadata": {"labels": {"zone": "a"}}}
TAINT = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}


@pytest.mark.parametrize(
    ("closed", "opened"),
    [
        ({**ZONE, "spec": {"unschedulable": True}}, {"spec": {"unschedulable": None}}),
        ({**ZONE, "spec": {"taints": [TAINT]}}, {"spec": {"taints": None}}),
        ({}, ZONE),
        (None, {"spec": {"taints": None}}),
    ],
    ids=["uncordoned", "taint removed", "label of the node selector added", "new, then ready"],
)
async def test_node_that_becomes_a_target_starts_the_migration_that_waited_for_it(
    machine_hub: Path, closed: dict[str, Any] | None, opened: dict[str, Any]
) -> None:
    async with machine_rig(machine_hub, migration={"onPressure": False}) as rig:
        await rig.add_node("n1", 10)
        await rig.client.patch(NODES, "n1", ZONE, kind=Patch.MERGE)
        if closed is not None:
            await rig.add_node("n2", 10)
            await rig.client.patch(NODES, "n2", closed, kind=Patch.MERGE)
        await rig.add_vm("vm-a", 4, "n1")
        await rig.add_vm("vm-b", 6, "n1", movable=True, nodeSelector={"zone": "a"})
        async with rig.controlling() as controller:
            await rig.ask("vm-a", 6)
            await controller.quiet()
            assert not rig.has_migrations()
            if closed is None:
                labels = {"zone": "a", SYNTHETIC: "true"}
                new = {"metadata": {"name": "n2", "labels": labels}, "spec": {"taints": [TAINT]}}
                await rig.client.create(NODES, new)
                await rig.resize_node("n2", 10)
                await rig.until(lambda: rig.account("n2").capacity)
            await rig.client.patch(NODES, "n2", opened, kind=Patch.MERGE)
            await rig.until(lambda: rig.approved("vm-a") == 6)
            assert rig.node_of("vm-b") == "n2"


@pytest.mark.both_hubs
async def test_two_machines_grow_while_a_third_migrates(machine_hub: Path) -> None:
    async with machine_rig(machine_hub) as rig:
        await rig.add_node("n1", 10)
        await rig.add_node("n2", 10)
        await rig.add_vm("vm-a", 3, "n1")
        await rig.add_vm("vm-b", 4, "n1", movable=True)
        await rig.add_vm("vm-c", 3, "n1")
        async with rig.controlling():
            rig.neonvm.hold(Step.COMPLETE)
            first, second = await asyncio.gather(rig.ask("vm-a", 5), rig.ask("vm-c", 5))
            assert (first.resources["cpu"], second.resources["cpu"]) == (3000, 3000)
            frozen = await rig.ask("vm-b", 6)
            assert frozen.migrate
            assert frozen.resources["cpu"] == 4000
            rig.neonvm.release()
            await rig.until(lambda: (rig.approved("vm-a"), rig.approved("vm-c")) == (5, 5))
            await rig.until(lambda: rig.approved("vm-b") == 6)
            assert rig.node_of("vm-b") == "n2"
            rig.check()


async def test_machine_is_granted_by_the_event_that_makes_room(machine_hub: Path) -> None:
    async with machine_rig(machine_hub, migration={"migrator": "None"}) as rig:
        await scene(rig)
        async with rig.controlling():
            assert (await rig.ask("vm-a", 6)).resources["cpu"] == 4000
            await rig.delete_pod("x")
            await rig.until(lambda: rig.approved("vm-a") == 6)
            assert rig.migrations.store == {}


@pytest.mark.both_hubs
async def test_migration_that_is_not_needed_any_more_is_cancelled(machine_hub: Path) -> None:
    async with machine_rig(machine_hub) as rig:
        await scene(rig)
        rig.neonvm.hold(Step.COMPLETE)
        async with rig.controlling():
            await rig.ask("vm-a", 6)
            await rig.until(lambda: [record.phase for record in rig.records()] == ["Copying"])
            await rig.delete_pod("x")
            await rig.until(lambda: rig.approved("vm-a") == 6)
            await rig.until(lambda: not rig.has_migrations())
            assert rig.node_of("vm-b") == "n1"
            await rig.until(lambda: rig.vm("vm-b").status.phase == "Running")
            rig.check()


@pytest.mark.parametrize(
    ("vm", "step"),
    [
        *(("vm-b", step) for step in (Step.TARGET, Step.COMPLETE, Step.CLEANUP)),
        *(pytest.param("vm-b", step, marks=pytest.mark.both_hubs) for step in (Step.COPY, Step.CUTOVER)),
        ("vm-a", Step.COPY),
        pytest.param("vm-a", Step.CLEANUP, marks=pytest.mark.both_hubs),
    ],
)
async def test_machine_that_is_deleted_in_any_step_of_a_migration_leaves_its_room(
    machine_hub: Path, vm: str, step: Step
) -> None:
    async with machine_rig(machine_hub) as rig:
        await scene(rig)
        rig.neonvm.hold(step)
        async with rig.controlling():
            await rig.ask("vm-a", 6)
            await rig.until(lambda: rig.is_held(step))
            await rig.delete_vm(vm)
            rig.neonvm.release()
            await rig.until(lambda: not rig.has_migrations())
            other = "vm-b" if vm == "vm-a" else "vm-a"
            await rig.until(lambda: len(rig.runners()) == 1 and rig.pod_of(other) is not None)
            if vm == "vm-b":
                await rig.until(lambda: rig.approved("vm-a") == 6)
            expected = 3000 + 6000 if vm == "vm-b" else 3000 + 3000
            await rig.until(
                lambda: sum(rig.account(node).used.get("cpu", 0) for node in ("n1", "n2")) == expected
            )
            assert not any(rig.account(node).earmarks for node in ("n1", "n2"))


@pytest.mark.both_hubs
async def test_node_that_shrinks_below_its_use_grants_nothing_and_is_relieved(
    machine_hub: Path,
) -> None:
    async with machine_rig(machine_hub) as rig:
        await scene(rig)
        async with rig.controlling():
            await rig.resize_node("n1", 8)
            await rig.until(lambda: rig.node_of("vm-b") == "n2")
            await rig.until(lambda: not rig.has_migrations())
            assert (await rig.ask("vm-a", 6)).resources["cpu"] == 5000
            rig.check()


async def test_pods_of_a_node_that_is_recreated_count_on_the_new_one(machine_hub: Path) -> None:
    async with machine_rig(machine_hub) as rig:
        await scene(rig)
        async with rig.controlling():
            await rig.until(lambda: rig.account("n1").used.get("cpu") == 10_000)
            before = rig.account("n1").host
            await rig.client.delete(NODES, "n1")
            await rig.add_node("n1", 10)
            await rig.until(lambda: rig.account("n1").host != before)
            await rig.until(lambda: rig.account("n1").used.get("cpu") == 10_000)
            rig.check()


@pytest.mark.parametrize(
    ("pod", "node", "status"), [("nobody", "", 404), ("vm-a", "n2", 403), ("x", "n1", 400)]
)
async def test_refused_request_leaves_the_ledger_intact(
    machine_hub: Path, pod: str, node: str, status: int
) -> None:
    async with machine_rig(machine_hub) as rig:
        await scene(rig)
        async with rig.controlling():
            await rig.ask("vm-a", 4)
            before = repr(rig.account("n1")), rig.account("n2")
            name = rig.vm(pod).status.podName if pod.startswith("vm") else pod
            with pytest.raises(PermitError) as refused:
                await rig.ask_once(name, 6, node=node)
            assert refused.value.status == status
            assert (repr(rig.account("n1")), rig.account("n2")) == before
            assert not len(rig.state.agents)


async def test_disconnected_agent_leaves_nothing_behind(machine_hub: Path) -> None:
    async with machine_rig(machine_hub) as rig:
        await scene(rig)
        async with rig.controlling():
            asking = asyncio.create_task(rig.ask_once(rig.vm("vm-a").status.podName, 5))
            await asyncio.sleep(0)
            asking.cancel()
            await asyncio.gather(asking, return_exceptions=True)
            assert not len(rig.state.agents)


async def test_permits_survive_a_new_term(machine_hub: Path) -> None:
    async with machine_rig(machine_hub, migration={"migrator": "None"}) as rig:
        await scene(rig)
        async with rig.controlling():
            await rig.delete_pod("x")
            await rig.until(lambda: rig.pod("x") is None)
            await rig.ask("vm-a", 6)
        async with rig.controlling():
            # The machine has not grown yet, but its agent may do so at any time.
            await rig.until(lambda: rig.account("n1").used["cpu"] == 9000)
            assert (await rig.ask("vm-b", 9)).resources["cpu"] == 4000


async def test_room_of_preempted_pods_is_not_given_to_a_machine_that_waits(
    machine_hub: Path,
) -> None:
    async with machine_rig(machine_hub, migration={"migrator": "None"}) as rig:
        await scene(rig)
        async with rig.controlling():
            assert (await rig.ask("vm-a", 7)).resources["cpu"] == 4000
            await rig.add_pod("preemptor", 2, priorityClassName=HIGH, **pinned("n1"))
            await rig.until(lambda: rig.scheduled("preemptor") == "n1")
            # X has left 3, and one of them is for the machine.
            await rig.until(lambda: rig.approved("vm-a") == 5)
            rig.check()


async def test_pods_of_other_schedulers_count_as_soon_as_they_are_observed(
    machine_hub: Path,
) -> None:
    async with machine_rig(machine_hub, migration={"migrator": "None"}) as rig:
        await scene(rig)
        async with rig.controlling():
            await rig.ask("vm-a", 4)
            await rig.add_pod("external", 5, node="n1", schedulerName="another")
            await rig.until(lambda: rig.account("n1").used["cpu"] == 15000)
            assert (await rig.ask("vm-a", 6)).resources["cpu"] == 4000


async def test_overcommitted_machine_counts_less_on_its_node(machine_hub: Path) -> None:
    async with machine_rig(machine_hub, migration={"migrator": "None"}) as rig:
        await rig.add_node("n1", 10)
        await rig.add_vm("vm-a", 6, "n1", overcommit={"cpu": "1.5", "memory": "1.5"})
        async with rig.controlling():
            await rig.until(lambda: rig.account("n1").used["cpu"] == 4000)
            assert (await rig.ask("vm-a", 20)).resources["cpu"] == 15000


async def test_migration_object_that_a_user_deletes_is_cancelled(machine_hub: Path) -> None:
    async with machine_rig(machine_hub) as rig:
        await scene(rig)
        rig.neonvm.hold(Step.TARGET)
        async with rig.controlling():
            await rig.ask("vm-a", 6)
            await rig.until(lambda: rig.is_held(Step.TARGET))
            (name,) = [record.id for record in rig.records()]
            await rig.delete_migration(name)
            await rig.until(lambda: not rig.has_migrations())
            await rig.until(lambda: not rig.account("n2").earmarks)
            assert rig.node_of("vm-b") == "n1"


async def copying(rig: MachineRig) -> Migration:
    """Let B be copied from n1, and stop the controller; return the record."""
    await scene(rig)
    rig.neonvm.hold(Step.COMPLETE)
    async with rig.controlling():
        await rig.ask("vm-a", 6)
        await rig.until(lambda: [record.phase for record in rig.records()] == ["Copying"])
    (record,) = rig.records()
    return record


async def test_migration_whose_record_a_user_deletes_is_cancelled(machine_hub: Path) -> None:
    async with machine_rig(machine_hub) as rig:
        await copying(rig)
        async with rig.controlling():
            await rig.until(lambda: rig.account("n1").earmarks)
            await rig.delete_record()
            await rig.reported("vm-b", "MigrationFailed")
            await rig.until(lambda: not rig.has_migrations())
            assert rig.node_of("vm-b") == "n1"


async def test_migration_whose_object_is_deleted_while_no_controller_runs_is_cancelled(
    machine_hub: Path,
) -> None:
    async with machine_rig(machine_hub) as rig:
        record = await copying(rig)
        await rig.delete_migration(record.id)
        await rig.until(lambda: not rig.migrations.store)
        async with rig.controlling():
            await rig.reported("vm-b", "MigrationFailed")
            await rig.until(lambda: not rig.has_migrations())
            assert rig.node_of("vm-b") == "n1"


async def test_migration_with_the_record_of_an_earlier_version_is_continued(machine_hub: Path) -> None:
    async with machine_rig(machine_hub) as rig:
        record = await copying(rig)
        await rig.annotate_migration(record.id, {ANNOTATION: json.encode(record).decode()})
        await rig.delete_record()
        async with rig.controlling():
            await rig.until(lambda: rig.state.state.table.migrations.keys() == {record.id})
            rig.neonvm.release()
            await rig.until(lambda: rig.approved("vm-a") == 6 and not rig.has_migrations())
            assert rig.node_of("vm-b") == "n2"
            rig.check()


async def test_hub_without_the_kind_of_records_has_permits_and_no_migrations(machine_hub: Path) -> None:
    async with machine_rig(machine_hub) as rig:
        await scene(rig)
        rig.with_records = False
        async with rig.controlling() as controller:
            assert (await rig.ask("vm-a", 6)).resources["cpu"] == 4000
            await controller.quiet()
            assert not rig.has_migrations()
            await rig.delete_pod("x")
            await rig.until(lambda: rig.approved("vm-a") == 6)


async def test_migration_without_a_record_is_deleted_at_the_start(machine_hub: Path) -> None:
    async with machine_rig(machine_hub) as rig:
        await copying(rig)
        await rig.delete_record()
        async with rig.controlling():
            await rig.until(lambda: not rig.has_migrations())
            assert rig.node_of("vm-b") == "n1"


async def test_stray_migration_of_a_former_leader_is_deleted(machine_hub: Path) -> None:
    async with machine_rig(machine_hub) as rig:
        record = await copying(rig)
        async with rig.controlling():
            await rig.until(lambda: rig.account("n1").earmarks)
            late = dataclasses.replace(record, id="late", attempt=7)
            await rig.create_migration(migration_object(late))
            await rig.create_record(late)
            await rig.until(lambda: [other.id for other in rig.records()] == [record.id])
            await rig.until(lambda: [name for _, name in rig.migrations.store] == [record.id])


async def test_migration_of_another_client_in_the_way_of_a_new_one_is_left_alone(machine_hub: Path) -> None:
    async with machine_rig(machine_hub, migration={"backoffSeconds": 0}) as rig:
        await scene(rig)
        source = rig.pod_of("vm-b")
        assert source is not None
        name = migration_id("vm-b", key_of(source), 1)
        await rig.create_migration({"metadata": {"name": name}, "spec": {"vmName": "vm-x"}})
        async with rig.controlling():
            await rig.ask("vm-a", 6)
            await rig.reported("vm-b", "MigrationFailed")
            await rig.until(lambda: rig.approved("vm-a") == 6 and not rig.recorded.store)
            await rig.until(lambda: [created for _, created in rig.migrations.store] == [name])


async def test_pod_of_a_new_machine_is_placed_where_the_machine_fits(machine_hub: Path) -> None:
    async with machine_rig(machine_hub, migration={"migrator": "None"}) as rig:
        await rig.add_node("n1", 10)
        await rig.add_vm("vm-a", 8, "n1")
        async with rig.controlling():
            await rig.add_vm("vm-b", 5, "")
            await rig.add_node("n2", 10)
            # Its pod requests nothing, but the machine needs 5.
            await rig.until(lambda: rig.node_of("vm-b") == "n2")
            await rig.until(lambda: rig.account("n2").used["cpu"] == 5000)
            await rig.add_vm("vm-c", 6, "")
            await rig.delete_vm("vm-a")
            await rig.until(lambda: rig.node_of("vm-c") == "n1")
            rig.check()


async def test_request_that_waits_when_the_term_ends_is_refused(machine_hub: Path) -> None:
    async with machine_rig(machine_hub) as rig:
        await scene(rig)
        async with rig.controlling(kill_at=(1, False)):
            asking = asyncio.create_task(rig.ask_once(rig.vm("vm-a").status.podName, 5))
            assert rig.mortal is not None
            await rig.mortal.dead.wait()
            assert not asking.done()
        with pytest.raises(PermitError) as refused:
            await asking
        assert refused.value.status == 503


async def test_leader_that_was_replaced_cannot_write_a_permit(machine_hub: Path) -> None:
    async with machine_rig(machine_hub, migration={"migrator": "None"}) as rig:
        await scene(rig)
        async with rig.controlling():
            await rig.ask("vm-a", 4)
            stale = rig.vm("vm-a")
            await rig.ask("vm-a", 3)
            key = next(key for key in rig.state.state.table.machines if key.name == stale.status.podName)
            old = Demand(requested=cu(9), approved=cu(9), unit=cu(1), generation=7)
            write = WritePermit(key=key, demand=old, after=1)
            with leading(ALONE):
                event, _ = await rig.writer().write_permit(write, stale)
            assert isinstance(event, PermitConflict)
            assert event.demand.requested == cu(3)
            assert rig.approved("vm-a") == 3


async def test_permit_whose_reply_was_lost_counts_as_written(machine_hub: Path) -> None:
    async with machine_rig(machine_hub, migration={"migrator": "None"}) as rig:
        await scene(rig)
        async with rig.controlling():
            await rig.ask("vm-a", 4)
            vm = rig.vm("vm-a")
            key = next(key for key in rig.state.state.table.machines if key.name == vm.status.podName)
            demand = Demand(requested=cu(5), approved=cu(4), unit=cu(1), generation=2)
            write = WritePermit(key=key, demand=demand, after=1)
            for _ in range(2):
                with leading(ALONE):
                    event, _ = await rig.writer().write_permit(write, vm)
                assert isinstance(event, PermitWritten)


def cu(units: int) -> dict[str, int]:
    return {"cpu": units * 1000, "memory": (units << 30) * 1000}
