"""Delay before an object that another client changed is repaired.

The first few repairs happen at once. If another client keeps changing the object, such as another agent or a mutating
webhook, both would write as fast as the API server allows: each further repair waits longer.
"""

from dataclasses import dataclass
from typing import Final

from kubewire.client import Backoff

AT_ONCE: Final = 5
QUIET_SECONDS: Final = 600.0
"""Time without a repair after which the count is reset."""
BACKOFF: Final = Backoff(base=1.0, cap=300.0)


@dataclass(slots=True)
class RepairBackoff:
    """Repairs of one work. ``now`` is monotonic, in seconds."""

    count: int = 0
    last: float = 0.0

    def record_repair(self, *, now: float) -> None:
        """Count a repair."""
        self.count, self.last = self._recent(now) + 1, now

    def delay(self, *, now: float) -> float:
        """Return the seconds to wait before the next repair."""
        count = self._recent(now)
        return 0.0 if count < AT_ONCE else BACKOFF.delay(count - AT_ONCE)

    def _recent(self, now: float) -> int:
        return 0 if now - self.last >= QUIET_SECONDS else self.count
