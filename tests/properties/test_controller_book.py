"""Once the placement controller is quiet, the hub's decisions equal those of a fresh cycle on the hub's objects.

Moves are changes by other clients, events that are delayed, split, or part of a new list, responses before or after
their watch event, requests that are rejected or cut off, restored backups, and time.

Decisions of other placements do not wake a placement, so the fresh cycle sees them as they were at the last reconcile.
"""

import os
import random

import hypothesis.strategies as st
from hypothesis import Phase, example, given, settings

from controllers.steps.committing import COMMITTING_MOVES, CommittingSimulation
from controllers.steps.simulation import MOVES, OFTEN, Move, Simulation

LENGTH = int(os.environ.get("FAIRWAY_CHAOS", "1"))
SEED = int(os.environ.get("FAIRWAY_CHAOS_SEED", "0"))
RUNS = 60

NAMES = [name for name in MOVES for _ in range(OFTEN.get(name, 2))]


def moves_of(names: list[str]) -> st.SearchStrategy[list[Move]]:
    move = st.tuples(st.sampled_from(names), st.integers(0, 1 << 20))
    return st.lists(move, min_size=10, max_size=70)


# Explaining a failure takes hypothesis many times longer than finding it.
@settings(max_examples=100 * LENGTH, phases=[phase for phase in Phase if phase is not Phase.explain])
@given(moves=moves_of(NAMES))
@example(moves=[("ask", 244334), ("hear_all", 0), ("look", 565801), ("answer", 0), ("restore", 284663)])
@example(
    moves=[
        ("change_fleet", 97765),
        ("ask", 787821),
        ("crash", 0),
        ("look", 57279),
        ("remove", 180097),
        ("ask", 857495),
        ("carry_out", 0),
    ]
)
def test_settled_decisions_equal_those_of_a_fresh_cycle(moves: list[Move]) -> None:
    Simulation().play(moves)


def test_settled_plugins_reserve_the_decisions_on_the_hub() -> None:
    names = [*NAMES, *COMMITTING_MOVES]
    for seed in range(SEED, SEED + RUNS * LENGTH):
        dice = random.Random(seed)
        moves = [(dice.choice(names), dice.randrange(1 << 20)) for _ in range(dice.randint(10, 70))]
        try:
            CommittingSimulation().play(moves)
        except Exception as error:
            error.add_note(f"seed {seed}: {moves}")
            raise
