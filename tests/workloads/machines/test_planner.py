"""Plans are the cheapest ones, their targets have room after all moves, and searching changes nothing."""

import itertools
from collections.abc import Sequence
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from fairway.engine.workload import HostKey, ResourceList, WorkloadKey
from fairway.hosts.steps import finish
from fairway.workloads.machines.moves import Candidate, Plan, Proof, Targets, Work
from fairway.workloads.machines.planner import (
    lower_bound,
    plan_moves_in_steps,
    plan_oldest_first_in_steps,
)

HOSTS = tuple(HostKey(name, name) for name in ("n2", "n3", "n4"))


def plan_moves(
    deficit: ResourceList, candidates: Sequence[Candidate], targets: Targets, **options: Any
) -> Plan | None:
    return finish(plan_moves_in_steps(deficit, candidates, targets, Work(), **options)).plan


def candidate(
    name: str, cpu: int, memory: int = 0, *, priority: int = 0, arrived: int = 0, targets: int = 3
) -> Candidate:
    return Candidate(
        key=WorkloadKey("ns", name, name),
        amounts={"cpu": cpu, "memory": memory},
        bytes=memory,
        priority=priority,
        arrived=arrived,
        targets=HOSTS[:targets],
    )


def targets(*room: int, slots: int = 9) -> Targets:
    return Targets(
        {host: {"cpu": cpu, "memory": cpu} for host, cpu in zip(HOSTS, room, strict=False)},
        dict.fromkeys(HOSTS[: len(room)], slots),
    )


def names(plan: Plan | None) -> list[str]:
    assert plan is not None
    return sorted(move.key.name for move in plan.moves)


def test_one_sufficient_move_is_preferred_to_two_older_ones() -> None:
    """The reference moves the two oldest here, though the second alone is enough."""
    machines = [
        candidate("first", 1000, arrived=1),
        candidate("second", 2000, arrived=2),
        candidate("third", 500, arrived=3),
        candidate("fourth", 6000, arrived=4),
    ]
    room = targets(20000)
    assert names(plan_moves({"cpu": 1500}, machines, room)) == ["second"]
    assert names(finish(plan_oldest_first_in_steps({"cpu": 1500}, machines, room, Work()))) == [
        "first",
        "second",
    ]


def test_fewer_bytes_then_lower_priority_then_longer_stay_break_ties() -> None:
    room = targets(20)
    assert names(plan_moves({"cpu": 2}, [candidate("a", 2, 9), candidate("b", 2, 8)], room)) == ["b"]
    assert names(
        plan_moves({"cpu": 2}, [candidate("a", 2, priority=5), candidate("b", 2, priority=1)], room)
    ) == ["b"]
    assert names(
        plan_moves({"cpu": 2}, [candidate("a", 2, arrived=5), candidate("b", 2, arrived=1)], room)
    ) == ["b"]


def test_targets_have_room_for_all_moves_together() -> None:
    machines = [candidate("a", 3), candidate("b", 3)]
    assert plan_moves({"cpu": 6}, machines, targets(5)) is None
    plan = plan_moves({"cpu": 6}, machines, targets(5, 3))
    assert plan is not None
    assert {move.target for move in plan.moves} == set(HOSTS[:2])


def test_target_is_chosen_again_if_the_next_machine_needs_its_room() -> None:
    machines = [candidate("large", 4, targets=2), candidate("picky", 3, targets=1)]
    plan = plan_moves({"cpu": 7}, machines, targets(4, 4))
    assert plan is not None
    assert {move.key.name: move.target.name for move in plan.moves} == {"large": "n3", "picky": "n2"}


def test_moves_of_equal_bytes_are_compared_by_the_sum_of_their_priorities() -> None:
    machines = [
        candidate(name, cpu, priority=priority)
        for name, cpu, priority in (("a", 1, 0), ("b", 3, 1), ("c", 3, 1), ("d", 5, 5))
    ]
    assert names(plan_moves({"cpu": 6}, machines, targets(20))) == ["b", "c"]


def test_answer_does_not_claim_what_a_search_did_not_establish() -> None:
    machines = [candidate("small", 1), *(candidate(f"m{at}", 3) for at in range(8))]
    for visits, proved in ((10, False), (1_000, True)):
        answer = finish(plan_moves_in_steps({"cpu": 12}, machines, targets(5, 5, 5), Work(visits)))
        assert (answer.plan, answer.proved) == (None, proved)


@pytest.mark.parametrize(("visits", "proof"), [(24, Proof.FEWEST), (1_000, Proof.CHEAPEST)])
def test_plan_of_a_search_that_was_cut_is_not_called_the_cheapest(visits: int, proof: Proof) -> None:
    machines = [candidate(f"m{at}", 3 + at % 2, at) for at in range(6)]
    plan = plan_of(machines, 7, visits)
    assert (plan.proof, plan.cost[:2]) == (proof, (2, 1))


