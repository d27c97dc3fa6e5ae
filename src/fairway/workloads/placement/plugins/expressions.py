"""CEL expressions over the fleet.

The reads of an expression are known when it is compiled. If they are a few plain values, such as two labels and a
version, the expression is evaluated once per distinct combination of values. Results are cached per cluster until a
value that the expression reads changes. If expired scores are hidden, results also change with time; they are then
cached by the set of score objects of a cluster that have expired.
"""

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from fairway.api.cluster import cluster_as_json
from fairway.hosts import bitmap
from fairway.hosts.bitmap import Bits, Mask, Rows
from fairway.hosts.clusters import cells
from fairway.hosts.clusters.scores import expiry, is_silent
from fairway.hosts.clusters.snapshot import ClusterSnapshot
from fairway.hosts.column import Key
from fairway.hosts.instant import Micros
from fairway.hosts.snapshot import Snapshot
from fairway.workloads.placement.plugins import trust
from fairway.workloads.placement.plugins.work_budget import (
    COMPILE_ESTIMATE,
    COMPILE_TOO_COSTLY,
    COMPILE_WORK,
    EXPRESSION_TOO_COSTLY,
    EXPRESSION_WORK,
    LONGEST_TEXT,
    PREDICATE_TOO_COSTLY,
    PREDICATE_WORK,
    UNKEPT_WORK,
    Paused,
    TooCostly,
    WorkBudget,
    shortened,
)
from kubecel import (
    CompileError,
    CompileWorkExceeded,
    EvaluationError,
    InstantiationError,
    Outcome,
    Program,
    Withheld,
    WorkLimitExceeded,
    cluster_environment,
)
from kubecel.values import type_of_value

VARIABLE = "managedCluster"
COST_LIMIT = 1_000_000
"""Cost limit of one expression for one cluster."""
COST_BUDGET = 10_000_000
"""Cost limit of all expressions of a predicate for one cluster."""
ROW_WORK = 20
CALL_WORK = 12
PATH_WORK = 8
"""Work besides an evaluation: encoding a cluster as JSON, calling an expression, reading a path of a cluster."""
COSTLY_ROW = 1_000
"""Work for one cluster above which results are cached."""
MOST_PATHS = 50
"""Maximum number of paths of a predicate that become columns; with more, every cluster is evaluated."""
OVER_BUDGET = "CEL expressions cost more than the budget of a predicate"
LARGE_CLUSTER = (
    "the cluster's object is so large that CEL expression {text} takes more than {limit} units of work for it"
)
LARGE_DOCUMENT = 2_000
"""Number of values in the fields that an expression reads above which the size of the cluster causes the work."""
COMPILATION_FAILED = "compilation failed: {error}"
INSTANTIATION_FAILED = "instantiation failed: {error}"
HIDDEN = f"{{why}}, and counts as absent by annotation {trust.EXPIRED_SCORES}"

_MOST_DISTINGUISHED = 62
"""Maximum number of score objects for which a bit set records which of them have expired."""
NO_ROWS: Rows = np.zeros(0, dtype=np.int64)
NO_ANSWERS: Mask = np.zeros(0, dtype=np.bool_)

_NAME = ("metadata", "name")
"""Constant for a host, so changes need not be tracked."""
_WIDE = frozenset({(), ("metadata",), ("spec",), ("status",), ("metadata", "uid")})
"""Paths whose values are mostly unique, so that a column of them would not help."""


class ExpressionError(ValueError):
    """An expression does not compile. ``work`` is what the attempt took."""

    def __init__(self, message: str, *, work: int = 0) -> None:
        super().__init__(message)
        self.work = work


class Scores:
    """The source of ``managedCluster.scores("name")``.

    With ``now``, objects that are expired or silent then are hidden.
    """

    __slots__ = ("_now", "_snapshot")

    def __init__(self, snapshot: ClusterSnapshot, *, now: Micros | None = None) -> None:
        self._snapshot = snapshot
        self._now = now

    def scores(self, cluster: str, name: str, /) -> Sequence[tuple[str, int]] | None:
        score = self._snapshot.score_object(cluster, name)
        if score is None:
            return None
        if self._now is not None and (expiry(score) < self._now or is_silent(score)):
            raise Withheld(HIDDEN.format(why=trust.why_lapsed(score)))
        return [(item.name, item.value) for item in score.status.scores]


