"""Migrations that fail, limits on migrations, and inputs that are wrong."""

from dataclasses import replace

import pytest

from fairway.hosts.instant import SECOND
from fairway.workloads.machines import events, instructions
from fairway.workloads.machines.events import Observation, Stage
from fairway.workloads.machines.machine import VIRTUAL_MACHINE
from fairway.workloads.machines.migration import Phase
from fairway.workloads.machines.migration_limits import MigrationLimits
from fairway.workloads.machines.permit_protocol import FOREIGN_POD, Permit, PermitError, PermitRequest
from fairway.workloads.machines.policy import NOT_A_SHARE, MachinePolicy, PolicyError
from fairway.workloads.machines.relief import CAPACITY_NEEDED
from workloads.machines.world import N1, N2, N3, World, cu, fixture, key


def refusal(world: World) -> tuple[int, str]:
    answer = world.replies[-1][1]
    assert isinstance(answer, PermitError)
    return answer.status, str(answer)


def test_f1_migration_without_a_feasible_target_is_not_started_and_capacity_is_asked_for() -> None:
    world = fixture()
    world.oracle.only["vm-b"] = ()
    world.ask("a", 6)
    world.run()
    (alert,) = world.alerts
    assert (world.migrations, alert.reason, alert.key, alert.missing) == (
        [],
        CAPACITY_NEEDED,
        key("a"),
        cu(2),
    )
    world.ask("a", 6)
    world.run()
    assert len(world.alerts) == 1, "once for each request"


def test_f1_room_on_another_node_starts_the_migration_that_waited_for_it() -> None:
    world = fixture()
    world.add("full", 8, N2, vm=False)
    world.ask("a", 6)
    world.run()
    assert world.migrations == []
    world.delete("full")
    world.pass_time(1)
    assert world.migration.target_host == N2


def test_f1_new_target_starts_the_migrations_that_waited_for_it_and_no_others() -> None:
    world = fixture(MachinePolicy(pressure_delay=2 * SECOND))
    world.oracle.only["vm-b"] = ()
    world.pass_time(5)  # n1 is above its watermark
    assert (world.account(N1).used, world.migrations) == (cu(10), [])
    world.oracle.only.clear()
    world.send(events.TargetsChanged((N2,)))
    assert world.migrations == []
    world.send(events.TargetsChanged((N1,)))
    assert world.migration.target_host == N2


@pytest.mark.parametrize("cause", ["copy", "target", "target host", "source"])
def test_f2_failure_before_cutover_drops_the_earmark_and_tries_another_target_later(cause: str) -> None:
    world = fixture(hosts=(N1, N2, N3))
    world.ask("a", 6)
    world.run()
    id_ = world.migration.id
    assert (world.migration.phase, world.migration.target_host) == (Phase.COPYING, N2)
    target = world.migrator.copies[id_].target
    if cause == "copy":
        world.migrator.fail(id_, "out of memory")
        world.watch(id_)
    elif cause == "target":
        world.delete_target(target)
    elif cause == "target host":
        del world.hosts[N2]
        world.pods.pop(target)
        world.send(events.HostGone(N2))
    else:
        world.pods.pop(key("b"))
        world.send(events.MachineGone(key("b")))
    assert not world.account(N1).earmarks
    if cause == "source":
        assert world.holding("a") == 6
        world.migrator.fail(id_, "source lost")
        world.watch(id_)
    world.run()
    assert world.migrations == []
    if cause != "source":
        assert (world.running["vm-b"], world.permit("a")) == (key("b"), 4)
        world.pass_time(30)
        assert (world.migration.attempt, world.migration.target_host) == (2, N3)


def test_f2_target_that_is_lost_after_cutover_was_written_but_before_it_took_over_fails_the_migration() -> (
    None
):
    world = fixture()
    world.ask("a", 6)
    world.run()
    id_ = world.migration.id
    world.complete(id_)
    world.run(until=instructions.Cutover)
    target = world.migrator.copies.pop(id_).target
    world.delete_target(target)
    world.run()
    assert (world.migrations, world.running["vm-b"], world.account(N1).earmarks) == ([], key("b"), {})
    world.pass_time(30)
    assert (world.migration.attempt, world.migration.target_host) == (2, N2), "no other target is left"


