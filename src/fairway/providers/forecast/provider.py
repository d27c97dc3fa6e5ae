"""The provider: reads another provider, records its values, and publishes forecasts.

Every forecast contains the error of past forecasts. A forecast with too large an error, or with a larger one than
assuming no change, is not published.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final, Protocol, runtime_checkable

import numpy as np

from fairway.api.amount_display import display_share
from fairway.api.cluster import ManagedCluster
from fairway.providers.catalogue import Context, OptionsError
from fairway.providers.document import DocumentError
from fairway.providers.forecast import model
from fairway.providers.forecast.history import FULL, History, Key
from fairway.providers.forecast.options import ForecastOptions, options_of
from fairway.providers.provider import FleetProvider, ProviderError, Reading, Wake
from kubewire.client.clock import SYSTEM_CLOCK, Clock

NOT_ENOUGH: Final = "NotEnoughHistory"
INACCURATE: Final = "ForecastInaccurate"

TOO_SHORT: Final = "a forecast needs {needed} points; {points} are recorded"
TOO_INACCURATE: Final = (
    "a forecast would be off by {error:.3g}{unit} on average ({relative}), more than {most}"
)
NO_BETTER: Final = (
    "a forecast would be off by {error:.3g}{unit} on average, more than the guess that nothing changes "
    "({unchanged:.3g}{unit})"
)
FORECAST: Final = (
    "{score}: {ahead} ahead, off by {error:.3g}{unit} on average ({relative}) in the past season"
)
CURRENT: Final = "{score}: the current value, because {why}"
NO_PAST: Final = "%s: cannot load past values: %s"
NOT_SAVED: Final = "%s: cannot save the history: %s"

ATTEMPTS: Final = 3
"""Limit of attempts to load past values."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Outlook:
    """Forecast of one series, and its past errors."""

    value: float
    error: float
    unchanged: float
    relative: float


@runtime_checkable
class Historian(Protocol):
    """A provider that can return past values."""

    async def history(
        self, clusters: Mapping[str, ManagedCluster], *, start: float, end: float, step: float
    ) -> Mapping[Key, Sequence[tuple[float, float]]]:
        """Return times and values by cluster and score. Raises ProviderError."""


