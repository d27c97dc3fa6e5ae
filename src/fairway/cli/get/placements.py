"""Placements, and the decisions made for them."""

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any, Final, cast

from fairway.api.decision import PlacementDecision
from fairway.api.meta import TRUE, find_condition
from fairway.api.placement import GROUP_INDEX_LABEL, GROUP_NAME_LABEL, PLACEMENT_LABEL, Placement
from fairway.cli.get.view import Lot, View, Wanted
from fairway.cli.output import Row
from fairway.kube import PLACEMENT_DECISIONS, PLACEMENTS
from fairway.kube.resource import Key, key_of

SATISFIED: Final = "PlacementSatisfied"
MISCONFIGURED: Final = "PlacementMisconfigured"
MORE: Final = "{names} … and {count:,} more"
SHOWN: Final = 4
REPLACED: Final = "replaced by {names}"
DROPPED: Final = "no longer selected"


class Placements(View):
    noun, nouns = "placement", "placements"
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
            "clusters": _few([each for _, each, _ in self._decided.of(key)]),
        }
        return {"": row}


def _few(names: list[str]) -> str:
    shown = ", ".join(names[:SHOWN])
    return MORE.format(names=shown, count=len(names) - SHOWN) if len(names) > SHOWN else shown


class Decisions(View):
    noun, nouns = "placement with decisions", "decisions"
    timed = True
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

    def deleted(self, row: Row, rows: Mapping[str, Row], before: Mapping[str, Row]) -> Row:
        """Name the clusters that replace a dropped one, with their scores."""
        added = [f"{name} ({rows[name]['score']})" for name in rows if name not in before]
        return {**row, "reason": REPLACED.format(names=", ".join(added)) if added else DROPPED}

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
            for each in page.status.decisions:
                yield page, each.clusterName, each


def _place(page: PlacementDecision) -> tuple[int, int, str]:
    """Sort key: by group, then decision-2 before decision-10."""
    index = page.metadata.labels.get(GROUP_INDEX_LABEL, "")
    number = int(index) if index.isascii() and index.isdigit() else 0
    return number, len(page.metadata.name), page.metadata.name