def test_f2_waiting_time_doubles_with_each_failure() -> None:
    world = fixture(hosts=(N1, N2, N3))
    world.oracle.only["vm-b"] = (N2, N3)
    world.ask("a", 6)
    waits = []
    for _ in range(2):
        world.run()
        world.migrator.fail(world.migration.id, "no")
        world.watch(world.migration.id)
        world.run()
        failures = world.state.table.failures_of(key("b"))
        assert failures is not None
        waits.append(failures.not_before - world.now)
        world.pass_time(waits[-1] / 1_000_000)
    assert waits == [30_000_000, 60_000_000]


def test_f3_two_waiting_machines_share_one_victim() -> None:
    world = World()
    world.add("a", 2)
    world.add("d", 2)
    world.add("b", 3, migratable=True)
    world.add("x", 3, vm=False)
    world.load()
    world.ask("a", 4)
    world.ask("d", 3)
    world.run()
    assert [(claim.beneficiary, claim.amounts) for claim in world.migration.claims] == [
        (key("a"), cu(2)),
        (key("d"), cu(1)),
    ]
    world.complete(world.migration.id)
    world.run()
    assert (world.permit("a"), world.permit("d"), world.free(N1)) == (4, 3, 0)


def test_f3_two_waiting_machines_get_different_victims_if_one_is_not_enough() -> None:
    world = World(MachinePolicy(watermark=1000))
    world.add("a", 2)
    world.add("d", 2)
    world.add("b", 2, migratable=True)
    world.add("e", 2, migratable=True)
    world.add("x", 2, vm=False)
    world.load()
    world.ask("a", 4)
    world.ask("d", 4)
    world.run()
    assert sorted((migration.vm, migration.claims[0].beneficiary.name) for migration in world.migrations) == [
        ("vm-b", "a"),
        ("vm-e", "d"),
    ]


def test_f4_machine_within_its_cooldown_is_not_moved() -> None:
    world = World()
    world.add("a", 4)
    world.add("b", 3, migratable=True, moved=world.now - 1)
    world.add("x", 3, vm=False)
    world.load()
    world.ask("a", 6)
    world.run()
    assert world.migrations == []
    world.pass_time(300)
    assert world.migration.vm == "vm-b"


def test_f4_target_that_would_exceed_its_watermark_is_not_chosen() -> None:
    world = fixture(hosts=(N1, N2, N3))
    world.add("y", 7, N2, vm=False)
    world.ask("a", 6)
    world.run(until=instructions.Prepare)
    assert world.migration.target_host == N3


def test_f4_limits_per_source_per_target_and_fleet_hold() -> None:
    for policy, limit in (
        (MachinePolicy(per_source=1, watermark=1000), 1),
        (MachinePolicy(per_target=1, per_source=9, watermark=1000), 1),
        (MachinePolicy(per_fleet=2, per_source=9, per_target=9, watermark=1000), 2),
    ):
        world = World(policy)
        world.add("a", 1)
        for at in range(9):
            world.add(f"b{at}", 1, migratable=True)
        world.load()
        world.ask("a", 4)
        world.run()
        assert len(world.migrations) == limit, policy
        for _ in range(6):
            for migration in world.migrations:
                world.complete(migration.id)
                world.run()
        assert world.permit("a") == 4, "the rest follows"


def limited(limits: MigrationLimits) -> World:
    world = World(MachinePolicy(per_source=9, per_target=9, watermark=1000))
    world.add("a", 1)
    for at in range(9):
        world.add(f"b{at}", 1, migratable=True)
    world.load()
    world.send(events.LimitsChanged(VIRTUAL_MACHINE, limits))
    world.ask("a", 5)
    world.run()
    return world


