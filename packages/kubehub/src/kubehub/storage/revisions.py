"""Keep revisions unique when a data folder is copied or restored.

A store can't know whether its folder is the newest copy: a backup can be restored twice, or a disk snapshot rolled
back. Each opening of a store is therefore a *life*. It skips every revision that another life of the same data may
have used meanwhile, and stores the skipped range as a gap. A client that resumes from a revision in a gap got it
from another life and must list again; older revisions belong to the common past and can be resumed.

The wall clock in microseconds is above every revision that another life has used, because no hub makes a million
writes a second. If the clock is behind the store's own revisions, a random step makes a collision unlikely.
"""

import secrets
import time
from collections.abc import Sequence
from typing import Final, NamedTuple

STEP: Final = 1_000_000
"""The smallest step that a life skips: more than a hub that was just copied can have written meanwhile."""
RANDOM_STEP: Final = 2**32
LATEST_CLOCK: Final = 2**52
"""Microseconds, in the year 2112. A later clock is wrong; revisions stay below 2**53, which every JSON parser
keeps."""
MAX_GAPS: Final = 64
"""The number of lives whose gaps are kept; no client resumes from further back."""


class Gap(NamedTuple):
    """The revisions between the last one of a life and the first one of the next, both excluded."""

    last: int
    first: int


def first_revision(last: int) -> int:
    """Return the first revision of a life that follows ``last``."""
    clock = time.time_ns() // 1_000
    if last + STEP <= clock < LATEST_CLOCK:
        return clock
    return last + STEP + secrets.randbelow(RANDOM_STEP)


def find_gap(gaps: Sequence[Gap], revision: int) -> Gap | None:
    """Return the gap that contains ``revision``."""
    return next((gap for gap in gaps if gap.last < revision < gap.first), None)
