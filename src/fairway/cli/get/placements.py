"""Placements, and the decisions made for them."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Final, cast

from fairway.api.decision import PlacementDecision
from fairway.api.placement import GROUP_INDEX_LABEL, GROUP_NAME_LABEL, PLACEMENT_LABEL, Placement
from fairway.api.resources import PLACEMENT_DECISIONS, PLACEMENTS
from fairway.cli.client.moves import GATHER_SECONDS, cause, traces
from fairway.cli.client.objects import PLACING
from fairway.cli.client.watch import Feed
from fairway.cli.client.world import LiveWorld
from fairway.cli.get.view import Lot, View, Wanted
from fairway.cli.options.output import is_wide
from fairway.cli.output import Row
from fairway.engine.trace import HostTrace
from fairway.hosts.instant import to_micros
from kubewire.api.meta import TRUE, find_condition
from kubewire.api.resource import Key, key_of

SATISFIED: Final = "PlacementSatisfied"
MISCONFIGURED: Final = "PlacementMisconfigured"
MORE: Final = "{names} … and {count:,} more: -o wide"
SHOWN: Final = 4
DROPPED: Final = "no longer selected"


class Placements(View):
    noun, nouns = "placement", "placements"
    less = ("reason",)
    shown = (PLACEMENTS,)
    beside = (PLACEMENT_DECISIONS,)

    def __init__(self, wanted: Wanted) -> None:
        super().__init__(wanted)
        self._placements: dict[Key, Placement] = {}
        self._decided = Decided()

    @property
    def columns(self) -> Mapping[str, str]:
        own = {"name": "Name", "status": "Status", "reason": "Reason", "clusters": "SelectedClusters"}
        return own if self.wanted.where else {"namespace": "Namespace", **own}

    def put(self, thing: Any) -> Iterable[Lot]:
        if isinstance(thing, PlacementDecision):
            return self._decided.put(thing)
        self._placements[key_of(thing)] = thing
        return (key_of(thing),)

    def drop(self, thing: Any) -> Iterable[Lot]:
        if isinstance(thing, PlacementDecision):
            return self._decided.drop(thing)
        self._placements.pop(key_of(thing), None)
        return (key_of(thing),)

    def lots(self) -> Iterable[Lot]:
        return sorted(self._placements)

    def rows(self, lot: Lot, *, now: datetime) -> Mapping[str, Row]:
        del now
        key = cast("Key", lot)
        placement = self._placements.get(key)
        if placement is None or not self.matches(placement):
            return {}
        satisfied = find_condition(placement.status.conditions, SATISFIED)
        wrong = find_condition(placement.status.conditions, MISCONFIGURED)
        # For a misconfigured placement OCM reports that no cluster matches, which hides the cause.
        shown = wrong if wrong and wrong.status == TRUE else satisfied
        row = {
            "namespace": key[0],
            "name": key[1],
            "status": satisfied.status if satisfied else "",
            "reason": shown.reason if shown else "",
            "clusters": _few([page for _, page, _ in self._decided.of(key)]),
        }
        return {"": row}


def _few(names: list[str]) -> str:
    if is_wide():
        return ", ".join(names)
    shown = ", ".join(names[:SHOWN])
    return MORE.format(names=shown, count=len(names) - SHOWN) if len(names) > SHOWN else shown


class Decisions(View):
    noun, nouns = "placement with decisions", "decisions"
    # The reason has the score.
    less = ("group", "score", "namespace", "time")
    timed = True
    gather = GATHER_SECONDS
    shown = (PLACEMENT_DECISIONS,)
    columns: Final = {
        "namespace": "Namespace",
        "placement": "Placement",
        "group": "Group",
        "cluster": "Cluster",
        "score": "Score",
        "reason": "Reason",
    }

    def __init__(self, wanted: Wanted) -> None:
        super().__init__(wanted)
        self._decided = Decided()
        self._world: LiveWorld | None = None
        """While watching."""

    def put(self, thing: PlacementDecision) -> Iterable[Lot]:
        return self._decided.put(thing)

    def drop(self, thing: PlacementDecision) -> Iterable[Lot]:
        return self._decided.drop(thing)

    def names_of(self, thing: Any) -> tuple[Key, ...]:
        """Return the name of the placement, and that of the PlacementDecision."""
        key = key_of(thing)
        return (key[0], thing.metadata.labels.get(PLACEMENT_LABEL, "")), key

    def lots(self) -> Iterable[Lot]:
        return sorted(self._decided.pages)

    def cause_feeds(self) -> tuple[Feed, ...]:
        self._world = LiveWorld()
        return tuple(Feed(resource=resource, observe=self._world.observe) for resource in PLACING)

    def deleted(self, lot: Lot, rows: Sequence[Row], *, now: datetime) -> Sequence[Row]:
        """Show the current points of dropped clusters, and why they are not selected any more."""
        key = cast("Key", lot)
        world = self._world.world() if self._world is not None and self.names_causes else None
        if world is None or key not in world.placements:
            return [{**row, "score": None, "reason": DROPPED} for row in rows]
        hosts = traces(world, key, now=to_micros(now))
        return [_dropped(row, hosts.get(str(row["cluster"]))) for row in rows]

    def rows(self, lot: Lot, *, now: datetime) -> Mapping[str, Row]:
        del now
        namespace, placement = key = cast("Key", lot)
        return {
            cluster: {
                "namespace": namespace,
                "placement": placement,
                "group": _group(page),
                "cluster": cluster,
                "score": decision.score,
                "reason": decision.reason,
            }
            for page, cluster, decision in self._decided.of(key)
            if self.matches(page)
        }


def _dropped(row: Row, host: HostTrace | None) -> Row:
    before = cast("int | None", row["score"])
    return {**row, "score": None if host is None else host.total, "reason": cause(host, before=before)}


def _group(page: PlacementDecision) -> str:
    labels = page.metadata.labels
    return f"{labels.get(GROUP_INDEX_LABEL, '')} {labels.get(GROUP_NAME_LABEL, '')}".strip()


class Decided:
    """Decisions by the placement they were made for."""

    def __init__(self) -> None:
        self.pages: dict[Key, dict[str, PlacementDecision]] = {}
        self._placement_of: dict[Key, Key] = {}

    def put(self, page: PlacementDecision) -> Iterable[Key]:
        key = key_of(page)
        placement = (key[0], page.metadata.labels.get(PLACEMENT_LABEL, ""))
        # A changed label moves a PlacementDecision to another placement.
        before = self.drop(page) if self._placement_of.get(key, placement) != placement else ()
        self._placement_of[key] = placement
        self.pages.setdefault(placement, {})[key[1]] = page
        return (placement, *before)

    def drop(self, page: PlacementDecision) -> tuple[Key, ...]:
        namespace, name = key_of(page)
        placement = self._placement_of.pop((namespace, name), None)
        if placement is None:
            return ()
        del self.pages[placement][name]
        if not self.pages[placement]:
            del self.pages[placement]
        return (placement,)

    def of(self, placement: Key) -> Iterator[tuple[PlacementDecision, str, Any]]:
        """Yield each PlacementDecision with its clusters, in order."""
        pages = self.pages.get(placement, {})
        for page in sorted(pages.values(), key=_place):
            for decision in page.status.decisions:
                yield page, decision.clusterName, decision


def _place(page: PlacementDecision) -> tuple[int, int, str]:
    """Sort key: by group, then decision-2 before decision-10."""
    index = page.metadata.labels.get(GROUP_INDEX_LABEL, "")
    number = int(index) if index.isascii() and index.isdigit() else 0
    return number, len(page.metadata.name), page.metadata.name
