"""Instructions that wait to be carried out: in order for each object, at the same time for different ones."""

import logging
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Final

from fairway.workloads.machines.instructions import (
    Abort,
    Cutover,
    DeleteRecord,
    DeleteSource,
    Prepare,
    Transfer,
    WritePermit,
    WriteRecord,
)
from fairway.workloads.machines.migration import Phase
from kubewire.client import KubeError, WorkQueue
from kubewire.client.fence import Lost, Unconfirmed
from kubewire.client.log_throttle import retry_level

log: Final = logging.getLogger(__name__)

FAILED: Final = "cannot write, retrying  object=%s error=%s"
BROKE: Final = "unexpected error, retrying  object=%s"


@dataclass(frozen=True, slots=True)
class PermitLane:
    """Permits of a virtual machine, by its pod."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"permit/{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class MigrationLane:
    """The record of a migration, and its steps."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"migration/{self.namespace}/{self.name}"


Lane = PermitLane | MigrationLane


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteStray:
    """Delete the objects of a migration that the machines' state does not know."""

    kind: str
    """Of the machine."""
    namespace: str
    name: str


Step = Prepare | Transfer | Cutover | DeleteSource | Abort
Written = WritePermit | WriteRecord | DeleteRecord | DeleteStray | Step

_ENDED_BY_ABORT: Final = (Prepare, Transfer, Cutover)


class MachineLanes:
    """Instructions of a lane are carried out one after the other, and repeated until they succeed or are replaced."""

    def __init__(self, queue: WorkQueue[Lane]) -> None:
        self.queue = queue
        self._lanes: dict[Lane, deque[Written]] = {}

    def add(self, instruction: Written) -> None:
        lane = lane_of(instruction)
        waiting = self._lanes.setdefault(lane, deque())
        # Perhaps also the one that is being carried out: ``finish`` compares the object, and removes no other one for
        # it.
        kept = [earlier for earlier in waiting if not _is_replaced(earlier, instruction)]
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

    async def work(
        self,
        carry_out: Callable[[Written], Awaitable[None]],
        *,
        batch: Callable[[], AbstractAsyncContextManager[object]],
    ) -> None:
        """Carry out instructions until cancelled. ``batch`` wraps those of a lane. Raises Lost when the term ends."""
        while True:
            async with self.queue.take() as lane:
                try:
                    async with batch():
                        while (instruction := self.first(lane)) is not None:
                            await carry_out(instruction)
                            self.finish(lane, instruction)
                except Lost:
                    raise
                except (KubeError, Unconfirmed) as error:
                    level = retry_level(error, retries=self.queue.retries(lane))
                    log.log(level, FAILED, lane, error)
                    self.queue.add_rate_limited(lane)
                except Exception:
                    log.exception(BROKE, lane)
                    self.queue.add_rate_limited(lane)
                else:
                    self.queue.forget(lane)


def lane_of(instruction: Written) -> Lane:
    if isinstance(instruction, WritePermit):
        return PermitLane(instruction.key.namespace, instruction.key.name)
    if isinstance(instruction, DeleteStray):
        return MigrationLane(instruction.namespace, instruction.name)
    return MigrationLane(instruction.migration.source.namespace, instruction.migration.id)


def _is_replaced(old: Written, new: Written) -> bool:
    """Return whether an instruction that waits, or is repeated after a failure, is replaced by a newer one."""
    if isinstance(new, DeleteRecord):
        return True
    if isinstance(new, Abort):
        return isinstance(old, _ENDED_BY_ABORT)
    if isinstance(new, WriteRecord) and new.migration.phase is Phase.CANCELLING:
        # A step that cannot succeed, such as a creation with a name that is taken, must not block its cancellation.
        return isinstance(old, (*_ENDED_BY_ABORT, WriteRecord))
    # Records and permits are written as a whole, so that the newest one of a type has what the older ones would
    # write.
    return type(old) is type(new)
