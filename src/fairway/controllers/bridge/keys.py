"""Keys of the bridge's queue, one type for each kind of copy. Log lines show them as text."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class AddOnCopyKey:
    """The AddOnPlacementScore of a cluster that copies its ManagedClusterScores."""

    cluster: str

    def __str__(self) -> str:
        return f"{self.cluster}/addonplacementscores"


@dataclass(frozen=True, slots=True)
class ManagedCopiesKey:
    """The ManagedClusterScores of a cluster that copy its AddOnPlacementScores."""

    cluster: str

    def __str__(self) -> str:
        return f"{self.cluster}/managedclusterscores"


BridgeKey = AddOnCopyKey | ManagedCopiesKey
