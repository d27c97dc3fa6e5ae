"""The copy of a resource, without the wire: lists and events in, batches of changes out.

All rules about what may be told are here, so that they can be tried with any input at all. The highest resource
version seen is the only memory they need. A watch is in the order of versions, so whatever is not above that one is old
news, also about objects that are gone by now. A list that has anything below it that we did not know of is of another
history.
"""

from collections.abc import Sequence
from typing import Final, Generic

from fairway.api.meta import PartialMeta, UnreadableField
from fairway.kube.change import Added, Batch, Change, Deleted, difference
from fairway.kube.codec import Unreadable, WatchEvent
from fairway.kube.resource import Key, T

OLDER_THAN_SEEN: Final = "the watch sent resource version {got} after {seen}"


def number_of(version: str) -> int | None:
    """None for a version that cannot be compared."""
    return int(version) if version.isascii() and version.isdigit() else None


class Replica(Generic[T]):
    def __init__(self) -> None:
        self.store: dict[Key, T] = {}
        self.version = ""
        self.epoch = 0
        self.unreadable: dict[Key, tuple[UnreadableField, ...]] = {}
        """Objects of the store of which fields could not be read, with these fields."""
        self._number: int | None = None

    def is_behind(self, version: str) -> bool:
        """Whether ``version`` is known to be older than what was seen."""
        number = number_of(version)
        return number is not None and self._number is not None and number < self._number

    def everything(self) -> Batch[T]:
        """For somebody who knows nothing yet."""
        return self._batch([Added(each) for each in self.store.values()], listed=True)

    def replace(self, found: dict[Key, T], *, version: str) -> Batch[T]:
        """The hub has exactly ``found``, which is changed here.

        A consistent read: if it is older than what was seen, or has an object from before that was not seen, the hub's
        history went back, and a new epoch begins.
        """
        back = self.is_behind(version)
        changes: list[Change[T]] = [Deleted(old) for key, old in self.store.items() if key not in found]
        for key, new in found.items():
            old = self.store.get(key)
            if old == new:
                found[key] = old
                continue
            # Differing at the same version is not going back: the defaults in the hub's schema changed.
            if old is None or old.metadata.resourceVersion != new.metadata.resourceVersion:
                back = back or not self._is_news(new.metadata.resourceVersion)
            changes.extend(difference(old, new))
        self.epoch += back
        # The same dict for ever, so that views of it stay live.
        self.store.clear()
        self.store.update(found)
        self.unreadable.clear()
        for key, each in found.items():
            if isinstance(each.metadata, PartialMeta):
                self.unreadable[key] = each.metadata.unreadable
        self._reach(version)
        if self._number is not None:
            # A list should not have anything newer than itself. If it has, that has been seen all the same.
            numbers = (number_of(each.metadata.resourceVersion) for each in found.values())
            self._number = max(self._number, max((each for each in numbers if each is not None), default=0))
        return self._batch(changes, listed=True)

    def apply(
        self, events: Sequence[WatchEvent[T]], *, unreadable: Sequence[Unreadable] = ()
    ) -> tuple[Batch[T], str]:
        """Changes, and why the watch is not to be believed any further; what came after that is not among them.

        ``unreadable`` is what was dropped of these events, which for most is nothing.
        """
        store = self.store
        changes: list[Change[T]] = []
        for event in events:
            obj = event.object
            meta = obj.metadata
            number = number_of(meta.resourceVersion)
            if number is not None and self._number is not None and number <= self._number:
                if number == self._number:
                    continue
                doubt = OLDER_THAN_SEEN.format(got=number, seen=self._number)
                return self._batch(changes, listed=False), doubt
            if event.type != "BOOKMARK":
                key = (meta.namespace, meta.name)
                old = store.get(key)
                if event.type != "DELETED":
                    store[key] = obj
                    changes.extend(difference(old, obj))
                elif old is not None:
                    del store[key]
                    changes.append(Deleted(obj if old.metadata.uid == meta.uid else old))
                if self.unreadable:
                    self.unreadable.pop(key, None)
                if unreadable and isinstance(meta, PartialMeta) and event.type != "DELETED":
                    self.unreadable[key] = meta.unreadable
            self.version, self._number = meta.resourceVersion, number
        return self._batch(changes, listed=False), ""

    def _is_news(self, version: str) -> bool:
        number = number_of(version)
        return number is None or self._number is None or number > self._number

    def _reach(self, version: str) -> None:
        self.version, self._number = version, number_of(version)

    def _batch(self, changes: list[Change[T]], *, listed: bool) -> Batch[T]:
        return Batch(changes=tuple(changes), epoch=self.epoch, listed=listed, resource_version=self.version)
