"""Keys of the hosting controller's queue, one type for each kind. Log lines show them as text."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RequestKey:
    """A HostedClusterRequest."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class PolicyKey:
    """A HostingPolicy."""

    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class WorkKey:
    """A ManifestWork, which may have lost its request."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"manifestworks/{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class TimersKey:
    """What happens by time alone: telemetry that expires, and quiet hours that end."""

    def __str__(self) -> str:
        return "timers"


@dataclass(frozen=True, slots=True)
class OffersKey:
    """A change of policies, Placements or clusters, which may change what requests ask for."""

    def __str__(self) -> str:
        return "offers"


HostingKey = RequestKey | PolicyKey | WorkKey | TimersKey | OffersKey
