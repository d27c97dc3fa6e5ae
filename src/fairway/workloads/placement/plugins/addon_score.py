"""AddOn/<resource>/<score>: a score that a provider publishes for a cluster, with an expiry.

A missing or expired score counts 0, unless the placement's annotation makes it count as the worst. A warning
names expired scores.

With debits, a valid score counts with the expected effect of decisions and HostedClusterRequests since it was
published, on clusters that the placement has not selected: debits never move a placement. Only changes count that make
the cluster less attractive by the weight of the placement (``clusters.debits`` has the bounds).
"""

from collections.abc import Iterator
from typing import Final

import numpy as np

from fairway.engine.points import NEVER_CHANGES, Context, Raw, Reads, Scores, Timeless
from fairway.engine.remedies import MoveNumber
from fairway.engine.status import OK, Status, warning
from fairway.hosts.bitmap import Mask, Rows
from fairway.hosts.clusters import cells
from fairway.hosts.clusters.debits import FOREIGN_BOUND, NAMESPACE_BOUND, shared_debits
from fairway.hosts.clusters.promises import change_by_request
from fairway.hosts.clusters.snapshot import clusters_of
from fairway.hosts.column import NEVER, Key
from fairway.hosts.instant import Micros
from fairway.workloads.placement.plugins import trust
from fairway.workloads.placement.plugins.score_debits import describe_debit
from fairway.workloads.placement.plugins.trust import (
    COUNTS_WORST,
    COUNTS_ZERO,
    MISSING_SCORE,
    SILENCED,
    Missing,
)

EXPIRED: Final = "AddOnPlacementScores {scores} expired"
EXPIRED_WORST: Final = f"{EXPIRED} and count as the worst, by annotation {MISSING_SCORE}"

STAND_IN: Final = "{why}, so its values are not those of its provider"


