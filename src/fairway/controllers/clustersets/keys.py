"""Keys of the cluster set controller's queue, one type for each kind. Log lines show them as text."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SetKey:
    """A ManagedClusterSet."""

    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class BindingKey:
    """A ManagedClusterSetBinding."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class ClusterKey:
    """A ManagedCluster without a set, which gets the default one."""

    name: str

    def __str__(self) -> str:
        return f"ManagedCluster/{self.name}"


ClusterSetsKey = SetKey | BindingKey | ClusterKey
