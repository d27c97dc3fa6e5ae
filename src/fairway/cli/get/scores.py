"""Published scores and until when they are valid."""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, Final, cast

from fairway.api.resources import ADD_ON_PLACEMENT_SCORES, MANAGED_CLUSTER_SCORES
from fairway.api.score import AddOnPlacementScore, ManagedClusterScore
from fairway.cli.get.view import Lot, View, Wanted
from fairway.cli.output import Row
from kubewire.api.age import format_age
from kubewire.api.meta import format_time

EXPIRED: Final = "{moment} EXPIRED"
NEVER: Final = ""

Score = AddOnPlacementScore | ManagedClusterScore
_Lot = tuple[str, str, str]
"""Cluster, name, kind."""


class Scores(View):
    noun, nouns = "score", "scores"
    less = ("age", "valid", "resource")
    shown = (ADD_ON_PLACEMENT_SCORES, MANAGED_CLUSTER_SCORES)
    columns: Final = {
        "cluster": "Cluster",
        "resource": "Resource",
        "score": "Score",
        "value": "Value",
        "valid": "Valid Until",
        "age": "Age",
    }

    def __init__(self, wanted: Wanted) -> None:
        super().__init__(wanted)
        self._scores: dict[_Lot, Score] = {}
        self._expiries: dict[_Lot, datetime] = {}
        """When each score expires."""

    def put(self, thing: Score) -> Iterable[Lot]:
        lot = _lot(thing)
        self._scores[lot] = thing
        until = _until(thing)
        if until is None:
            self._expiries.pop(lot, None)
        else:
            self._expiries[lot] = until
        return (lot,)

    def drop(self, thing: Score) -> Iterable[Lot]:
        lot = _lot(thing)
        self._scores.pop(lot, None)
        self._expiries.pop(lot, None)
        return (lot,)

    def lots(self) -> Iterable[Lot]:
        return sorted(self._scores)

    def due(self, *, now: datetime) -> tuple[float | None, Iterable[Lot]]:
        over = [lot for lot, until in self._expiries.items() if until < now]
        for lot in over:
            del self._expiries[lot]
        following = min(self._expiries.values(), default=None)
        # A score is valid up to and including validUntil.
        return None if following is None else (following - now).total_seconds() + 0.001, over

    def rows(self, lot: Lot, *, now: datetime) -> Mapping[str, Row]:
        thing = self._scores.get(cast("_Lot", lot))
        if thing is None or not self.matches(thing):
            return {}
        created = thing.metadata.creationTimestamp
        row: dict[str, object] = {
            "cluster": thing.metadata.namespace,
            "resource": thing.metadata.name,
            "score": None,
            "value": None,
            "valid": _valid(thing, now),
            "age": format_age(int((now - created).total_seconds())) if created else "",
        }
        if isinstance(thing, ManagedClusterScore):
            calculator = thing.metadata.name.removeprefix(f"{thing.metadata.namespace}-")
            return {calculator: row | {"score": calculator, "value": thing.value}}
        scores = {
            score.name: row | {"score": score.name, "value": score.value} for score in thing.status.scores
        }
        return scores or {"": row}


def _lot(thing: Score) -> _Lot:
    return thing.metadata.namespace, thing.metadata.name, thing.kind


def _until(thing: Score) -> datetime | None:
    return thing.status.validUntil if isinstance(thing, AddOnPlacementScore) else None


def _valid(thing: Any, now: datetime) -> str:
    until = _until(thing)
    if until is None:
        return NEVER
    moment = format_time(until)
    return EXPIRED.format(moment=moment) if until < now else moment
