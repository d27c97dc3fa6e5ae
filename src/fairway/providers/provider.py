"""The interface of a provider: reads raw values of clusters, in their own units.

It does not handle hubs, validity or writing; scales and the publisher do. A reading is what was observed at one moment;
a provider never returns a remembered one.
"""

import abc
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Final, Protocol

from fairway.api.cluster import ManagedCluster

INTERVAL_SECONDS: Final = 60.0
DEADBAND: Final = 2
"""Points of a score; changes smaller than this are not worth a write."""

LOWEST: Final = -100
HIGHEST: Final = 100

FAILED: Final = "CollectionFailed"
"""Default reason of the condition when a reading fails."""

Wake = Callable[[], None]
"""Called by a provider after a change that may affect a score. Does not block, from any thread."""


class Scale(Protocol):
    """Maps a raw value to a score. Immutable, so that providers can share it."""

    def score(self, value: float, /) -> int:
        """Return a score from LOWEST to HIGHEST for every finite value. Higher is better."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """One score that a provider publishes."""

    name: str
    scale: Scale
    unit: str = ""
    """Unit of the raw value, such as ``cores`` or ``GiB``; for display."""
    meaning: str = ""
    """One sentence, for display."""
    deadband: int = DEADBAND
    thresholds: tuple[int, ...] = ()
    """A change that crosses one of these scores, or 0, or a limit, is written regardless of the deadband."""
    half_life: float = 0.0
    """Seconds after which an old raw value weighs half as much as the newest; 0 means no smoothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """Observed values of one cluster. A score without a value is not published."""

    values: Mapping[str, float] = field(default_factory=dict)
    """Raw values by score name."""
    problem: str = ""
    """Description of what could not be read; empty if all was. The values are valid nevertheless."""
    reason: str = ""
    """Condition reason of the problem, in CamelCase; ``FAILED`` if empty."""
    lost: tuple[str, ...] = ()
    """Scores that could not be read this time; their published values stay until they expire. A score that is neither
    here nor among the values is removed."""
    note: str = ""
    """Information about the values for users; not a problem."""


class ProviderError(Exception):
    """A reading failed. Published scores stay until they expire."""

    reason: str = FAILED
    """Condition reason, in CamelCase."""

    def __init__(self, message: str, *, reason: str = FAILED) -> None:
        super().__init__(message)
        self.reason = reason


class Provider(abc.ABC):
    """``resource`` is the name of the AddOnPlacementScore for its scores."""

    name: str
    resource: str
    scores: tuple[Score, ...]
    interval: float = INTERVAL_SECONDS
    """Seconds between readings, unless the provider wakes its loop."""
    isolated: bool = False
    """Whether it runs in its own thread with its own event loop, for code that may block."""

    @asynccontextmanager
    async def running(self, _wake: Wake, /) -> AsyncIterator[None]:
        """Hold resources open while the block runs. Called once, before the first reading."""
        yield


class ClusterProvider(Provider):
    """Reads the cluster that its process runs on."""

    @abc.abstractmethod
    async def read(self) -> Reading:
        """Raises ProviderError."""


class FleetProvider(Provider):
    """Reads all clusters of a hub."""

    @abc.abstractmethod
    async def read(
        self, clusters: Mapping[str, ManagedCluster], /
    ) -> "Mapping[str, Reading | ProviderError]":
        """Return readings by cluster. A cluster without an entry, or with an error, keeps its published scores until
        they expire; the error is reported in its condition.

        Raises ProviderError if nothing could be read.
        """
