"""Exponential smoothing: an old value weighs half as much as the newest after its half-life, however often it is
read.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime

from fairway.providers.provider import Score


class Smoothing:
    """Of one cluster. Remembers a value of each score that has a half-life."""

    __slots__ = ("_half_lives", "_known")

    def __init__(self, scores: Sequence[Score]) -> None:
        self._half_lives = {score.name: score.half_life for score in scores if score.half_life > 0}
        self._known: dict[str, tuple[datetime, float]] = {}

    def update(self, values: Mapping[str, float], *, at: datetime) -> dict[str, float]:
        """What the values are when those before are counted in. A value that stays away is forgotten."""
        if not self._half_lives:
            return dict(values)
        for name in [name for name in self._known if name not in values]:
            del self._known[name]
        return {name: self._smoothed(name, value, at) for name, value in values.items()}

    def _smoothed(self, name: str, value: float, at: datetime) -> float:
        half_life = self._half_lives.get(name)
        if half_life is None:
            return value
        known = self._known.get(name)
        if known is not None:
            seconds = max((at - known[0]).total_seconds(), 0.0)
            old = 0.5 ** (seconds / half_life)
            # As a sum of shares, for the difference of two numbers may be too large for a number.
            value = old * known[1] + (1.0 - old) * value
        self._known[name] = (at, value)
        return value