class Expressions:
    """All expressions of one predicate; a cluster must match all."""

    __slots__ = ("_fields", "_is_costly", "_paths", "_programs", "_resources", "_texts", "reads")

    def __init__(self, texts: tuple[str, ...]) -> None:
        """Raise ExpressionError for the first expression that does not compile."""
        self._texts = texts
        self._is_costly = False
        self._programs = tuple(compiled(text) for text in texts)
        self._fields = _fields(self._programs)
        self._paths = _paths(self._programs)
        self._resources = _resources(self._programs)
        self.reads = _reads(self._programs)
        """Return the columns that a result depends on; None for the whole cluster."""

    def __bool__(self) -> bool:
        return bool(self._programs)

    def resources(self, snapshot: ClusterSnapshot) -> tuple[str, ...]:
        """Return the names of score objects that may be read."""
        return tuple(sorted(snapshot.scores)) if self._resources is None else self._resources

    def can_follow(self, snapshot: Snapshot[Any]) -> bool:
        """Return whether results change only with the reported changes of ``reads``."""
        return self.reads is not None and snapshot.can_follow(self.reads)

    def matches(self, snapshot: ClusterSnapshot, row: int, *, now: Micros | None = None) -> bool:
        try:
            return self.objection(snapshot, row, now=now) is None
        except TooCostly:
            return False

    def holds_for(
        self, snapshot: ClusterSnapshot, row: int, budget: WorkBudget, *, now: Micros | None = None
    ) -> bool:
        """Return the same as ``holds`` for one row. Cheap expressions are evaluated directly, which is faster than
        caching; expensive ones are paused and cached as for a whole fleet."""
        # Decided by the last row: the cost of an expression rarely differs between clusters.
        if self._is_costly:
            alone = bitmap.from_rows([row], snapshot.capacity)
            return bool(self.holds(snapshot, alone, budget, now=now).any())
        try:
            objection, work = self._judge(snapshot, row, now)
        except TooCostly as error:
            budget.lose(error)
            raise
        self._is_costly = work > COSTLY_ROW
        budget.pay(work, self._texts[0])
        return objection is None

    def objection(self, snapshot: ClusterSnapshot, row: int, *, now: Micros | None = None) -> str | None:
        """Return why a cluster does not match; None if it does. The first expression that is not true decides.

        With ``now``, scores that are expired then are hidden. Raise TooCostly.
        """
        return self._judge(snapshot, row, now)[0]

    def _judge(self, snapshot: ClusterSnapshot, row: int, now: Micros | None) -> tuple[str | None, int]:
        """Return the rejection, and the work of the evaluation."""
        variables = {VARIABLE: cluster_as_json(snapshot.cluster(row), fields=self._fields)}
        source = Scores(snapshot, now=now)
        spent, work = 0, ROW_WORK
        for program in self._programs:
            outcome = program.evaluate(
                variables, context=source, cost_limit=COST_LIMIT, work_limit=EXPRESSION_WORK
            )
            spent += outcome.cost
            work += CALL_WORK + outcome.work
            if spent > COST_BUDGET:
                return OVER_BUDGET, work
            if outcome.error is not None and isinstance(outcome.error, WorkLimitExceeded):
                name = snapshot.cluster(row).metadata.name
                return _too_much(program, variables, cluster=name, work=work), work
            if work > PREDICATE_WORK:
                name = snapshot.cluster(row).metadata.name
                return _too_much(program, variables, cluster=name, work=work, together=True), work
            objection = _words(program, outcome)
            # OCM evaluates the expressions in order and stops at the first that is not true, which also
            # bounds the cost.
            if objection is not None:
                return objection, work
        return None, work

    def holds(
        self, snapshot: ClusterSnapshot, among: Bits, budget: WorkBudget, *, now: Micros | None = None
    ) -> Bits:
        """Return the rows among the given ones that match. Raise TooCostly, or Paused."""
        if not self._programs:
            return among
        if now is not None:
            return self._hiding(snapshot, among, budget, now)
        return self._kept(snapshot, among, budget, now=None, lost=())

    def _hiding(self, snapshot: ClusterSnapshot, among: Bits, budget: WorkBudget, now: Micros) -> Bits:
        """Evaluate rows with the same expired objects together."""
        rows = bitmap.rows_of(among)
        losses = np.zeros(len(rows), dtype=np.int64)
        names: list[str] = []
        for name in self.resources(snapshot):
            lost = trust.lapsed(snapshot, name, rows, now=now)
            if lost.any():
                losses |= lost.astype(np.int64) << len(names)
                names.append(name)
            # More combinations than this are too many results to keep, and each of them would be used rarely.
            if len(names) > _MOST_DISTINGUISHED:
                unkept = WorkBudget(len(rows), limit=UNKEPT_WORK)
                return bitmap.from_rows(rows[self._ask(snapshot, rows, unkept, now)], snapshot.capacity)
        holding = snapshot.none()
        for code in np.unique(losses).tolist():
            group = bitmap.from_rows(rows[losses == code], snapshot.capacity)
            lost_names = tuple(name for at, name in enumerate(names) if code >> at & 1)
            holding = holding | self._kept(
                snapshot, group, budget, now=now if lost_names else None, lost=lost_names
            )
        return holding

    def _kept(
        self,
        snapshot: ClusterSnapshot,
        among: Bits,
        budget: WorkBudget,
        *,
        now: Micros | None,
        lost: tuple[str, ...],
    ) -> Bits:
        followed = self.can_follow(snapshot)
        if followed:
            for key in self.reads or ():
                if key[0] == cells.PATH:
                    # The fleet reports changes only of paths it has a column for.
                    self._make_column(snapshot, key, budget)
        # Without it, every change of a cluster drops the result for that cluster.
        reads = self.reads if followed else None
        kept = snapshot.derived((VARIABLE, self._texts, followed, *lost), reads=reads)
        return kept.holds(
            snapshot,
            among=among,
            compute=lambda rows: self._compute(snapshot, rows, budget, now, grouped=followed),
        )

    def _make_column(self, snapshot: ClusterSnapshot, key: Key, budget: WorkBudget) -> None:
        if not snapshot.has_column(key):
            if budget.is_paused:
                raise Paused(NO_ROWS, NO_ANSWERS)
            budget.pay(PATH_WORK * bitmap.count(snapshot.live), self._texts[0])
            snapshot.codes(key)

    def _compute(
        self, snapshot: ClusterSnapshot, rows: Rows, budget: WorkBudget, now: Micros | None, *, grouped: bool
    ) -> Mask:
        groups = self._groups(snapshot, rows) if grouped else None
        if groups is None:
            return self._ask(snapshot, rows, budget, now)
        first, inverse = groups
        try:
            return self._ask(snapshot, rows[first], budget, now)[inverse]
        except Paused as paused:
            evaluated = inverse < len(paused.rows)
            # Positions of groups, converted to rows: the caller keeps results by row.
            raise Paused(rows[evaluated], paused.answers[inverse[evaluated]]) from None

    def _ask(self, snapshot: ClusterSnapshot, rows: Rows, budget: WorkBudget, now: Micros | None) -> Mask:
        answers = np.zeros(len(rows), dtype=np.bool_)
        for at, row in enumerate(rows.tolist()):
            if budget.is_paused:
                raise Paused(rows[:at], answers[:at])
            try:
                objection, work = self._judge(snapshot, row, now)
            except TooCostly as error:
                budget.lose(error)
                raise
            answers[at] = objection is None
            budget.pay(work, self._texts[0])
        return answers

    def _groups(self, snapshot: ClusterSnapshot, rows: Rows) -> tuple[Rows, Rows] | None:
        """Return one position per distinct combination of values, and the combination of each row."""
        if self._paths is None or len(rows) < 2:
            return None
        combined = np.zeros(len(rows), dtype=np.int64)
        for path in self._paths:
            column = snapshot.codes((cells.PATH, *path))
            width = len(column.values)
            # The combination would not fit 64 bits; such columns have about as many values as there are
            # clusters anyway.
            if int(combined.max(initial=0)) > (1 << 62) // width:
                return None
            combined = combined * width + column.codes[rows]
        _, first, inverse = np.unique(combined, return_index=True, return_inverse=True)
        return first, inverse


