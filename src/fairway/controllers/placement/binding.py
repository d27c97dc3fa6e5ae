"""The plugins that write a decision: its pages at Bind, and the status at PostBind.

They find what they write in the state of the commit, whether the scheduler made that, or plugins from Reserve on.
"""

from dataclasses import dataclass
from typing import Final

from fairway.controllers.placement.queue import Owner
from fairway.controllers.placement.session import WriteSession
from fairway.controllers.placement.writer import DecisionWriter, lane_of
from fairway.controllers.runtime.scheduling_loop import FencedPlugin
from fairway.controllers.runtime.write_limiter import Lane
from fairway.engine.points import CommitContext
from fairway.engine.status import OK, Status
from fairway.hosts.instant import Micros
from fairway.observe.traces import span
from fairway.workloads.placement.commits import Run

ATTEMPT: Final = "fairway.dev/attempt"
"""Key of the commit's state under which our own plugins find the attempt that they write."""


@dataclass(slots=True, eq=False)
class Attempt:
    """A decision on its way to the hub."""

    session: WriteSession
    woken: Micros | None
    """When the placement was woken for it."""
    run: Run | None = None
    """The step of the commit that runs; None during our own steps: the Bind of a profile without plugins from Reserve
    on, and the status."""
    is_written: bool = False
    """Whether the hub has the pages, so that only the status is left."""
    token: int = 0
    """Of the instruction that runs. Results with others are late."""
    bound: Status | None = None
    """What a foreign Bind returned, while the hub is read to verify it."""
    failure: Exception | None = None
    """Of our own Bind, while the hub is read to find out what it has written."""
    droppable: bool = False
    """Whether the status is dropped if the placement is to be decided again."""

    @property
    def owner(self) -> Owner:
        return self.session.owner


class DecisionBind(FencedPlugin):
    """The default Bind: writes the pages of a decision."""

    name = "DecisionBind"

    def __init__(self, writer: DecisionWriter) -> None:
        self._writer = writer

    def is_long(self, context: CommitContext, /) -> bool:
        """Pages that only get other scores wait for those that get other clusters."""
        steps = context.state.read(ATTEMPT, Attempt).session.plan.steps
        return not any(lane_of(step) is Lane.DECISION for step in steps)

    async def bind(self, context: CommitContext, /) -> Status:
        session = context.state.read(ATTEMPT, Attempt).session
        with span("placement write", namespace=session.owner[0], name=session.owner[1]):
            if session.plan.steps:
                await self._writer.carry_out(session)
            else:
                session.wrote_pages()
        return OK


class StatusReport(FencedPlugin):
    """Writes the status, after the decisions of all placements."""

    name = "StatusReport"

    def __init__(self, writer: DecisionWriter) -> None:
        self._writer = writer

    def is_long(self, _context: CommitContext, /) -> bool:
        return True

    async def post_bind(self, context: CommitContext, /) -> None:
        attempt = context.state.read(ATTEMPT, Attempt)
        with span("placement status", namespace=attempt.owner[0], name=attempt.owner[1]):
            await self._writer.report(attempt.session, droppable=attempt.droppable)
