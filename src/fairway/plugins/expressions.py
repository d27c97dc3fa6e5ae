"""CEL expressions over the fleet.

What an expression reads is known when it is compiled. Where that is a few plain values, such as two labels and a
version, clusters that agree on them get the same answer, so it is evaluated once per distinct combination.
Answers are kept per cluster until something the expression reads changes. Where scores that have run out are hidden,
time changes answers too; so they are kept by which of the score objects that can be asked for a cluster has lost.
"""

from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from fairway.api.cluster import cluster_as_json
from fairway.cel import (
    CompileError,
    EvaluationError,
    InstantiationError,
    Outcome,
    Program,
    Withheld,
    cluster_environment,
)
from fairway.fleet import bitmap, cells
from fairway.fleet.bitmap import Bits, Mask, Rows
from fairway.fleet.column import Key
from fairway.fleet.instant import Micros
from fairway.fleet.scores import expiry, is_silent
from fairway.fleet.snapshot import Snapshot
from fairway.plugins import trust

VARIABLE = "managedCluster"
COST_LIMIT = 1_000_000
"""Of one expression for one cluster."""
COST_BUDGET = 10_000_000
"""Of all expressions of a predicate for one cluster."""
FLEET_BUDGET = 20_000_000
CLUSTER_BUDGET = 500
"""Of all expressions of a placement for the whole fleet: so much, and for each cluster on average so much more. Beyond
that, one placement would keep all others waiting for seconds."""
CALL_COST = 50
"""What asking takes beside what is asked, in the same unit, which is about 50 ns."""
TOO_COSTLY = (
    "the CEL expressions cost more than {budget} over {clusters} clusters; write fewer or cheaper ones than {text!r}, "
    "or narrow the clusters down by labels first"
)
OVER_BUDGET = "CEL expressions cost more than the budget of a predicate"
COMPILATION_FAILED = "compilation failed: {error}"
INSTANTIATION_FAILED = "instantiation failed: {error}"
HIDDEN = f"{{why}}, and counts as absent by annotation {trust.EXPIRED_SCORES}"

_MOST_TOLD_APART = 62
"""Score objects of which it is kept, in one number, which ones a cluster has lost."""

_NAME = ("metadata", "name")
"""Never another for the same host, so nobody has to watch it."""
_WIDE = frozenset({(), ("metadata",), ("spec",), ("status",), ("metadata", "uid")})
"""Paths whose values hardly two clusters share, so that a column of them is not worth having."""


class ExpressionError(ValueError):
    """An expression does not compile."""


class TooCostly(Exception):
    """Asking the whole fleet would take too long."""


class Purse:
    """What the expressions of a placement may still cost in one look at the fleet."""

    __slots__ = ("_budget", "_clusters", "_left")

    def __init__(self, clusters: int) -> None:
        self._clusters = clusters
        self._budget = self._left = FLEET_BUDGET + CLUSTER_BUDGET * clusters

    def pay(self, cost: int, text: str) -> None:
        """Raises TooCostly; ``text`` is what it is said about."""
        self._left -= cost
        if self._left < 0:
            raise TooCostly(TOO_COSTLY.format(budget=self._budget, clusters=self._clusters, text=text))


class Scores:
    """What ``managedCluster.scores("name")`` sees. With ``now``, what has run out or is silent by then is hidden."""

    __slots__ = ("_now", "_snapshot")

    def __init__(self, snapshot: Snapshot, *, now: Micros | None = None) -> None:
        self._snapshot = snapshot
        self._now = now

    def scores(self, cluster: str, name: str, /) -> Sequence[tuple[str, int]] | None:
        found = self._snapshot.score_object(cluster, name)
        if found is None:
            return None
        if self._now is not None and (expiry(found) < self._now or is_silent(found)):
            raise Withheld(HIDDEN.format(why=trust.why_lapsed(found)))
        return [(item.name, item.value) for item in found.status.scores]