class Forecast(FleetProvider):
    def __init__(self, options: ForecastOptions, *, clock: Clock = SYSTEM_CLOCK) -> None:
        self.name, self.resource = options.name, options.resource
        self.scores, self.interval = options.scores, options.interval
        self._options, self._clock = options, clock
        self._units = {score.name: f" {score.unit}" if score.unit else "" for score in options.scores}
        self._history = History(
            step=options.step, columns=options.keep * options.season + 1, most=options.max_series
        )
        self.outlooks: dict[Key, Outlook] = {}
        self._attempts = 0

    @asynccontextmanager
    async def running(self, wake: Wake, /) -> AsyncIterator[None]:
        if self._options.state is not None:
            problem = await asyncio.to_thread(self._history.load, self._options.state)
            if problem:
                _log.warning("%s: %s", self.name, problem)
            if self._history.keys:
                self._attempts = ATTEMPTS
            await self._update_outlooks()
        async with self._options.inner.running(wake):
            try:
                yield
            finally:
                self._save()

    async def read(self, clusters: Mapping[str, ManagedCluster], /) -> Mapping[str, Reading | ProviderError]:
        readings = await self._options.inner.read(clusters)
        now = self._clock.wall().timestamp()
        values = {
            (cluster, score): reading.values[score]
            for cluster, reading in readings.items()
            if isinstance(reading, Reading)
            for score in self._options.names
            if score in reading.values and np.isfinite(reading.values[score])
        }
        await self._backfill(clusters, now)
        if self._history.record(values, moment=now):
            if self._history.full():
                _log.warning("%s: %s", self.name, FULL.format(most=self._options.max_series))
            await self._update_outlooks()
            await asyncio.to_thread(self._save)
        return {
            cluster: reading if isinstance(reading, ProviderError) else self._reading(cluster, reading)
            for cluster, reading in readings.items()
        }

    async def _backfill(self, clusters: Mapping[str, ManagedCluster], now: float) -> None:
        """Load past values from the inner provider, if it has them and the history is empty."""
        inner, options = self._options.inner, self._options
        if self._attempts >= ATTEMPTS or not isinstance(inner, Historian):
            return
        self._attempts += 1
        length = options.season * options.step
        # The middle of a bucket represents it. One season per request limits the size of the response.
        end = self._history.bucket(now) * options.step - options.step / 2
        points: dict[Key, list[tuple[float, float]]] = {}
        try:
            for number in range(options.keep):
                last = end - number * length
                first = last - length + options.step
                past = await inner.history(clusters, start=first, end=last, step=options.step)
                for key, some in past.items():
                    if key[1] in options.names:
                        points.setdefault(key, []).extend(some)
        except ProviderError as error:
            _log.warning(NO_PAST, self.name, error)
            return
        self._attempts = ATTEMPTS
        self._history.backfill(points, moment=now)
        await self._update_outlooks()

    async def _update_outlooks(self) -> None:
        """Compute in a thread: 10,000 series take a second. The history does not change meanwhile."""
        self.outlooks = await asyncio.to_thread(self._compute_outlooks)

    def _compute_outlooks(self) -> dict[Key, Outlook]:
        options, history = self._options, self._history
        values = history.complete()
        enough = model.sufficient(values, season=options.season, seasons=options.seasons)
        rows = np.flatnonzero(enough)
        if not len(rows):
            return {}
        first = np.isfinite(values[rows]).any(axis=0).argmax()
        series = model.fill_gaps(values[rows, first:])
        at = history.last - 1
        # The horizon counts from the middle of the current bucket, ``forecast`` from the last complete one.
        ahead = max(round(options.horizon / options.step), 1) + 1
        values_ahead = model.fit(series, season=options.season, at=at).forecast(ahead)
        trial = model.trial(series, season=options.season, at=at, ahead=ahead)
        keys = {row: key for key, row in history.keys.items()}
        return {
            keys[int(row)]: Outlook(
                float(values_ahead[index]),
                float(trial.error[index]),
                float(trial.unchanged[index]),
                float(trial.relative[index]),
            )
            for index, row in enumerate(rows)
        }

    def _reading(self, cluster: str, current: Reading) -> Reading:
        values: dict[str, float] = {}
        notes: list[str] = []
        problems: list[tuple[str, str]] = []
        if current.problem:
            problems.append((current.reason, current.problem))
        for score, name in self._options.names.items():
            if score not in current.values:
                continue
            outlook = self.outlooks.get((cluster, score))
            rejection = self._rejection(cluster, score, outlook)
            if outlook is not None and rejection is None:
                values[name] = outlook.value
                notes.append(self._note(name, outlook))
            elif rejection is not None and self._options.uses_current:
                values[name] = current.values[score]
                notes.append(CURRENT.format(score=name, why=rejection[1]))
            elif rejection is not None:
                problems.append((rejection[0], f"{name}: {rejection[1]}"))
        problem = "; ".join(words for _, words in problems)
        reason = problems[0][0] if problems else ""
        lost = tuple(self._options.names[score] for score in current.lost if score in self._options.names)
        return Reading(values=values, problem=problem, reason=reason, lost=lost, note="; ".join(notes))

    def _rejection(self, cluster: str, score: str, outlook: Outlook | None) -> tuple[str, str] | None:
        options = self._options
        unit = self._units[options.names[score]]
        if outlook is None:
            needed = options.seasons * options.season
            row = self._history.keys.get((cluster, score))
            seen = 0
            if row is not None:
                seen = int(np.isfinite(self._history.complete()[row, -needed:]).sum())
            return NOT_ENOUGH, TOO_SHORT.format(points=seen, needed=needed)
        if outlook.relative > options.max_error:
            words = TOO_INACCURATE.format(
                error=outlook.error,
                unit=unit,
                relative=display_share(outlook.relative),
                most=display_share(options.max_error),
            )
            return INACCURATE, words
        if outlook.error > outlook.unchanged:
            words = NO_BETTER.format(error=outlook.error, unchanged=outlook.unchanged, unit=unit)
            return INACCURATE, words
        return None

    def _note(self, name: str, outlook: Outlook) -> str:
        return FORECAST.format(
            score=name,
            ahead=format_duration(self._options.horizon),
            error=outlook.error,
            unit=self._units[name],
            relative=display_share(outlook.relative),
        )

    def _save(self) -> None:
        if self._options.state is None or not self._options.saves or not self._history.keys:
            return
        try:
            self._history.save(self._options.state)
        except OSError as error:
            _log.warning(NOT_SAVED, self.name, error)


def format_duration(seconds: float) -> str:
    for length, unit in ((3600, "h"), (60, "min")):
        if seconds % length == 0:
            return f"{seconds / length:g} {unit}"
    return f"{seconds:g} s"


def create(options: Mapping[str, Any], context: Context) -> Forecast:
    """Catalogue factory. Raises OptionsError."""
    try:
        checked = options_of(options, context)
    except DocumentError as error:
        raise OptionsError(error.message, field=error.field) from None
    return Forecast(checked, clock=context.clock)
