"""Compute scores of synthetic clusters with the code of the real providers."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from fairway.api.pod_requests import CPU, MEMORY
from fairway.providers.hosted.capacity import (
    API_HEADROOM,
    RESOURCE,
    TYPICAL,
    api_headroom,
    capacity_values,
    scores_of,
)
from fairway.providers.hosted.claims import claims_for
from fairway.providers.hosted.headroom import Headroom, slots
from fairway.providers.hosted.options import HostedOptions as HostedOptions
from fairway.providers.usage.accounting import Totals
from fairway.providers.usage.measures import GIB, measures
from fairway.providers.usage.options import RESOURCES
from fairway.providers.usage.options import UsageOptions as UsageOptions

USAGE: Final = "resource-usage-score"
HOSTED: Final = RESOURCE

# Limits for a fleet whose largest clusters have 1,920 cores: the defaults would score most of them 100.
_USAGE: Final = UsageOptions(
    limits={"cpuAvailable": 600.0, "memAvailable": 4096 * GIB},
    scores=("cpuAvailable", "memAvailable", "gpuClusterAvailable"),
)
_MEASURES: Final = measures(_USAGE)
_GPU: Final = RESOURCES["gpu"]

_HOSTED: Final = HostedOptions()
_HOSTED_SCALES: Final = {score.name: score.scale for score in scores_of(_HOSTED)}
_SMALL: Final = next(profile for profile in _HOSTED.profiles if profile.name == TYPICAL)
_NOTHING: Final = Headroom(cpu=0, memory=0, pods=0)
_ZONES: Final = ("a", "b", "c")
_OWN_USE: Final = 0.15
"""Share of a hosting cluster that its own components request."""


def usage_scores(*, cpu: float, memory: float, gpus: int | None) -> dict[str, int]:
    """Return the scores for free cores, bytes and GPUs; ``gpus`` is None on a cluster without GPUs."""
    free = {CPU: int(cpu * 1000), MEMORY: int(memory)}
    if gpus is not None:
        free[_GPU] = gpus
    totals = Totals(
        free=free,
        largest={},
        slots={},
        known=frozenset() if gpus is None else frozenset({_GPU}),
        pending={},
        waiting=0,
    )
    values = {measure.score.name: (measure.score.scale, measure.measure(totals)) for measure in _MEASURES}
    return {name: scale.score(value) for name, (scale, value) in values.items() if value is not None}


def typical(count: int) -> Headroom:
    """Return what so many hosted clusters of the typical size use."""
    return Headroom(cpu=count * _SMALL.cpu, memory=count * _SMALL.memory, pods=count * _SMALL.pods)


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """A hosting cluster with nodes in three zones: total cores, bytes and pods, and the number of hosted clusters.

    Those of requests use what their requests reserved (``used``), all others what a typical one uses.
    """

    cpu: float
    memory: float
    pods: float
    hosted: int = 0
    of_requests: int = 0
    """How many of the hosted clusters are of requests."""
    used: Headroom = _NOTHING

    @property
    def fits(self) -> int:
        """Maximum number of hosted clusters of the typical size."""
        return min(slots(self.headrooms(), _SMALL), _HOSTED.limits.maximum)

    def free(self) -> Headroom:
        own, count = 1 - _OWN_USE, self.hosted - self.of_requests
        return Headroom(
            cpu=self.cpu * own - count * _SMALL.cpu - self.used.cpu,
            memory=self.memory * own - count * _SMALL.memory - self.used.memory,
            pods=self.pods * own - count * _SMALL.pods - self.used.pods,
        )

    def headrooms(self) -> list[Headroom]:
        free, share = self.free(), 1 / len(_ZONES)
        return [
            Headroom(zone=zone, cpu=free.cpu * share, memory=free.memory * share, pods=free.pods * share)
            for zone in _ZONES
        ]

    def scores(self) -> dict[str, int]:
        values = capacity_values(self.hosted, self.headrooms(), _HOSTED, of_requests=self.of_requests)
        whole = Headroom(cpu=self.cpu, memory=self.memory, pods=self.pods)
        values[API_HEADROOM] = api_headroom(self.hosted, whole, _HOSTED)
        return {name: _HOSTED_SCALES[name].score(value) for name, value in values.items()}

    def claims(self) -> Mapping[str, str]:
        return claims_for(self.hosted, _HOSTED.limits)
