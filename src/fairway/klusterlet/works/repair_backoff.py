"""How soon an object that somebody changed is put right.

At once, the first few times. But where somebody else keeps at it, another agent or an admission plugin that edits what
it is given, the two would go on as fast as the API server can: then each time a little later.
"""

from typing import Final

from fairway.kube import Backoff, Clock

AT_ONCE: Final = 5
PEACE_SECONDS: Final = 600.0
"""Without repairs for this long, everything is forgotten."""
BACKOFF: Final = Backoff(base=1.0, cap=300.0)


class RepairBackoff:
    """By work."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._recent: dict[str, tuple[int, float]] = {}

    def note(self, work: str) -> None:
        self._recent[work] = (self._count(work) + 1, self._clock.monotonic())

    def pause(self, work: str) -> float:
        """Seconds to let pass before the next one."""
        count = self._count(work)
        return 0.0 if count < AT_ONCE else BACKOFF.delay(count - AT_ONCE)

    def forget(self, work: str) -> None:
        self._recent.pop(work, None)

    def _count(self, work: str) -> int:
        count, last = self._recent.get(work, (0, 0.0))
        if count and self._clock.monotonic() - last >= PEACE_SECONDS:
            del self._recent[work]
            return 0
        return count
