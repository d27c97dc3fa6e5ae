"""Plugins with ``isolation: process``, as the engine calls them.

Their answers are kept by snapshot, workload and time, for as long as the snapshot lives. In a command, a missing answer
is asked for at once; under an event loop, it is reported as ``PendingAnswer``. One exchange answers what a cycle
asks of a plugin at Filter, and one what it asks at Score: the results for all rows, the reasons, the normalised scores.

What the process answers is checked again here: a plugin that damages its memory may answer nonsense.
"""

import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, NoReturn
from weakref import ReferenceType, WeakKeyDictionary, ref

import numpy as np

from fairway.engine.cycle import extent_of
from fairway.engine.fault import LONGEST_REASON, Fault, FaultError, nonsense
from fairway.engine.pending import PendingAnswer
from fairway.engine.points import (
    Amounts,
    Context,
    CycleWorkload,
    Extent,
    Raw,
    Reads,
    Scores,
    Timeless,
)
from fairway.engine.remedies import Remedy
from fairway.engine.status import OK, Code, Status
from fairway.hosts import bitmap
from fairway.hosts.bitmap import Bits, Rows
from fairway.hosts.clusters.snapshot import ClusterSnapshot
from fairway.hosts.instant import Micros
from fairway.hosts.snapshot import Snapshot
from fairway.scheduling.checks import (
    Nonsense,
    check_eligible,
    check_normalized,
    check_passed,
    check_raw,
    check_reads,
    check_remedies,
    check_rows,
    check_score,
    check_status,
)
from fairway.scheduling.guard import QUARANTINED, ConstructionError, Supervisor
from fairway.scheduling.isolation.discovery import Isolation
from fairway.scheduling.isolation.wire import (
    Ask,
    CellUpdates,
    FileSource,
    Load,
    PackageSource,
    Plugin,
    WireError,
)
from fairway.scheduling.isolation.worker import PluginError, StartError, Worker, WorkerError
from fairway.scheduling.methods import EVERYTHING
from fairway.workloads.placement.workload import PlacementWorkload

ISOLATED_POINTS: Final = ("PreFilter", "Filter", "PreScore", "Score", "NormalizeScore", "Choose")
"""The extension points that a plugin in a process of its own can serve: those of a cycle that read a snapshot."""
REFUSED_METHODS: Final = frozenset(
    {
        *("pre_enqueue", "sort_key", "prioritize", "post_filter", "reserve", "unreserve", "permit"),
        *("pre_bind", "bind", "post_bind"),
    }
)
"""Of the other points. A class keeps them, so that enabling the plugin there is noticed."""

_cycles: Final = itertools.count(1)


class _Answers:
    """What a plugin answered in one cycle."""

    __slots__ = ("by_key", "by_rows", "cycle", "reads", "workload")

    def __init__(self, workload: Any) -> None:
        self.workload = workload  # also so that its id stays its own
        self.cycle = next(_cycles)
        self.by_key: dict[tuple[Any, ...], Any] = {}
        self.by_rows: dict[str, list[tuple[tuple[Any, ...], Any]]] = {}

    def find(self, method: str, args: tuple[Any, ...]) -> Any:
        """Return the answer, or a Fault; None if there is none."""
        if not args or not isinstance(args[0], np.ndarray):
            return self.by_key.get((method, *map(_hashable, args)))
        for known_rows, answer in self.by_rows.get(method, ()):
            if all(map(np.array_equal, known_rows, args)):
                return answer
        return None

    def keep(self, method: str, args: tuple[Any, ...], answer: Any) -> None:
        if not args or not isinstance(args[0], np.ndarray):
            self.by_key[method, *map(_hashable, args)] = answer
        else:
            self.by_rows.setdefault(method, []).append((args, answer))


def _hashable(value: Any) -> Any:
    return value.tobytes() if isinstance(value, np.ndarray) else value


