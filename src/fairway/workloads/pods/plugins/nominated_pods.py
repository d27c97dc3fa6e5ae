"""NominatedPods: keeps room for pods that wait on a nominated node until the pods they preempt are deleted.

As in kube-scheduler, a node with nominated pods of at least the same priority must pass all filters with these pods and
without them. A pod that is nominated itself takes its node as soon as it passes there, whatever other nodes score.
"""

from collections.abc import Hashable, Sequence
from typing import Final

import numpy as np

from fairway.engine import cycle
from fairway.engine.points import Context, CycleWorkload, Reads, Timeless
from fairway.engine.profile import Profile, without
from fairway.engine.rejections import Screened
from fairway.engine.status import OK, SKIPPED, Code, Status
from fairway.hosts import bitmap
from fairway.hosts.bitmap import Bits, Rows
from fairway.hosts.column import Key
from fairway.hosts.direction import Direction
from fairway.hosts.nodes import NodeFleet
from fairway.hosts.nodes.hypothesis import HypotheticalSnapshot, SeparatelyWithNominated
from fairway.hosts.nodes.pod_columns import NOMINATED
from fairway.hosts.nodes.pod_template import PodInfo
from fairway.hosts.nodes.pods import PodKey
from fairway.workloads.pods.workload import info_of_workload, nodes_of

NAME: Final = "NominatedPods"
REASON: Final = "the pod is nominated to another node"
NOT_NOMINATED: Final = Status(Code.UNRESOLVABLE, (REASON,), plugin=NAME)


class NominatedPods(Timeless):
    """``attach`` must be called with the profile that has this plugin, the last one at Filter."""

    name = NAME

    def __init__(self, *, fleet: NodeFleet) -> None:
        self._fleet = fleet
        self._others: Profile | None = None

    def attach(self, profile: Profile) -> None:
        self._others = without(profile, NAME)

    def signature(self, workload: CycleWorkload, /) -> Hashable:
        if not self._fleet.nominations:
            return ""
        key = (workload.namespace, workload.name)
        own = key if key in self._fleet.nominations else ""
        return info_of_workload(workload).priority, own

    def pre_filter(self, context: Context, /) -> tuple[Status, Bits | None]:
        snapshot = nodes_of(context)
        if not snapshot.nominations:
            return SKIPPED, None
        node = snapshot.nominations.get(_key_of(context), "")
        row = snapshot.hosts.row_of.get(node)
        if row is None or self._probe(context, row) is not None:
            return OK, None
        return OK, bitmap.from_rows([row], snapshot.capacity)

    def admits(self, context: Context, row: int, /) -> Status:
        snapshot = nodes_of(context)
        own = snapshot.hosts.row_of.get(snapshot.nominations.get(_key_of(context), ""))
        return OK if own in (None, row) or self._probe(context, own) is not None else NOT_NOMINATED

    def filter(self, context: Context, row: int, /) -> Status:
        others = self._nominated(context, row)
        if not others:
            return OK
        given = nodes_of(context)
        what_if = given if isinstance(given, HypotheticalSnapshot) else HypotheticalSnapshot(given)
        node = given.hosts.names[row]
        for key, info in others.items():
            what_if.add_pod(node, key, info)
        try:
            return self._probe(context, row, what_if) or OK
        finally:
            for key in others:
                what_if.remove_pod(node, key)

    def filter_fleet(self, context: Context, candidates: Bits, /) -> tuple[Status, Bits]:
        snapshot = nodes_of(context)
        if not snapshot.nominated:
            return OK, candidates
        supposed = self._with_nominated(context)
        nominated = candidates & supposed.rows()
        if not bitmap.any_of(nominated):
            return OK, candidates
        screened = self._screen(context, supposed, nominated)
        passed = screened.passed & nominated
        if not screened.exact:
            # Other suppositions never come here: what they do not show of these pods, they do not show at all.
            rows = [row for row in bitmap.rows_of(passed).tolist() if self.filter(context, row) is OK]
            passed = bitmap.from_rows(rows, snapshot.capacity)
        others: Bits = candidates & ~nominated
        return OK, others | passed

    def group_rejections(self, context: Context, rows: Rows, /) -> Sequence[tuple[Status, Rows]]:
        rejected = bitmap.from_rows(rows, context.snapshot.capacity)
        screened = self._screen(context, self._with_nominated(context), rejected)
        if screened.exact:
            return screened.group()
        by_status: dict[Status, list[int]] = {}
        for row in rows.tolist():
            by_status.setdefault(self.filter(context, row), []).append(row)
        return [(status, np.array(some, dtype=np.int64)) for status, some in by_status.items()]

    def _screen(self, context: Context, supposed: SeparatelyWithNominated, rows: Bits) -> Screened:
        assert self._others is not None
        return cycle.screen(context, self._others, supposed, rows)

    def _with_nominated(self, context: Context) -> SeparatelyWithNominated:
        snapshot, key = nodes_of(context), _key_of(context)
        node = snapshot.nominations.get(key, "")
        row, own = snapshot.hosts.row_of.get(node), None
        if row is not None and key not in snapshot.pods.on(node).pods:
            own = row, snapshot.nominated[node][key].template.amounts
        return SeparatelyWithNominated(snapshot, info_of_workload(context.workload).priority, own)

    def reads(self, context: Context, /) -> Reads:
        """A rejection depends on the nominations, and on all that the other filters read."""
        cells: set[Key] = set()
        shared: set[Key] = {NOMINATED}
        helps: dict[Key, Direction] = {}
        if self._others is not None and nodes_of(context).nominations:
            for calls in self._others.filters:
                if calls.reader is None:
                    return Reads(anything=True)
                reads = calls.reader.reads(context)
                cells |= reads.cells
                shared |= reads.shared
                for key in reads.cells | reads.shared:
                    direction = (reads.helps or {}).get(key, Direction.ANY)
                    helps[key] = helps.get(key, Direction.NONE) | direction
        return Reads(cells=frozenset(cells), shared=frozenset(shared), helps=helps)

    def _nominated(self, context: Context, row: int) -> dict[PodKey, PodInfo]:
        """Return the other pods of at least the same priority that are nominated to a node."""
        snapshot = nodes_of(context)
        nominated = snapshot.nominated.get(snapshot.hosts.names[row])
        if not nominated:
            return {}
        own, priority = _key_of(context), info_of_workload(context.workload).priority
        present = snapshot.pods.on(snapshot.hosts.names[row]).pods
        return {
            key: info
            for key, info in nominated.items()
            if info.priority >= priority and key != own and key not in present
        }

    def _probe(
        self, context: Context, row: int, what_if: HypotheticalSnapshot | None = None
    ) -> Status | None:
        """Return why the other filters reject a node; None if they accept it."""
        assert self._others is not None
        return cycle.probe(context, self._others, what_if or context.snapshot, row)


def _key_of(context: Context) -> PodKey:
    return context.workload.namespace, context.workload.name
