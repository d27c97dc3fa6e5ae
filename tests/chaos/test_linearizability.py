"""The search for a linearization."""

import math
import random
from collections.abc import Iterator
from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaos.linearizability import Access, AccessKind, Operation, Result, order, register

Op = Operation[Access]
KINDS: tuple[AccessKind, ...] = ("read", "create", "swap", "write", "delete")
RESULTS: tuple[Result, ...] = ("done", "exists", "conflict", "absent")


def op(
    begun: float,
    ended: float,
    kind: AccessKind,
    *,
    value: str | None = None,
    expected: str | None = None,
    result: Result = "done",
) -> Op:
    access = Access(kind=kind, value=value, expected=expected, result=result)
    return Operation(call=access, begun=begun, ended=ended, optional=result == "unknown")


def explained(*operations: Op) -> bool:
    return order(operations, initial=None, step=register) is not None


CREATED = op(0, 1, "create", value="a")


def test_empty_history_is_linearizable() -> None:
    assert order([], initial=None, step=register) == []


def test_linearizable_history_returns_its_order() -> None:
    late = op(5, 6, "read", value="b")
    swap = op(1.5, 4, "swap", expected="a", value="b")
    early = op(2, 3, "read", value="a")
    assert order([late, early, swap, CREATED], initial=None, step=register) == [CREATED, early, swap, late]


@pytest.mark.parametrize(
    "history",
    [
        # At the same time: either may be first.
        [CREATED, op(2, 5, "swap", expected="a", value="b"), op(3, 4, "read", value="a")],
        [CREATED, op(2, 5, "swap", expected="a", value="b"), op(3, 4, "read", value="b")],
        [op(0, 4, "create", value="a"), op(0, 5, "create", result="exists", value="b")],
        [CREATED, op(2, 4, "delete"), op(2, 5, "delete", result="absent")],
        [CREATED, op(2, 3, "write", value="b"), op(4, 5, "delete", expected="b"), op(6, 7, "read")],
        [op(0, 1, "write", result="absent", value="x"), op(2, 3, "read")],
        # Of unknown fate: happened at once, late, or never.
        [CREATED, op(2, math.inf, "delete", result="unknown"), op(3, 4, "read", value="a"), op(5, 6, "read")],
        [CREATED, op(2, math.inf, "delete", result="unknown"), op(9, 10, "read", value="a")],
        [CREATED, op(2, 5, "delete", result="unknown"), op(4, 7, "read", value="a"), op(6, 8, "read")],
        [
            CREATED,
            op(2, math.inf, "swap", result="unknown", expected="a", value="b"),
            op(3, 4, "read", value="a"),
            op(5, 6, "swap", result="conflict", expected="a", value="c"),
            op(7, 8, "read", value="b"),
        ],
    ],
)
def test_linearizable_history_is_accepted(history: list[Op]) -> None:
    assert explained(*history)


@pytest.mark.parametrize(
    "history",
    [
        pytest.param([CREATED, op(2, 3, "read")], id="lost write"),
        pytest.param([CREATED, op(2, 3, "read", value="b")], id="value from nowhere"),
        pytest.param(
            [CREATED, op(2, 3, "write", value="b"), op(4, 5, "read", value="a")], id="read of the past"
        ),
        pytest.param(
            [CREATED, op(2, 9, "write", value="b"), op(3, 4, "read", value="b"), op(5, 6, "read", value="a")],
            id="reads that go back",
        ),
        pytest.param(
            [CREATED, op(2, 5, "swap", expected="a", value="b"), op(2, 5, "swap", expected="a", value="c")],
            id="two swaps of the same value",
        ),
        pytest.param([CREATED, op(0, 2, "create", value="b")], id="two creators"),
        pytest.param([CREATED, op(2, 3, "delete"), op(2, 3, "delete")], id="two deleters"),
        pytest.param([CREATED, op(2, 3, "create", result="exists"), op(4, 5, "read")], id="gone again"),
        pytest.param(
            [op(0, 9, "create", value="a"), op(1, 2, "create", result="exists", value="b"), op(3, 4, "read")],
            id="refused by what is not there yet",
        ),
        pytest.param(
            [
                CREATED,
                op(2, 9, "swap", expected="a", value="b"),
                op(3, 4, "swap", result="conflict", expected="a", value="c"),
                op(5, 6, "read", value="a"),
            ],
            id="conflict with what is not there yet",
        ),
        pytest.param(
            [CREATED, op(2, 3, "swap", result="conflict", expected="a", value="b")], id="conflict with nobody"
        ),
        pytest.param([CREATED, op(2, 3, "delete", expected="b")], id="deletion in spite of the version"),
        pytest.param([op(0, 1, "read"), CREATED, op(2, 3, "write", result="absent")], id="missing"),
        pytest.param(
            [
                CREATED,
                op(2, math.inf, "write", result="unknown", value="b"),
                op(3, 4, "read", value="b"),
                op(5, 6, "read", value="a"),
            ],
            id="unknown and undone",
        ),
        pytest.param(
            [CREATED, op(4, math.inf, "delete", result="unknown"), op(2, 3, "read")],
            id="before it was asked for",
        ),
        pytest.param(
            [CREATED, op(2, 5, "delete", result="unknown"), op(6, 7, "read", value="a"), op(8, 9, "read")],
            id="after its end",
        ),
        pytest.param(
            [
                CREATED,
                op(2, math.inf, "delete", result="unknown"),
                op(3, 4, "read"),
                op(5, 6, "create", value="b"),
                op(7, 8, "read"),
            ],
            id="unknown and done twice",
        ),
    ],
)
def test_impossible_history_is_rejected(history: list[Op]) -> None:
    assert not explained(*history)


