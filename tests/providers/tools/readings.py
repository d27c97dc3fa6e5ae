"""Short functions that make a provider read."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from fairway.api.cluster import ManagedCluster
from fairway.providers.catalogue import CATALOGUE, Context
from fairway.providers.provider import FleetProvider, ProviderError, Reading
from fairway.testing.builders import cluster
from kubewire.client import SYSTEM_CLOCK, Clock


class StoppedClock:
    """Both clocks change only when a test moves them."""

    def __init__(self, now: datetime = datetime(2026, 3, 2, 12, tzinfo=UTC)) -> None:
        self.now, self.seconds = now, 1000.0

    def wall(self) -> datetime:
        return self.now

    def monotonic(self) -> float:
        return self.seconds


def built(
    name: str, options: Mapping[str, Any], *, folder: Path = Path(), clock: Clock = SYSTEM_CLOCK
) -> FleetProvider:
    """From the catalogue."""
    made = CATALOGUE[name].factory()(options, Context(name=name, folder=folder, clock=clock))
    assert isinstance(made, FleetProvider)
    return made


@asynccontextmanager
async def open_provider(
    name: str, options: Mapping[str, Any], *, folder: Path = Path(), clock: Clock = SYSTEM_CLOCK
) -> AsyncIterator[FleetProvider]:
    provider = built(name, options, folder=folder, clock=clock)
    async with provider.running(lambda: None):
        yield provider


def fleet(*names: str) -> dict[str, ManagedCluster]:
    return {name: cluster(name) for name in names}


async def values(provider: FleetProvider, clusters: Mapping[str, ManagedCluster]) -> dict[str, Any]:
    """Of a reading without any problem."""
    readings: dict[str, Any] = {}
    for name, reading in (await provider.read(clusters)).items():
        assert isinstance(reading, Reading), reading
        assert not reading.problem
        readings[name] = dict(reading.values)
    return readings


async def problem(
    provider: FleetProvider, clusters: Mapping[str, ManagedCluster], name: str
) -> tuple[str, str]:
    """Return reason and message of a cluster without a reading."""
    error = (await provider.read(clusters))[name]
    assert isinstance(error, ProviderError), error
    return error.reason, str(error)


async def failure(provider: FleetProvider, clusters: Mapping[str, ManagedCluster]) -> tuple[str, str]:
    """Return reason and message of a failed reading."""
    with pytest.raises(ProviderError) as caught:
        await provider.read(clusters)
    return caught.value.reason, str(caught.value)