def plan_of(machines: list[Candidate], cpu: int, visits: int) -> Plan:
    plan = finish(plan_moves_in_steps({"cpu": cpu}, machines, targets(99), Work(visits))).plan
    assert plan is not None
    return plan


def test_slots_of_a_target_limit_the_moves_to_it() -> None:
    machines = [candidate("a", 3), candidate("b", 3)]
    assert plan_moves({"cpu": 6}, machines, targets(20, slots=1)) is None


def test_deficit_that_no_set_covers_has_no_plan_unless_a_part_is_enough() -> None:
    machines = [candidate("a", 1), candidate("b", 2)]
    assert plan_moves({"cpu": 4}, machines, targets(20)) is None
    plan = plan_moves({"cpu": 4}, machines, targets(20), partial=True)
    assert (names(plan), plan is not None and plan.covers) == (["a", "b"], False)


def test_machine_without_a_feasible_target_is_not_moved() -> None:
    assert names(plan_moves({"cpu": 2}, [candidate("a", 2, targets=0), candidate("b", 3)], targets(9))) == [
        "b"
    ]


def test_many_candidates_are_planned_greedily_with_a_lower_bound() -> None:
    machines = [candidate(f"m{at:02}", 1 + at % 5, arrived=at) for at in range(60)]
    plan = plan_moves({"cpu": 23}, machines, targets(99, 99, 99, slots=99))
    assert plan is not None
    assert (plan.proof, len(plan.moves), plan.lower_bound) == (Proof.FEWEST, 5, 5)


@pytest.mark.parametrize(
    ("machines", "deficit", "moved"),
    [
        ([("early", 6, 6), ("x", 10, 0), ("y", 0, 10)], (10, 10), ["x", "y"]),
        ([("large", 9, 9), ("small", 2, 0)], (2, 0), ["small"]),
        ([("a", 4, 0), ("useless", 1, 0)], (4, 4), ["a"]),
    ],
    ids=["unnecessary after later moves", "no more useful than the deficit", "useless for the rest"],
)
def test_greedy_plan_has_no_move_without_use(
    machines: list[tuple[str, int, int]], deficit: tuple[int, int], moved: list[str]
) -> None:
    candidates = [candidate(*machine) for machine in machines]
    wanted = dict(zip(("cpu", "memory"), deficit, strict=True))
    assert names(plan_moves(wanted, candidates, targets(40), exact_candidates=0, partial=True)) == moved


sizes = st.integers(0, 6)
machines = st.lists(st.tuples(sizes, sizes, st.integers(0, 2), st.integers(0, 5)), max_size=6)


@settings(max_examples=60)
@given(
    machines=machines,
    deficit=st.tuples(sizes, sizes),
    room=st.lists(st.integers(0, 8), min_size=1, max_size=3),
)
def test_exact_search_finds_what_trying_all_sets_finds(
    machines: list[tuple[int, int, int, int]], deficit: tuple[int, int], room: list[int]
) -> None:
    candidates = [
        candidate(f"m{at}", cpu, memory, priority=priority, arrived=arrived)
        for at, (cpu, memory, priority, arrived) in enumerate(machines)
    ]
    wanted = {"cpu": deficit[0], "memory": deficit[1]}
    left = targets(*room, slots=2)
    before = repr(left)
    plan = plan_moves(wanted, candidates, left)
    assert repr(left) == before
    best = None
    for count in range(1, len(candidates) + 1) if any(deficit) else ():
        for chosen in itertools.combinations(candidates, count):
            if all(
                sum(candidate.amounts[name] for candidate in chosen) >= amount
                for name, amount in wanted.items()
            ):
                cost = (
                    count,
                    sum(candidate.bytes for candidate in chosen),
                    sum(candidate.priority for candidate in chosen),
                    sum(candidate.arrived for candidate in chosen),
                )
                if (best is None or cost < best) and fit(chosen, left):
                    best = cost
    assert (None if plan is None else plan.cost) == best
    if plan is not None:
        assert plan.proof is Proof.CHEAPEST
        bound = lower_bound({name: amount for name, amount in wanted.items() if amount}, candidates)
        assert bound is not None
        assert bound <= plan.lower_bound <= len(plan.moves)


def fit(chosen: tuple[Candidate, ...], left: Targets) -> bool:
    for hosts in itertools.product(left.room, repeat=len(chosen)):
        trial = left.copy()
        if all(trial.take(move, host) for move, host in zip(chosen, hosts, strict=True)):
            return True
    return False
