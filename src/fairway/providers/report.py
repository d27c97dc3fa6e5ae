"""Report which providers publish scores, for how many clusters, and why scores are missing or stale."""

from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from typing import Any, Final

from msgspec import Struct, field

from fairway.api.cluster import ManagedCluster
from fairway.api.score import AddOnPlacementScore, ManagedClusterScore, ManagedClusterScoreStatus
from fairway.hosts.clusters.scores import SILENT, calculator_of, is_silent
from fairway.providers.freshness import SEVERITY, Entry, Health, State
from fairway.providers.sink import PROVIDER
from kubewire.api.age import format_age
from kubewire.api.annotation import Time
from kubewire.api.meta import FALSE, TRUE, Condition, ObjectMeta, find_condition, format_time

UPDATED: Final = ("AddOnPlacementScoreUpdated", "ManagedClusterScoreUpdated")
AVAILABLE: Final = "ManagedClusterConditionAvailable"
ADD_ON_AVAILABLE: Final = "Available"
JANITOR: Final = "fairway-scores"
"""The field manager of the scores controller, whose writes say nothing about the provider."""
ADD_ONS: Final = {"resource-usage": "resource-usage-collect", "hosted-clusters": "hypershift-addon"}
"""Add-ons whose name differs from that of their provider."""
EXPECTED: Final = {
    "resource-usage-collect": ("resource-usage", "resource-usage-score"),
    "hypershift-addon": ("hosted-clusters", "hosted-clusters-score"),
}
"""Add-ons with a known provider and resource, so that missing scores are reported."""

UNKNOWN: Final = "-"
NONE: Final = "no {resource}"
EXPIRED: Final = "expired {when}"
EXPIRED_BEFORE: Final = "expired {when}, before it was written: the provider's clock is behind"
MARKED_SILENT: Final = "marked silent {when}"
EMPTY: Final = "contains no score yet"
ENDLESS: Final = "has no validUntil: a dead publisher would go unnoticed"
FAILS: Final = "its provider reports: {message}"
WRITTEN: Final = "last written {when}"
BY: Final = "{written} by {writer}"
UNDATED: Final = "last write unknown"
NEVER_WRITTEN: Final = "created {when}, never written"
CLUSTER_FINE: Final = "cluster available"
CLUSTER_NEW: Final = "cluster has not reported yet"
CLUSTER_AWAY: Final = "cluster not available ({reason}) since {since}"
CLUSTER_GONE: Final = "no such cluster"
ADD_ON_FINE: Final = "add-on {name} available"
ADD_ON_UNKNOWN: Final = "add-on {name} has not reported yet"
ADD_ON_BAD: Final = "add-on {name} not available: {message}"
AHEAD: Final = "in {time}"
SLACK: Final = timedelta(seconds=10)
"""Allowed difference between the clocks of hub and providers, including the time a write takes."""


class Field(Struct, frozen=True, kw_only=True, gc=False):
    """An entry of managedFields, without the fields."""

    manager: str = ""
    subresource: str = ""
    time: Time | None = None


