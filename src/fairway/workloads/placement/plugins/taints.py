"""TaintToleration: rejects clusters with taints that the placement does not tolerate.

Whether a set of taints is tolerated depends on their keys, values and effects, of which fleets have few
combinations, so it is decided once per combination, for all placements with equal tolerations. The time of a taint
matters only for tolerations that expire, and membership in the decision only for the effect NoSelectIfNew.
"""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from typing import NamedTuple, cast

import numpy as np

from fairway.api.cluster import NO_SELECT_IF_NEW, PREFER_NO_SELECT, ManagedCluster, Taint
from fairway.api.placement import EQUAL, EXISTS, Toleration
from fairway.engine.points import NEVER_CHANGES, Context, Reads, Timeless
from fairway.engine.remedies import RemoveTaint, Tolerate
from fairway.engine.status import OK, Status, misconfigured, unschedulable
from fairway.hosts import bitmap
from fairway.hosts.bitmap import Bits, Rows
from fairway.hosts.clusters import cells
from fairway.hosts.clusters.cells import Shape
from fairway.hosts.clusters.snapshot import clusters_of
from fairway.hosts.column import CodeColumn
from fairway.hosts.instant import SECOND, Micros, from_micros, to_micros
from fairway.workloads.placement.workload import PlacementWorkload, placement_of
from kubewire.api.meta import format_time

NAME = "TaintToleration"
FIELD = "spec.tolerations"

KEY_NEEDED = "If the key is empty, operator must be Exists."
VALUE_UNWANTED = "If the operator is Exists, the value should be empty."
UNTOLERATED = "has taint {taint}, which the placement does not tolerate"
RUN_OUT = "has taint {taint}, tolerated for {seconds} s until {end}"

FEW_TOLERATIONS = 16
"""Maximum number of tolerations of placements that share verdicts."""
FEW_SHAPES = 1024
"""Maximum number of taint shapes of a fleet whose codes are cached."""

_YEAR_ONE = to_micros(datetime(1, 1, 1, tzinfo=UTC))
"""The time of a taint without one."""


class _Codes(NamedTuple):
    """The verdicts on all taint shapes of a column, by code."""

    tolerated: list[int]
    """Without those in ``timed``."""
    untolerated: list[int]
    timed: list[int]
    """Tolerated, unless the toleration has expired."""
    if_new: bool


class PlacementTolerations:
    """The tolerations of placements, and the verdicts on taint shapes."""

    def __init__(self, tolerations: tuple[Toleration, ...]) -> None:
        self.tolerations = tolerations
        self.refusal = _refusal(tolerations)
        self.timed = any(toleration.tolerationSeconds is not None for toleration in tolerations)
        self._codes: tuple[object, int, _Codes] | None = None
        """The last result of ``judge_all``, with the values of the column and its epoch."""

    def judge_all(self, column: CodeColumn) -> _Codes:
        """Return the verdicts on all shapes, cached for the last column while no host gets a new shape."""
        known = self._codes
        # Codes are reused when no host has a shape any more; ``epoch`` changes then.
        if known is not None and known[0] is column.values and known[1] == column.epoch:
            return known[2]
        codes = self._judge_all(column)
        self._codes = (column.values, column.epoch, codes) if len(column.values) <= FEW_SHAPES else None
        return codes

    def _judge_all(self, column: CodeColumn) -> _Codes:
        """Judge clusters that are not in the decision."""
        tolerations = self.tolerations
        keys = {toleration.key for toleration in tolerations}
        accepted: list[int] = []
        untolerated: list[int] = []
        expiring: list[int] = []
        any_if_new = False
        for value, code in column.items():
            codes = accepted
            for key, setting, effect in cast("Shape", value):
                if effect == PREFER_NO_SELECT:
                    continue
                any_if_new = any_if_new or effect == NO_SELECT_IF_NEW
                if key not in keys and "" not in keys:  # the usual case
                    codes = untolerated
                    continue
                for toleration in tolerations:
                    if matches(toleration, key, setting, effect):
                        if codes is accepted and toleration.tolerationSeconds is not None:
                            codes = expiring
                        break
                else:
                    codes = untolerated
            codes.append(code)
        return _Codes(accepted, untolerated, expiring, any_if_new)

    def tolerates(self, taint: Taint, *, now: Micros) -> bool:
        """Return whether the taint is tolerated on a cluster that is not in the decision."""
        return taint.effect == PREFER_NO_SELECT or any(
            (toleration.tolerationSeconds is None or now < _deadline(taint, toleration.tolerationSeconds))
            and matches(toleration, taint.key, taint.value, taint.effect)
            for toleration in self.tolerations
        )

    def objection(self, taint: Taint, *, decided: bool, now: Micros) -> str | None:
        if taint.effect == PREFER_NO_SELECT or (taint.effect == NO_SELECT_IF_NEW and decided):
            return None
        expired: Toleration | None = None
        for toleration in self.tolerations:
            if not matches(toleration, taint.key, taint.value, taint.effect):
                continue
            if toleration.tolerationSeconds is None or now < _deadline(taint, toleration.tolerationSeconds):
                return None
            expired = toleration
        if expired is not None and expired.tolerationSeconds is not None:
            return RUN_OUT.format(
                taint=describe(taint), seconds=expired.tolerationSeconds, end=_end(taint, expired)
            )
        return UNTOLERATED.format(taint=describe(taint))

    def deadlines(self, cluster: ManagedCluster, *, decided: bool, now: Micros) -> list[Micros]:
        """Return the expiries of the used tolerations; empty if the cluster is not tolerated or nothing expires."""
        deadlines: list[Micros] = []
        for taint in cluster.spec.taints:
            if taint.effect == PREFER_NO_SELECT or (taint.effect == NO_SELECT_IF_NEW and decided):
                continue
            for toleration in self.tolerations:
                if not matches(toleration, taint.key, taint.value, taint.effect):
                    continue
                if toleration.tolerationSeconds is None:
                    break
                deadline = _deadline(taint, toleration.tolerationSeconds)
                if now < deadline:
                    deadlines.append(deadline)
                    break
            else:
                return []
        return deadlines