def simulated(seed: int, *, clients: int, requests: int) -> list[Op]:
    """Return the accesses of clients of one register, each taking effect between its call and return."""
    chance = random.Random(seed)
    free = [0.0] * clients
    planned: list[tuple[float, float, float, str]] = []
    for number in range(requests):
        client = number % clients
        begun, acts, ended = sorted(free[client] + chance.uniform(0, 3) for _ in range(3))
        free[client] = ended
        planned.append((acts, begun, ended, f"v{number}"))
    operations: list[Op] = []
    value: str | None = None
    values: list[str | None] = [None]
    for _, begun, ended, fresh in sorted(planned):
        kind = chance.choice(KINDS)
        expected = chance.choice(values[-2:]) if kind in ("swap", "delete") else None
        given = None if kind in ("read", "delete") else fresh
        for result in RESULTS:
            access = Access(
                kind=kind, value=value if kind == "read" else given, result=result, expected=expected
            )
            after = list(register(value, access))
            if after:
                break
        if not chance.randrange(12) and kind != "read":
            access = Access(kind=access.kind, value=access.value, result="unknown", expected=access.expected)
            if chance.random() < 0.5:
                after = [value]
        operations.append(
            Operation(call=access, begun=begun, ended=ended, optional=access.result == "unknown")
        )
        (value,) = after
        values.append(value)
    return operations


@pytest.mark.parametrize("seed", range(20))
def test_highly_concurrent_history_is_linearized(seed: int) -> None:
    assert explained(*simulated(seed, clients=1 + seed % 8, requests=400))


@pytest.mark.parametrize("seed", range(10))
def test_one_wrong_response_among_hundreds_is_found(seed: int) -> None:
    operations = simulated(seed, clients=4, requests=400)
    assert explained(*operations)
    wrong = Operation(call=Access(kind="read", value="v399x"), begun=200.0, ended=201.0)
    assert not explained(*operations, wrong)


def brute(operations: list[Op]) -> bool:
    """Try all orders."""
    known = [operation for operation in operations if not operation.optional]
    unknown = [operation for operation in operations if operation.optional]
    return any(
        _fits(sequence) for chosen in _subsets(unknown) for sequence in permutations([*known, *chosen])
    )


def _subsets(items: list[Op]) -> Iterator[list[Op]]:
    for mask in range(1 << len(items)):
        yield [item for at, item in enumerate(items) if mask >> at & 1]


def _fits(sequence: tuple[Op, ...]) -> bool:
    for at, operation in enumerate(sequence):
        if any(later.ended < operation.begun for later in sequence[at:]):
            return False
    states: set[str | None] = {None}
    for operation in sequence:
        states = {after for state in states for after in register(state, operation.call)}
    return bool(states)


values = st.sampled_from(["a", "b", None])
accesses = st.builds(
    Access,
    kind=st.sampled_from(KINDS),
    result=st.sampled_from([*RESULTS, "unknown"]),
    value=values,
    expected=values,
).filter(lambda access: access.kind in ("read", "delete") or access.value is not None)


@st.composite
def histories(draw: st.DrawFn) -> list[Op]:
    made = []
    for access in draw(st.lists(accesses, max_size=5)):
        begun = draw(st.integers(0, 6))
        unknown = access.result == "unknown"
        ended = math.inf if unknown and draw(st.booleans()) else begun + draw(st.integers(0, 4))
        made.append(Operation(call=access, begun=begun, ended=ended, optional=unknown))
    return made


@given(histories())
def test_linearization_search_agrees_with_brute_force(history: list[Op]) -> None:
    assert explained(*history) == brute(history)