class _Scored:
    """The answer at Score."""

    __slots__ = ("normalized", "raw", "rows", "status", "until")

    def __init__(self, answer: Any, rows: Rows, *, final: bool, scores: bool) -> None:
        """``scores`` is whether the plugin scores at all."""
        status, values, present, normalized, until = answer
        self.status, self.rows, self.until = check_status(status), rows, until
        self.raw: Raw | None = None
        self.normalized: Scores | None = None
        if values is not None or (scores and self.status.code in (Code.SUCCESS, Code.WARNING)):
            self.raw = check_raw(Raw(values, present), count=len(rows), final=final)
        if normalized is not None:
            self.normalized = check_normalized(normalized, count=len(rows))
        if not isinstance(until, int | None):
            raise Nonsense(until, "a time in microseconds")

    def score(self, row: int) -> tuple[bool, int | float | None]:
        """Return whether the row was scored, and its raw score."""
        at = int(np.searchsorted(self.rows, row))
        if self.raw is None or at >= len(self.rows) or self.rows[at] != row:
            return False, None
        if self.raw.present is not None and not self.raw.present[at]:
            return True, None
        return True, self.raw.values[at].item()


class _Isolated:
    """Keeps the answers, and asks for those that are missing."""

    __slots__ = ("_answers", "_final", "_last", "_scored", "_supervisor", "_worker", "name")

    def __init__(self, name: str, worker: Worker, supervisor: Supervisor, *, final: bool) -> None:
        """``final`` is whether no normalisation follows."""
        self.name = name
        self._worker, self._supervisor, self._final = worker, supervisor, final
        self._answers: WeakKeyDictionary[Snapshot[Any], dict[tuple[int, Micros], _Answers]]
        self._answers = WeakKeyDictionary()
        self._scored: _Scored | None = None
        """The last answer at Score, whose scores are normalised next."""
        self._last: tuple[ReferenceType[Snapshot[Any]], CycleWorkload, Micros] | None = None
        """The cycle whose scores are normalised next. It does not keep the snapshot, which the fleet would copy."""

    # Answers

    def _of(self, context: Context) -> _Answers:
        cycles = self._answers.setdefault(context.snapshot, {})
        key = (id(context.workload), context.now)
        answers = cycles.get(key)
        if answers is None:
            answers = cycles[key] = _Answers(context.workload)
        return answers

    def _ask(
        self,
        context: Context,
        point: str,
        method: str,
        *args: Any,
        check: Callable[[Any], Any] = lambda answer: answer,
    ) -> Any:
        """Return the checked answer. Raises FaultError, or PendingAnswer."""
        answers = self._of(context)
        answer = answers.find(method, args)
        if answer is None:
            fault = self._quarantined(point)
            if fault is not None:
                raise self._supervisor.issue(fault)
            if self._supervisor.is_async:

                async def fetch() -> None:
                    async with self._worker.turn:
                        # The question before may have led to a quarantine, or been the same.
                        if answers.find(method, args) is None and self._quarantined(point) is None:
                            kept = await self._fetch_soon(context, answers, point, method, args, check)
                            answers.keep(method, args, kept)

                raise PendingAnswer(self.name, fetch)
            answer = self._fetch(context, answers, point, method, args, check)
            answers.keep(method, args, answer)
        if isinstance(answer, Fault):
            raise self._supervisor.issue(answer)
        return answer[0]

    def _quarantined(self, point: str) -> Fault | None:
        supervisor = self._supervisor
        if supervisor.quarantine.until(self.name, now=supervisor.clock()) is None:
            return None
        return Fault(self.name, point, QUARANTINED.format(last=supervisor.last[self.name].reason))

    def _fetch(
        self,
        context: Context,
        answers: _Answers,
        point: str,
        method: str,
        args: tuple[Any, ...],
        check: Callable[[Any], Any],
    ) -> Any:
        """Return a tuple with the answer, or a Fault, which is charged."""
        request, began = self._request(context, answers, method, args), self._supervisor.clock()
        try:
            answer, reads = self._worker.ask(request, context.snapshot)
            return self._succeed(point, answers, check(answer), reads, began)
        except (WorkerError, PluginError, Nonsense, WireError, ValueError, TypeError) as error:
            return self._fail(point, error, began)

    async def _fetch_soon(
        self,
        context: Context,
        answers: _Answers,
        point: str,
        method: str,
        args: tuple[Any, ...],
        check: Callable[[Any], Any],
    ) -> Any:
        request, began = self._request(context, answers, method, args), self._supervisor.clock()
        try:
            answer, reads = await self._worker.ask_soon(request, context.snapshot)
            return self._succeed(point, answers, check(answer), reads, began)
        except (WorkerError, PluginError, Nonsense, WireError, ValueError, TypeError) as error:
            return self._fail(point, error, began)

    def _request(self, context: Context, answers: _Answers, method: str, args: tuple[Any, ...]) -> Ask:
        snapshot, workload = context.snapshot, context.workload
        assert isinstance(workload, PlacementWorkload)  # profiles of pods refuse isolation
        held = None
        if isinstance(snapshot, ClusterSnapshot):
            held = (workload.owner, snapshot.held(workload.owner))
        return Ask(
            cycle=answers.cycle,
            placement=workload.placement,
            now=context.now,
            generation=snapshot.generation,
            live=snapshot.live,
            held=held,
            updates=CellUpdates(),
            method=method,
            args=tuple(tuple(arg) if isinstance(arg, Extent) else arg for arg in args),
        )

    def _succeed(self, point: str, answers: _Answers, answer: Any, reads: Any, began: float) -> tuple[Any]:
        supervisor = self._supervisor
        if reads is not None:
            answers.keep("reads", (), (check_reads(reads),))
        supervisor.measure(self.name, point, supervisor.clock() - began)
        supervisor.quarantine.succeeded(self.name)
        return (answer,)

    def _fail(self, point: str, error: Exception, began: float) -> Fault:
        supervisor = self._supervisor
        match error:
            case Nonsense():
                fault = nonsense(self.name, point, error.value, expected=error.expected)
            case PluginError():
                fault = Fault(self.name, error.point or point, str(error)[:LONGEST_REASON])
            case WorkerError():
                fault = Fault(self.name, point, str(error)[:LONGEST_REASON])
            case _:
                fault = Fault(self.name, point, f"answered nonsense: {error}"[:LONGEST_REASON])
        supervisor.measure(self.name, point, supervisor.clock() - began)
        supervisor.charge(fault, stalled=isinstance(error, WorkerError))
        return fault

    def _informed(
        self,
        context: Context,
        point: str,
        method: str,
        *args: Any,
        fallback: Any,
        check: Callable[[Any], Any],
    ) -> Any:
        """Like ``_ask``, for what changes no decision."""
        try:
            return self._ask(context, point, method, *args, check=check)
        except FaultError:
            return fallback

    def _remedies(self, context: Context, point: str, method: str, *args: Any) -> Iterable[Remedy]:
        remedies: Iterable[Remedy] = self._ask(
            context, point, method, *args, check=lambda answer: check_remedies(tuple(answer))
        )
        return remedies

    def _filtered(self, context: Context, candidates: Bits) -> tuple[Status, Bits, Any]:
        def check(answer: Any) -> Any:
            status, passed, groups = answer
            rows = bitmap.rows_of(candidates)
            return (
                *check_passed((status, passed), candidates=candidates),
                None if groups is None else _check_groups(groups, among=rows),
            )

        answer: tuple[Status, Bits, Any] = self._ask(context, "Filter", "filtering", candidates, check=check)
        return answer

    def _scored_by(self, rows: Rows) -> Callable[[Any], _Scored]:
        scores = hasattr(self, "score")
        return lambda answer: _Scored(answer, rows, final=self._final, scores=scores)

    def _find_scored(self, context: Context, rows: Rows) -> _Scored | None:
        answer = self._of(context).find("preparing", (rows,))
        scored: _Scored | None = None if answer is None or isinstance(answer, Fault) else answer[0]
        return scored if scored is not None and scored.raw is not None else None

    def _note(self, context: Context) -> None:
        self._last = (ref(context.snapshot), context.workload, context.now)

    def _scored_in(self) -> Context:
        """Return the cycle whose scores are normalised: the engine does it right after it got them."""
        assert self._last is not None
        reference, workload, now = self._last
        snapshot = reference()
        assert snapshot is not None
        return Context(snapshot=snapshot, workload=workload, now=now)

    def full_cycles(self) -> bool:
        return True


