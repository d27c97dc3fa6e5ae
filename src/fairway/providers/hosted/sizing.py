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
"""Of a highly available control plane, each in a zone of its own."""

UNKNOWN_FIGURE: Final = "{name!r} is no figure of the sizing baseline; there are {known}"
BAD_FIGURE: Final = "{name} must be a number above 0, not {value!r}"


class SizingError(ValueError):
    """A figure that cannot be used."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """The demand of one hosted cluster of a size, all its replicas together."""

    name: str
    cpu: float
    """Cores."""
    memory: float
    """Bytes."""
    pods: int
    replicas: int = REPLICAS

    @property
    def score(self) -> str:
        """The score that tells how many more of this size fit."""
        return f"hcpSlots{self.name[:1].upper()}{self.name[1:]}"


PROFILES: Final = (
    Profile(name="single", cpu=2.7, memory=8.5 * GIBIBYTE, pods=26, replicas=1),
    Profile(name="small", cpu=5, memory=17 * GIBIBYTE, pods=78),
    Profile(name="medium", cpu=13, memory=47 * GIBIBYTE, pods=78),
    Profile(name="large", cpu=24, memory=86 * GIBIBYTE, pods=78),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Baseline:
    """What a hosted cluster asks for, what it uses when nobody asks it anything, and what every request adds."""

    cpu: float = 5.0
    """Cores requested."""
    memory: float = 18.0
    """Gigabytes requested."""
    pods: float = 75.0
    idle_cpu: float = 2.9
    idle_memory: float = 11.1
    cpu_per_thousand: float = 9.0
    """Cores used for every thousand requests in a second."""
    memory_per_thousand: float = 2.5
    lowest_rate: float = 50.0
    """Requests in a second to one hosted cluster, if nothing better is known."""
    medium_rate: float = 1000.0
    highest_rate: float = 2000.0

    @classmethod
    def parse(cls, figures: Mapping[str, object]) -> "Baseline":
        """From the keys of the ConfigMap. Raises SizingError."""
        found: dict[str, float] = {}
        for key, value in figures.items():
            name = KEYS.get(key)
            if name is None:
                raise SizingError(UNKNOWN_FIGURE.format(name=key, known=", ".join(KEYS)))
            found[name] = _positive(key, value)
        return cls(**found)

    def capacity(self, *, cpu: float, memory: float, pods: float, rate: float | None = None) -> int:
        """Hosted clusters that so much carries: by their requests alone, or also at a rate of requests to each."""
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
"""Of the ConfigMap ``hcp-sizing-baseline``."""


def _positive(name: str, value: object) -> float:
    try:
        number = float(value) if isinstance(value, str | int | float) else math.nan
    except ValueError:
        number = math.nan
    if isinstance(value, bool) or not math.isfinite(number) or number <= 0:
        raise SizingError(BAD_FIGURE.format(name=name, value=value))
    return number
