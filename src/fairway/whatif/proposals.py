"""Convert remedies of plugins to edits of one cluster's objects, of its placement, or of both their surroundings.

Which object has the value of a column is known only here: labels, claims, taints and amounts are those of
the ManagedCluster, scores those of AddOnPlacementScores and ManagedClusterScores.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, TypeVar

import numpy as np

from fairway.api.cluster import CLUSTER_SET_LABEL
from fairway.engine import remedies
from fairway.engine.outcome import Outcome
from fairway.engine.remedies import FieldPath, MoveNumber, Remedy, SetCell, SetNumber
from fairway.hosts.clusters import cells, clusters_of
from fairway.hosts.column import Key as ColumnKey
from fairway.whatif.edits import (
    Bind,
    Edit,
    JoinClusterSet,
    NameClusterSet,
    NumericEdit,
    RaiseMaxSkew,
    RemoveTaint,
    SetClaim,
    SetLabel,
    Tolerate,
    WantMore,
    cluster_of,
)
from fairway.whatif.field_edits import FieldError, add_to_field, raise_field, set_field
from fairway.whatif.number_edits import (
    HIGHEST_SCORE,
    LOWEST_SCORE,
    MoveClaim,
    MoveLabel,
    PublishClusterScore,
    PublishScore,
    allocate_edit,
    score_edit,
)
from fairway.whatif.world import World

FARTHEST_FACTOR: Final = 4
"""Numbers are raised to at most this many times the largest among the candidates."""
LARGEST_NUMBER: Final = 1 << 62
CANNOT_BE_TRIED: Final = "{remedy} cannot be tried: {why}"
NO_SUCH_EDIT: Final = "no object that a what-if can change has this column"

_Published = TypeVar("_Published", PublishScore, PublishClusterScore)
_CLUSTER_SETS: Final[FieldPath] = ("spec", "clusterSets")
_CONSTRAINTS: Final[FieldPath] = ("spec", "spreadPolicy", "spreadConstraints")


@dataclass(frozen=True, slots=True)
class NumericCandidate:
    """A numeric edit at its bound, and numbers of steps that may be just enough."""

    edit: NumericEdit
    guesses: tuple[int, ...]


@dataclass(slots=True)
class Proposals:
    remedies: int = 0
    """Number of remedies, usable or not."""
    edits: list[Edit] = field(default_factory=list)
    candidates: list[NumericCandidate] = field(default_factory=list)
    unusable: list[str] = field(default_factory=list)
    """Why remedies cannot be tried."""


class Proposer:
    """Converts remedies for one cluster that was not selected in one outcome."""

    def __init__(self, outcome: Outcome, world: World, cluster: str) -> None:
        workload = outcome.context.workload
        self._outcome = outcome
        self._world = world
        self._key = (workload.namespace, workload.name)
        self._cluster = cluster
        self._source = cluster_of(world, cluster)
        self._row = outcome.snapshot.hosts.row_of[cluster]

    def propose(
        self,
        given: Iterable[Remedy],
        proposals: Proposals,
        *,
        guesses: Sequence[int] = (),
        publish: bool = False,
    ) -> None:
        """Add the edits of remedies.

        ``guesses`` are steps of numbers that may be just enough; ``publish`` is whether a missing score might only have
        to be published, with any value.
        """
        for remedy in given:
            proposals.remedies += 1
            try:
                for edit in self._edits(remedy, tuple(guesses), publish=publish):
                    if isinstance(edit, NumericCandidate):
                        proposals.candidates.append(edit)
                    else:
                        proposals.edits.append(edit)
            except FieldError as error:
                proposals.unusable.append(CANNOT_BE_TRIED.format(remedy=remedy, why=error))

    def _edits(
        self, remedy: Remedy, guesses: tuple[int, ...], *, publish: bool
    ) -> Iterator[Edit | NumericCandidate]:
        match remedy:
            case SetCell():
                yield from self._text(remedy)
            case SetNumber():
                yield from self._exact(remedy)
            case MoveNumber():
                yield from self._number(remedy, guesses, publish=publish)
            case remedies.RemoveTaint(key, value, effect):
                yield RemoveTaint(cluster=self._cluster, key=key, value=value, effect=effect)
            case remedies.Tolerate(key, value, effect):
                yield Tolerate(placement=self._key, key=key, value=value, effect=effect)
            case remedies.BindSet(name):
                yield Bind(namespace=self._key[0], set=name)
            case remedies.WantMore():
                yield from self._more(remedy)
            case _:
                yield from self._field(remedy)

    # The cluster

    def _text(self, remedy: SetCell) -> Iterator[Edit]:
        match remedy.column:
            case (cells.LABEL, str(key)):
                old = self._source.metadata.labels.get(key)
                if old == remedy.value:
                    return
                if key == CLUSTER_SET_LABEL and remedy.value is not None:
                    yield JoinClusterSet(cluster=self._cluster, set=remedy.value, old=old)
                else:
                    yield SetLabel(cluster=self._cluster, key=key, value=remedy.value, old=old)
            case (cells.CLAIM, str(key)):
                old = cells.claims_of(self._source).get(key)
                if old != remedy.value:
                    yield SetClaim(cluster=self._cluster, key=key, value=remedy.value, old=old)
            case _:
                raise FieldError(NO_SUCH_EDIT)

    def _exact(self, remedy: SetNumber) -> Iterator[Edit]:
        match remedy.column:
            case (cells.SCORE, str(resource), str(name)):
                score = self._score(resource, name, up=True, wary=remedy.silent_is_missing)
                if LOWEST_SCORE <= remedy.value <= HIGHEST_SCORE and (
                    score.absent or remedy.value != score.base
                ):
                    yield replace(score, value=remedy.value)
            case (cells.CALCULATOR, str(name)):
                calculated = self._calculated(name, remedy.column, up=True)
                if calculated.missing or remedy.value != calculated.base:
                    yield replace(calculated, value=remedy.value)
            case _:
                yield from self._text(SetCell(remedy.column, str(remedy.value)))

    def _number(
        self, remedy: MoveNumber, guesses: tuple[int, ...], *, publish: bool
    ) -> Iterator[Edit | NumericCandidate]:
        edit: NumericEdit
        absent = False
        match remedy.column:
            case (cells.SCORE, str(resource), str(name)):
                score = self._score(
                    resource,
                    name,
                    up=remedy.up,
                    wary=remedy.silent_is_missing,
                    weighed=self._weighed(resource),
                    missing=self._missing(remedy.column),
                )
                edit, absent = _bounded(score, remedy), score.absent
            case (cells.CALCULATOR, str(name)):
                calculated = self._calculated(remedy.title or name, remedy.column, up=remedy.up)
                edit, absent = _bounded(calculated, remedy), calculated.missing
            case (cells.ALLOCATABLE, str(resource)):
                amounts = self._outcome.snapshot.numbers(remedy.column).values[self._outcome.details.rows]
                most = float(np.nan_to_num(amounts).max(initial=0.0)) * FARTHEST_FACTOR
                most = most if remedy.bound is None else float(remedy.bound)
                edit, _ = allocate_edit(self._source, resource, up=remedy.up, most=most)
            case (cells.LABEL | cells.CLAIM, str()):
                yield from self._written(remedy, guesses)
                return
            case _:
                raise FieldError(NO_SUCH_EDIT)
        if publish and absent:
            yield edit.with_steps(0)
        if edit.steps > 0:
            yield NumericCandidate(edit=edit, guesses=guesses)

    def _score(
        self,
        resource: str,
        name: str,
        *,
        up: bool,
        wary: bool,
        weighed: tuple[str, ...] = (),
        missing: int = 0,
    ) -> PublishScore:
        edit, _ = score_edit(
            self._world,
            self._cluster,
            resource,
            name,
            up=up,
            now=self._outcome.context.now,
            weighed=weighed,
            missing=missing,
            wary=wary,
        )
        return edit

    def _weighed(self, resource: str) -> tuple[str, ...]:
        """Return the scores of an AddOnPlacementScore by which the placement ranks."""
        columns = {column for _, reads in self._scorers() for column in reads}
        return tuple(sorted(column[2] for column in columns if column[:2] == (cells.SCORE, resource)))

    def _missing(self, column: ColumnKey) -> int:
        """Return what a missing score counts."""
        return next((missing for missing, reads in self._scorers() if column in reads), 0)

    def _scorers(self) -> Iterator[tuple[int, frozenset[ColumnKey]]]:
        for scorer in self._outcome.plugins.scores:
            if scorer.reader is not None:
                yield scorer.missing, scorer.reader.reads(self._outcome.context).cells

    def _calculated(self, name: str, key: ColumnKey, *, up: bool) -> PublishClusterScore:
        column = clusters_of(self._outcome.snapshot).score_column(key)
        present = bool(column.present[self._row])
        base = int(column.values[self._row]) if present else self._missing(key)
        values = np.abs(column.values[self._outcome.details.rows].astype(np.float64))
        farthest = min(FARTHEST_FACTOR * max(100, int(values.max(initial=0.0))), LARGEST_NUMBER)
        return PublishClusterScore(
            cluster=self._cluster,
            calculator=name,
            base=base,
            value=max(base, farthest) if up else min(base, -farthest),
            missing=not present,
        )

    def _written(self, remedy: MoveNumber, guesses: tuple[int, ...]) -> Iterator[Edit | NumericCandidate]:
        """Yield edits of a label or claim whose value is a whole number."""
        kind, key = remedy.column
        codes = self._outcome.snapshot.codes(remedy.column)
        used = np.unique(codes.codes[self._outcome.details.rows]).tolist()
        known = [number for code in used if (number := _whole(codes.values[code])) is not None]
        own = self._source.metadata.labels if kind == cells.LABEL else cells.claims_of(self._source)
        base = _whole(own.get(key))
        if base is None:
            best = max(known, default=remedy.bound) if remedy.up else min(known, default=remedy.bound)
            if best is not None:
                yield from self._text(SetCell(remedy.column, str(best)))
            return
        bound = remedy.bound
        if bound is None:
            farthest = FARTHEST_FACTOR * max((abs(number) for number in known), default=0)
            bound = min(farthest, LARGEST_NUMBER) if remedy.up else min(0, *known, base)
        value = max(base, bound) if remedy.up else min(base, bound)
        if value != base:
            edit = (MoveLabel if kind == cells.LABEL else MoveClaim)(
                cluster=self._cluster, key=key, base=base, value=value
            )
            yield NumericCandidate(edit=edit, guesses=guesses)

    # The placement

    def _more(self, remedy: remedies.WantMore) -> Iterator[NumericCandidate]:
        wanted, most = self._outcome.context.workload.wanted, len(self._outcome.details.rows)
        if wanted is not None and wanted < most:
            current = self._world.placements[self._key].spec.numberOfClusters or 0
            edit = WantMore(placement=self._key, old=current, value=most)
            yield NumericCandidate(edit=edit, guesses=tuple(guess - wanted for guess in remedy.guesses))

    def _field(
        self, remedy: remedies.SetField | remedies.AddToList | remedies.RaiseField
    ) -> Iterator[Edit | NumericCandidate]:
        match remedy:
            case remedies.SetField(path, value):
                edit: Edit | None = set_field(self._world, self._key, path, value)
                if edit is not None:
                    yield edit
            case remedies.AddToList(path, value):
                edit = add_to_field(self._world, self._key, path, value)
                if path == _CLUSTER_SETS and edit is not None:
                    edit = NameClusterSet(placement=self._key, set=str(value))
                if edit is not None:
                    yield edit
            case remedies.RaiseField(path, most):
                raised = self._raised(path, most)
                if raised is not None:
                    yield NumericCandidate(edit=raised, guesses=(1, 2))

    def _raised(self, path: FieldPath, most: int) -> NumericEdit | None:
        edit = raise_field(self._world, self._key, path, most)
        match path:
            case (*head, int(at), "maxSkew") if tuple(head) == _CONSTRAINTS and edit is not None:
                constraint = self._world.placements[self._key].spec.spreadPolicy.spreadConstraints[at]
                return RaiseMaxSkew(
                    placement=self._key,
                    constraint=at,
                    key=constraint.topologyKey,
                    old=constraint.maxSkew,
                    value=most,
                )
        return edit


def _bounded(edit: _Published, remedy: MoveNumber) -> _Published:
    """Return the edit with the bound of the remedy, if that is nearer."""
    if remedy.bound is None:
        return edit
    if remedy.up:
        return replace(edit, value=max(edit.base, min(edit.value, remedy.bound)))
    return replace(edit, value=min(edit.base, max(edit.value, remedy.bound)))


def _whole(value: object) -> int | None:
    try:
        return int(str(value))
    except ValueError:
        return None
