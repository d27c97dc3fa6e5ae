"""Instructions that wait to be carried out: in order for each object, at the same time for different ones."""

from collections import deque
from typing import Final

from fairway.kube import WorkQueue
from fairway.machines.instructions import (
    Abort,
    Cutover,
    DeleteRecord,
    DeleteSource,
    Instruction,
    Prepare,
    Transfer,
    WritePermit,
    WriteRecord,
)

Lane = tuple[str, str, str]
"""What is written, namespace and name."""
PERMIT: Final = "permit"
MIGRATION: Final = "migration"

Step = Prepare | Transfer | Cutover | DeleteSource | Abort
Written = WritePermit | WriteRecord | DeleteRecord | Step

_ENDED_BY_ABORT: Final = (Prepare, Transfer, Cutover)


class MachineLanes:
    def __init__(self, queue: WorkQueue[Lane]) -> None:
        self.queue = queue
        self._lanes: dict[Lane, deque[Written]] = {}

    def add(self, instruction: Written) -> None:
        lane = lane_of(instruction)
        waiting = self._lanes.setdefault(lane, deque())
        kept = [each for each in waiting if not _is_replaced(each, instruction)]
        self._lanes[lane] = deque([*kept, instruction])
        self.queue.add(lane)

    def first(self, lane: Lane) -> Written | None:
        waiting = self._lanes.get(lane)
        return waiting[0] if waiting else None

    def finish(self, lane: Lane, instruction: Written) -> None:
        """Remove an instruction that was carried out, unless another one has replaced it."""
        waiting = self._lanes.get(lane)
        if waiting and waiting[0] is instruction:
            waiting.popleft()
        if not waiting:
            self._lanes.pop(lane, None)

    def is_waiting(self, lane: Lane) -> bool:
        return lane in self._lanes

    def clear(self) -> None:
        self._lanes.clear()


def lane_of(instruction: Written) -> Lane:
    if isinstance(instruction, WritePermit):
        return PERMIT, instruction.key.namespace, instruction.key.name
    return MIGRATION, instruction.migration.source.namespace, instruction.migration.id


def _is_replaced(old: Instruction, new: Instruction) -> bool:
    """Return whether an instruction that waits, or is repeated after a failure, is replaced by a newer one."""
    if isinstance(new, DeleteRecord):
        return True
    if isinstance(new, Abort):
        return isinstance(old, _ENDED_BY_ABORT)
    return type(old) is type(new)
