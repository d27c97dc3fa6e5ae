"""Annotation ``fairway.dev/score-debits``: how much one decision of a Placement changes published scores.

A score is as old as its last publication. Until the next one, all decisions see the same value, and a burst of
Placements selects the same cluster. A debit is the expected effect of a decision that the score does not include yet.
"""

import re
from collections.abc import Sequence
from typing import Final

SCORE_DEBITS: Final = "fairway.dev/score-debits"
LARGEST: Final = 100

WRONG_DEBIT: Final = (
    "{text!r} is not a score and a signed change: write resource/score=-5 if a decision lowers the score, "
    "resource/score=+1 if it raises it, or resource/score=0 to see the debits of other placements only"
)
TOO_LARGE: Final = "{text!r} is out of range: a change must be between -100 and +100"
REPEATED: Final = "{text!r} repeats a score"
DEBITED: Final = "published {value}; {promises} since then, expected to change it by {delta:+d}"
REQUESTS_SHOWN: Final = 3

_DEBIT: Final = re.compile(r"([^/=\s]+)/([^/=\s]+)\s*=\s*([+-][0-9]{1,9}|0)")


def parse_debits(text: str) -> tuple[dict[tuple[str, str], int], list[str]]:
    """Return the changes by (resource, score), and the faults of parts that have no effect."""
    changes: dict[tuple[str, str], int] = {}
    faults: list[str] = []
    for part in map(str.strip, text.split(",")):
        match = _DEBIT.fullmatch(part)
        if match is None:
            faults.append(WRONG_DEBIT.format(text=part))
        elif abs(change := int(match[3])) > LARGEST:
            faults.append(TOO_LARGE.format(text=part))
        elif (match[1], match[2]) in changes:
            faults.append(REPEATED.format(text=part))
        else:
            changes[match[1], match[2]] = change
    return changes, faults


def describe_debit(*, value: int, delta: int, count: int, requests: Sequence[str] = ()) -> str:
    """``count``: number of decisions. ``requests``: names of HostedClusterRequests."""
    promises: list[str] = []
    if count:
        promises.append("1 decision" if count == 1 else f"{count:,} decisions")
    if requests:
        kind = "HostedClusterRequest" if len(requests) == 1 else "HostedClusterRequests"
        promises.append(f"{kind} {', '.join(requests[:REQUESTS_SHOWN])}")
        if (more := len(requests) - REQUESTS_SHOWN) > 0:
            promises.append(f"{more:,} more")
    return DEBITED.format(value=value, promises=" and ".join(promises), delta=delta)
