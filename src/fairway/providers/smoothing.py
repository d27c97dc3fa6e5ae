"""Exponential smoothing: after its half-life a value weighs half as much as the newest, at any reading interval."""

from collections.abc import Mapping, Sequence
from datetime import datetime

from fairway.providers.provider import Score


class Smoothing:
    """Smoothing state of one cluster, for scores with a half-life."""

    __slots__ = ("_half_lives", "_known")

    def __init__(self, scores: Sequence[Score]) -> None:
        self._half_lives = {score.name: score.half_life for score in scores if score.half_life > 0}
        self._known: dict[str, tuple[datetime, float]] = {}

    def update(self, values: Mapping[str, float], *, at: datetime) -> dict[str, float]:
        """Return smoothed values. The state of a score without a value is dropped."""
        if not self._half_lives:
            return dict(values)
        for name in [name for name in self._known if name not in values]:
            del self._known[name]
        return {name: self._smooth(name, value, at) for name, value in values.items()}

    def _smooth(self, name: str, value: float, at: datetime) -> float:
        half_life = self._half_lives.get(name)
        if half_life is None:
            return value
        known = self._known.get(name)
        if known is not None:
            seconds = max((at - known[0]).total_seconds(), 0.0)
            old = 0.5 ** (seconds / half_life)
            # A weighted sum, because the difference of two values may overflow.
            value = old * known[1] + (1.0 - old) * value
        self._known[name] = (at, value)
        return value