def _too_much(
    program: Program, variables: Mapping[str, object], *, cluster: str, work: int, together: bool = False
) -> str:
    """Return the rejection of a cluster that is too large. Raise TooCostly if the expressions cause the work.

    ``together``: it is too much for all expressions of the predicate, of which this is the last.
    """
    text = shortened(program.text)
    limit = PREDICATE_WORK if together else EXPRESSION_WORK
    # The object of this cluster is the cause. Its agent must not make placements of other users misconfigured.
    if _is_large(variables):
        return LARGE_CLUSTER.format(text=text, limit=limit)
    words = PREDICATE_TOO_COSTLY if together else EXPRESSION_TOO_COSTLY
    raise TooCostly(words.format(text=text, limit=limit, cluster=cluster), work=work)


def _is_large(value: object) -> bool:
    """Return whether a document has more values than a usual cluster; a long string counts as several."""
    count, pending = 0, [value]
    while pending and count <= LARGE_DOCUMENT:
        item = pending.pop()
        count += 1
        if isinstance(item, Mapping):
            pending.extend(item.values())
        elif isinstance(item, (list, tuple)):
            pending.extend(item)
        elif isinstance(item, str):
            count += len(item) // 64
    return count > LARGE_DOCUMENT


class _Programs:
    """Cache of the most recently used programs and errors by text, bounded by the work of compiling them."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._size = 0
        self._kept: OrderedDict[str, tuple[Program | ExpressionError, int]] = OrderedDict()

    def find(self, text: str) -> Program | ExpressionError | None:
        entry = self._kept.get(text)
        if entry is None:
            return None
        self._kept.move_to_end(text)
        return entry[0]

    def keep(self, text: str, program: Program | ExpressionError, weight: int) -> None:
        self._kept[text] = (program, weight)
        self._size += weight
        # By work, not by number: one text can take as long to compile as a thousand others.
        while self._size > self._limit and len(self._kept) > 1:
            _, (_, freed) = self._kept.popitem(last=False)
            self._size -= freed


_PROGRAMS = _Programs(20 * COMPILE_WORK)


def compiled(text: str) -> Program:
    """Raises ExpressionError."""
    program = _PROGRAMS.find(text)
    if program is None:
        program = _compile(text)
        weight = len(text) if isinstance(program, ExpressionError) else program.compile_work
        _PROGRAMS.keep(text, program, weight)
    if isinstance(program, ExpressionError):
        raise ExpressionError(str(program), work=program.work) from program.__cause__
    return program


def is_compiled(text: str) -> bool:
    """Return whether the result of ``compiled`` is cached."""
    return _PROGRAMS.find(text) is not None


def _compile(text: str) -> Program | ExpressionError:
    try:
        return cluster_environment().compile(text, work_limit=COMPILE_WORK)
    except CompileWorkExceeded as error:
        words = COMPILE_TOO_COSTLY.format(text=shortened(text), limit=COMPILE_WORK)
        return _refusal(words, error, work=COMPILE_WORK)
    except InstantiationError as error:
        return _refusal(INSTANTIATION_FAILED.format(error=error), error, work=COMPILE_ESTIMATE * len(text))
    except CompileError as error:
        return _refusal(COMPILATION_FAILED.format(error=error), error, work=COMPILE_ESTIMATE * len(text))


def _refusal(words: str, error: CompileError, *, work: int) -> ExpressionError:
    """The message of an error, without its traceback, which would keep the parsed expression in memory."""
    refusal = ExpressionError(words, work=work)
    refusal.__cause__ = CompileError(str(error), line=error.line, column=error.column, message=error.message)
    return refusal


def _words(program: Program, outcome: Outcome) -> str | None:
    if outcome.error is not None:
        return f"CEL expression {program.text!r} fails: {_reason(outcome.error)}"
    if outcome.value is True:
        return None
    return f"CEL expression {program.text!r} is {_shown(outcome.value)}"


def _shown(value: object) -> str:
    if value is False:
        return "false"
    # Lists and maps are unbounded, and larger when encoded.
    plain = value is None or isinstance(value, (bool, int, float, str))
    shown = repr(value)[:LONGEST_TEXT] if plain else f"a {type_of_value(value).name}"
    return f"{shown}, which is not true or false"


def _reason(error: EvaluationError) -> str:
    return str(error)


def _fields(programs: Sequence[Program]) -> frozenset[tuple[str, str]] | None:
    """Return the fields of a cluster that the programs can read, and its name; None for all."""
    fields: set[tuple[str, str]] = {("metadata", "name")}
    for program in programs:
        for path in (("",),) if program.reads is None else program.reads:
            if len(path) < 3:
                return None
            fields.add((path[1], path[2]))
    return frozenset(fields)


def _paths(programs: Sequence[Program]) -> tuple[tuple[str, ...], ...] | None:
    """Return the paths whose values decide, if few clusters differ in them; None if each cluster must be evaluated."""
    paths: set[tuple[str, ...]] = set()
    for program in programs:
        if program.reads is None or program.score_reads is None or program.score_reads:
            return None
        paths.update(path[1:] for path in program.reads)
    return None if _NAME in paths or paths & _WIDE or len(paths) > MOST_PATHS else tuple(sorted(paths))


def _resources(programs: Sequence[Program]) -> tuple[str, ...] | None:
    """Return the names of score objects that may be read; None for any."""
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
    return None if len(keys) > MOST_PATHS else frozenset(keys)


NO_EXPRESSIONS = Expressions(())
