"""Keys of the queue of writes about pods, one type for each kind. Log lines show them as text."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class StatusKey:
    """The status of a pod."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class EvictionKey:
    """A pod to evict for another one."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"evictions/{self.namespace}/{self.name}"


PodsKey = StatusKey | EvictionKey
