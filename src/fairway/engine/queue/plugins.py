"""The plugins of the queue, called so that a fault of one harms no other workload."""

from collections.abc import Callable, Sequence
from typing import Any

from fairway.engine.fault import nonsense, raised
from fairway.engine.points import GateReader, PreEnqueue, QueueSort, Reads, SortKey
from fairway.engine.queue.entry import Rejection
from fairway.engine.status import OK, Code, Status, failed
from fairway.engine.workload import Workload
from fairway.hosts.instant import Micros

EVERYTHING = Reads(anything=True)


class PrioritySort:
    """The default order: higher priority first, then the workload that has waited longer."""

    name = "PrioritySort"

    def sort_key(self, workload: Workload[Any], queued: Micros, /) -> SortKey:
        return (-workload.priority, queued)


class QueuePlugins:
    """One QueueSort plugin, and the PreEnqueue plugins of each workload in the order of its profile.

    A PreEnqueue plugin that fails objects, unless ``skips_faults``.
    """

    def __init__(
        self,
        *,
        sort: QueueSort,
        gates: Callable[[Workload[Any]], Sequence[PreEnqueue]],
        skips_faults: bool = False,
    ) -> None:
        self._sort, self._skips_faults = sort, skips_faults
        self._gates = gates

    def sort_key(self, workload: Workload[Any], queued: Micros) -> SortKey:
        """Return the plugin's key; the default one if it fails."""
        try:
            key: object = self._sort.sort_key(workload, queued)
        except Exception:
            key = None
        # Checked, because one key of another type would make every later comparison in the heap raise, also for the
        # workloads of other users. The default has two integers, and so compares with any valid key.
        if isinstance(key, tuple) and all(isinstance(part, int) for part in key):
            return key
        return PrioritySort().sort_key(workload, queued)

    def objection(self, workload: Workload[Any], *, last: str) -> Rejection | None:
        """Return the first objection to queueing, starting with the plugin that objected last."""
        gates = self._gates(workload)
        for gate in sorted(gates, key=lambda gate: gate.name != last) if gates else ():
            status = self._status(gate, workload)
            if status.code is not Code.SUCCESS:
                reads = self._reads(gate, workload)
                return Rejection(plugin=gate.name, reads=reads, reasons=status.reasons)
        return None

    def _status(self, gate: PreEnqueue, workload: Workload[Any]) -> Status:
        try:
            status: object = gate.pre_enqueue(workload)
        except Exception as error:
            fault = raised(gate.name, "PreEnqueue", error)
        else:
            if isinstance(status, Status):
                return status
            fault = nonsense(gate.name, "PreEnqueue", status, expected="a Status")
        return OK if self._skips_faults else failed(fault.reason, plugin=gate.name)

    def _reads(self, gate: PreEnqueue, workload: Workload[Any]) -> Reads:
        if not isinstance(gate, GateReader):
            return EVERYTHING
        try:
            reads: object = gate.gate_reads(workload)
        except Exception:
            return EVERYTHING
        return reads if isinstance(reads, Reads) else EVERYTHING
