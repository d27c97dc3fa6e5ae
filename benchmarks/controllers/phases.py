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
from fairway.controllers.leadership import Elected, Leadership
from fairway.controllers.placement.controller import PlacementController
from fairway.controllers.placement.queue import Owner
from fairway.controllers.placement.session import WriteSession
from fairway.controllers.write_limiter import Lane, WriteLimiter
from fairway.fleet.instant import SECOND

PHASES = ("queue", "decide", "lease", "turn", "answer")

_Marks = dict[str, float]
_marks: ContextVar[_Marks] = ContextVar("marks")


class Phases:
    def __init__(self) -> None:
        self._taken: dict[Owner, float] = {}
        self._samples: list[dict[str, float]] = []

    @contextmanager
    def noted(self) -> Iterator[None]:
        """Record the phases of controllers created within the block."""
        decide, write = PlacementController.decide, PlacementController.write
        batch, turn = Elected.batch, WriteLimiter.turn

        def decided(controller: PlacementController, owner: Owner) -> WriteSession | None:
            taken = time.monotonic()
            session = decide(controller, owner)
            if session is not None:
                self._taken[owner] = taken
            return session

        async def written(
            controller: PlacementController, session: WriteSession, leadership: Leadership
        ) -> None:
            taken = self._taken.pop(session.owner)
            woken = controller.queue.woken(session.owner)
            marks = {"woken": taken if woken is None else woken / SECOND, "taken": taken}
            marks["decided"] = time.monotonic()
            token = _marks.set(marks)
            try:
                await write(controller, session, leadership)
            finally:
                _marks.reset(token)
            self._note(marks)

        @asynccontextmanager
        async def proven(elected: Elected) -> AsyncIterator[None]:
            marks = _marks.get()
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
            patch.object(PlacementController, "decide", decided),
            patch.object(PlacementController, "write", written),
            patch.object(Elected, "batch", proven),
            patch.object(WriteLimiter, "turn", allowed),
        ):
            yield

    def _note(self, marks: _Marks) -> None:
        if "answered" in marks:
            moments = [marks[each] for each in ("woken", "taken", "decided", "led", "sent", "answered")]
            spans = [end - begin for begin, end in pairwise(moments)]
            self._samples.append(dict(zip(PHASES, spans, strict=True)))

    def document(self) -> dict[str, Any]:
        """Return the seconds by phase since the last call."""
        samples, self._samples = self._samples, []
        if not samples:
            return {}
        return {phase: _summary([each[phase] for each in samples]) for phase in PHASES}


def _summary(values: list[float]) -> dict[str, float]:
    return {
        "mean": sum(values) / len(values),
        "p50": percentile(values, 0.5),
        "p90": percentile(values, 0.9),
        "p99": percentile(values, 0.99),
    }
