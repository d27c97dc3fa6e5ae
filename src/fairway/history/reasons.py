"""The trace of a record: the hosts that a decision added and removed, and the two at its margin.

It is computed on the event loop, so it costs a few passes over arrays, and calls plugins only for hosts that changed.
Everything else of the cycle follows from the recorded inputs, by ``replay``.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Final

import numpy as np

from fairway.engine import cycle
from fairway.engine.outcome import Outcome
from fairway.engine.pending import PendingAnswer
from fairway.engine.status import Status
from fairway.history.record import MOST_HOSTS, MOST_TEXT, HostReason, Term, Trace
from fairway.hosts import bitmap

NO_HOST: Final = "it is not there any more"


def trace_of(outcome: Outcome, before: Sequence[str], status: Status) -> Trace:
    details = outcome.details
    after, held = outcome.selected_names, frozenset(before)
    feasible = len(details.rows)
    selected = outcome.selected_rows
    last = None
    if len(selected):
        totals = details.totals[np.searchsorted(details.rows, selected)]
        worst = int(np.flatnonzero(totals == totals.min())[-1])
        last = _feasible(outcome, int(selected[worst]))
    return Trace(
        status=status.code.value,
        message=status.message[:MOST_TEXT],
        hosts=len(outcome.snapshot.hosts),
        stages=tuple([(stage.plugin, bitmap.count(stage.survivors)) for stage in details.stages]),
        feasible=feasible,
        added=_reasons(outcome, (name for name in outcome.selected if name not in held)),
        removed=_reasons(outcome, (name for name in dict.fromkeys(before) if name not in after)),
        last=last,
        next=_next(outcome),
    )


def _reasons(outcome: Outcome, names: Iterable[str]) -> tuple[HostReason, ...]:
    reasons: list[HostReason] = []
    for name in names:
        if len(reasons) == MOST_HOSTS:
            break
        reasons.append(_reason(outcome, name))
    return tuple(reasons)


def _reason(outcome: Outcome, name: str) -> HostReason:
    row = outcome.snapshot.hosts.row_of.get(name)
    if row is None:
        return HostReason(name, reason=NO_HOST)
    rows = outcome.details.rows
    at = int(np.searchsorted(rows, row))
    if at < len(rows) and rows[at] == row:
        return _feasible(outcome, row)
    plugin = next(
        (stage.plugin for stage in outcome.details.stages if not bitmap.test(stage.survivors, row)), ""
    )
    try:
        status = cycle.rejection(outcome.context, outcome.plugins, row) or outcome.status
    except PendingAnswer:
        return HostReason(name, plugin=plugin)
    return HostReason(name, plugin=status.plugin or plugin, reason=status.message[:MOST_TEXT])


def _feasible(outcome: Outcome, row: int) -> HostReason:
    details, rank = outcome.details, outcome.snapshot.hosts.rank
    at = int(np.searchsorted(details.rows, row))
    total = details.totals[at]
    tied = details.totals == total
    before = np.count_nonzero(details.totals > total) + np.count_nonzero(rank[details.rows[tied]] < rank[row])
    return HostReason(
        outcome.snapshot.hosts.names[row],
        rank=int(before) + 1,
        total=int(total),
        terms=tuple(
            [Term(scored.plugin, int(scored.scores[at]), scored.weight) for scored in details.scored]
        ),
    )


def _next(outcome: Outcome) -> HostReason | None:
    """Return the best host that was not selected."""
    details, selected = outcome.details, outcome.selected_rows
    if len(details.rows) == len(selected):
        return None
    left: Any = np.ones(len(details.rows), dtype=np.bool_)
    left[np.searchsorted(details.rows, selected)] = False
    rows, totals = details.rows[left], details.totals[left]
    best = rows[totals == totals.max()]
    ranks = outcome.snapshot.hosts.rank[best]
    return _feasible(outcome, int(best[ranks.argmin()]))
