"""An informer's local store, without I/O: lists, watch events and responses in, batches of changes out.

All ordering rules are here, so that property tests can drive them with any input. Resource versions decide:

- A watch delivers versions in ascending order, so the store remembers the highest one it has delivered. An event that
  is not above it is stale, even for an object that is deleted by now.
- A list that contains an older object which the watch has not delivered comes from another history.
- The response to one of our own requests (``observe``) is usually ahead of the watch. It replaces the stored object,
  and the watch's older events about that object are held back, until the watch reaches the version of the response.
  So a controller that reads the store reads its own writes (client-go's MutationCache has the same purpose).
"""

from collections.abc import Sequence
from typing import Final, Generic

from fairway.api.meta import PartialMeta, UnreadableField
from fairway.kube.change import Added, Batch, Change, Deleted, Updated, difference
from fairway.kube.codec import Unreadable, WatchEvent
from fairway.kube.resource import Key, T, key_of

OLDER_THAN_SEEN: Final = "the watch sent resource version {got} after {seen}"
NOT_DELIVERED: Final = (
    "the watch did not deliver resource version {version}, which the hub returned for a write"
)


def number_of(version: str) -> int | None:
    """Parse a resource version; return None if it cannot be compared."""
    return int(version) if version.isascii() and version.isdigit() else None


class Replica(Generic[T]):
    def __init__(self) -> None:
        self.store: dict[Key, T] = {}
        self.version = ""
        self.epoch = 0
        self.unreadable: dict[Key, tuple[UnreadableField, ...]] = {}
        """Stored objects with fields that could not be decoded, and these fields."""
        self._number: int | None = None
        self._unobserved: dict[Key, tuple[int, T | None]] = {}
        """Responses that the watch has not reached: their version, and the object as the watch delivered it last."""

    def is_behind(self, version: str) -> bool:
        """Whether ``version`` is older than what the watch has delivered."""
        number = number_of(version)
        return number is not None and self._number is not None and number < self._number

    def as_added(self) -> Batch[T]:
        """Return all objects as added, for a new subscriber."""
        return self._batch([Added(each) for each in self.store.values()], listed=True)

    def observe(self, obj: T) -> Batch[T]:
        """Store an object from the hub's response to one of our requests, if it is newer than the stored one.

        A response that the watch has already reached is ignored: the object may have been deleted since.
        """
        key, number = key_of(obj), number_of(obj.metadata.resourceVersion)
        old = self.store.get(key)
        known = self._number if old is None else number_of(old.metadata.resourceVersion)
        if number is None or known is None or number <= known or not self._is_newer(str(number)):
            return self._batch([], listed=False)
        delivered = self._unobserved[key][1] if key in self._unobserved else old
        self._unobserved[key] = (number, delivered)
        self.store[key] = obj
        self.unreadable.pop(key, None)
        return self._batch(list(difference(old, obj)), listed=False)

    def replace(self, found: dict[Key, T], *, version: str) -> Batch[T]:
        """Make the store equal to ``found``, which this method modifies.

        ``found`` is a consistent read. If it is older than what the watch delivered, or has an older object that the
        watch did not deliver, the hub's history went back: a new epoch begins.
        """
        ahead = self._rewind()
        back = self.is_behind(version)
        changes: list[Change[T]] = [Deleted(old) for key, old in self.store.items() if key not in found]
        for key, new in found.items():
            old = self.store.get(key)
            if old == new:
                found[key] = old
                continue
            # Differing at the same version is not going back: the defaults in the hub's schema changed.
            if old is None or old.metadata.resourceVersion != new.metadata.resourceVersion:
                back = back or not self._is_newer(new.metadata.resourceVersion)
            changes.extend(difference(old, new))
        back = back or any(
            self._is_lost(response, found.get(key), version) for key, response in ahead.items()
        )
        self.epoch += back
        # Keep the dict itself, so that views of it stay live.
        self.store.clear()
        self.store.update(found)
        self.unreadable.clear()
        for key, each in found.items():
            if isinstance(each.metadata, PartialMeta):
                self.unreadable[key] = each.metadata.unreadable
        self.version, self._number = version, number_of(version)
        if self._number is not None:
            # A list should not have anything newer than itself. If it has, that has been seen all the same.
            numbers = (number_of(each.metadata.resourceVersion) for each in found.values())
            self._number = max(self._number, max((each for each in numbers if each is not None), default=0))
        if ahead:
            changes = [each for each in changes if _key(each) not in ahead]
            for key, response in ahead.items():
                if not back:
                    self.observe(response)
                final = self.store.get(key)
                if final == response:
                    self.store[key] = response
                else:
                    changes.extend(difference(response, final))
        return self._batch(changes, listed=True)

    def apply(
        self, events: Sequence[WatchEvent[T]], *, unreadable: Sequence[Unreadable] = ()
    ) -> tuple[Batch[T], str]:
        """Apply watch events. Return the changes, and the reason to distrust the watch ("" if there is none).

        Events after the reason are not applied. ``unreadable`` are the fields dropped from these events.
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
            key = (meta.namespace, meta.name)
            if event.type != "BOOKMARK" and not (self._unobserved and self._hold_back(key, event, number)):
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
        doubt = self._drop_unconfirmed(changes) if self._unobserved else ""
        return self._batch(changes, listed=False), doubt

    def _hold_back(self, key: Key, event: WatchEvent[T], number: int | None) -> bool:
        """Hold an event back that is not newer than a response. Return whether it was."""
        ahead = self._unobserved.get(key)
        if ahead is None:
            return False
        if number is None or number > ahead[0]:
            del self._unobserved[key]
            return False
        if number == ahead[0] and event.type != "DELETED":
            del self._unobserved[key]
        else:
            self._unobserved[key] = (ahead[0], None if event.type == "DELETED" else event.object)
        return True

    def _drop_unconfirmed(self, changes: list[Change[T]]) -> str:
        """Delete objects from responses whose version the watch has passed without delivering them.

        They do not match the watch's selector. Return a reason to list again if the watch had delivered an older
        version: then it should have delivered this one, or a deletion.
        """
        doubt = ""
        for key, (number, delivered) in tuple(self._unobserved.items()):
            if self._number is not None and number > self._number:
                continue
            if delivered is not None:
                doubt = NOT_DELIVERED.format(version=number)
                continue
            del self._unobserved[key]
            changes.append(Deleted(self.store.pop(key)))
        return doubt

    @staticmethod
    def _is_lost(response: T, listed: T | None, version: str) -> bool:
        """Whether a list should contain a response, and contains an older version of the object."""
        if listed is None:
            return False
        numbers = [number_of(each) for each in (listed.metadata.resourceVersion, version)]
        number = number_of(response.metadata.resourceVersion)
        if number is None or numbers[0] is None or numbers[1] is None:
            return False
        return numbers[0] < number <= numbers[1]

    def _rewind(self) -> dict[Key, T]:
        """Put the store back to what the watch delivered; return the responses that were ahead of it."""
        ahead = {key: self.store[key] for key in self._unobserved}
        for key, (_, delivered) in self._unobserved.items():
            if delivered is None:
                del self.store[key]
            else:
                self.store[key] = delivered
        self._unobserved.clear()
        return ahead

    def _is_newer(self, version: str) -> bool:
        number = number_of(version)
        return number is None or self._number is None or number > self._number

    def _batch(self, changes: list[Change[T]], *, listed: bool) -> Batch[T]:
        return Batch(changes=tuple(changes), epoch=self.epoch, listed=listed, resource_version=self.version)


def _key(change: Change[T]) -> Key:
    return key_of(change.new if isinstance(change, Updated) else change.object)
