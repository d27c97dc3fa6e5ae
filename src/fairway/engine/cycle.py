"""Run one scheduling cycle for one workload: PreFilter, Filter, PreScore, Score, NormalizeScore, and the choice.

A cycle is a pure function of (snapshot, workload, profile, now). It does no I/O and does not modify its arguments,
so a what-if is the same call.
"""

from typing import Any, cast

import numpy as np

from fairway.engine import ranking
from fairway.engine.outcome import Details, Outcome, Scored, Stage
from fairway.engine.points import (
    NEVER_CHANGES,
    Amounts,
    CautiousFilter,
    Context,
    CycleWorkload,
    Extent,
    Filter,
    FleetFilter,
    FleetScore,
    NormalizeScore,
    PreScore,
    Raw,
    Reader,
    Score,
    Scores,
    Waker,
    points_of,
)
from fairway.engine.profile import Profile, Weighted
from fairway.engine.status import OK, SKIPPED, Code, Status
from fairway.fleet import bitmap
from fairway.fleet.bitmap import Bits, Rows
from fairway.fleet.instant import Micros
from fairway.fleet.snapshot import Snapshot


def run(
    snapshot: Snapshot[Any],
    workload: CycleWorkload,
    profile: Profile,
    *,
    now: Micros,
    whole_fleet: bool = True,
) -> Outcome:
    """Run the cycle. ``whole_fleet=False`` calls every plugin host by host: slower, with the same outcome."""
    context = Context(snapshot=snapshot, workload=workload, now=now)
    final, eligible = pre_filter(context, profile)
    if final.aborts:
        return _aborted(context, profile, final, Details(eligible=eligible))
    stages: list[Stage] = []
    survivors = eligible
    for plugin in profile.filters:
        before = survivors
        status, survivors = filter_rows(context, plugin, before, whole_fleet=whole_fleet)
        if status.aborts:
            return _aborted(context, profile, status, Details(eligible=eligible, stages=tuple(stages)))
        if "CautiousFilter" in points_of(type(plugin)):
            warner = cast("CautiousFilter", plugin)
            status = warner.caution(context, doubted(context, warner, before, survivors))
        if status.code is Code.WARNING:
            final = status
        stages.append(Stage(plugin.name, survivors))
    relief = None
    if profile.post_filters and not survivors.any():
        relief = post_filter(context, profile)
        if relief.aborts:
            return _aborted(context, profile, relief, Details(eligible=eligible, stages=tuple(stages)))
    if profile.refusal is not None:
        return _aborted(context, profile, profile.refusal, Details(eligible=eligible, stages=tuple(stages)))
    rows = bitmap.rows_of(survivors)
    totals = np.zeros(len(rows), dtype=np.int64)
    scored: list[Scored] = []
    for scorer in profile.scores:
        status, scores = score_rows(context, scorer, rows, whole_fleet=whole_fleet)
        if status.aborts:
            return _aborted(context, profile, status, Details(eligible=eligible, stages=tuple(stages)))
        if status.code is Code.WARNING:
            final = status
        scored.append(scores)
        totals += scores.scores if scorer.weight == 1 else scores.scores * scorer.weight
    return Outcome(
        context=context,
        profile=profile,
        status=final,
        details=Details(
            eligible=eligible, stages=tuple(stages), rows=rows, totals=totals, scored=tuple(scored)
        ),
        selected=(profile.choice or best)(context, rows, totals),
        wake=wake_of(context, profile),
        until=until_of(context, profile, rows),
        relief=relief,
    )


def _aborted(context: Context, profile: Profile, status: Status, details: Details) -> Outcome:
    return Outcome(context=context, profile=profile, status=status, details=details)


def wake_of(context: Context, profile: Profile) -> Micros | None:
    moments = [
        moment
        for plugin in profile.filters
        if "Waker" in points_of(type(plugin)) and (moment := cast("Waker", plugin).wake(context)) is not None
    ]
    return min(moments, default=None)


def until_of(context: Context, profile: Profile, rows: Rows) -> Micros:
    """Return the first time at which the result for one of these feasible rows changes without a change of the fleet.

    Rejected rows do not matter: time only expires tolerations and scores.
    """
    plugins: list[Any] = [*profile.pre_filters, *profile.filters, *(each.plugin for each in profile.scores)]
    moments = (
        cast("Reader", plugin).until(context, rows)
        for plugin in plugins
        if "Reader" in points_of(type(plugin))
    )
    return min(moments, default=NEVER_CHANGES)