class _Methods(_Isolated):
    """All methods that a plugin in a process can have. ``isolated_class`` selects those that its class has."""

    __slots__ = ()

    # PreFilter and Filter

    def pre_filter(self, context: Context, /) -> tuple[Status, Bits | None]:
        live = context.snapshot.live
        answer: tuple[Status, Bits | None] = self._ask(
            context,
            "PreFilter",
            "pre_filter",
            check=lambda answer: check_eligible(tuple(answer), live=live),
        )
        return answer

    def admits(self, context: Context, row: int, /) -> Status:
        status: Status = self._ask(context, "PreFilter", "admits", row, check=check_status)
        return status

    def filter_fleet(self, context: Context, candidates: Bits, /) -> tuple[Status, Bits]:
        status, passed, _ = self._filtered(context, candidates)
        return status, passed

    def filter(self, context: Context, row: int, /) -> Status:
        for (candidates,), answer in self._of(context).by_rows.get("filtering", ()):
            if isinstance(answer, Fault) or not bitmap.test(candidates, row):
                continue
            _, passed, groups = answer[0]
            if bitmap.test(passed, row):
                return OK
            for reason, rows in groups or ():
                if row in rows:
                    status: Status = reason
                    return status
        single: Status = self._ask(context, "Filter", "filter", row, check=check_status)
        return single

    def group_rejections(self, context: Context, rows: Rows, /) -> Sequence[tuple[Status, Rows]]:
        for _, answer in self._of(context).by_rows.get("filtering", ()):
            if isinstance(answer, Fault) or not answer[0][2]:
                continue
            grouped = [(status, np.intersect1d(rows, some)) for status, some in answer[0][2]]
            if sum(len(some) for _, some in grouped) == len(rows):
                return [(status, some) for status, some in grouped if len(some)]
        groups: Sequence[tuple[Status, Rows]] = self._ask(
            context, "Filter", "explaining", rows, check=lambda answer: _check_groups(answer, among=rows)
        )
        return groups

    def wake(self, context: Context, /) -> Micros | None:
        moment: Micros | None = self._informed(context, "Filter", "wake", fallback=None, check=_check_time)
        return moment

    # Score

    def pre_score(self, context: Context, rows: Rows, /) -> Status:
        scored: _Scored = self._ask(context, "PreScore", "preparing", rows, check=self._scored_by(rows))
        return scored.status

    def score_fleet(self, context: Context, rows: Rows, /) -> Raw:
        scored = self._find_scored(context, rows)
        if scored is None:
            scored = self._ask(context, "Score", "scoring", rows, check=self._scored_by(rows))
        self._scored = scored
        self._note(context)
        assert scored.raw is not None
        return scored.raw

    def score(self, context: Context, row: int, /) -> int | float | None:
        self._note(context)
        kept = self._of(context).by_rows
        for _, answer in (*kept.get("preparing", ()), *kept.get("scoring", ())):
            if not isinstance(answer, Fault):
                scored: _Scored = answer[0]
                is_known, score = scored.score(row)
                if is_known:
                    return score
        single: int | float | None = self._ask(
            context, "Score", "score", row, check=lambda answer: check_score(answer, final=self._final)
        )
        return single

    def normalize_fleet(self, raw: Amounts, extent: Extent, /) -> Scores:
        scored = self._scored
        if (
            scored is not None
            and scored.raw is not None
            and scored.normalized is not None
            and np.array_equal(scored.raw.values, raw)
            and extent_of(scored.raw) == extent
        ):
            return scored.normalized.copy()  # the engine writes to it
        normalized: Scores = self._ask(
            self._scored_in(),
            "NormalizeScore",
            "normalize_fleet",
            raw,
            np.array(extent),
            check=lambda answer: check_normalized(answer, count=len(raw)),
        )
        return normalized.copy()

    def normalize(self, raw: float, extent: Extent, /) -> int:
        score: int = self._ask(
            self._scored_in(),
            "NormalizeScore",
            "normalize",
            raw,
            extent,
            check=lambda answer: check_score(answer, final=True),
        )
        return score

    def until(self, context: Context, rows: Rows, /) -> Micros:
        kept = self._of(context)
        for method in ("preparing", "scoring"):
            answer = kept.find(method, (rows,))
            if answer is not None and not isinstance(answer, Fault) and answer[0].until is not None:
                return int(answer[0].until)
        until: Micros = self._informed(
            context, "Score", "until", rows, fallback=context.now, check=_check_time
        )
        return until

    # Choose

    def choose(self, context: Context, rows: Rows, totals: Scores, /) -> Rows | None:
        def check(answer: Any) -> Any:
            return None if answer is None else check_rows(answer, among=rows)

        chosen: Rows | None = self._ask(context, "Choose", "choose", rows, totals, check=check)
        return chosen

    # What only informs: a fault changes no decision

    def reads(self, context: Context, /) -> Reads:
        reads: Reads = self._informed(context, "Score", "reads", fallback=EVERYTHING, check=check_reads)
        return reads

    def basis(self, _context: Context, /) -> object:
        return None

    def filter_remedies(self, context: Context, row: int, /) -> Iterable[Remedy]:
        return self._remedies(context, "Filter", "filter_remedies", row)

    def score_remedies(self, context: Context, row: int, weight: int, /) -> Iterable[Remedy]:
        return self._remedies(context, "Score", "score_remedies", row, weight)

    def choice_remedies(self, context: Context, row: int, rows: Rows, totals: Scores, /) -> Iterable[Remedy]:
        return self._remedies(context, "Choose", "choice_remedies", row, rows, totals)


