"""Run one scheduling cycle for one workload: PreFilter, Filter, PreScore, Score, NormalizeScore, and the choice.

A cycle is a pure function of (snapshot, workload, profile, now). It does no I/O and does not modify its arguments,
so a what-if is the same call.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import numpy as np

from fairway.engine.fault import Fault, FaultError
from fairway.engine.forms import ChooseCalls, CyclePlugins, FilterCalls, PreFilterCalls, ScoreCalls
from fairway.engine.outcome import NO_ROWS, Details, Outcome, Scored, Stage
from fairway.engine.points import (
    NEVER_CHANGES,
    Amounts,
    Context,
    CycleWorkload,
    Extent,
    GroupedFilter,
    NormalizeScore,
    Raw,
    Reader,
    Score,
    Scores,
    Waker,
)
from fairway.engine.profile import OnFault, Profile, without
from fairway.engine.rejections import Group, Rejections, Screened, Supposition
from fairway.engine.status import OK, SKIPPED, Code, Status, failed
from fairway.hosts import bitmap
from fairway.hosts.bitmap import Bits, Rows
from fairway.hosts.instant import Micros
from fairway.hosts.snapshot import Snapshot

NOT_ADMITTED = "is not among the hosts that PreFilter plugin {plugin} admits"
WRONG_STATUS = "{point} plugin {plugin} returned {code}, which {point} does not allow: {reasons}"
SKIPPED_PLUGIN = "{fault}; skipped"
FAULT_RETRY: Micros = 10_000_000
"""Time after which a cycle with a faulty plugin runs again, even if nothing changes."""
_NOT_ALLOWED: Mapping[str, tuple[Code, ...]] = {
    "PreFilter": (Code.PENDING, Code.WAIT),
    "Filter": (Code.WAIT,),
    "PreScore": (Code.UNSCHEDULABLE, Code.UNRESOLVABLE, Code.PENDING, Code.WAIT),
}
"""Codes that make no sense at a point, and end the cycle with an error."""


def run(
    snapshot: Snapshot[Any],
    workload: CycleWorkload,
    profile: Profile,
    *,
    now: Micros,
    whole_fleet: bool = True,
) -> Outcome:
    """Run the cycle. ``whole_fleet=False`` calls every plugin host by host: slower, with the same outcome.

    A fault of a third-party plugin ends the cycle with an error, or the cycle runs again without the plugin, as the
    profile says.
    """
    faults: tuple[Fault, ...] = ()
    while True:
        # A new state for each attempt: what a skipped plugin wrote, or made others write, must not remain.
        context = Context(snapshot=snapshot, workload=workload, now=now)
        try:
            outcome = _run(context, profile, whole_fleet=whole_fleet)
        except FaultError as error:
            faults = (*faults, error.fault)
            if profile.on_fault is not OnFault.SKIP:
                return _faulted(context, profile, faults)
            profile = without(profile, error.fault.plugin)
        else:
            return _with_faults(outcome, faults) if faults else outcome


def _faulted(context: Context, profile: Profile, faults: tuple[Fault, ...]) -> Outcome:
    details = Details(eligible=context.snapshot.none())
    status = failed(str(faults[-1]), plugin=faults[-1].plugin)
    plugins = CyclePlugins((), (), (), ())
    return Outcome(
        context=context,
        profile=profile,
        plugins=plugins,
        status=status,
        details=details,
        until=context.now + FAULT_RETRY,
        faults=faults,
    )


def _with_faults(outcome: Outcome, faults: tuple[Fault, ...]) -> Outcome:
    """Return the outcome of a cycle that skipped plugins, with a warning: it is retried."""
    outcome.faults = faults
    outcome.until = min(outcome.until, outcome.context.now + FAULT_RETRY)
    if not outcome.status.aborts:
        reasons = tuple(SKIPPED_PLUGIN.format(fault=fault) for fault in faults)
        outcome.status = Status(Code.WARNING, reasons, plugin=faults[0].plugin)
    return outcome


def _run(context: Context, profile: Profile, *, whole_fleet: bool) -> Outcome:
    final, eligible, plugins = pre_filter(context, profile)

    def ended(status: Status, relief: Status | None = None) -> Outcome:
        details = Details(eligible=eligible, stages=tuple(stages))
        return Outcome(
            context=context, profile=profile, plugins=plugins, status=status, details=details, relief=relief
        )

    stages: list[Stage] = []
    if final.aborts:
        return ended(final)
    if final.rejects:
        everywhere = [(final, bitmap.rows_of(context.snapshot.live))]
        relief = post_filter(context, profile, lambda: everywhere) if profile.post_filters else None
        return ended(relief if relief is not None and relief.aborts else final, relief)
    survivors = eligible
    # Only rows that passed so far, so that expensive filters are last in the profile.
    for filtering in plugins.filters:
        before = survivors
        status, survivors = filter_rows(context, filtering, before, whole_fleet=whole_fleet)
        if status is not OK and status.aborts:
            return ended(status)
        if filtering.warner is not None:
            rejected = bitmap.rows_of(before & ~survivors)
            status = filtering.warner.warning(context, filtering.warner.warned_rows(context, rejected))
        if status is not OK and status.code is Code.WARNING:
            final = status
        stages.append(Stage(filtering.plugin.name, survivors))
    relief = None
    if profile.post_filters and not survivors.any():
        relief = post_filter(context, profile, lambda: rejection_groups(context, plugins, eligible, stages))
        if relief.aborts:
            return ended(relief)
    if plugins.refusal is not None:
        return ended(plugins.refusal)
    rows = bitmap.rows_of(survivors)
    for plugin in profile.pre_scores:
        status = _allowed(plugin.pre_score(context, rows), "PreScore", plugin.name)
        if status.aborts:
            return ended(status)
    totals = np.zeros(len(rows), dtype=np.int64)
    scored: list[Scored] = []
    for scorer in plugins.scores:
        status, scores = score_rows(context, scorer, rows, whole_fleet=whole_fleet)
        if status is not OK:
            if status.aborts:
                return ended(status)
            if status.code is Code.WARNING:
                final = status
        scored.append(scores)
        totals += scores.scores if scorer.weight == 1 else scores.scores * scorer.weight
    chooser, selected = choose(context, profile, rows, totals)
    until = until_of(context, plugins, rows)
    if chooser is not None and chooser.timed is not None:
        until = min(until, chooser.timed.until(context, rows))
    return Outcome(
        context=context,
        profile=profile,
        plugins=plugins,
        status=final,
        details=Details(
            eligible=eligible, stages=tuple(stages), rows=rows, totals=totals, scored=tuple(scored)
        ),
        selected=selected,
        chooser=chooser,
        wake=wake_of(context, wakers_of(plugins)),
        until=until,
        relief=relief,
    )


def wakers_of(plugins: CyclePlugins) -> tuple[Waker, ...]:
    return tuple([calls.waker for calls in plugins.filters if calls.waker is not None])


def wake_of(context: Context, wakers: tuple[Waker, ...]) -> Micros | None:
    soonest: Micros | None = None
    for waker in wakers:
        moment = waker.wake(context)
        if moment is not None and (soonest is None or moment < soonest):
            soonest = moment
    return soonest


def until_of(context: Context, plugins: CyclePlugins, rows: Rows) -> Micros:
    """Return the first time at which the result for one of these feasible rows changes without a change of the fleet.

    Rejected rows do not matter: time only expires tolerations and scores.
    """
    soonest = NEVER_CHANGES
    for reader in plugins.timed:
        soonest = min(soonest, reader.until(context, rows))
    return soonest


def pre_filter(context: Context, profile: Profile) -> tuple[Status, Bits, CyclePlugins]:
    """Return the status, the rows that all plugins admit, and the plugins that apply to the workload.

    Unschedulable rejects the workload once all plugins have run, because a PostFilter plugin may need their state;
    UnschedulableAndUnresolvable rejects it at once.
    """
    final, rejected = OK, OK
    scoring = profile.prioritize(context)
    eligible = context.snapshot.live
    applied: list[PreFilterCalls] = []
    admitted: list[Bits | None] = []
    skipped: set[int] = set()
    for calls in profile.pre_filters:
        status, bits = calls.plugin.pre_filter(context)
        if status is not OK:
            if status.code is Code.SKIP:
                skipped.add(id(calls.plugin))
                continue
            status = _allowed(status, "PreFilter", calls.plugin.name)
            if status.aborts:
                return status, eligible, _plugins(profile, scoring, applied, admitted, skipped)
            if status.rejects and not rejected.rejects:
                rejected = status
            # No PostFilter plugin can help, so none needs the state of the plugins that would follow.
            if status.code is Code.UNRESOLVABLE:
                break
            if status.code is Code.WARNING:
                final = status
        applied.append(calls)
        admitted.append(bits)
        if bits is not None:
            eligible = eligible & bits
    if rejected.rejects:
        return rejected, context.snapshot.none(), _plugins(profile, scoring, applied, admitted, skipped)
    return final, eligible, _plugins(profile, scoring, applied, admitted, skipped)


def _plugins(
    profile: Profile,
    scoring: tuple[tuple[ScoreCalls, ...], Status | None],
    applied: list[PreFilterCalls],
    admitted: list[Bits | None],
    skipped: set[int],
) -> CyclePlugins:
    filters = profile.filters
    if skipped:
        filters = tuple([calls for calls in filters if id(calls.plugin) not in skipped])
    scores, refusal = scoring
    return CyclePlugins(tuple(applied), tuple(admitted), filters, scores, refusal)


def _allowed(status: Status, point: str, plugin: str) -> Status:
    """Return the status, or an error if the point does not allow its code."""
    if status.code not in _NOT_ALLOWED[point]:
        return status
    words = WRONG_STATUS.format(point=point, plugin=plugin, code=status.code.value, reasons=status.message)
    return failed(words, plugin=plugin)


def post_filter(context: Context, profile: Profile, groups: Callable[[], Sequence[Group]]) -> Status:
    """Return the first decisive status: room will be made, cannot be made, or an error."""
    rejections = Rejections(
        groups,
        probe=lambda snapshot, row: probe(context, profile, snapshot, row),
        screen=lambda snapshot, candidates: screen(context, profile, snapshot, candidates),
    )
    answer = SKIPPED
    for plugin in profile.post_filters:
        answer = plugin.post_filter(context, rejections)
        if answer.code not in (Code.UNSCHEDULABLE, Code.SKIP):
            break
    return answer


def rejection_groups(
    context: Context, plugins: CyclePlugins, eligible: Bits, stages: Sequence[Stage]
) -> list[Group]:
    """Return the rows that the filters rejected, by the status of the first plugin that rejects each.

    The rows that a PreFilter plugin does not admit have one status.
    """
    groups: list[Group] = []
    before = context.snapshot.live
    for admitted in plugins.admitted:
        # Of the rows that earlier plugins admitted, so that each row has the first plugin that rejects it.
        if admitted is not None:
            rows, before = bitmap.rows_of(before & ~admitted), before & admitted
            if len(rows) and (status := rejection(context, plugins, int(rows[0]))) is not None:
                groups.append((status, rows))
    return groups + filter_groups(context, plugins.filters, eligible, stages)


def filter_groups(
    context: Context, filters: Sequence[FilterCalls], eligible: Bits, stages: Sequence[Stage]
) -> list[Group]:
    """Return the rows that the Filter plugins rejected, by their status."""
    groups: list[Group] = []
    before = eligible
    for stage, calls in zip(stages, filters, strict=True):
        rows, before = bitmap.rows_of(before & ~stage.survivors), stage.survivors
        if not len(rows):
            continue
        # Thousands of rejected nodes share a few statuses: such a filter groups them without a call for each.
        if isinstance(calls.plugin, GroupedFilter):
            groups += calls.plugin.group_rejections(context, rows)
            continue
        by_status: dict[Status, list[int]] = {}
        for row in rows.tolist():
            by_status.setdefault(_filtered(context, calls, row), []).append(row)
        groups += [(status, np.array(some, dtype=np.int64)) for status, some in by_status.items()]
    return groups


def _filtered(context: Context, calls: FilterCalls, row: int) -> Status:
    try:
        return _attributed(calls.plugin.filter(context, row), calls.plugin.name)
    except FaultError as error:
        return failed(str(error.fault), plugin=error.fault.plugin)


def rejection(context: Context, plugins: CyclePlugins, row: int) -> Status | None:
    """Return the status of the first plugin that rejects the row; None if all accept it."""
    try:
        return _rejection(context, plugins, row)
    except FaultError as error:
        return failed(str(error.fault), plugin=error.fault.plugin)


def probe(context: Context, profile: Profile, snapshot: Snapshot[Any], row: int) -> Status | None:
    """Return why the workload of a cycle would be rejected from one row of another snapshot; None if it is accepted."""
    again = Context(snapshot=snapshot, workload=context.workload, now=context.now)
    try:
        status, _, plugins = pre_filter(again, profile)
    except FaultError as error:
        return failed(str(error.fault), plugin=error.fault.plugin)
    if status.aborts or status.rejects:
        return status
    return rejection(again, plugins, row)


def screen(context: Context, profile: Profile, snapshot: Any, candidates: Bits) -> Screened:
    """Filter the workload of a cycle again, for rows of a ``Supposition``."""
    again = Context(snapshot=snapshot, workload=context.workload, now=context.now)
    inexact = Screened(candidates, exact=False, group=lambda: ())
    try:
        status, _, plugins = pre_filter(again, profile)
        if status.aborts or status.rejects:
            return inexact
        shown = [_is_shown(again, calls.reader) for calls in plugins.filters]
        exact = (
            all(shown)
            and all(_is_shown(again, calls.reader) for calls in plugins.pre_filters)
            and all(bits is None for bits in plugins.admitted)
        )
        passed, stages = candidates, []
        for calls, sees in zip(plugins.filters, shown, strict=True):
            # A filter that cannot judge all hosts at once is left out. Too many hosts pass then, and ``exact`` is
            # False, so that the caller probes them one by one.
            if sees:
                status, passed = filter_rows(again, calls, passed, whole_fleet=True)
                if status.aborts:
                    return inexact
            stages.append(Stage(calls.plugin.name, passed))
    except FaultError:
        return inexact
    return Screened(passed, exact, lambda: filter_groups(again, plugins.filters, candidates, stages))


def _is_shown(context: Context, reader: Reader | None) -> bool:
    if reader is None:
        return False
    reads, supposition = reader.reads(context), cast("Supposition", context.snapshot)
    return not reads.anything and supposition.shows(cells=reads.cells, shared=reads.shared)


def _rejection(context: Context, plugins: CyclePlugins, row: int) -> Status | None:
    for calls, bits in zip(plugins.pre_filters, plugins.admitted, strict=True):
        status = admission(context, calls, bits, row)
        if status.rejects or status.aborts:
            return _attributed(status, calls.plugin.name)
    for filtering in plugins.filters:
        status = filtering.plugin.filter(context, row)
        if status.rejects or status.aborts:
            return _attributed(status, filtering.plugin.name)
    return None


def _attributed(status: Status, plugin: str) -> Status:
    """Add the name of the plugin, which a plugin may omit."""
    # Lazily, because each reason must be formatted, and few of those of 100,000 hosts are read.
    return status if status.plugin else Status(status.code, lambda: status.reasons, plugin, status.field)


def admission(context: Context, calls: PreFilterCalls, admitted: Bits | None, row: int) -> Status:
    """Return whether a PreFilter plugin, which returned these rows, admits the row."""
    if calls.by_row is not None:
        return calls.by_row.admits(context, row)
    if admitted is None or bitmap.test(admitted, row):
        return OK
    name = calls.plugin.name
    return Status(Code.UNRESOLVABLE, (NOT_ADMITTED.format(plugin=name),), plugin=name)


def filter_rows(
    context: Context, calls: FilterCalls, candidates: Bits, *, whole_fleet: bool
) -> tuple[Status, Bits]:
    if whole_fleet and calls.fleet is not None:
        return calls.fleet.filter_fleet(context, candidates)
    final = OK
    passed: list[int] = []
    filter_row = calls.plugin.filter
    for row in bitmap.rows_of(candidates).tolist():
        status = filter_row(context, row)
        if status is not OK:
            status = _allowed(status, "Filter", calls.plugin.name)
            if status.aborts:
                return status, candidates
            if status.rejects:
                continue
            if status.code is Code.WARNING:
                final = status
        passed.append(row)
    return final, bitmap.from_rows(passed, context.snapshot.capacity)


def score_rows(
    context: Context, scorer: ScoreCalls, rows: Rows, *, whole_fleet: bool
) -> tuple[Status, Scored]:
    plugin, name = scorer.plugin, scorer.plugin.name
    status = OK
    if scorer.prepare is not None:
        status = scorer.prepare.pre_score(context, rows)
        if status is not OK:
            status = _allowed(status, "PreScore", name)
            if status.aborts or status.code is Code.SKIP:
                zeros = np.zeros(len(rows), dtype=np.int64)
                return status, Scored(name, scorer.weight, zeros, skipped=status.code is Code.SKIP)
    if whole_fleet and scorer.fleet is not None:
        raw = scorer.fleet.score_fleet(context, rows)
    else:
        raw = _host_by_host(context, plugin, rows)
    if scorer.normalizer is None:
        plain: Scores = raw.values.astype(np.int64, copy=False)
        if scorer.missing and raw.present is not None:
            plain = np.where(raw.present, plain, scorer.missing)
        return status, Scored(name, scorer.weight, plain, raw.present)
    # Only scores that exist: a missing one must not widen the range that the others are normalised to.
    extent = extent_of(raw)
    if extent is None:
        scores = np.full(len(rows), scorer.missing, dtype=np.int64)
    elif whole_fleet:
        scores = scorer.normalizer.normalize_fleet(raw.values, extent)
        if raw.present is not None:
            scores[~raw.present] = scorer.missing
    else:
        scores = _normalized_one_by_one(scorer.normalizer, raw, extent, missing=scorer.missing)
    return status, Scored(name, scorer.weight, scores, raw.present, extent, raw.values)


def extent_of(raw: Raw) -> Extent | None:
    """Return the range of raw scores; None if no host has one."""
    values: Amounts = raw.values if raw.present is None else raw.values[raw.present]
    return Extent(values.min().item(), values.max().item()) if len(values) else None


def choose(context: Context, profile: Profile, rows: Rows, totals: Scores) -> tuple[ChooseCalls | None, Rows]:
    """Return the choice of the first plugin that makes one."""
    for chooser in profile.choosers:
        selected = chooser.plugin.choose(context, rows, totals)
        if selected is not None:
            return chooser, selected
    return None, NO_ROWS


def _host_by_host(context: Context, plugin: Score, rows: Rows) -> Raw:
    scores = [plugin.score(context, row) for row in rows.tolist()]
    present = np.array([score is not None for score in scores], dtype=np.bool_)
    kind: type[Any] = np.float64 if any(isinstance(score, float) for score in scores) else np.int64
    values: Amounts = np.array([0 if score is None else score for score in scores], dtype=kind)
    return Raw(values, None if present.all() else present)


def _normalized_one_by_one(plugin: NormalizeScore, raw: Raw, extent: Extent, *, missing: int) -> Scores:
    present = raw.present
    return np.array(
        [
            plugin.normalize(value, extent) if present is None or present[at] else missing
            for at, value in enumerate(raw.values.tolist())
        ],
        dtype=np.int64,
    )