def pre_filter(context: Context, profile: Profile) -> tuple[Status, Bits]:
    final = OK
    eligible = context.snapshot.live
    for plugin in profile.pre_filters:
        status, admitted = plugin.pre_filter(context)
        if status.aborts:
            return status, eligible
        if status.code is Code.WARNING:
            final = status
        if admitted is not None:
            eligible = eligible & admitted
    return final, eligible


def doubted(context: Context, plugin: CautiousFilter, before: Bits, after: Bits) -> Rows:
    """Return the rejected rows that the filter warns about."""
    return plugin.doubtful(context, bitmap.rows_of(before & ~after))


def post_filter(context: Context, profile: Profile) -> Status:
    """Return the first decisive status: room will be made, cannot be made, or an error."""
    rejections = {
        row: status
        for row in bitmap.rows_of(context.snapshot.live).tolist()
        if (status := rejection(context, profile, row)) is not None
    }
    answer = SKIPPED
    for plugin in profile.post_filters:
        answer = plugin.post_filter(context, rejections)
        if answer.code not in (Code.UNSCHEDULABLE, Code.SKIP):
            break
    return answer


def rejection(context: Context, profile: Profile, row: int) -> Status | None:
    """Return the status of the first plugin that rejects the row; None if all accept it."""
    for plugin in profile.pre_filters:
        status = plugin.admits(context, row)
        if status.rejects or status.aborts:
            return status
    for each in profile.filters:
        status = each.filter(context, row)
        if status.rejects or status.aborts:
            return status
    return None


def filter_rows(
    context: Context, plugin: Filter, candidates: Bits, *, whole_fleet: bool
) -> tuple[Status, Bits]:
    if whole_fleet and "FleetFilter" in points_of(type(plugin)):
        return cast("FleetFilter", plugin).filter_fleet(context, candidates)
    final = OK
    passed: list[int] = []
    for row in bitmap.rows_of(candidates).tolist():
        status = plugin.filter(context, row)
        if status.aborts:
            return status, candidates
        if status.code is Code.WARNING:
            final = status
        if not status.rejects:
            passed.append(row)
    return final, bitmap.from_rows(passed, context.snapshot.capacity)


def score_rows(context: Context, scorer: Weighted, rows: Rows, *, whole_fleet: bool) -> tuple[Status, Scored]:
    plugin = scorer.plugin
    points = points_of(type(plugin))
    status = cast("PreScore", plugin).pre_score(context, rows) if "PreScore" in points else OK
    if status.aborts or status.code is Code.SKIP:
        return status, Scored(plugin.name, scorer.weight, np.zeros(len(rows), dtype=np.int64))
    if whole_fleet and "FleetScore" in points:
        raw = cast("FleetScore", plugin).score_fleet(context, rows)
    else:
        raw = _host_by_host(context, plugin, rows)
    if "NormalizeScore" not in points:
        plain = cast("Scores", raw.values)
        if scorer.missing and raw.present is not None:
            plain = np.where(raw.present, plain, scorer.missing)
        return status, Scored(plugin.name, scorer.weight, plain, raw.present)
    extent = extent_of(raw)
    if extent is None:
        scores = np.full(len(rows), scorer.missing, dtype=np.int64)
    elif whole_fleet:
        scores = cast("NormalizeScore", plugin).normalize_fleet(raw.values, extent)
        if raw.present is not None:
            scores[~raw.present] = scorer.missing
    else:
        scores = _normalized_one_by_one(cast("NormalizeScore", plugin), raw, extent, missing=scorer.missing)
    return status, Scored(plugin.name, scorer.weight, scores, raw.present, extent, raw.values)


def extent_of(raw: Raw) -> Extent | None:
    """Return the range of raw scores; None if no host has one."""
    values: Amounts = raw.values if raw.present is None else raw.values[raw.present]
    return Extent(values.min().item(), values.max().item()) if len(values) else None


def best(context: Context, rows: Rows, totals: Scores) -> Rows:
    return ranking.best(rows, totals, context.snapshot.hosts.rank[rows], wanted=context.workload.wanted)


def _host_by_host(context: Context, plugin: Score, rows: Rows) -> Raw:
    found = [plugin.score(context, row) for row in rows.tolist()]
    present = np.array([score is not None for score in found], dtype=np.bool_)
    numbers = [0 if score is None else score for score in found]
    values: Amounts = (
        np.array(numbers, dtype=np.float64)
        if any(isinstance(score, float) for score in found)
        else np.array(numbers, dtype=np.int64)
    )
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
