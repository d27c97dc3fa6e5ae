"""Keys of the recovery controller's queue, one type for each kind. Log lines show them as text."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ClusterKey:
    """A ManagedCluster."""

    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class FleetKey:
    """What concerns many clusters: sets that changed, and budgets and an order that let other clusters be tainted."""

    def __str__(self) -> str:
        return "fleet"


RecoveryKey = ClusterKey | FleetKey
