"""Time within the controller by phase, from an observed change to the hub's response to the first decision.

    own write   waiting for an earlier write of the same placement
    worker      queued, waiting for a worker
    look        computing the writes, including other work of the event loop
    lease       verifying the leadership
    turn        waiting for writes of other placements
    answer      waiting for the hub's response to the decision

Only reconciles that write a decision are counted, not those that write only a status or a score.
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
from fairway.controllers.placement.write_limiter import WriteLimiter
from fairway.controllers.reconciler import Key

PHASES = ("own write", "worker", "look", "lease", "turn", "answer")

_Marks = dict[str, float]
_marks: ContextVar[_Marks] = ContextVar("marks")


class Phases:
    def __init__(self) -> None:
        self._woken: dict[Key, float] = {}
        self._ended: dict[Key, float] = {}
        """End of the write during which a placement was queued; infinite until then."""
        self._busy: set[Key] = set()
        self._samples: list[dict[str, float]] = []

    @contextmanager
    def noted(self) -> Iterator[None]:
        """Record the phases of controllers created within the block."""
        wake, reconcile = PlacementController._wake, PlacementController.reconcile
        batch, turn = Elected.batch, WriteLimiter.turn

        def woken(controller: PlacementController, owner: Key) -> None:
            if owner not in self._woken:
                self._woken[owner] = time.monotonic()
                if owner in self._busy:
                    self._ended[owner] = float("inf")
            wake(controller, owner)

        async def reconciled(controller: PlacementController, key: Key, leadership: Leadership) -> None:
            taken = time.monotonic()
            at = self._woken.pop(key, taken)
            marks = {"woken": at, "free": max(at, self._ended.pop(key, at)), "taken": taken}
            token = _marks.set(marks)
            self._busy.add(key)
            try:
                await reconcile(controller, key, leadership)
            finally:
                self._busy.discard(key)
                if key in self._ended:
                    self._ended[key] = time.monotonic()
                _marks.reset(token)
            self._note(marks)

        @asynccontextmanager
        async def proven(elected: Elected) -> AsyncIterator[None]:
            marks = _marks.get()
            marks["looked"] = time.monotonic()
            async with batch(elected):
                marks["led"] = time.monotonic()
                yield

        @asynccontextmanager
        async def allowed(precedence: WriteLimiter, *, urgent: bool) -> AsyncIterator[None]:
            marks = _marks.get()
            async with turn(precedence, urgent=urgent):
                first = urgent and "sent" not in marks
                if first:
                    marks["sent"] = time.monotonic()
                yield
                if first:
                    marks["answered"] = time.monotonic()

        with (
            patch.object(PlacementController, "_wake", woken),
            patch.object(PlacementController, "reconcile", reconciled),
            patch.object(Elected, "batch", proven),
            patch.object(WriteLimiter, "turn", allowed),
        ):
            yield

    def _note(self, marks: _Marks) -> None:
        if "answered" in marks:
            moments = [
                marks[each] for each in ("woken", "free", "taken", "looked", "led", "sent", "answered")
            ]
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
