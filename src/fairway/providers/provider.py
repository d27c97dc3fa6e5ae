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
"""The reason of the condition when a provider says nothing more precise."""

Wake = Callable[[], None]
"""Called by a provider when something has changed that may move a score. Cheap, and never blocks."""


class Scale(Protocol):
    """How a raw value becomes a score. A frozen value, so that two providers can share one."""

    def score(self, value: float, /) -> int:
        """Between LOWEST and HIGHEST for every finite value. Higher is better."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """One score that a provider publishes."""

    name: str
    scale: Scale
    unit: str = ""
    """Of the raw value: ``cores``, ``GiB``; for people."""
    meaning: str = ""
    """One sentence, for people."""
    deadband: int = DEADBAND
    thresholds: tuple[int, ...] = ()
    """Scores whose crossing is written however small the change, besides 0 and the ends."""
    half_life: float = 0.0
    """Seconds after which an old raw value weighs half as much as the newest; 0 means no smoothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What was seen of one cluster. A score that is not among the values is not published: nobody invents a number."""

    values: Mapping[str, float] = field(default_factory=dict)
    """Raw, by the name of the score."""
    problem: str = ""
    """What could not be seen, in words; empty when everything could. The values are true nevertheless."""
    reason: str = ""
    """One word for the problem, in CamelCase; ``FAILED`` if empty."""
    lost: tuple[str, ...] = ()
    """Scores that could not be read this time: what was published of them stays until it runs out. A score that is
    neither here nor among the values is published no longer."""
    note: str = ""
    """What people should know of the values besides; no problem."""


class ProviderError(Exception):
    """A provider could not read. What was published before stays until it runs out."""

    reason: str = FAILED
    """One word, in CamelCase."""

    def __init__(self, message: str, *, reason: str = FAILED) -> None:
        super().__init__(message)
        self.reason = reason


class Provider(abc.ABC):
    """``resource`` names the AddOnPlacementScore its scores are published in."""

    name: str
    resource: str
    scores: tuple[Score, ...]
    interval: float = INTERVAL_SECONDS
    """Seconds between readings when nothing wakes it."""
    isolated: bool = False
    """Whether it runs in a thread of its own, with an event loop of its own: for code that may block."""

    @asynccontextmanager
    async def running(self, _wake: Wake, /) -> AsyncIterator[None]:
        """Open what it needs for as long as the block runs; called once, before the first reading."""
        yield


class ClusterProvider(Provider):
    """Reads one cluster: the one its process runs on."""

    @abc.abstractmethod
    async def read(self) -> Reading:
        """Raises ProviderError."""


class FleetProvider(Provider):
    """Reads many clusters at once, from the hub."""

    @abc.abstractmethod
    async def read(
        self, clusters: Mapping[str, ManagedCluster], /
    ) -> "Mapping[str, Reading | ProviderError]":
        """By cluster. One that is left out has nothing to publish now, and keeps what it has until it runs out; so
        does one that could not be read, for which the error stands, and its condition says so.

        Raises ProviderError when nothing could be read at all.
        """
