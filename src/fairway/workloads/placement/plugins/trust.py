"""How far a Placement trusts scores: what a missing score counts, and whether CEL sees expired ones.

OCM counts a missing or expired score as 0, the middle of the scale: a cluster without a score beats one
with a correct -40, and with a negative weight it may be the best of all. Annotations of the Placement change
that. An invalid value has no effect, as with all annotations; ``faults`` describes it for the condition of the
Placement.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Final

import numpy as np

from fairway.api.placement import Placement
from fairway.api.score import AddOnPlacementScore
from fairway.engine.points import NEVER_CHANGES
from fairway.hosts.bitmap import Mask, Rows
from fairway.hosts.clusters import cells
from fairway.hosts.clusters.debits import DebitRules, Deltas
from fairway.hosts.clusters.scores import expiry, is_silent
from fairway.hosts.clusters.snapshot import clusters_of
from fairway.hosts.column import NEVER
from fairway.hosts.instant import Micros, from_micros
from fairway.hosts.snapshot import Snapshot
from fairway.workloads.placement.plugins.score_debits import (
    NONE,
    SCORE_DEBITS,
    SWITCHED_OFF,
    parse_debits,
    without_attracting,
)
from kubewire.api.meta import format_time

MISSING_SCORE: Final = "fairway.dev/missing-score"
EXPIRED_SCORES: Final = "fairway.dev/expired-scores"
ABSENT: Final = "absent"
PRESENT: Final = "present"

WRONG_POLICY: Final = "{text!r} must be zero, worst or exclude"
WRONG_SCORE: Final = "{text!r} names no score: write resource/score=worst, or Calculator=worst"
TWICE: Final = "{text!r} is a duplicate setting"
WRONG_EXPIRED: Final = "{text!r} is neither absent nor present"
NO_EFFECT: Final = "annotation {annotation}: {words}, so it has no effect"

NO_OBJECT: Final = "there is no AddOnPlacementScore {resource}"
NO_ITEM: Final = "AddOnPlacementScore {resource} has no score {score}"
EXPIRED_AT: Final = "AddOnPlacementScore {resource} expired at {moment}"
SILENCED: Final = "AddOnPlacementScore {resource} was marked silent"
NO_CALCULATOR: Final = "there is no ManagedClusterScore {calculator}"
COUNTS_ZERO: Final = "{why}, which counts 0"
COUNTS_WORST: Final = f"{{why}}, which counts as the worst by annotation {MISSING_SCORE}"


class Missing(StrEnum):
    """What a missing or expired score counts."""

    ZERO = "zero"
    """As in OCM."""
    WORST = "worst"
    """-100, or 100 if the weight is negative: a missing score is never an advantage."""
    EXCLUDE = "exclude"
    """The cluster is not feasible."""

    def points(self, weight: int) -> int:
        """The score that replaces a missing one."""
        if self is not Missing.WORST:
            return 0
        return -100 if weight > 0 else 100


@dataclass(frozen=True, slots=True)
class Fault:
    """A part of an annotation that has no effect."""

    annotation: str
    words: str

    def __str__(self) -> str:
        return NO_EFFECT.format(annotation=self.annotation, words=self.words)


@dataclass(frozen=True, slots=True)
class Trust:
    default: Missing = Missing.ZERO
    by_score: Mapping[str, Missing] = field(default_factory=dict)
    """By ``resource/score``, or by a calculator's name in lower case."""
    hides_expired: bool = False
    """Whether expired objects are hidden from expressions."""
    debits: Mapping[tuple[str, str], int] = field(default_factory=dict)
    """Change of scores, by (resource, score), that one decision is expected to cause."""
    faults: tuple[Fault, ...] = ()

    @property
    def excludes(self) -> bool:
        """Whether a cluster without a valid score may be excluded."""
        return self.default is Missing.EXCLUDE or Missing.EXCLUDE in self.by_score.values()

    def addon(self, resource: str, score: str) -> Missing:
        return self.by_score.get(f"{resource}/{score}", self.default)

    def calculator(self, name: str) -> Missing:
        return self.by_score.get(name.lower(), self.default)


PLAIN: Final = Trust()


