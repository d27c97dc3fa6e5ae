"""Validate a provider's definition before it runs."""

import math
import re
from typing import Final

from fairway.providers.provider import HIGHEST, LOWEST, ClusterProvider, FleetProvider, Provider, Score
from fairway.providers.reading_check import MOST_SCORES
from fairway.providers.scales import needs_fleet

NO_NAME: Final = "{subject}: {what} must be set"
BAD_NAME: Final = (
    "{subject}: the name {name!r} must be 1 to 63 letters, digits, '-', '_' or '.', such as queue"
)
BAD_RESOURCE: Final = (
    "{subject}: the resource {name!r} must be lower-case letters, digits, '-' or '.', with letters or digits at both "
    "ends and beside every '.', such as queue-score"
)
NO_SCORES: Final = "{subject}: it publishes no scores; write at least one"
TOO_MANY: Final = "{subject}: {count} scores are too many for one object; {most} are the most"
NOT_A_SCORE: Final = "{subject}: {given!r} is not a Score"
BAD_SCORE: Final = (
    "{subject}: the score name {name!r} must be 1 to 100 letters, digits, '-', '_', '.' or ':', "
    "such as queueFree"
)
DUPLICATE: Final = "{subject}: the score {name} is defined twice"
NO_SCALE: Final = "{subject}: {name} has no scale but {given!r}; write one such as Linear(0, 100)"
NEEDS_FLEET: Final = (
    "{subject}: {name} is scaled relative to the fleet, but the provider reads one cluster; "
    "use @fleet_provider, or a scale with limits"
)
BAD_DEADBAND: Final = "{subject}: the deadband of {name} must be a whole number from 0 to 200, not {given!r}"
BAD_THRESHOLD: Final = "{subject}: the threshold {given!r} of {name} must be a whole number from -100 to 100"
BAD_HALF_LIFE: Final = "{subject}: the half-life of {name} must be seconds, 0 for no smoothing, not {given!r}"
BAD_INTERVAL: Final = (
    "{subject}: the interval must be a number of seconds greater than 0, and at most a year, not {given!r}"
)
NO_KIND: Final = "{subject} is neither a ClusterProvider nor a FleetProvider"

LONGEST_INTERVAL: Final = 366 * 86400.0

_NAME: Final = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,61}[A-Za-z0-9])?", re.ASCII)
_PART: Final = r"[a-z0-9](?:[a-z0-9-]*[a-z0-9])?"
_RESOURCE: Final = re.compile(rf"{_PART}(?:\.{_PART})*", re.ASCII)
_LONGEST_RESOURCE: Final = 253
_SCORE: Final = re.compile(r"[A-Za-z0-9_.:-]{1,100}", re.ASCII)


def is_name(given: object) -> bool:
    """Whether ``given`` is a valid provider name, which is used as a label value."""
    return isinstance(given, str) and _NAME.fullmatch(given) is not None


def is_resource(given: object) -> bool:
    """Whether ``given`` is a valid name of a Kubernetes object."""
    return (
        isinstance(given, str) and len(given) <= _LONGEST_RESOURCE and _RESOURCE.fullmatch(given) is not None
    )


def is_score(given: object) -> bool:
    return isinstance(given, str) and _SCORE.fullmatch(given) is not None


class DefinitionError(ValueError):
    """A provider with an invalid definition."""


def check(provider: Provider) -> None:
    """Raises DefinitionError."""
    subject = f"provider {getattr(provider, 'name', '') or type(provider).__name__}"
    for what in ("name", "resource", "scores"):
        if not hasattr(provider, what):
            raise DefinitionError(NO_NAME.format(subject=subject, what=what))
    if not is_name(provider.name):
        raise DefinitionError(BAD_NAME.format(subject=subject, name=provider.name))
    if not is_resource(provider.resource):
        raise DefinitionError(BAD_RESOURCE.format(subject=subject, name=provider.resource))
    if not isinstance(provider, ClusterProvider | FleetProvider):
        raise DefinitionError(NO_KIND.format(subject=subject))
    check_interval(provider.interval, subject=subject)
    _check_scores(provider, subject)


def check_interval(seconds: float, *, subject: str) -> None:
    if not isinstance(seconds, int | float) or not 0 < seconds <= LONGEST_INTERVAL:
        raise DefinitionError(BAD_INTERVAL.format(subject=subject, given=seconds))


def _check_scores(provider: Provider, subject: str) -> None:
    scores = tuple(provider.scores)
    if not scores:
        raise DefinitionError(NO_SCORES.format(subject=subject))
    if len(scores) > MOST_SCORES:
        raise DefinitionError(TOO_MANY.format(subject=subject, count=len(scores), most=MOST_SCORES))
    names: set[str] = set()
    for score in scores:
        if not isinstance(score, Score):
            raise DefinitionError(NOT_A_SCORE.format(subject=subject, given=score))
        _check_score(score, subject)
        if score.name in names:
            raise DefinitionError(DUPLICATE.format(subject=subject, name=score.name))
        names.add(score.name)
        if needs_fleet(score.scale) and not isinstance(provider, FleetProvider):
            raise DefinitionError(NEEDS_FLEET.format(subject=subject, name=score.name))


def _check_score(score: Score, subject: str) -> None:
    if not is_score(score.name):
        raise DefinitionError(BAD_SCORE.format(subject=subject, name=score.name))
    name = score.name
    if not callable(getattr(score.scale, "score", None)) or isinstance(score.scale, type):
        raise DefinitionError(NO_SCALE.format(subject=subject, name=name, given=score.scale))
    if not _is_whole(score.deadband) or not 0 <= score.deadband <= HIGHEST - LOWEST:
        raise DefinitionError(BAD_DEADBAND.format(subject=subject, name=name, given=score.deadband))
    for line in score.thresholds:
        if not _is_whole(line) or not LOWEST <= line <= HIGHEST:
            raise DefinitionError(BAD_THRESHOLD.format(subject=subject, name=name, given=line))
    if not isinstance(score.half_life, int | float) or not 0 <= score.half_life < math.inf:
        raise DefinitionError(BAD_HALF_LIFE.format(subject=subject, name=name, given=score.half_life))


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
