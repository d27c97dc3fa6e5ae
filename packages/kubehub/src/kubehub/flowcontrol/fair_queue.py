"""A queue that is fair to users by the time that their work takes, whatever the number of their requests.

Start-time fair queueing: each user is a flow with a tag, the virtual time at which its next work is due. Work moves
the tag by the seconds it takes; the flow with the lowest tag is next. A flow without work starts at the present
virtual time, so it precedes all flows that were just served, but accumulates no credit while idle. The duration of
work is unknown until it is done, so each piece is charged with the flow's recent mean when it is served, and the
difference is charged later.

Urgent work of a flow is due earlier by ``HEAD_START``. That is a loan: the tag moves as for any work, so a flow
with only urgent work gains that much once and has the same share as others from then on.
"""

from collections import deque
from heapq import heappop, heappush
from typing import Final, Generic, TypeVar

HEAD_START: Final = 0.25
"""Seconds of other flows' work that urgent work precedes."""
TYPICAL: Final = 0.001
"""Seconds charged for the very first piece of work; new flows are charged the mean of all."""
WAITING_PER_FLOW: Final = 4096
WAITING: Final = 16_384
FLOWS: Final = 1024
"""Flows that are kept before idle ones are removed."""
_WEIGHT: Final = 0.25
"""Weight of the newest piece of work in its flow's mean."""
_COMMON_WEIGHT: Final = 0.05
"""Its weight in the mean of all flows."""

T = TypeVar("T")


class Full(Exception):
    """A flow, or the queue, has reached its limit of waiting work."""


class Flow(Generic[T]):
    __slots__ = ("credit", "due", "mean", "name", "urgent", "waiting")

    def __init__(self, name: str, *, due: float, mean: float) -> None:
        self.name, self.due = name, due
        self.mean, self.credit = mean, 0.0
        self.urgent: deque[T] = deque()
        self.waiting: deque[T] = deque()

    @property
    def tag(self) -> float:
        return self.due - HEAD_START if self.urgent else self.due

    @property
    def length(self) -> int:
        return len(self.urgent) + len(self.waiting)


class FairQueue(Generic[T]):
    """Waiting work by flow. It has no clock: callers charge flows with the seconds that their work took."""

    def __init__(self, *, per_flow: int = WAITING_PER_FLOW, most: int = WAITING) -> None:
        self._per_flow, self._most = per_flow, most
        self._flows: dict[str, Flow[T]] = {}
        self._order: list[tuple[float, int, Flow[T]]] = []
        self._now = 0.0
        self._mean = TYPICAL
        self._entries = 0
        self._sweep_at = FLOWS
        self.length = 0

    def __len__(self) -> int:
        return self.length

    def flow(self, name: str) -> Flow[T]:
        flow = self._flows.get(name)
        if flow is None:
            if len(self._flows) >= self._sweep_at:
                self._sweep()
            flow = self._flows[name] = Flow(name, due=self._now, mean=self._mean)
        # An idle flow starts now: time that it did not use is no credit, or a client that slept could then block all
        # others.
        elif not flow.length and flow.due < self._now:
            flow.due = self._now
        return flow

    def put(self, name: str, work: T, *, urgent: bool = False) -> None:
        """Queue work. Raises Full."""
        flow = self.flow(name)
        if flow.length >= self._per_flow or self.length >= self._most:
            raise Full
        (flow.urgent if urgent else flow.waiting).append(work)
        self.length += 1
        self._push(flow)

    def _push(self, flow: Flow[T]) -> None:
        self._entries += 1
        heappush(self._order, (flow.tag, self._entries, flow))

    def pop(self) -> tuple[T, Flow[T], float]:
        """Return the next piece of work, its flow, and the seconds charged. Raises IndexError if empty."""
        while True:
            tag, _, flow = heappop(self._order)
            # A flow has one entry per put, and the tag may have moved since: entries are checked when they come up,
            # because a heap cannot move an entry in place.
            if not flow.length:
                continue
            if flow.tag > tag:
                # The flow was charged or served since this entry was made.
                self._push(flow)
                continue
            # Virtual time never goes back, though urgent work has tags before it.
            self._now = max(self._now, tag)
            charged = self.start(flow)
            work = (flow.urgent or flow.waiting).popleft()
            self.length -= 1
            if flow.length:
                self._push(flow)
            return work, flow, charged

    def start(self, flow: Flow[T]) -> float:
        """Charge a flow with its mean for work that starts now; returns those seconds."""
        mean = flow.mean
        # Charged before it runs: a flow that starts a hundred slow requests at once must not seem idle until the first
        # one ends.
        due = max(flow.due, self._now) + max(0.0, mean - flow.credit)
        flow.credit = max(0.0, flow.credit - mean)
        flow.due = due
        return mean

    def skip_to(self, flow: Flow[T]) -> None:
        """Advance the virtual time for work that starts at once, because nothing waits."""
        # Otherwise flows served while nothing waited would look as if they had run ahead of those that come later.
        self._now = max(self._now, flow.due)

    def settle(self, flow: Flow[T], *, charged: float, took: float) -> None:
        """Correct the charge of work that is done or yields: ``took`` seconds instead of those charged."""
        flow.mean += _WEIGHT * (took - flow.mean)
        self._mean += _COMMON_WEIGHT * (took - self._mean)
        # Debt moves the tag at once. Credit only lowers later charges: a tag that moved back could overtake flows that
        # have waited longer.
        if took > charged:
            flow.due += took - charged
        else:
            flow.credit += charged - took

    def _sweep(self) -> None:
        """Remove idle flows; a debt matters only while it exceeds a head start."""
        owing = self._now + HEAD_START
        self._flows = {name: flow for name, flow in self._flows.items() if flow.length or flow.due > owing}
        self._sweep_at = max(FLOWS, 2 * len(self._flows))
