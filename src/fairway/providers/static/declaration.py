"""Values per cluster. For each score, the first of these that has a value wins:

schedule, first entry that covers the moment > clusters, by name > groups, first that matches > defaults
"""

import difflib
import math
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from msgspec import Struct, field

from fairway.api.cluster import ManagedCluster
from fairway.providers.document import Document
from fairway.providers.static.schedule import Hours
from kubewire.api.selector import LabelSelector, Selector, SelectorError, compile_selector

NOTHING_SAID: Final = "is empty: write clusters, groups, defaults or schedule"
NO_SUCH_SCORE: Final = "there is no score {name!r}{guess}"
DID_YOU_MEAN: Final = "; did you mean {name!r}?"
DECLARED_ARE: Final = "; declared are {names}"
NOT_FINITE: Final = "expected a finite number, got {given}"
NO_VALUES: Final = "has no values"
SELECTS_NOTHING: Final = "selects nothing: write matchLabels or matchExpressions"

Values = Mapping[str, float]


class GroupEntry(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    selector: LabelSelector
    values: dict[str, Any]


class ScheduleEntry(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    values: dict[str, Any]
    start: str = field(default="", name="from")
    to: str = ""
    days: tuple[str, ...] = ()
    zone: str = "UTC"
    clusters: tuple[str, ...] = ()
    """Empty, and without a selector: all clusters."""
    selector: LabelSelector | None = None


class DeclarationEntry(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    clusters: dict[str, dict[str, Any]] = field(default_factory=dict)
    groups: tuple[GroupEntry, ...] = ()
    defaults: dict[str, Any] = field(default_factory=dict)
    schedule: tuple[ScheduleEntry, ...] = ()


FIELDS: Final = ("clusters", "groups", "defaults", "schedule")


@dataclass(frozen=True, slots=True)
class Group:
    selector: Selector
    values: Values


@dataclass(frozen=True, slots=True)
class Scheduled:
    hours: Hours
    names: frozenset[str]
    selector: Selector | None
    values: Values

    def applies_to(self, name: str, labels: Mapping[str, str]) -> bool:
        if name in self.names:
            return True
        if self.selector is not None:
            return self.selector.matches(labels)
        return not self.names


@dataclass(frozen=True, slots=True)
class Declaration:
    clusters: Mapping[str, Values]
    groups: tuple[Group, ...]
    defaults: Values
    schedule: tuple[Scheduled, ...]

    def values(self, cluster: ManagedCluster, now: datetime) -> dict[str, float]:
        name, labels = cluster.metadata.name, cluster.metadata.labels
        merged: dict[str, float] = {}
        for values in self._matching(name, labels, now):
            for score, value in values.items():
                merged.setdefault(score, value)
        return merged

    def _matching(self, name: str, labels: Mapping[str, str], now: datetime) -> Iterator[Values]:
        for entry in self.schedule:
            if entry.hours.covers(now) and entry.applies_to(name, labels):
                yield entry.values
        yield self.clusters.get(name, {})
        for group in self.groups:
            if group.selector.matches(labels):
                yield group.values
        yield self.defaults

    def cluster_names(self) -> frozenset[str]:
        """Clusters that are declared by name."""
        return frozenset(self.clusters).union(*(entry.names for entry in self.schedule))


def declaration_of(document: Document, *, scores: Collection[str]) -> Declaration:
    """``scores`` are the declared names. Raises DocumentError."""
    entry = document.convert(DeclarationEntry)
    if not (entry.clusters or entry.groups or entry.defaults or entry.schedule):
        raise document.error(NOTHING_SAID)
    return Declaration(
        clusters={
            name: _values(values, scores, document, "clusters", name)
            for name, values in entry.clusters.items()
        },
        groups=tuple(
            Group(
                _selector(group.selector, document, "groups", index, "selector"),
                _values(group.values, scores, document, "groups", index, "values"),
            )
            for index, group in enumerate(entry.groups)
        ),
        defaults=_values(entry.defaults, scores, document, "defaults") if entry.defaults else {},
        schedule=tuple(
            _parse_schedule(window, scores, document, "schedule", index)
            for index, window in enumerate(entry.schedule)
        ),
    )


def _parse_schedule(
    entry: ScheduleEntry, scores: Collection[str], document: Document, *path: str | int
) -> Scheduled:
    try:
        hours = Hours.parse(start=entry.start, end=entry.to, days=entry.days, zone=entry.zone)
    except ValueError as error:
        raise document.error(str(error), *path) from None
    selector = None
    if entry.selector is not None:
        selector = _selector(entry.selector, document, *path, "selector")
    values = _values(entry.values, scores, document, *path, "values")
    return Scheduled(hours, frozenset(entry.clusters), selector, values)


def _selector(selector: LabelSelector, document: Document, *path: str | int) -> Selector:
    if not selector.matchLabels and not selector.matchExpressions:
        raise document.error(SELECTS_NOTHING, *path)
    try:
        return compile_selector(selector)
    except SelectorError as error:
        raise document.error(str(error), *path) from None


def _values(
    given: Mapping[str, Any], scores: Collection[str], document: Document, *path: str | int
) -> Values:
    if not given:
        raise document.error(NO_VALUES, *path)
    for name, value in given.items():
        if name not in scores:
            close = difflib.get_close_matches(name, scores, n=1)
            guess = (
                DID_YOU_MEAN.format(name=close[0])
                if close
                else DECLARED_ARE.format(names=", ".join(sorted(scores)))
            )
            raise document.error(NO_SUCH_SCORE.format(name=name, guess=guess), *path, name)
        if not isinstance(value, int | float) or isinstance(value, bool) or not math.isfinite(value):
            raise document.error(NOT_FINITE.format(given=repr(value)), *path, name)
    return {name: float(value) for name, value in given.items()}
