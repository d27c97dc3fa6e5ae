"""Resources that a hosted control plane needs: by its size, and by the load on its API.

The baseline has the published figures for sizing hosting clusters; a cluster's own measurements replace them. Memory is
in bytes; the baseline's own unit is 10⁹ bytes.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

GIGABYTE: Final = 10**9
GIBIBYTE: Final = 2**30
REPLICAS: Final = 3
"""Replicas of a highly available control plane, each in its own zone."""

UNKNOWN_FIGURE: Final = "{name!r} is not a figure of the sizing baseline; valid are {known}"
BAD_FIGURE: Final = "{name} must be a number greater than 0, not {value!r}"


class SizingError(ValueError):
    """An invalid figure of the baseline."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """Resources of one hosted cluster of a size, for all its replicas."""

    name: str
    cpu: float
    """Cores."""
    memory: float
    """Bytes."""
    pods: int
    replicas: int = REPLICAS

    @property
    def score(self) -> str:
        """Name of the score for free slots of this size."""
        return f"hcpSlots{self.name[:1].upper()}{self.name[1:]}"


PROFILES: Final = (
    Profile(name="single", cpu=2.7, memory=8.5 * GIBIBYTE, pods=26, replicas=1),
    Profile(name="small", cpu=5, memory=17 * GIBIBYTE, pods=78),
    Profile(name="medium", cpu=13, memory=47 * GIBIBYTE, pods=78),
    Profile(name="large", cpu=24, memory=86 * GIBIBYTE, pods=78),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Baseline:
    """Requests of a hosted cluster, its idle use, and the use per request."""

    cpu: float = 5.0
    """Cores requested."""
    memory: float = 18.0
    """Gigabytes requested."""
    pods: float = 75.0
    idle_cpu: float = 2.9
    idle_memory: float = 11.1
    cpu_per_thousand: float = 9.0
    """Cores per thousand requests per second."""
    memory_per_thousand: float = 2.5
    lowest_rate: float = 50.0
    """Requests per second to one hosted cluster, if unknown."""
    medium_rate: float = 1000.0
    highest_rate: float = 2000.0

    @classmethod
    def parse(cls, figures: Mapping[str, object]) -> "Baseline":
        """Parse the keys of the ConfigMap. Raises SizingError."""
        limits: dict[str, float] = {}
        for key, value in figures.items():
            name = KEYS.get(key)
            if name is None:
                raise SizingError(UNKNOWN_FIGURE.format(name=key, known=", ".join(KEYS)))
            limits[name] = _positive(key, value)
        return cls(**limits)

    def capacity(self, *, cpu: float, memory: float, pods: float, rate: float | None = None) -> int:
        """Number of hosted clusters that fit: by requests, and at ``rate`` requests per second to each."""
        shares = [cpu / self.cpu, memory / GIGABYTE / self.memory, pods / self.pods]
        if rate is not None:
            shares.append(cpu / (self.idle_cpu + self.cpu_per_thousand * rate / 1000))
            shares.append(memory / GIGABYTE / (self.idle_memory + self.memory_per_thousand * rate / 1000))
        return max(0, math.floor(min(shares)))


KEYS: Final[Mapping[str, str]] = {
    "cpuRequestPerHCP": "cpu",
    "memoryRequestPerHCP": "memory",
    "podsPerHCP": "pods",
    "idleCPUUsage": "idle_cpu",
    "idleMemoryUsage": "idle_memory",
    "incrementalCPUUsagePer1KQPS": "cpu_per_thousand",
    "incrementalMemUsagePer1KQPS": "memory_per_thousand",
    "minimumQPSPerHCP": "lowest_rate",
    "mediumQPSPerHCP": "medium_rate",
    "highQPSPerHCP": "highest_rate",
}
"""Keys of the ConfigMap ``hcp-sizing-baseline``."""


def _positive(name: str, value: object) -> float:
    try:
        number = float(value) if isinstance(value, str | int | float) else math.nan
    except ValueError:
        number = math.nan
    if isinstance(value, bool) or not math.isfinite(number) or number <= 0:
        raise SizingError(BAD_FIGURE.format(name=name, value=value))
    return number
