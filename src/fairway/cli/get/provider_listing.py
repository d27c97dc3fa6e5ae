"""`fairway get providers`: list score providers and the state of their scores."""

import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final, Literal, cast

from fairway.api.addon import ADD_ON_GROUP
from fairway.api.resources import ADD_ON_PLACEMENT_SCORES, MANAGED_CLUSTER_SCORES, MANAGED_CLUSTERS
from fairway.api.score import ManagedClusterScore
from fairway.cli.client.objects import listed, together
from fairway.cli.client.session import unknown
from fairway.cli.client.watch import Feed
from fairway.cli.get import listing
from fairway.cli.get.view import Lines, Lot, View, Wanted
from fairway.cli.output import Row, emit
from fairway.cli.text import say
from fairway.providers.freshness import Health, State
from fairway.providers.report import AddOn, Group, Published, Registry, document, format_span, group_of, merge
from kubewire.api.meta import format_time
from kubewire.api.resource import Key
from kubewire.client import Client, Forbidden, NotFound, Resource

Format = Literal["table", "wide", "yaml", "json"]

SCORES: Final = Resource(
    group=ADD_ON_PLACEMENT_SCORES.group,
    version=ADD_ON_PLACEMENT_SCORES.version,
    plural=ADD_ON_PLACEMENT_SCORES.plural,
    kind=ADD_ON_PLACEMENT_SCORES.kind,
    namespaced=True,
    type=Published,
)
ADD_ONS: Final = Resource(
    group=ADD_ON_GROUP,
    version="v1alpha1",
    plural="managedclusteraddons",
    kind="ManagedClusterAddOn",
    namespaced=True,
    type=AddOn,
)
NOTHING: Final = "No provider publishes scores."

SUMMARY: Final = {
    "provider": "Provider",
    "resource": "Resource",
    "clusters": "Clusters",
    "fresh": "Fresh",
    "expired": "Expired",
    "failing": "Failing",
    "missing": "Missing",
}
OLDEST: Final = {"oldest": "Oldest"}
STATES: Final = {"silent": "Silent", "empty": "Empty", "endless": "Endless"}
WIDE: Final = {"kind": "Kind", "scores": "Scores"}
PROBLEM: Final = {"problem": "Problem"}
DETAILS: Final = {
    "provider": "Provider",
    "resource": "Resource",
    "cluster": "Cluster",
    "state": "State",
    "valid": "Valid Until",
    "written": "Written",
}
WRITER: Final = {"writer": "By", "scores": "Scores"}
WHY: Final = {"why": "Why"}


class Providers(View):
    """With ``cluster`` or names, every cluster has its own row."""

    noun, nouns = "provider", "providers"

    def __init__(
        self,
        wanted: Wanted,
        *,
        resource: str = "",
        cluster: str = "",
        wide: bool = False,
        addons: bool = False,
    ) -> None:
        super().__init__(wanted)
        self._resource, self._cluster, self._wide, self._addons = resource, cluster, wide, addons
        self._registry = Registry(absolute=True)
        self._ends: dict[tuple[Group, str], datetime] = {}

    @property
    def detailed(self) -> bool:
        return bool(self._cluster or self.wanted.names)

    @property
    def shown(self) -> tuple[Resource[Any], ...]:
        return (SCORES, MANAGED_CLUSTER_SCORES)

    @property
    def columns(self) -> Mapping[str, str]:
        return columns_of(detailed=self.detailed, wide=self._wide)

    def feeds(self) -> tuple[Feed, ...]:
        # All clusters, also for one: its missing scores are those that others have.
        kinds = (SCORES, MANAGED_CLUSTER_SCORES, MANAGED_CLUSTERS, *((ADD_ONS,) if self._addons else ()))
        return tuple(Feed(resource=kind) for kind in kinds)

    def put(self, thing: Any) -> Iterable[Lot]:
        self._registry.put(thing)
        if isinstance(thing, Published | ManagedClusterScore):
            group = group_of(thing)
            if group is None:
                return ()
            until = thing.status.validUntil if isinstance(thing, Published) else None
            if until is None:
                self._ends.pop((group, thing.metadata.namespace), None)
            else:
                self._ends[group, thing.metadata.namespace] = until
            return (group,)
        return self._registry.groups()

    def drop(self, thing: Any) -> Iterable[Lot]:
        before = self._registry.groups()
        self._registry.drop(thing)
        if isinstance(thing, Published):
            self._ends.pop(((thing.kind, thing.metadata.name), thing.metadata.namespace), None)
        return before

    def lots(self) -> Iterable[Lot]:
        return [group for group in self._registry.groups() if self._wants(group)]

    def _wants(self, group: Group) -> bool:
        return wants(self._registry, group, names=self.wanted.names, resource=self._resource)

    def rows(self, lot: Lot, *, now: datetime) -> Mapping[str, Row]:
        group = cast("Group", lot)
        if group not in self._registry.groups() or not self._wants(group):
            return {}
        health = self._registry.health(group, now=now, cluster=self._cluster or None)
        rows = rows_of(health, detailed=self.detailed, now=now, absolute=True)
        return {str(at) if not self.detailed else str(row["cluster"]): row for at, row in enumerate(rows)}

    def due(self, *, now: datetime) -> tuple[float | None, Iterable[Lot]]:
        over = [name for name, until in self._ends.items() if until < now]
        for name in over:
            del self._ends[name]
        following = min(self._ends.values(), default=None)
        wait = None if following is None else (following - now).total_seconds() + 0.001
        return wait, {group for group, _ in over}

    def names_of(self, thing: Any) -> tuple[Key, ...]:
        del thing
        return ()

    def check(self, known: Collection[Key]) -> None:
        del known
        check(self._registry, names=self.wanted.names, cluster=self._cluster)

    def nothing(self) -> str:
        return NOTHING


