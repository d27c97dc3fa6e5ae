"""SchedulingGates: keeps a pod out of the queue while it has scheduling gates."""

from typing import Any

from fairway.engine.points import Reads
from fairway.engine.status import OK, Code, Status
from fairway.engine.workload import Workload
from fairway.workloads.pods.workload import info_of_workload

NAME = "SchedulingGates"
REASON = "waiting for scheduling gates: [{gates}]"


class SchedulingGates:
    name = NAME

    def pre_enqueue(self, workload: Workload[Any], /) -> Status:
        gates = [gate.name for gate in info_of_workload(workload).pod.spec.schedulingGates]
        if not gates:
            return OK
        return Status(Code.UNRESOLVABLE, (REASON.format(gates=" ".join(gates)),), plugin=NAME)

    def gate_reads(self, _workload: Workload[Any], /) -> Reads:
        """Only an update of the pod itself removes a gate."""
        return Reads()