def trust_of(annotations: Mapping[str, str]) -> Trust:
    missing, expired = annotations.get(MISSING_SCORE), annotations.get(EXPIRED_SCORES)
    debited = annotations.get(SCORE_DEBITS)
    if missing is None and expired is None and debited is None:
        return PLAIN
    faults: list[Fault] = []
    policies: dict[str, Missing] = {}
    for part in (missing or "").split(",") if missing is not None else ():
        fault = _read(part.strip(), policies)
        if fault:
            faults.append(Fault(MISSING_SCORE, fault))
    if expired not in (None, ABSENT, PRESENT):
        faults.append(Fault(EXPIRED_SCORES, WRONG_EXPIRED.format(text=expired)))
    debits, wrong = ({}, []) if debited in (None, NONE) else parse_debits(debited or "")
    faults.extend(Fault(SCORE_DEBITS, words) for words in wrong)
    return Trust(
        default=policies.pop("", Missing.ZERO),
        by_score=policies,
        hides_expired=expired == ABSENT,
        debits=debits,
        faults=tuple(faults),
    )


def trust_of_placement(placement: Placement, rules: DebitRules) -> Trust:
    """Return the trust of a placement, with the debits that it makes.

    The debits of the profile count for scores that the placement ranks by, and that its annotation does not name.
    """
    annotations = placement.metadata.annotations
    trust = trust_of(annotations)
    if (not rules.defaults and not trust.debits) or annotations.get(SCORE_DEBITS) == NONE:
        return trust
    if rules.ignores(placement.metadata.namespace):
        faults = [SWITCHED_OFF.format(namespace=placement.metadata.namespace)] if trust.debits else []
        return _with_debits(trust, {}, faults)
    weights = ranked_scores(placement)
    debits, faults = without_attracting(trust.debits, weights)
    defaults, _ = without_attracting(
        {key: change for key, change in rules.defaults.items() if weights.get(key)}, weights
    )
    return _with_debits(trust, {**defaults, **debits}, faults)


def _with_debits(trust: Trust, debits: Deltas, faults: list[str]) -> Trust:
    if debits == trust.debits and not faults:
        return trust
    return replace(
        trust, debits=debits, faults=(*trust.faults, *(Fault(SCORE_DEBITS, words) for words in faults))
    )


def ranked_scores(placement: Placement) -> dict[tuple[str, str], int]:
    """Return the weights of published scores that a placement ranks by, by (resource, score)."""
    policy = placement.spec.prioritizerPolicy
    weights: dict[tuple[str, str], int] = {}
    for configuration in () if policy is None else policy.configurations:
        coordinate = configuration.scoreCoordinate
        if coordinate is not None and (addon := coordinate.addOn) is not None:
            key = (addon.resourceName, addon.scoreName)
            weights[key] = weights.get(key, 0) + configuration.weight
    return weights


def _read(part: str, policies: dict[str, Missing]) -> str:
    """Add one part of the annotation; return its fault, if any."""
    name, equals, word = part.rpartition("=")
    name, word = name.strip(), word.strip()
    try:
        policy = Missing(word)
    except ValueError:
        return WRONG_POLICY.format(text=word)
    resource, slash, score = name.partition("/")
    if equals and (not resource or (slash and not score)):
        return WRONG_SCORE.format(text=part)
    key = name if slash else name.lower()
    if key in policies:
        return TWICE.format(text=part)
    policies[key] = policy
    return ""


# Clusters with a valid object


def lapsed(snapshot: Snapshot[Any], resource: str, rows: Rows, *, now: Micros) -> Mask:
    """Return the rows whose object is expired or was marked silent; rows without an object do not count."""
    column = snapshot.score_column((cells.SCORE_OBJECT, resource))
    late: Mask = column.expires[rows] < now
    late |= column.values[rows] != 0
    return late


def lapses(snapshot: Snapshot[Any], resource: str, rows: Rows, *, now: Micros) -> Micros:
    """Return the first time at which one more of these rows expires."""
    expires = snapshot.score_column((cells.SCORE_OBJECT, resource)).expires[rows]
    ahead = expires[(expires >= now) & (expires != NEVER)]
    return int(np.min(ahead)) + 1 if len(ahead) else NEVER_CHANGES


def why_lapsed(score: AddOnPlacementScore) -> str:
    """Describe an object that is expired or silent."""
    resource = score.metadata.name
    if is_silent(score):
        return SILENCED.format(resource=resource)
    return EXPIRED_AT.format(resource=resource, moment=format_time(from_micros(expiry(score))))


def why_missing(snapshot: Snapshot[Any], resource: str, score: str, row: int, *, now: Micros) -> str:
    """Describe why the score is missing; empty if it is valid."""
    published = clusters_of(snapshot).score_object(snapshot.hosts.names[row], resource)
    if published is None:
        return NO_OBJECT.format(resource=resource)
    if expiry(published) < now or is_silent(published):
        return why_lapsed(published)
    if not snapshot.score_column((cells.SCORE, resource, score)).present[row]:
        return NO_ITEM.format(resource=resource, score=score)
    return ""