class Expressions:
    """All expressions of one predicate; they match together."""

    __slots__ = ("_fields", "_paths", "_programs", "_resources", "_texts", "reads")

    def __init__(self, texts: tuple[str, ...]) -> None:
        """Raises ExpressionError for the first that does not compile."""
        self._texts = texts
        self._programs = tuple(compiled(text) for text in texts)
        self._fields = _fields(self._programs)
        self._paths = _paths(self._programs)
        self._resources = _resources(self._programs)
        self.reads = _reads(self._programs)
        """Columns the answer for a cluster depends on; None for anything about it."""

    def resources(self, snapshot: Snapshot) -> tuple[str, ...]:
        """The names of score objects that can be asked for."""
        return tuple(sorted(snapshot.scores)) if self._resources is None else self._resources

    def matches(self, snapshot: Snapshot, row: int, *, now: Micros | None = None) -> bool:
        """Here as elsewhere: with ``now``, scores that have run out by then are hidden."""
        return self.objection(snapshot, row, now=now) is None

    def objection(self, snapshot: Snapshot, row: int, *, now: Micros | None = None) -> str | None:
        """Why a cluster does not match, in words; None when it does. The first expression that is not true ends it."""
        return self._judge(snapshot, row, now)[0]

    def _judge(self, snapshot: Snapshot, row: int, now: Micros | None) -> tuple[str | None, int]:
        """The objection, and what it cost to find out."""
        variables = {VARIABLE: cluster_as_json(snapshot.cluster(row), fields=self._fields)}
        source = Scores(snapshot, now=now)
        spent = calls = 0
        for program in self._programs:
            outcome = program.evaluate(variables, context=source, cost_limit=COST_LIMIT)
            spent += outcome.cost
            calls += CALL_COST
            if spent > COST_BUDGET:
                return OVER_BUDGET, spent + calls
            objection = _words(program, outcome)
            if objection is not None:
                return objection, spent + calls
        return None, spent + calls

    def holds(self, snapshot: Snapshot, among: Bits, purse: Purse, *, now: Micros | None = None) -> Bits:
        """Rows among the given ones that match. Raises TooCostly."""
        if not self._programs:
            return among
        if now is not None:
            return self._hiding(snapshot, among, purse, now)
        return self._kept(snapshot, among, purse, now=None, lost=())

    def _hiding(self, snapshot: Snapshot, among: Bits, purse: Purse, now: Micros) -> Bits:
        """Rows that have lost the same objects are asked together, those that have lost none like anybody's."""
        rows = bitmap.rows_of(among)
        losses = np.zeros(len(rows), dtype=np.int64)
        names: list[str] = []
        for name in self.resources(snapshot):
            lost = trust.lapsed(snapshot, name, rows, now=now)
            if lost.any():
                losses |= lost.astype(np.int64) << len(names)
                names.append(name)
            if len(names) > _MOST_TOLD_APART:
                return bitmap.from_rows(rows[self._ask(snapshot, rows, purse, now)], snapshot.capacity)
        holding = snapshot.none()
        for code in np.unique(losses).tolist():
            group = bitmap.from_rows(rows[losses == code], snapshot.capacity)
            gone = tuple(name for at, name in enumerate(names) if code >> at & 1)
            holding = holding | self._kept(snapshot, group, purse, now=now if gone else None, lost=gone)
        return holding

    def _kept(
        self, snapshot: Snapshot, among: Bits, purse: Purse, *, now: Micros | None, lost: tuple[str, ...]
    ) -> Bits:
        for key in self.reads or ():
            if key[0] == cells.PATH:
                # The fleet reports changes only of paths it has a column for.
                snapshot.codes(key)
        kept = snapshot.derived((VARIABLE, self._texts, *lost), reads=self.reads)
        return kept.holds(
            snapshot, among=among, compute=lambda rows: self._compute(snapshot, rows, purse, now)
        )

    def _compute(self, snapshot: Snapshot, rows: Rows, purse: Purse, now: Micros | None) -> Mask:
        groups = self._groups(snapshot, rows)
        if groups is None:
            return self._ask(snapshot, rows, purse, now)
        first, inverse = groups
        return self._ask(snapshot, rows[first], purse, now)[inverse]

    def _ask(self, snapshot: Snapshot, rows: Rows, purse: Purse, now: Micros | None) -> Mask:
        answers = np.zeros(len(rows), dtype=np.bool_)
        for at, row in enumerate(rows.tolist()):
            objection, cost = self._judge(snapshot, row, now)
            answers[at] = objection is None
            purse.pay(cost, self._texts[0])
        return answers

    def _groups(self, snapshot: Snapshot, rows: Rows) -> tuple[Rows, Rows] | None:
        """One position per distinct combination of the values read, and which combination each row has."""
        if self._paths is None or len(rows) < 2:
            return None
        combined = np.zeros(len(rows), dtype=np.int64)
        for path in self._paths:
            column = snapshot.codes((cells.PATH, *path))
            width = len(column.values)
            if int(combined.max(initial=0)) > (1 << 62) // width:
                return None
            combined = combined * width + column.codes[rows]
        _, first, inverse = np.unique(combined, return_index=True, return_inverse=True)
        return first, inverse


@lru_cache(maxsize=4096)
def compiled(text: str) -> Program:
    try:
        return cluster_environment().compile(text)
    except InstantiationError as error:
        raise ExpressionError(INSTANTIATION_FAILED.format(error=error)) from error
    except CompileError as error:
        raise ExpressionError(COMPILATION_FAILED.format(error=error)) from error


def _words(program: Program, outcome: Outcome) -> str | None:
    if outcome.error is not None:
        return f"CEL expression {program.text!r} fails: {_reason(outcome.error)}"
    if outcome.value is True:
        return None
    shown = "false" if outcome.value is False else f"{outcome.value!r}, which is not true or false"
    return f"CEL expression {program.text!r} is {shown}"


def _reason(error: EvaluationError) -> str:
    return str(error)


def _fields(programs: Sequence[Program]) -> frozenset[tuple[str, str]] | None:
    """The fields of a cluster that the programs can see a difference in, and its name; None for all."""
    fields: set[tuple[str, str]] = {("metadata", "name")}
    for program in programs:
        for path in (("",),) if program.reads is None else program.reads:
            if len(path) < 3:
                return None
            fields.add((path[1], path[2]))
    return frozenset(fields)


def _paths(programs: Sequence[Program]) -> tuple[tuple[str, ...], ...] | None:
    """Where the values are that decide, when few clusters differ in them; None when each must be asked."""
    paths: set[tuple[str, ...]] = set()
    for program in programs:
        if program.reads is None or program.score_reads is None or program.score_reads:
            return None
        paths.update(path[1:] for path in program.reads)
    return None if _NAME in paths or paths & _WIDE else tuple(sorted(paths))


def _resources(programs: Sequence[Program]) -> tuple[str, ...] | None:
    """None when any may be asked for."""
    names: set[str] = set()
    for program in programs:
        if program.score_reads is None:
            return None
        names |= program.score_reads
    return tuple(sorted(names))


def _reads(programs: Sequence[Program]) -> frozenset[Key] | None:
    keys: set[Key] = set()
    for program in programs:
        if program.reads is None or program.score_reads is None:
            return None
        paths = {path[1:] for path in program.reads}
        if paths & _WIDE:
            return None
        keys.update((cells.PATH, *path) for path in paths if path != _NAME)
        keys.update((cells.SCORES, name) for name in program.score_reads)
    return frozenset(keys)