def _check_groups(answer: Any, *, among: Rows) -> list[tuple[Status, Rows]]:
    return [(check_status(status), check_rows(rows, among=among)) for status, rows in answer]


def _check_time(answer: Any) -> int | None:
    if not isinstance(answer, int | None):
        raise Nonsense(answer, "a time in microseconds")
    return answer


def isolated_class(plugin: Plugin) -> type[Any]:
    """Return a class with the methods of a plugin class that a worker described."""
    has = frozenset(plugin.methods)
    offered = has & vars(_Methods).keys() & _PLAIN
    if "filter" in has:
        offered |= {"filter", "filter_fleet", "group_rejections"}
    if "score" in has:
        offered |= {"score", "score_fleet"}
    if has >= _NORMALIZES:
        offered |= _NORMALIZES
    if has >= _READER:
        offered |= _READER
    members: dict[str, Any] = {name: vars(_Methods)[name] for name in offered}
    if plugin.timeless and "until" in members:
        members["until"] = Timeless.until
    for name in has & REFUSED_METHODS:
        members[name] = _refuse
    members["__slots__"] = ()
    return type(f"Isolated{plugin.name}", (_Isolated,), members)


_NORMALIZES: Final = frozenset({"normalize", "normalize_fleet"})
_READER: Final = frozenset({"reads", "basis", "until"})
_PLAIN: Final = frozenset(
    {"pre_filter", "admits", "wake", "pre_score", "choose"}
    | {"filter_remedies", "score_remedies", "choice_remedies"}
)


def _refuse(_self: Any, *_args: Any) -> NoReturn:
    raise NotImplementedError  # no profile enables it there


def isolated_factory(
    source: FileSource | PackageSource,
    kind: type[Any],
    *,
    name: str,
    isolation: Isolation,
    supervisor: Supervisor,
) -> Callable[..., Any]:
    """Return a factory of plugins of a class that ``isolated_class`` made. It raises ConstructionError."""

    def create(**args: Any) -> Any:
        load = Load(source=source, name=name, args=args, memory_limit=isolation.memory_limit)
        worker = Worker(load, limit=lambda: supervisor.watch.limit)
        try:
            worker.start()
        except StartError as error:
            raise ConstructionError(f"{error}; {error.remedy}" if error.remedy else str(error)) from None
        final = not hasattr(kind, "normalize")
        return kind(name, worker, supervisor, final=final)

    return create
