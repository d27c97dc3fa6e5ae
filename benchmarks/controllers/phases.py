"""Time within the controller by phase, from an observed change to the hub's response to the first decision.

    queue       waiting to be decided, behind others or behind an earlier write of the same placement
    decide      computing the writes
    lease       verifying the leadership, after other work of the event loop
    turn        waiting for writes of other placements
    answer      waiting for the hub's response to the decision

Only attempts that write a decision are counted, not those that write only a status or a score.
"""

import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar
from itertools import pairwise
from typing import Any
from unittest.mock import patch

from benchmarks.measure import percentile
from fairway.controllers.placement.binding import DecisionBind
from fairway.controllers.placement.queue import Owner
from fairway.controllers.placement.scheduler import PlacementScheduler
from fairway.controllers.runtime.leadership import Elected
from fairway.controllers.runtime.write_limiter import Lane, WriteLimiter
from fairway.engine.commit.instructions import ForCaller
from fairway.engine.points import CommitContext
from fairway.engine.status import Status
from fairway.hosts.instant import SECOND

PHASES = ("queue", "decide", "lease", "turn", "answer")

_Marks = dict[str, float]
_marks: ContextVar[_Marks] = ContextVar("marks")


class Phases:
    def __init__(self) -> None:
        self._taken: dict[Owner, _Marks] = {}
        self._samples: list[dict[str, float]] = []

    @contextmanager
    def noted(self) -> Iterator[None]:
        """Record the phases of controllers created within the block."""
        attempt, bind = PlacementScheduler.attempt, DecisionBind.bind
        batch, turn = Elected.batch, WriteLimiter.turn

        def attempted(scheduler: PlacementScheduler, owner: Owner) -> list[ForCaller]:
            taken = time.monotonic()
            woken = scheduler._queue.woken(owner)
            instructions = attempt(scheduler, owner)
            if instructions:
                self._taken[owner] = {"woken": taken if woken is None else woken / SECOND, "taken": taken}
            return instructions

        async def bound(binder: DecisionBind, context: CommitContext) -> Status:
            owner = (context.workload.namespace, context.workload.name)
            marks = {**self._taken.pop(owner), "decided": time.monotonic()}
            token = _marks.set(marks)
            try:
                return await bind(binder, context)
            finally:
                _marks.reset(token)
                self._note(marks)

        @asynccontextmanager
        async def proven(elected: Elected) -> AsyncIterator[None]:
            marks = _marks.get({})
            async with batch(elected):
                marks.setdefault("led", time.monotonic())
                yield

        @asynccontextmanager
        async def allowed(limiter: WriteLimiter, lane: Lane, **options: Any) -> AsyncIterator[None]:
            marks = _marks.get({})
            async with turn(limiter, lane, **options):
                first = lane is Lane.DECISION and "sent" not in marks
                if first:
                    marks["sent"] = time.monotonic()
                yield
                if first:
                    marks["answered"] = time.monotonic()

        with (
            patch.object(PlacementScheduler, "attempt", attempted),
            patch.object(DecisionBind, "bind", bound),
            patch.object(Elected, "batch", proven),
            patch.object(WriteLimiter, "turn", allowed),
        ):
            yield

    def _note(self, marks: _Marks) -> None:
        if "answered" in marks:
            moments = [marks[name] for name in ("woken", "taken", "decided", "led", "sent", "answered")]
            spans = [end - begin for begin, end in pairwise(moments)]
            self._samples.append(dict(zip(PHASES, spans, strict=True)))

    def document(self) -> dict[str, Any]:
        """Return the seconds by phase since the last call."""
        samples, self._samples = self._samples, []
        if not samples:
            return {}
        return {phase: _summary([sample[phase] for sample in samples]) for phase in PHASES}


def _summary(values: list[float]) -> dict[str, float]:
    return {
        "mean": sum(values) / len(values),
        "p50": percentile(values, 0.5),
        "p90": percentile(values, 0.9),
        "p99": percentile(values, 0.99),
    }