def placement_tolerations(workload: PlacementWorkload) -> PlacementTolerations:
    tolerations = workload.placement.spec.tolerations
    few = len(tolerations) <= FEW_TOLERATIONS
    return _shared(tolerations) if few else PlacementTolerations(tolerations)


@lru_cache(maxsize=256)
def _shared(tolerations: tuple[Toleration, ...]) -> PlacementTolerations:
    return PlacementTolerations(tolerations)


class TaintToleration(Timeless):
    name = NAME

    def filter(self, context: Context, row: int, /) -> Status:
        workload = placement_of(context)
        tolerations = workload.derive(placement_tolerations)
        if tolerations.refusal is not None:
            return tolerations.refusal
        snapshot = clusters_of(context.snapshot)
        cluster = snapshot.cluster(row)
        taints = cluster.spec.taints
        if not taints:
            return OK
        decided = cluster.metadata.name in snapshot.decisions.counted(workload.owner)
        for taint in taints:
            reason = tolerations.objection(taint, decided=decided, now=context.now)
            if reason is not None:
                return unschedulable(reason, plugin=NAME)
        return OK

    def filter_remedies(self, context: Context, row: int, /) -> Iterator[Tolerate | RemoveTaint]:
        """Propose to tolerate or remove the first taint that is not tolerated."""
        workload = placement_of(context)
        tolerations = workload.derive(placement_tolerations)
        snapshot = clusters_of(context.snapshot)
        cluster = snapshot.cluster(row)
        decided = cluster.metadata.name in snapshot.decisions.counted(workload.owner)
        for taint in cluster.spec.taints:
            if tolerations.objection(taint, decided=decided, now=context.now) is not None:
                yield Tolerate(taint.key, taint.value, taint.effect)
                yield RemoveTaint(taint.key, taint.value, taint.effect)
                return

    def filter_fleet(self, context: Context, candidates: Bits, /) -> tuple[Status, Bits]:
        workload = placement_of(context)
        tolerations = workload.derive(placement_tolerations)
        if tolerations.refusal is not None:
            return (tolerations.refusal if candidates.any() else OK), candidates
        snapshot = clusters_of(context.snapshot)
        column = snapshot.codes(cells.TAINTS)
        tolerated, untolerated, timed, if_new = tolerations.judge_all(column)
        passed = candidates
        if untolerated:
            # Every host has a shape, so the rows of the shorter list give the other ones, too.
            if len(tolerated) + len(timed) < len(untolerated):
                passed = passed & column.bitmap_of(tolerated + timed)
            else:
                passed = passed & ~column.bitmap_of(untolerated)
        if timed:
            passed = passed & ~_late(context, tolerations, candidates & column.bitmap_of(timed))
        if if_new and passed is not candidates:
            for row in snapshot.held(workload.owner).tolist():
                if bitmap.test(candidates, row) and not bitmap.test(passed, row):
                    bitmap.put(passed, row, not self.filter(context, row).rejects)
        return OK, passed

    def wake(self, context: Context, /) -> Micros | None:
        """Return when the first toleration that keeps a cluster in the decision expires."""
        workload = placement_of(context)
        tolerations = workload.derive(placement_tolerations)
        if not tolerations.timed:
            return None
        soonest: Micros | None = None
        snapshot = clusters_of(context.snapshot)
        for row in snapshot.held(workload.owner).tolist():
            deadlines = tolerations.deadlines(snapshot.cluster(row), decided=True, now=context.now)
            if deadlines:
                soonest = min(deadlines) if soonest is None else min(soonest, *deadlines)
        return soonest

    def reads(self, context: Context, /) -> Reads:
        taints = frozenset({cells.TAINTS})
        if not self.basis(context):
            return Reads(cells=taints)
        owner = placement_of(context).owner
        return Reads(cells=taints, shared=frozenset({(cells.OWN_DECISIONS, *owner)}))

    def basis(self, context: Context, /) -> bool:
        """Return whether membership in the decision matters."""
        tolerations = placement_of(context).derive(placement_tolerations)
        return tolerations.judge_all(context.snapshot.codes(cells.TAINTS)).if_new

    def until(self, context: Context, rows: Rows, /) -> Micros:
        workload = placement_of(context)
        tolerations = workload.derive(placement_tolerations)
        if not tolerations.timed or tolerations.refusal is not None:
            return NEVER_CHANGES
        snapshot = clusters_of(context.snapshot)
        tainted = rows[
            snapshot.codes(cells.TAINTS).codes[rows] != (snapshot.codes(cells.TAINTS).code(()) or 0)
        ]
        soonest = NEVER_CHANGES
        held = snapshot.decisions.counted(workload.owner)
        for row in tainted.tolist():
            cluster = snapshot.cluster(row)
            deadlines = tolerations.deadlines(cluster, decided=cluster.metadata.name in held, now=context.now)
            soonest = min(soonest, *deadlines) if deadlines else soonest
        return soonest