@pytest.mark.parametrize(
    ("limits", "started"),
    [
        (MigrationLimits(in_fleet=3, from_host=9), 3),
        (MigrationLimits(in_fleet=9, from_host=2), 2),
        (MigrationLimits(in_fleet=3, from_host=9, others={N2: 1}, others_elsewhere=1), 1),
        (MigrationLimits(in_fleet=9, from_host=3, others={N1: 1}), 2),
        (MigrationLimits(in_fleet=2, from_host=2, others_elsewhere=4), 0),
        (MigrationLimits(in_fleet=0, from_host=2), 0),
    ],
)
def test_hypervisor_gets_no_more_migrations_than_it_carries_out(
    limits: MigrationLimits, started: int
) -> None:
    world = limited(limits)
    assert len(world.migrations) == started
    world.send(events.LimitsChanged(VIRTUAL_MACHINE, MigrationLimits(in_fleet=9, from_host=9)))
    world.pass_time(2)
    world.run()
    assert len(world.migrations) == 4, "further ones start once there is a place"


def test_limits_of_one_hypervisor_do_not_hold_for_another() -> None:
    world = limited(MigrationLimits(in_fleet=9, from_host=9))
    world.send(events.LimitsChanged("VirtualMachineInstance", MigrationLimits(in_fleet=0, from_host=0)))
    assert len(world.migrations) == 4


def test_migration_that_waits_for_its_hypervisor_is_not_cancelled_before_its_deadline() -> None:
    world = fixture()
    world.ask("a", 6)
    world.run(until=instructions.Prepare)
    world.queue.clear()  # the hypervisor has created no target
    (migration,) = world.migrations
    world.send(events.MigrationObserved(migration.id, Observation(stage=Stage.ABSENT, waiting=True)))
    world.pass_time(600)
    assert (world.migration.id, world.migration.phase) == (migration.id, Phase.PLANNED)
    world.pass_time(3600)
    assert migration.id not in {other.id for other in world.migrations if other.cancellable}


def test_f4_machine_for_which_room_is_made_is_not_moved() -> None:
    world = World(MachinePolicy(watermark=1000))
    world.add("a", 4, migratable=True)
    world.add("b", 3, migratable=True)
    world.add("d", 1)
    world.add("x", 2, vm=False)
    world.load()
    world.ask("a", 6)
    world.run()
    world.ask("d", 4)
    world.run()
    assert world.migration.vm == "vm-b"
    assert [claim.beneficiary for claim in world.migration.claims] == [key("a"), key("d")]


def test_f4_free_room_is_not_claimed_before_all_moves_of_a_plan_started() -> None:
    world = World(MachinePolicy(per_source=1, watermark=1000))
    world.add("a", 4)
    for name in ("b", "c"):
        world.add(name, 1, migratable=True)
    world.add("x", 3, vm=False)
    world.load()
    world.ask("a", 7, unit=3)
    world.run()
    assert ([claim.from_source for claim in world.migration.claims], world.free(N1)) == ([True], 1)


def test_f5_denied_demand_under_the_watermark_starts_a_migration() -> None:
    """Total 10, watermark 9, reserved 9, unit 2: the reference never starts one."""
    world = World()
    world.add("a", 4)
    world.add("b", 2, migratable=True)
    world.add("x", 3, vm=False)
    world.load()
    world.ask("a", 6, unit=2)
    world.run()
    assert (world.permit("a"), world.migration.vm) == (4, "vm-b")
    world.complete(world.migration.id)
    world.run()
    assert world.permit("a") == 6


def test_f6_pod_that_is_bound_though_its_binding_failed_is_counted_once() -> None:
    world = fixture()
    new = key("new")
    with world.state.ledger.transaction() as tx:
        tx.reserve(N2, new, cu(2))
    with world.state.ledger.transaction() as tx:
        tx.release(N2, new)
    world.add("new", 2, N2, vm=False)
    world.send(world.observed(new))
    assert world.used(N2) == 2


def test_f7_finished_pod_frees_its_room_at_once() -> None:
    world = fixture()
    world.ask("a", 6)
    world.run()
    world.delete("x")
    assert world.holding("a") == 6