class Meta(ObjectMeta, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    managed_fields: tuple[Field, ...] = field(default=(), name="managedFields")


class Published(AddOnPlacementScore, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    metadata: Meta = Meta()


class AddOnStatus(Struct, frozen=True, kw_only=True, gc=False):
    conditions: tuple[Condition, ...] = ()


class AddOn(Struct, frozen=True, kw_only=True, gc=False):
    """The part of a ManagedClusterAddOn that the report needs."""

    metadata: ObjectMeta = ObjectMeta()
    status: AddOnStatus = field(default_factory=AddOnStatus)


Score = Published | ManagedClusterScore


Group = tuple[str, str]
"""(kind, resource or calculator)"""


class Registry:
    """The clusters, scores and add-ons of a hub. ``absolute``: report times as timestamps instead of ages."""

    def __init__(self, *, absolute: bool = False) -> None:
        self.clusters: dict[str, ManagedCluster] = {}
        self._absolute = absolute
        self._scores: dict[Group, dict[str, Score]] = {}
        self._addons: dict[str, dict[str, AddOn]] = {}

    def put(self, thing: object) -> None:
        match thing:
            case ManagedCluster():
                self.clusters[thing.metadata.name] = thing
            case Published() | ManagedClusterScore():
                group = group_of(thing)
                if group is not None:
                    self._scores.setdefault(group, {})[thing.metadata.namespace] = thing
            case AddOn():
                self._addons.setdefault(thing.metadata.namespace, {})[thing.metadata.name] = thing

    def drop(self, thing: object) -> None:
        match thing:
            case ManagedCluster():
                self.clusters.pop(thing.metadata.name, None)
            case Published() | ManagedClusterScore():
                group = group_of(thing)
                if group is not None:
                    table = self._scores.get(group, {})
                    table.pop(thing.metadata.namespace, None)
                    if not table:
                        self._scores.pop(group, None)
            case AddOn():
                self._addons.get(thing.metadata.namespace, {}).pop(thing.metadata.name, None)

    def groups(self) -> list[Group]:
        """Return the groups that a provider publishes, and those that an installed add-on should."""
        return sorted({*self._scores, *self._expected()}, key=lambda group: (group[1], group[0]))

    def _expected(self) -> dict[Group, str]:
        """Return the providers of installed add-ons, by the group they should publish."""
        installed = {name for there in self._addons.values() for name in there}
        expected = (EXPECTED[name] for name in EXPECTED if name in installed)
        return {(AddOnPlacementScore().kind, resource): provider for provider, resource in expected}

    def names(self) -> set[str]:
        """Return the names of all providers and of what they publish."""
        return {name for group in self.groups() for name in (group[1], self.provider_of(group))}

    def provider_of(self, group: Group) -> str:
        """Return the provider's name: its label, else the most frequent field manager, else the resource."""
        table = self._scores.get(group, {})
        if not table:
            return self._expected().get(group, group[1])
        labels = Counter(score.metadata.labels.get(PROVIDER, "") for score in table.values())
        del labels[""]
        if labels:
            return labels.most_common(1)[0][0]
        writers = Counter(_last_write_of(score)[1] for score in table.values())
        del writers[""]
        return writers.most_common(1)[0][0] if writers and group[0] != "ManagedClusterScore" else group[1]

    def health(self, group: Group, *, now: datetime, cluster: str | None = None) -> Health:
        """Report on all clusters, or on one."""
        table = self._scores.get(group, {})
        provider = self.provider_of(group)
        wanted = sorted({*self.clusters, *table}) if cluster is None else [cluster]
        entries = (self._entry(group, provider, name, table.get(name), now=now) for name in wanted)
        return Health(
            provider=provider,
            resource=group[1],
            kind=group[0],
            fleet=len(self.clusters),
            entries=tuple(sorted(entries, key=lambda entry: (SEVERITY[entry.state], entry.cluster))),
        )

    def _entry(
        self, group: Group, provider: str, cluster: str, score: Score | None, *, now: datetime
    ) -> Entry:
        if score is None:
            why = "; ".join((NONE.format(resource=group[1]), *self._facts(provider, group[1], cluster)))
            expected = self._addon(provider, group[1], cluster) is not None
            return Entry(cluster=cluster, state=State.MISSING, why=why, expected=expected)
        written, writer = _last_write_of(score)
        state, text = self._state(score, written, now=now)
        stray = cluster not in self.clusters
        if state is State.FRESH:
            why = CLUSTER_GONE if stray else ""
        else:
            why = f"{group[1]} {text} ({self._last_write(score, written, writer, state, now=now)})"
            if state.bad or stray:
                why = "; ".join((why, *self._facts(provider, group[1], cluster)))
        return Entry(
            cluster=cluster,
            state=state,
            why=why,
            valid_until=score.status.validUntil if isinstance(score, Published) else None,
            written=written,
            writer=writer,
            scores=tuple(value.name for value in score.status.scores)
            if isinstance(score, Published)
            else (group[1],),
            stray=stray,
        )

    def _last_write(
        self, score: Score, written: datetime | None, writer: str, state: State, *, now: datetime
    ) -> str:
        made = score.metadata.creationTimestamp
        if written is None:
            known = state is State.EMPTY and made is not None
            return NEVER_WRITTEN.format(when=self._format_when(made, now)) if known and made else UNDATED
        text = WRITTEN.format(when=self._format_when(written, now))
        return BY.format(written=text, writer=writer) if writer else text

    def _state(self, score: Score, written: datetime | None, *, now: datetime) -> tuple[State, str]:
        failing = next(
            (
                condition
                for condition in score.status.conditions
                if condition.type in UPDATED and condition.status == FALSE
            ),
            None,
        )
        if isinstance(score, Published):
            if is_silent(score):
                mark = find_condition(score.status.conditions, SILENT)
                since = None if mark is None else mark.lastTransitionTime
                when = "" if since is None else self._format_when(since, now)
                return State.SILENT, MARKED_SILENT.format(when=when).strip()
            if not score.status.scores:  # also with a validUntil
                return (
                    (State.FAILING, f"{EMPTY}, and {_failure(failing)}") if failing else (State.EMPTY, EMPTY)
                )
            until = score.status.validUntil
            if until is not None and until < now:
                late = written is not None and written - until > SLACK
                text = (EXPIRED_BEFORE if late else EXPIRED).format(when=self._format_when(until, now))
                return State.EXPIRED, f"{text}, and {_failure(failing)}" if failing else text
            if failing is not None:
                return State.FAILING, f"is valid, but {_failure(failing)}"
            return (State.FRESH, "") if until is not None else (State.ENDLESS, ENDLESS)
        if failing is not None:
            return State.FAILING, f"exists, but {_failure(failing)}"
        if score.status == ManagedClusterScoreStatus():
            return State.EMPTY, EMPTY
        return State.ENDLESS, ENDLESS

    def _facts(self, provider: str, resource: str, cluster: str) -> Iterator[str]:
        """Yield facts about the cluster and the add-on that may explain a problem."""
        managed = self.clusters.get(cluster)
        if managed is None:
            yield CLUSTER_GONE
            return
        available = find_condition(managed.status.conditions or (), AVAILABLE)
        if available is None:
            yield CLUSTER_NEW
        elif available.status == TRUE:
            yield CLUSTER_FINE
        else:
            moment = available.lastTransitionTime
            since = UNKNOWN if moment is None else format_time(moment)
            yield CLUSTER_AWAY.format(reason=available.reason or available.status, since=since)
        addon = self._addon(provider, resource, cluster)
        if addon is not None:
            yield _addon_state(addon)

    def _addon(self, provider: str, resource: str, cluster: str) -> AddOn | None:
        there = self._addons.get(cluster, {})
        names = (ADD_ONS.get(provider, provider), provider, resource, resource.removesuffix("-score"))
        return next((there[name] for name in names if name in there), None)

    def _format_when(self, moment: datetime, now: datetime) -> str:
        if self._absolute:
            return f"at {format_time(moment)}"
        return format_span(moment, now) if moment - now > SLACK else f"{format_span(moment, now)} ago"


def format_span(moment: datetime, now: datetime) -> str:
    """Format an age. A time in the future, from a clock that is ahead, is formatted as "in ..."."""
    seconds = int((now - moment).total_seconds())
    return AHEAD.format(time=format_age(-seconds)) if moment - now > SLACK else format_age(max(0, seconds))


def group_of(score: Score) -> Group | None:
    """Return the group of a score; None for a ManagedClusterScore not named after its cluster, which is never read."""
    if isinstance(score, Published):
        return (score.kind, score.metadata.name)
    calculator = calculator_of(score)
    return None if not calculator else (score.kind, calculator)


def _failure(failing: Condition) -> str:
    message = failing.message or failing.reason
    return FAILS.format(message=" ".join(message.split()))


def _addon_state(addon: AddOn) -> str:
    name = addon.metadata.name
    available = find_condition(addon.status.conditions, ADD_ON_AVAILABLE)
    if available is None:
        return ADD_ON_UNKNOWN.format(name=name)
    if available.status == TRUE:
        return ADD_ON_FINE.format(name=name)
    return ADD_ON_BAD.format(name=name, message=" ".join((available.message or available.reason).split()))


def _last_write_of(score: Score) -> tuple[datetime | None, str]:
    """Return when the provider last wrote the status, and its field manager."""
    if isinstance(score, ManagedClusterScore):
        moments = [
            condition.lastUpdateTime
            for condition in score.status.conditions
            if condition.lastUpdateTime is not None
        ]
        return max(moments, default=None), score.metadata.labels.get(PROVIDER, "")
    best: Field | None = None
    for entry in score.metadata.managed_fields:
        if entry.subresource != "status" or entry.manager == JANITOR or entry.time is None:
            continue
        if best is None or best.time is None or entry.time >= best.time:
            best = entry
    return (None, "") if best is None else (best.time, best.manager)


def merge(collections: Iterable[Iterable[object]]) -> Registry:
    registry = Registry()
    for collection in collections:
        for score_or_cluster in collection:
            registry.put(score_or_cluster)
    return registry


def document(reports: Iterable[Health], *, problems_only: bool) -> dict[str, list[dict[str, Any]]]:
    """Return the report as a document. ``problems_only``: count healthy clusters without listing them."""
    return {"providers": [_document(report, problems_only=problems_only) for report in reports]}


def _document(report: Health, *, problems_only: bool) -> dict[str, Any]:
    counts = report.counts
    return {
        "provider": report.provider,
        "resource": report.resource,
        "kind": report.kind,
        "fleet": report.fleet,
        "published": report.published,
        "oldest": _format_moment(report.oldest),
        "scores": list(report.scores),
        "writers": list(report.writers),
        "states": {state.value: counts[state] for state in State},
        "clusters": [
            {
                "cluster": entry.cluster,
                "state": entry.state.value,
                "why": entry.why,
                "validUntil": _format_moment(entry.valid_until),
                "written": _format_moment(entry.written),
                "writer": entry.writer,
                "scores": list(entry.scores),
            }
            for entry in report.entries
            if entry.state.bad or not problems_only
        ],
    }


def _format_moment(moment: datetime | None) -> str | None:
    return None if moment is None else format_time(moment)