def wants(registry: Registry, group: Group, *, names: Sequence[str], resource: str) -> bool:
    called = (group[1], registry.provider_of(group))
    return (not resource or group[1] == resource) and (not names or any(name in called for name in names))


def check(registry: Registry, *, names: Sequence[str], cluster: str) -> None:
    """Raises BadInputError for unknown names."""
    known = registry.names()
    for name in names:
        if name not in known:
            raise unknown("provider", name, known)
    if cluster and cluster not in registry.clusters:
        raise unknown("cluster", cluster, registry.clusters)


def columns_of(*, detailed: bool, wide: bool) -> Mapping[str, str]:
    if detailed:
        return {**DETAILS, **(WRITER if wide else {}), **WHY}
    if wide:
        return {**SUMMARY, **STATES, **OLDEST, **WIDE, **PROBLEM}
    return {**SUMMARY, **OLDEST, **PROBLEM}


def rows_of(health: Health, *, detailed: bool, now: datetime, absolute: bool) -> list[dict[str, object]]:
    def ago(moment: datetime | None) -> str:
        if moment is None:
            return ""
        if absolute:
            return format_time(moment)
        return format_span(moment, now)

    named: dict[str, object] = {"provider": health.provider, "resource": health.resource}
    if detailed:
        return [
            named
            | {
                "cluster": entry.cluster,
                "state": entry.state.value,
                "valid": "" if entry.valid_until is None else format_time(entry.valid_until),
                "written": ago(entry.written),
                "writer": entry.writer,
                "scores": list(entry.scores),
                "why": entry.why,
            }
            for entry in health.entries
        ]
    counts = health.counts
    states = {state.value: counts[state] for state in State}
    return [
        named
        | states
        | {
            "clusters": f"{health.published}/{health.fleet}",
            "oldest": ago(health.oldest),
            "kind": health.kind,
            "scores": list(health.scores),
            "problem": health.problem,
        }
    ]


async def show(client: Client, *, names: Sequence[str], resource: str, cluster: str, output: Format) -> None:
    """Print once, with one paged list of every kind."""
    # All clusters, also for one: its missing scores are those that others have.
    registry = merge(
        await together(
            (
                _listed(client, SCORES),
                _listed(client, MANAGED_CLUSTER_SCORES),
                _listed(client, MANAGED_CLUSTERS),
                _addons(client),
            )
        )
    )
    check(registry, names=names, cluster=cluster)
    now = datetime.now(UTC)
    healths = [
        registry.health(group, now=now, cluster=cluster or None)
        for group in registry.groups()
        if wants(registry, group, names=names, resource=resource)
    ]
    detailed = bool(names or cluster)
    if output in ("yaml", "json"):
        emit(
            [], columns={}, output=cast("Any", output), document=document(healths, problems_only=not detailed)
        )
    elif not healths:
        say(NOTHING, stream=sys.stderr)
    else:
        rows = [
            row for health in healths for row in rows_of(health, detailed=detailed, now=now, absolute=False)
        ]
        lines = Lines(columns_of(detailed=detailed, wide=output == "wide"))
        lines.fit(rows)
        say("\n".join((lines.header(), *map(lines.line, rows))))
    sys.stdout.flush()


async def watch(
    client: Client, *, names: Sequence[str], resource: str, cluster: str, wide: bool, events: bool
) -> None:
    """Print changes until cancelled."""
    view = Providers(
        Wanted(names=tuple(names)),
        resource=resource,
        cluster=cluster,
        wide=wide,
        addons=await _serves_addons(client),
    )
    await listing.watch(client, view, "table", events=events)


async def _listed(client: Client, resource: Resource[Any]) -> list[Any]:
    return await listed(client, resource)


async def _addons(client: Client) -> list[Any]:
    """List add-ons, which only explain problems: they are optional, and so is the permission to list them."""
    try:
        return await listed(client, ADD_ONS)
    except (NotFound, Forbidden):
        return []


async def _serves_addons(client: Client) -> bool:
    try:
        await client.newest(ADD_ONS)
    except (NotFound, Forbidden):
        return False
    return True
