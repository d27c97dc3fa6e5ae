"""Score debits: how much one decision of a Placement changes published scores.

The annotation ``fairway.dev/score-debits`` sets them for one Placement, an argument of the plugin PrioritizerPolicy for
all Placements of a profile that rank by the score.

A score is as old as its last publication. Until the next one, all decisions see the same value, and a burst of
Placements selects the same cluster. A debit is the expected effect of a decision that the score does not include yet.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from fairway.hosts.clusters.debits import Deltas

SCORE_DEBITS: Final = "fairway.dev/score-debits"
NONE: Final = "none"
"""Value of the annotation without debits, also where the profile has some."""
LARGEST_DEBIT: Final = 100

WRONG_DEBIT: Final = (
    "{text!r} is not a score and a signed change: write resource/score=-5 if a decision lowers the score, "
    "resource/score=+1 if it raises it, or resource/score=0 to see the debits of other placements only"
)
ATTRACTS: Final = (
    "{text!r} would make clusters more attractive, and a debit only makes them less attractive: write {remedy}, or "
    "rank by the score with a {sign} weight"
)
SWITCHED_OFF: Final = "the scheduler configuration ignores score debits of namespace {namespace}"
WRONG_IGNORED: Final = (
    "debitsIgnored must list namespaces, or beginnings of namespaces with an asterisk, such as team-a or dev-*; "
    "got {text}"
)
TOO_LARGE: Final = "{text!r} is out of range: a change must be between -100 and +100"
WRONG_DEFAULT: Final = (
    "debits must map scores to changes between -100 and +100, such as resource/score: -5; got {text}"
)
REPEATED: Final = "{text!r} repeats a score"
DEBITED: Final = "published {value}; {promises} since then, expected to change it by {delta:+d}"
BOUNDED: Final = ", as others count up to a bound"
REQUESTS_SHOWN: Final = 3

_NAMESPACE: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?|[a-z0-9][-a-z0-9]*\*")
_SCORE: Final = re.compile(r"([^/=\s]+)/([^/=\s]+)")
_DEBIT: Final = re.compile(r"([^/=\s]+)/([^/=\s]+)\s*=\s*([+-][0-9]{1,9}|0)")


def parse_debits(text: str) -> tuple[dict[tuple[str, str], int], list[str]]:
    """Return the changes by (resource, score), and the faults of parts that have no effect."""
    changes: dict[tuple[str, str], int] = {}
    faults: list[str] = []
    for part in map(str.strip, text.split(",")):
        match = _DEBIT.fullmatch(part)
        if match is None:
            faults.append(WRONG_DEBIT.format(text=part))
        elif abs(change := int(match[3])) > LARGEST_DEBIT:
            faults.append(TOO_LARGE.format(text=part))
        elif (match[1], match[2]) in changes:
            faults.append(REPEATED.format(text=part))
        else:
            changes[match[1], match[2]] = change
    return changes, faults


def check_debits(given: Mapping[str, Any]) -> dict[tuple[str, str], int]:
    """Return the debits of a profile. Raises ValueError."""
    changes: dict[tuple[str, str], int] = {}
    if not isinstance(given, Mapping):
        raise ValueError(WRONG_DEFAULT.format(text=repr(given)))
    for name, change in given.items():
        match = _SCORE.fullmatch(str(name))
        if match is None or type(change) is not int or abs(change) > LARGEST_DEBIT:
            raise ValueError(WRONG_DEFAULT.format(text=f"{name}: {change!r}"))
        changes[match[1], match[2]] = change
    return changes


def check_ignored(given: Sequence[str]) -> tuple[str, ...]:
    """Return the namespaces whose debits a profile ignores. Raises ValueError."""
    if isinstance(given, str) or not all(
        isinstance(name, str) and _NAMESPACE.fullmatch(name) for name in given
    ):
        raise ValueError(WRONG_IGNORED.format(text=repr(given)))
    return tuple(given)


def without_attracting(debits: Deltas, weights: Mapping[tuple[str, str], int]) -> tuple[Deltas, list[str]]:
    """Return the debits that make clusters less attractive, and the faults of the others.

    ``weights`` are those of the scores that the placement ranks by. A falling score is worse unless the weight is
    negative; a rising one only if it is.
    """
    kept: dict[tuple[str, str], int] = {}
    faults: list[str] = []
    for key, change in debits.items():
        is_negative = weights.get(key, 0) < 0
        if not change or (change > 0) == is_negative:
            kept[key] = change
            continue
        name = "/".join(key)
        faults.append(
            ATTRACTS.format(
                text=f"{name}={change:+d}",
                remedy=f"{name}={-change:+d}",
                sign="positive" if is_negative else "negative",
            )
        )
    return kept, faults


def describe_debit(
    *, value: int, delta: int, count: int, requests: Sequence[str] = (), is_bounded: bool = False
) -> str:
    """``count``: number of decisions. ``requests``: names of HostedClusterRequests."""
    promises: list[str] = []
    if count:
        promises.append("1 decision" if count == 1 else f"{count:,} decisions")
    if requests:
        kind = "HostedClusterRequest" if len(requests) == 1 else "HostedClusterRequests"
        promises.append(f"{kind} {', '.join(requests[:REQUESTS_SHOWN])}")
        if (more := len(requests) - REQUESTS_SHOWN) > 0:
            promises.append(f"{more:,} more")
    bound = BOUNDED if is_bounded else ""
    return DEBITED.format(value=value, promises=" and ".join(promises), delta=delta) + bound
