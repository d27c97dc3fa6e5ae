"""The source leaves and the beneficiary grows at once, whatever the API answers."""

from dataclasses import replace

from fairway.engine.ledger import HostAccount
from fairway.workloads.machines import events, instructions
from workloads.machines.world import N1, World, cu, fixture, key


def before_swap() -> World:
    """The next instruction deletes the source."""
    world = fixture()
    world.ask("a", 6)
    world.run()
    world.complete(world.migration.id)
    world.run(until=instructions.DeleteSource)
    return world


def test_a1_no_version_of_the_ledger_has_the_room_free_for_others() -> None:
    world = before_swap()
    versions: list[HostAccount] = []
    world.state.ledger.follow(
        lambda host, account: versions.append(account) if account is not None and host == N1 else None
    )
    world.run()
    assert len(versions) > 1
    for account in versions:
        assert account.holds(key("b")) == (account.holding(key("a")) == cu(4))
        assert account.grantable(key("new"))["cpu"] == (0 if account.holds(key("b")) else 1)


def test_a2_grant_stays_while_its_write_fails() -> None:
    world = before_swap()
    world.failing.add(instructions.WritePermit)
    world.run()
    assert (world.holding("a"), world.vms["vm-a"].approved) == (6, cu(4))
    assert world.grantable("new") == 1
    world.failing.clear()
    world.pass_time(1)
    world.run()
    assert (world.vms["vm-a"].approved, world.migrations) == (cu(6), [])


def test_a3_beneficiary_that_is_gone_releases_the_room_and_the_source_stays_deleted() -> None:
    world = before_swap()
    world.failing.add(instructions.WritePermit)
    world.run()
    world.delete("a")
    world.run()
    assert (world.migrations, world.account(N1).earmarks, world.free(N1)) == ([], {}, 7)
    assert key("b") not in world.pods
    assert world.running["vm-b"] in world.pods


def test_a4_source_whose_deletion_is_uncertain_counts_until_it_is_observed() -> None:
    world = before_swap()
    world.losing.add(instructions.DeleteSource)
    world.run()
    assert (world.holding("a"), world.holding("b")) == (4, 3)
    world.send(events.MachineGone(key("b")))
    assert (world.holding("a"), world.holding("b")) == (6, 0)


def test_a5_request_that_changed_meanwhile_gets_what_it_asks_for_now() -> None:
    world = before_swap()
    world.ask("a", 7)
    world.run()
    assert world.permit("a") == 7


def test_a5_permit_for_an_outdated_request_is_refused_and_answered_again() -> None:
    world = before_swap()
    newer = replace(world.vms["vm-a"], requested=cu(5), generation=9)
    world.vms["vm-a"] = newer
    world.run()
    assert (world.vms["vm-a"].approved, world.vms["vm-a"].generation, world.holding("a")) == (cu(5), 9, 5)
    assert world.migrations == []
