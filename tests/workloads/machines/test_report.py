"""What readers see of the story: nodes, machines, and the steps of a migration."""

from fairway.hosts.instant import SECOND
from fairway.workloads.machines import instructions
from fairway.workloads.machines.migration import Claim, Migration, Phase, Reason
from fairway.workloads.machines.migration_story import describe_migration, parse_story, story_of
from fairway.workloads.machines.report import MachineReport, NodeReport, machine_reports, node_reports
from workloads.machines.world import N1, N2, World, cu, fixture, key


def asked() -> World:
    world = fixture()
    world.ask("a", 6)
    return world


def node(world: World, name: str) -> NodeReport:
    return next(report for report in node_reports(world.state) if report.node == name)


def machine(world: World, vm: str) -> MachineReport:
    return next(report for report in machine_reports(world.state) if report.vm == vm)


def test_full_node_reports_denied_demand_and_promised_room() -> None:
    world = asked()
    world.run(until=instructions.Prepare)
    report = node(world, "n1")
    assert (report.capacity, report.reserved, report.committed) == (cu(10), cu(10), cu(10))
    assert (report.denied, report.promised, report.kept, report.earmarked) == (cu(2), cu(2), {}, cu(2))
    assert (report.watermark, report.above, report.pressure) == (cu(9), cu(1), cu(3))
    assert (report.leaving, report.arriving, report.machines, report.pods) == (1, 0, 2, 1)
    assert report.share("cpu") == 1
    assert node(world, "n2").kept == cu(3), "room for the target"


def test_overcommitted_machine_commits_more_than_it_reserves() -> None:
    world = World()
    world.add("a", 3, factors={"cpu": 1500})
    report = node(world, "n1")
    assert (report.reserved["cpu"], report.committed["cpu"]) == (2, 3)


def test_node_without_capacity_has_no_share() -> None:
    world = World()
    world.add("a", 1)
    world.hosts[N2] = {}
    world.resize(N2, 0)
    assert node(world, "n2").share("cpu") is None


def test_denied_machines_come_first_with_the_migrations_that_help_them() -> None:
    world = asked()
    world.run()
    reports = machine_reports(world.state)
    assert [report.vm for report in reports] == ["vm-a", "vm-b"]
    first, second = reports
    assert (first.using, first.permit, first.demand, first.denied) == (cu(4), cu(4), cu(6), cu(2))
    assert first.waits_for == (second.moving,) != ("",)
    assert (second.moving_to, second.phase, second.node) == ("n2", "Copying", "n1")


def test_machines_are_sorted_by_the_value_of_the_numbers_in_their_names() -> None:
    world = World()
    for name in ("b", "10-12", "10", "10-3", "2-b", "2", "02", "1"):
        world.add(name, 0)
    names = [report.vm for report in machine_reports(world.state)]
    assert names == ["vm-1", "vm-02", "vm-2", "vm-2-b", "vm-10", "vm-10-3", "vm-10-12", "vm-b"]


def test_moved_machine_is_reported_on_its_target_node() -> None:
    world = asked()
    world.run()
    world.complete(world.migration.id)
    world.run()
    assert (machine(world, "vm-b").node, machine(world, "vm-b").moving) == ("n2", "")
    assert machine(world, "vm-a").permit == cu(6)


def test_story_has_every_step_with_its_time() -> None:
    world = asked()
    world.run()
    world.now += 7 * SECOND
    id_ = world.migration.id
    world.complete(id_)
    world.run()
    records = [
        instruction
        for instruction in world.of(instructions.WriteRecord)
        if isinstance(instruction, instructions.WriteRecord)
    ]
    last = records[-1].migration
    story = story_of(last)
    assert [step.phase for step in story.steps] == [
        *(Phase.PLANNED, Phase.TARGET_PENDING, Phase.TARGET_BOUND, Phase.COPYING),
        *(Phase.CUTOVER, Phase.SWAP_COMMITTED, Phase.CLEANED),
    ]
    assert [step.seconds for step in story.steps] == [0, 0, 0, 0, 7, 7, 7]
    assert story.ended
    assert [beneficiary.partition(" ")[0] for beneficiary in story.beneficiaries] == ["ns/a"]


def cancelled(message: str) -> Migration:
    planned = Migration(
        id="vm-b-1",
        vm="vm-b",
        source=key("b"),
        source_host=N1,
        target=key("c"),
        target_host=N2,
        amounts={"cpu": 3000, "memory": (3 << 30) * 1000},
        reason=Reason.DEMAND,
        purpose=(
            Claim(beneficiary=key("a"), amounts={"cpu": 500}),
            Claim(beneficiary=key("d"), amounts={"cpu": 250, "memory": (1 << 30) * 1000}),
        ),
        started=100 * SECOND,
        since=100 * SECOND,
        deadline=200 * SECOND,
    )
    cancelling = planned.step(Phase.CANCELLING, now=102 * SECOND, outcome=Phase.CANCELLED, message=message)
    return cancelling.step(Phase.CANCELLED, now=103 * SECOND)


def test_event_of_a_migration_names_nodes_steps_beneficiaries_and_message() -> None:
    assert describe_migration(cancelled("room appeared; not needed")) == (
        "Migration vm-b-1 from n1 to n2 (DeniedDemand, 3221225472 bytes): "
        "Planned, Cancelling +2.0 s, Cancelled +3.0 s; "
        "makes room for ns/a (0.5 cpu), ns/d (0.25 cpu, 1 GiB memory); room appeared; not needed"
    )


def test_story_is_read_back_from_its_event() -> None:
    for message in ("", "room appeared; not needed"):
        migration = cancelled(message)
        text = describe_migration(migration)
        story = parse_story(text, namespace="ns", vm="vm-b", at=103 * SECOND)
        expected = story_of(migration)
        assert story is not None
        assert (story.steps, story.started, story.message) == (expected.steps, expected.started, message)
        assert (story.beneficiaries, story.size) == (expected.beneficiaries, 3 << 30)


def test_other_events_have_no_story() -> None:
    for text in ("", "Machine moved", "Migration a from b to c (d, 1 bytes): Nothing"):
        assert parse_story(text, namespace="ns", vm="vm-b", at=0) is None