class AddOnScore(Timeless):
    """With ``missing`` WORST, clusters without a valid score have none, and the profile's default counts. Otherwise
    they count 0. ``debit``: the change by one decision of the placement; None if debits do not count. ``rises``:
    whether a rising score makes a cluster less attractive."""

    def __init__(
        self,
        *,
        resource: str,
        score: str,
        missing: Missing = Missing.ZERO,
        debit: int | None = None,
        rises: bool = False,
    ) -> None:
        self.name = f"AddOn/{resource}/{score}"
        self.resource, self.score_name = resource, score
        self._column = (cells.SCORE, resource, score)
        self.missing = missing
        self._worst = missing is Missing.WORST
        self._debit_column = None if debit is None else shared_debits(resource, score, rises=rises)
        self._sign = 1 if rises else -1
        by_request = 0 if debit is None else change_by_request(resource, score, debit=debit)
        self._by_request = by_request if by_request * self._sign > 0 else 0

    def pre_score(self, context: Context, rows: Rows, /) -> Status:
        return self.warning(context, self.warned_rows(context, rows))

    def warned_rows(self, context: Context, rows: Rows, /) -> Rows:
        if self._worst:
            return rows[trust.lapsed(context.snapshot, self.resource, rows, now=context.now)]
        column = context.snapshot.score_column(self._column)
        return rows[column.expires[rows] < context.now] if column.earliest() < context.now else rows[:0]

    def warning(self, context: Context, rows: Rows, /) -> Status:
        if not len(rows):
            return OK

        def words() -> str:
            names = context.snapshot.hosts.names
            scores = sorted(f"{names[row]}/{self.resource}" for row in rows.tolist())
            return (EXPIRED_WORST if self._worst else EXPIRED).format(scores=" ".join(scores))

        return warning(words, plugin=self.name)

    def score(self, context: Context, row: int, /) -> int | None:
        column = context.snapshot.score_column(self._column)
        if self._worst:
            if self._why_missing(context, row):
                return None
        elif column.expires[row] < context.now or not column.present[row]:
            return 0
        return int(column.values[row]) + self._debit(context, row)

    def score_fleet(self, context: Context, rows: Rows, /) -> Raw:
        column = context.snapshot.score_column(self._column)
        values = column.values[rows]
        if self._worst:
            known = column.present[rows]
            known &= ~trust.lapsed(context.snapshot, self.resource, rows, now=context.now)
            if self._debit_column is not None:
                values += self._debits(context, rows)
            return Raw(values, None if known.all() else known)
        if self._debit_column is not None:
            values += self._debits(context, rows) * column.present[rows]
        if column.earliest() < context.now:
            values[column.expires[rows] < context.now] = 0
        return Raw(values)

    def _debit(self, context: Context, row: int) -> int:
        if self._debit_column is None:
            return 0
        snapshot, workload = clusters_of(context.snapshot), context.workload
        if snapshot.hosts.names[row] in snapshot.decisions.counted((workload.namespace, workload.name)):
            return 0
        size = int(snapshot.counts(self._debit_column).values[row])
        own = self._own_column(context)
        own_debit = 0 if own is None else int(snapshot.counts(own).values[row])
        size = own_debit + min(size - min(own_debit, NAMESPACE_BOUND), FOREIGN_BOUND)
        debit = self._sign * size
        if self._by_request:
            debit += self._by_request * int(snapshot.counts(cells.PROMISED).values[row])
        return debit

    def _own_column(self, context: Context) -> Key | None:
        """Return the column of the placement's namespace; None while it has no debits, which saves the column."""
        assert self._debit_column is not None
        namespace = context.workload.namespace
        return (
            (*self._debit_column, namespace) if clusters_of(context.snapshot).debits.has(namespace) else None
        )

    def _debits(self, context: Context, rows: Rows) -> Scores:
        assert self._debit_column is not None
        snapshot, workload = clusters_of(context.snapshot), context.workload
        debits: Scores = snapshot.counts(self._debit_column).values[rows]
        if (own := self._own_column(context)) is not None:
            own_debits = snapshot.counts(own).values[rows]
            debits -= np.minimum(own_debits, NAMESPACE_BOUND)
            np.minimum(debits, FOREIGN_BOUND, out=debits)
            debits += own_debits
        else:
            np.minimum(debits, FOREIGN_BOUND, out=debits)
        debits *= self._sign
        if self._by_request:
            debits += self._by_request * snapshot.counts(cells.PROMISED).values[rows]
        held = snapshot.held((workload.namespace, workload.name))
        if len(held) and len(rows):
            at = np.minimum(np.searchsorted(rows, held), len(rows) - 1)
            debits[at[rows[at] == held]] = 0
        return debits

    def remark(self, context: Context, row: int, /) -> str:
        why = self._why_missing(context, row)
        if not why:
            return self._remark_debit(context, row)
        if self._worst:
            return COUNTS_WORST.format(why=why)
        silent = why == SILENCED.format(resource=self.resource)
        return (STAND_IN if silent else COUNTS_ZERO).format(why=why)

    def _remark_debit(self, context: Context, row: int) -> str:
        if not (delta := self._debit(context, row)):
            return ""
        snapshot = clusters_of(context.snapshot)
        name = snapshot.hosts.names[row]
        key = (self.resource, self.score_name)
        made = [deltas.get(key, 0) for deltas in snapshot.debits.of(name).values()]
        changes = [change for change in made if change * self._sign > 0]
        requests = snapshot.requests.get(name, ()) if self._by_request else ()
        value = int(snapshot.score_column(self._column).values[row])
        return describe_debit(
            value=value,
            delta=delta,
            count=len(changes),
            requests=requests,
            is_bounded=delta != sum(changes) + self._by_request * len(requests),
        )

    def knows(self, context: Context, rows: Rows, /) -> Mask:
        column = context.snapshot.score_column(self._column)
        known: Mask = column.present[rows]
        if self._worst:
            known &= ~trust.lapsed(context.snapshot, self.resource, rows, now=context.now)
        elif column.earliest() < context.now:
            known &= column.expires[rows] >= context.now
        return known

    def _why_missing(self, context: Context, row: int) -> str:
        return trust.why_missing(context.snapshot, self.resource, self.score_name, row, now=context.now)

    def score_remedies(self, _context: Context, _row: int, weight: int, /) -> Iterator[MoveNumber]:
        silent_is_missing = self.missing is not Missing.ZERO
        yield MoveNumber(self._column, up=weight > 0, silent_is_missing=silent_is_missing)

    def reads(self, context: Context, /) -> Reads:
        columns: set[Key] = {self._column}
        if self._worst:
            columns.add((cells.SCORES, self.resource))
        if self._debit_column is None:
            return Reads(cells=frozenset(columns))
        workload = context.workload
        return Reads(
            cells=frozenset(
                {
                    *columns,
                    self._debit_column,
                    (*self._debit_column, workload.namespace),
                    *((cells.PROMISED,) if self._by_request else ()),
                }
            ),
            shared=frozenset({(cells.OWN_DECISIONS, workload.namespace, workload.name)}),
        )

    def until(self, context: Context, rows: Rows, /) -> Micros:
        column = context.snapshot.score_column(self._column)
        if len(rows) == 1:  # of an incremental cycle, where numpy costs more than it saves
            only = column.expires.item(rows.item(0))
            return only + 1 if context.now <= only != NEVER else NEVER_CHANGES
        if column.earliest() == NEVER:
            return NEVER_CHANGES
        expires = column.expires[rows]
        if column.earliest() < context.now:
            expires = expires[expires >= context.now]
        soonest = int(expires.min(initial=NEVER))
        return soonest + 1 if soonest != NEVER else NEVER_CHANGES
