"""Check the batches of an informer: each must follow from those before it, and never go back.

Within an epoch an object only gets newer, also across its deletion and re-creation. A new epoch begins with a batch
from a full list. Together, the batches give the informer's store.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

Key = tuple[str, str]
"""Namespace and name."""

ChangeType = Literal["added", "updated", "deleted"]


@dataclass(frozen=True, slots=True)
class Seen:
    uid: str
    version: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    type: ChangeType
    key: Key
    object: Seen
    """The reported state; the last known one for a deletion."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    epoch: int
    listed: bool
    changes: Sequence[Change]


@dataclass(slots=True)
class Copy:
    """The store as reconstructed from the batches of an informer."""

    objects: dict[Key, Seen] = field(default_factory=dict)
    epoch: int = 0
    problems: list[str] = field(default_factory=list)
    _newest: dict[Key, int] = field(default_factory=dict)

    def take(self, batch: Batch) -> None:
        if batch.epoch < self.epoch:
            self.problems.append(f"epoch {batch.epoch} after {self.epoch}")
        new = batch.epoch != self.epoch
        if new:
            if not batch.listed:
                self.problems.append(f"epoch {batch.epoch} began without a list")
            self._newest.clear()
            self.epoch = batch.epoch
        for change in batch.changes:
            # What a new epoch takes away is of the old one.
            self._take(change, aged=not (new and change.type == "deleted"))

    def _take(self, change: Change, *, aged: bool) -> None:
        known, now = self.objects.get(change.key), change.object
        match change.type:
            case "added" if known is not None:
                self.problems.append(f"{change} though there was {known}")
            case "updated" if known is None or known.uid != now.uid:
                self.problems.append(f"{change} though there was {known}")
            case "deleted" if known is None:
                self.problems.append(f"{change} though there was none")
        if aged:
            newest = self._newest.get(change.key, 0)
            if now.version < newest:
                self.problems.append(f"{change} though version {newest} was told before")
            self._newest[change.key] = max(newest, now.version)
        if change.type == "deleted":
            self.objects.pop(change.key, None)
        else:
            self.objects[change.key] = now

    def differences(self, hub: Mapping[Key, Seen]) -> list[str]:
        """Return the differences from the hub's objects."""
        keys = sorted({*hub, *self.objects})
        return [
            f"{key} is {hub.get(key)}, known as {self.objects.get(key)}"
            for key in keys
            if hub.get(key) != self.objects.get(key)
        ]