def _late(context: Context, tolerations: PlacementTolerations, candidates: Bits) -> Bits:
    """Return the rows with a relevant expired toleration."""
    snapshot = clusters_of(context.snapshot)
    late = [
        row
        for row in bitmap.rows_of(candidates).tolist()
        if not all(
            tolerations.tolerates(taint, now=context.now) for taint in snapshot.cluster(row).spec.taints
        )
    ]
    return bitmap.from_rows(np.array(late, dtype=np.int64), snapshot.capacity)


def matches(toleration: Toleration, key: str, value: str, effect: str) -> bool:
    if toleration.effect and toleration.effect != effect:
        return False
    if toleration.key and toleration.key != key:
        return False
    if toleration.operator in ("", EQUAL):
        return toleration.value == value
    return toleration.operator == EXISTS


def describe(taint: Taint) -> str:
    value = f"={taint.value}" if taint.value else ""
    return f"{taint.key}{value}:{taint.effect}"


def _refusal(tolerations: Sequence[Toleration]) -> Status | None:
    for toleration in tolerations:
        if not toleration.key and toleration.operator != EXISTS:
            return misconfigured(KEY_NEEDED, plugin=NAME, field=FIELD)
        if toleration.operator == EXISTS and toleration.value:
            return misconfigured(VALUE_UNWANTED, plugin=NAME, field=FIELD)
    return None


def _deadline(taint: Taint, seconds: int) -> Micros:
    added = _YEAR_ONE if taint.timeAdded is None else to_micros(taint.timeAdded)
    return added + seconds * SECOND


def _end(taint: Taint, toleration: Toleration) -> str:
    if taint.timeAdded is None or toleration.tolerationSeconds is None:
        return "long ago (the taint has no timeAdded)"
    return format_time(from_micros(max(_YEAR_ONE, _deadline(taint, toleration.tolerationSeconds))))
