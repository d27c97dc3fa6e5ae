"""Placements that wait for plugins in processes of their own.

A process answers one question after the other, so placements that use the same plugin take turns, and a snapshot is
taken when a turn begins: one that waits would make the fleet copy what changes. A process that stalls or starts delays
only the placements that use it.
"""

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Final

from fairway.controllers.placement.queue import Owner
from fairway.engine.commit.instructions import Fetch, ForCaller
from fairway.engine.pending import PendingAnswer
from fairway.engine.workload import WorkloadKey
from fairway.hosts.clusters.snapshot import ClusterSnapshot
from kubewire.client import Clock

WAITS_FOR_ANSWER: Final = "waits for the process of plugin {plugin}"


@dataclass(slots=True, eq=False)
class Question:
    owner: Owner
    plugin: str
    """Whose answer it waits for first."""
    asked: tuple[ClusterSnapshot, datetime] | None = None
    """Set when its turn begins. An answer is only valid for the same snapshot and time."""


class Questions:
    """``decide`` decides a placement with the answers so far, and returns how to bind the decision. It raises
    PendingAnswer while one is missing. ``tokens`` are those of the scheduler."""

    def __init__(
        self,
        *,
        snapshot: Callable[[], ClusterSnapshot],
        decide: Callable[[Owner, ClusterSnapshot, datetime], list[ForCaller]],
        tokens: Iterator[int],
        clock: Clock,
    ) -> None:
        self._snapshot, self._decide, self._tokens, self._clock = snapshot, decide, tokens, clock
        self._questions: dict[Owner, Question] = {}
        self._lanes: dict[str, deque[Question]] = {}
        """By plugin; the first one has its turn."""

    def ask(self, owner: Owner, plugin: str) -> list[ForCaller]:
        """Let a placement wait. It remains in flight in the queue, so that it is decided again if something changes
        that it depends on."""
        question = self._questions[owner] = Question(owner, plugin)
        lane = self._lanes.setdefault(plugin, deque())
        lane.append(question)
        return [self._fetch(question)] if len(lane) == 1 else []

    def discard(self, owner: Owner) -> bool:
        """Skip a deleted placement. Return whether it waited."""
        return self._questions.pop(owner, None) is not None

    def drain(self) -> list[Owner]:
        """Remove all placements, and return them."""
        owners = list(self._questions)
        self._questions.clear()
        self._lanes.clear()
        return owners

    def describe(self, owner: Owner) -> str:
        """Return what a placement waits for; empty if it does not wait here."""
        question = self._questions.get(owner)
        return "" if question is None else WAITS_FOR_ANSWER.format(plugin=question.plugin)

    def _fetch(self, question: Question, pending: PendingAnswer | None = None) -> Fetch:
        key = WorkloadKey(*question.owner)
        return Fetch(key, next(self._tokens), partial(self._answer, question, pending))

    async def _answer(self, question: Question, pending: PendingAnswer | None) -> list[ForCaller]:
        """Decide with the answers so far. Ask for the next one, or give the turn to the next placement."""
        if pending is not None:
            await pending.fetch()
        instructions: list[ForCaller] = []
        # Otherwise the placement was deleted, and maybe created again.
        if self._questions.get(question.owner) is question:
            if question.asked is None:
                question.asked = (self._snapshot(), self._clock.wall())
            try:
                instructions += self._decide(question.owner, *question.asked)
            except PendingAnswer as missing:
                return [self._fetch(question, missing)]
            del self._questions[question.owner]
        lane = self._lanes[question.plugin]
        lane.popleft()
        if lane:
            instructions.append(self._fetch(lane[0]))
        else:
            del self._lanes[question.plugin]
        return instructions
