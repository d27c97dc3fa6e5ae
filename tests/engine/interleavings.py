"""Random interleavings of the framework's simulations.

``FAIRWAY_INTERLEAVINGS`` sets how many each simulation plays; ``FAIRWAY_CHAOS`` multiplies the default, as for soaks.
Every interleaving has its own seed, which a failure names; ``FAIRWAY_CHAOS_SEED`` is the first one.
"""

import os
import random
from collections.abc import Callable, Sequence

Move = tuple[str, int]
"""A name and a number from which the move derives its choices."""

DEFAULT = 3_400 * int(os.environ.get("FAIRWAY_CHAOS", "1"))
INTERLEAVINGS = int(os.environ.get("FAIRWAY_INTERLEAVINGS", DEFAULT))
FIRST_SEED = int(os.environ.get("FAIRWAY_CHAOS_SEED", "0"))
BIGGEST = 1 << 20


def play_all(
    play: Callable[[Sequence[Move]], object], names: Sequence[str], *, longest: int, share: int = 1
) -> None:
    """Play random interleavings of these moves; a slow simulation only one of ``share``."""
    for seed in range(FIRST_SEED, FIRST_SEED + INTERLEAVINGS // share):
        dice = random.Random(seed)
        moves = [(dice.choice(names), dice.randrange(BIGGEST)) for _ in range(dice.randint(1, longest))]
        try:
            play(moves)
        except Exception as error:
            error.add_note(f"seed {seed}: {moves}")
            raise