def test_f8_request_of_a_migrating_machine_is_remembered_and_honoured_at_the_target() -> None:
    world = fixture()
    world.ask("a", 6)
    world.run()
    world.ask("b", 5)
    world.run()
    answer = world.replies[-1][1]
    assert isinstance(answer, Permit)
    assert (answer.resources, answer.migrate) == (cu(3), True)
    world.complete(world.migration.id)
    world.run()
    assert (world.permit("b"), world.account(N2).holding(world.running["vm-b"])) == (5, cu(5))


def test_f9_changed_overcommit_factor_replaces_what_was_counted() -> None:
    world = fixture()
    a = key("a")
    world.pods[a] = replace(world.pods[a], factors={"cpu": 2000, "memory": 2000})
    world.send(world.observed(a))
    assert (world.holding("a"), world.used(N1)) == (2, 8)
    world.ask("a", 8)
    assert (world.holding("a"), world.used(N1)) == (4, 10)
    world.pods[a] = replace(world.pods[a], factors={})
    world.send(world.observed(a))
    world.run()
    assert world.holding("a") == 8, "the permit was given, so it counts"
    assert world.grantable("new") == 0


def test_f10_node_that_shrinks_below_its_use_grants_nothing_and_is_relieved() -> None:
    world = fixture()
    world.resize(N1, 8)
    assert (world.migration.vm, world.migration.reason) == ("vm-b", "AboveWatermark")
    world.ask("a", 5)
    world.run()
    assert world.permit("a") == 4
    world.complete(world.migration.id)
    world.run()
    assert (world.used(N1), world.permit("a")) == (8, 5)


def test_f11_denied_machine_is_granted_by_the_event_that_makes_room() -> None:
    world = fixture()
    world.oracle.only["vm-b"] = ()
    world.ask("a", 6)
    world.run()
    generation = world.state.ledger.generation
    world.delete("x")
    assert (world.holding("a"), world.state.ledger.generation) == (6, generation + 1)
    assert any(isinstance(instruction, instructions.WritePermit) for instruction in world.queue)


def test_f11_machine_that_was_denied_first_is_granted_first() -> None:
    world = World()
    for name, amount in (("a", 2), ("d", 2)):
        world.add(name, amount)
    world.add("x", 6, vm=False)
    world.load()
    for name in ("d", "a"):
        world.ask(name, 4)
        world.run()
        world.pass_time(1)
    world.resize(N1, 11)
    world.run()
    assert (world.permit("d"), world.permit("a")) == (3, 2)


def test_node_above_its_watermark_is_relieved_after_the_delay() -> None:
    world = fixture()
    world.pass_time(9)
    assert world.migrations == []
    world.pass_time(1)
    assert (world.migration.vm, world.migration.reason) == ("vm-b", "AboveWatermark")
    world.delete("x")
    world.run()
    assert world.migrations == [], "cancelled: the node is below its watermark"


@pytest.mark.parametrize("phase", list(Phase)[:6])
def test_machine_deleted_in_any_phase_of_its_migration_leaves_the_ledger_intact(phase: Phase) -> None:
    world = fixture()
    world.binds_targets = phase is not Phase.TARGET_PENDING
    world.ask("a", 6)
    while not (world.migrations and world.migration.phase is phase):
        if not world.queue:
            world.complete(world.migration.id)
        world.step()
    id_ = world.migration.id
    copy = world.migrator.copies.get(id_)
    world.running.pop("vm-b", None)
    world.pods.pop(key("b"), None)
    world.send(events.MachineGone(key("b")))
    if copy is not None:
        world.delete_target(copy.target)
        world.migrator.copies.pop(id_)
    world.watch(id_)
    world.run()
    world.pass_time(3700)
    world.run()
    assert (world.holding("a"), world.used(N2)) == (6, 0)
    assert not world.account(N1).earmarks
    assert not world.account(N2).earmarks


def test_permit_for_an_unknown_pod_is_refused_with_404() -> None:
    world = fixture()
    world.ask("nobody", 4)
    world.run()
    assert refusal(world) == (404, "pod ns/nobody is unknown, or not bound to a node")


