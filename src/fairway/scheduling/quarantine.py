"""Quarantine: stop calling a plugin that keeps failing, for a growing time.

A plugin that stalls costs every cycle the limit of a call, and one that raises costs every workload a failed attempt. A
plugin enters quarantine after several faults in a row, or after one stall. When the time has passed it is tried again;
the next fault then doubles the time. A plugin without faults for a while starts from the beginning.
"""

from dataclasses import dataclass
from typing import Final

MOST_FAULTS: Final = 5
"""Faults in a row that lead to quarantine."""
FIRST_SECONDS: Final = 10.0
LONGEST_SECONDS: Final = 600.0
FORGIVEN_SECONDS: Final = 600.0
"""Time without a fault, after the last quarantine, until the next one is as short as the first."""


@dataclass(slots=True)
class _Record:
    faults: int = 0
    """In a row."""
    times: int = 0
    """Consecutive quarantines."""
    until: float = 0.0


class Quarantine:
    """Times are monotonic seconds, given by the caller."""

    def __init__(self) -> None:
        self._records: dict[str, _Record] = {}

    def until(self, plugin: str, *, now: float) -> float | None:
        """Return when the quarantine of the plugin ends; None if it may be called."""
        record = self._records.get(plugin)
        return record.until if record is not None and now < record.until else None

    def succeeded(self, plugin: str) -> None:
        record = self._records.get(plugin)
        if record is not None:
            record.faults = 0

    def failed(self, plugin: str, *, now: float, stalled: bool = False) -> float | None:
        """Count a fault. Return the duration of the quarantine that begins with it, in seconds; None if none does."""
        record = self._records.setdefault(plugin, _Record())
        if record.times and now >= record.until + FORGIVEN_SECONDS:
            record.times = 0
        record.faults += 1
        on_trial = record.times > 0
        if not (stalled or on_trial or record.faults >= MOST_FAULTS):
            return None
        seconds = min(LONGEST_SECONDS, FIRST_SECONDS * 2.0**record.times)
        record.faults = 0
        record.times += 1
        record.until = now + seconds
        return seconds
