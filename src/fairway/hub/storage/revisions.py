"""Where a store's revisions continue each time it is opened, and which revisions no client can have from it.

A store cannot know whether its folder is the newest copy: a backup can be restored twice, a snapshot of the disk or an
older copy of the folder put back. Each opening is therefore a life of its own. It skips every revision that another
life of the same data can have given out meanwhile, and the skipped revisions are remembered as a gap. A client that
asks for one of them has it from another life and must list again; older ones are of the common past and can be resumed.

The wall clock in microseconds is above everything another life has given out: no hub makes a million writes a second.
If the clock stands behind the store's own revisions, a random step makes it unlikely that two lives meet.
"""

import secrets
import time
from collections.abc import Sequence
from typing import Final, NamedTuple

STEP: Final = 1_000_000
"""The least that a life skips: more than a hub that was just copied can have written meanwhile."""
RANDOM_STEP: Final = 2**32
LATEST_CLOCK: Final = 2**52
"""Microseconds, in the year 2112. A later clock is wrong; versions stay below 2**53, which every JSON parser keeps."""
MOST_GAPS: Final = 64
"""Further back than so many lives no client resumes."""


class Gap(NamedTuple):
    """The revisions between the last one of a life and the first one of the next, both excluded."""

    last: int
    first: int


def first_revision(last: int) -> int:
    """The first revision of a life that follows ``last``."""
    clock = time.time_ns() // 1_000
    if last + STEP <= clock < LATEST_CLOCK:
        return clock
    return last + STEP + secrets.randbelow(RANDOM_STEP)


def find_gap(gaps: Sequence[Gap], revision: int) -> Gap | None:
    """The gap that ``revision`` falls into."""
    return next((gap for gap in gaps if gap.last < revision < gap.first), None)
