"""Events that arrive while workloads are being tried.

A cycle reads a snapshot. An event after the snapshot may be the one that would have made the cycle succeed, and the
workload is not yet among the waiting when it arrives. So events are kept as long as a workload is in flight that was
popped before them, and are replayed when it is rejected.
"""

from collections.abc import Sequence

from fairway.engine.dependencies import Event
from fairway.engine.workload import WorkloadKey

MOST_EVENTS = 10_000
"""Beyond this, all kept events become one wildcard event: that wakes too many workloads, but never too few."""
TOO_MANY = Event(label="more events than the queue keeps", wildcard=True)


class InFlight:
    """Markers of popped workloads and events, in one order. Both only grow, so the oldest marker is the first."""

    def __init__(self) -> None:
        self._markers: dict[WorkloadKey, int] = {}
        self._events: list[Event] = []
        self._dropped = 0
        """Number of events before the first that is kept."""

    def __len__(self) -> int:
        return len(self._markers)

    def begin(self, key: WorkloadKey) -> None:
        self._markers.pop(key, None)
        # The position counts all events since the start, so that dropping the oldest ones moves no marker.
        self._markers[key] = self._dropped + len(self._events)

    def record(self, event: Event) -> None:
        # Most events arrive between attempts. What nothing in flight can have missed is not kept.
        if not self._markers:
            return
        self._events.append(event)
        if len(self._events) > MOST_EVENTS:
            # One wildcard event in the place of the newest: every marker is before it, whatever came before.
            self._dropped += len(self._events) - 1
            self._events = [TOO_MANY]

    def end(self, key: WorkloadKey) -> Sequence[Event]:
        """Stop tracking a workload; return the events since it was popped."""
        marker = self._markers.pop(key, None)
        if marker is None:
            return ()
        missed = self._events[max(0, marker - self._dropped) :]
        # Markers are inserted in the order of their positions, so the first one is the oldest. Events before it can
        # no longer be asked for; without this a busy queue, which always has something in flight, would keep them
        # all.
        oldest = next(iter(self._markers.values()), self._dropped + len(self._events))
        if oldest > self._dropped:
            del self._events[: oldest - self._dropped]
            self._dropped = oldest
        return missed