def test_permit_for_an_unknown_pod_before_loading_is_refused_with_503() -> None:
    world = World()
    world.ask("a", 4)
    world.run()
    assert refusal(world)[0] == 503


def test_permit_for_a_pod_without_a_machine_is_refused_with_400() -> None:
    world = fixture()
    world.ask("x", 4)
    world.run()
    assert refusal(world) == (400, "pod ns/x does not run a virtual machine")


def test_permit_for_a_pod_on_another_node_than_the_agents_is_refused_with_403() -> None:
    world = fixture()
    request = PermitRequest(namespace="ns", name="a", unit=cu(1), resources=cu(2))
    world.send(events.PermitRequested(request, "n2"))
    world.run()
    assert refusal(world) == (403, FOREIGN_POD.format(node="n2", pod="ns/a"))
    assert world.permit("a") == 4
    world.send(events.PermitRequested(request, "n1"))
    assert world.permit("a") == 2


def test_permit_that_another_instance_wrote_is_honoured() -> None:
    world = fixture()
    world.delete("x")
    world.vms["vm-a"] = replace(world.vms["vm-a"], requested=cu(6), approved=cu(6), generation=5)
    world.ask("a", 5)
    world.run()
    assert (world.vms["vm-a"].generation, world.permit("a"), world.holding("a")) == (5, 6, 6)


def test_permit_for_a_target_that_does_not_run_the_machine_yet_is_refused_with_503() -> None:
    world = fixture()
    world.ask("a", 6)
    world.run()
    world.running["vm-b"] = world.migrator.copies[world.migration.id].target
    world.ask("b", 4)
    world.run()
    assert refusal(world)[0] == 503


def test_permit_that_cannot_be_written_is_refused_with_503_and_written_later() -> None:
    world = fixture()
    world.delete("x")
    world.failing.add(instructions.WritePermit)
    world.ask("a", 6)
    world.run()
    assert refusal(world)[0] == 503
    world.failing.clear()
    world.pass_time(1)
    world.run()
    assert world.vms["vm-a"].approved == cu(6)


def test_room_of_a_lowered_permit_is_free_once_it_is_written() -> None:
    world = fixture()
    world.failing.add(instructions.WritePermit)
    world.ask("a", 2)
    world.run()
    assert (world.permit("a"), world.holding("a")) == (2, 4), (
        "after a crash, the old permit would count again"
    )
    world.failing.clear()
    world.pass_time(1)
    world.run()
    assert (world.holding("a"), world.grantable("new")) == (2, 2)


def test_last_permit_of_another_scheduler_is_honoured_as_far_as_there_is_room() -> None:
    world = World()
    world.load()
    world.add("w", 4, vm=False)
    world.add("a", 2)
    pod = key("z")
    world.pods[pod] = replace(world.pods[key("a")], key=pod, vm="vm-z")
    world.running["vm-z"] = pod
    world.send(events.MachineObserved(world.pods[pod]))
    world.vms["vm-z"] = replace(world.vms["vm-a"], generation=0)
    world.ask("z", 9, last=4)
    world.run()
    assert world.permit("z") == 4


def test_copy_whose_progress_is_unknown_is_awaited_until_its_deadline() -> None:
    world = fixture()
    world.ask("a", 6)
    world.run()
    id_ = world.migration.id
    world.send(events.MigrationObserved(id_, events.Observation(stage=Stage.UNKNOWN)))
    world.run()
    assert world.migration.phase is Phase.COPYING
    world.pass_time(3600)
    assert id_ not in {migration.id for migration in world.migrations}


def test_setting_out_of_range_is_refused() -> None:
    with pytest.raises(PolicyError) as error:
        MachinePolicy(watermark=1001)
    assert str(error.value) == NOT_A_SHARE.format(field="watermark", value=1001)
    with pytest.raises(PolicyError, match="per_fleet must be at least 1; got 0"):
        MachinePolicy(per_fleet=0)
