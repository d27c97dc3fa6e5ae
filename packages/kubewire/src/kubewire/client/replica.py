"""An informer's local store, without I/O: lists, watch events and responses in, batches of changes out.

All ordering rules are here, so that property tests can drive them with any input. Resource versions decide:

- A watch delivers versions in ascending order, so the store remembers the highest one it has delivered. An event that
  is not above it is stale, even for an object that is deleted by now.
- A list that contains an older object which the watch has not delivered comes from another history.
- The response to one of our own requests (``observe``) is usually ahead of the watch. It replaces the stored object,
  and the watch's older events about that object are held back, until the watch reaches the version of the response.
  So a controller that reads the store reads its own writes (client-go's MutationCache has the same purpose).
- The response to a deletion (``observe_deletion``) has no version. The object is missing from the store until the watch
  delivers its deletion, or another object of the same name. An event that shows it with a deletionTimestamp ends that,
  too: it waits for its finalizers.
- A list contains everything that the hub returned before the list was requested (``begin_list``). If it does not, it
  comes from another history, and no response counts any more.
"""

import heapq
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Generic

from kubewire.api.meta import PartialMeta, UnreadableField
from kubewire.api.resource import Key, T, key_of
from kubewire.client.change import Added, Batch, Change, Deleted, difference
from kubewire.client.codec import Unreadable, WatchEvent


def number_of(version: str) -> int | None:
    """Parse a resource version; return None if it cannot be compared."""
    return int(version) if version.isascii() and version.isdigit() else None


@dataclass(slots=True, eq=False)
class _Response(Generic[T]):
    """What the hub returned for one of our requests, while the watch has not reached it."""

    uid: str
    version: int
    """Of a deletion: the latest known one of the deleted object, which is older than the deletion."""
    obj: T | None
    """None if the hub has deleted the object."""
    delivered: T | None
    """The object as the watch delivered it last."""


class Replica(Generic[T]):
    def __init__(self) -> None:
        self.store: dict[Key, T] = {}
        self.version = ""
        self.epoch = 0
        self.unreadable: dict[Key, tuple[UnreadableField, ...]] = {}
        """Stored objects with fields that could not be decoded, and these fields."""
        self._number: int | None = None
        self._responses: dict[Key, _Response[T]] = {}
        """Those that the watch has not reached. The store shows them."""
        self._due: list[tuple[int, Key]] = []
        """A heap of their versions: a burst of writes has thousands of responses, and each event may confirm one."""
        self._expected: frozenset[_Response[T]] = frozenset()
        """Responses that the next list must contain."""

    def as_added(self) -> Batch[T]:
        """Return all objects as added, for a new subscriber."""
        return self.batch([Added(obj) for obj in self.store.values()], listed=True)

    @property
    def newest(self) -> int | None:
        """The highest version that the hub has returned, to the watch or for a request of ours."""
        if self._number is None:
            return None
        return max(self._number, max((response.version for response in self._responses.values()), default=0))

    def observe(self, obj: T) -> Batch[T]:
        """Store an object from the hub's response to one of our requests, if it is newer than the stored one.

        A response that the watch has already reached is ignored: the object may have been deleted since.
        """
        number = number_of(obj.metadata.resourceVersion)
        if number is None or not self._is_ahead(obj, number):
            return self.batch([], listed=False)
        return self._respond(obj, _Response(obj.metadata.uid, number, obj, None))

    def observe_deletion(self, obj: T) -> Batch[T]:
        """Remove an object that the hub has deleted on our request. ``obj`` is its last known state."""
        number, old = number_of(obj.metadata.resourceVersion), self.store.get(key_of(obj))
        if number is None:
            return self.batch([], listed=False)
        if old is not None and old.metadata.uid == obj.metadata.uid:
            number = max(number, number_of(old.metadata.resourceVersion) or 0)
        elif not self._is_ahead(obj, number):
            return self.batch([], listed=False)
        return self._respond(obj, _Response(obj.metadata.uid, number, None, None))

    def _is_ahead(self, obj: T, number: int) -> bool:
        """Whether a response is newer than what the store shows, and than what the watch has delivered."""
        key = key_of(obj)
        last, old = self._responses.get(key), self.store.get(key)
        if last is not None and last.uid == obj.metadata.uid and last.obj is None:
            return False  # A late response to an earlier write does not bring a deleted object back.
        known = last.version if last is not None else self._number
        if old is not None:
            known = number_of(old.metadata.resourceVersion)
        return known is not None and number > known and (self._number is None or number > self._number)

    def _respond(self, obj: T, response: _Response[T]) -> Batch[T]:
        key = key_of(obj)
        old, last = self.store.get(key), self._responses.get(key)
        response.delivered = old if last is None else last.delivered
        self._responses[key] = response
        heapq.heappush(self._due, (response.version, key))
        if response.obj is None:
            self.store.pop(key, None)
        else:
            self.store[key] = response.obj
        self.unreadable.pop(key, None)
        return self.batch(list(difference(old, response.obj)), listed=False)

    def begin_list(self) -> None:
        """Call this before the hub is asked for the list that ``replace`` gets."""
        self._expected = frozenset(self._responses.values())

    def share_equal(self, listed: dict[Key, T], keys: Iterable[Key]) -> None:
        """Replace objects of ``listed`` by stored ones that are equal."""
        for key in keys:
            if (old := self.store.get(key)) is not None and old == listed[key]:
                # The same object then: ``replace`` skips it without a comparison, and the copy is freed.
                listed[key] = old

    def replace(self, listed: dict[Key, T], *, version: str) -> Batch[T]:
        """Make the store equal to ``listed``, which this method modifies.

        ``listed`` is a consistent read. If it is older than what the watch delivered or the hub returned before, or has
        an older object that the watch did not deliver, the hub's history went back: a new epoch begins.
        """
        responses, expected = self._rewind()
        reached = number_of(version)
        back = reached is not None and self._number is not None and reached < self._number
        changes: list[Change[T]] = [Deleted(old) for key, old in self.store.items() if key not in listed]
        for key, new in listed.items():
            old = self.store.get(key)
            if old is new:
                continue
            if old == new:
                listed[key] = old
                continue
            # Differing at the same version is not going back: the defaults in the hub's schema changed.
            if old is None or old.metadata.resourceVersion != new.metadata.resourceVersion:
                back = back or not self._is_newer(new.metadata.resourceVersion)
            changes.extend(difference(old, new))
        back = back or any(
            _is_lost(response, listed.get(key), version, expected=response in expected)
            for key, response in responses.items()
        )
        self.epoch += back
        # Keep the dict itself, so that views of it stay live.
        self.store.clear()
        self.store.update(listed)
        self.unreadable.clear()
        for key, obj in listed.items():
            if isinstance(obj.metadata, PartialMeta):
                self.unreadable[key] = obj.metadata.unreadable
        self.version, self._number = version, reached
        if self._number is not None:
            # A list should not have anything newer than itself. If it has, that has been seen all the same.
            numbers = (number_of(obj.metadata.resourceVersion) for obj in listed.values())
            self._number = max(
                self._number, max((number for number in numbers if number is not None), default=0)
            )
        if responses:
            changes = [change for change in changes if key_of(change.object) not in responses]
            for key, response in responses.items():
                if not back:
                    self._respond_again(response, listed.get(key))
                final = self.store.get(key)
                if response.obj is not None and final == response.obj:
                    self.store[key] = response.obj
                else:
                    changes.extend(difference(response.obj, final))
        return self.batch(changes, listed=True)

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
                doubt = f"the watch sent resource version {number} after {self._number}"
                return self.batch(changes, listed=False), doubt
            key = (meta.namespace, meta.name)
            if event.type != "BOOKMARK" and not (self._responses and self._hold_back(key, event, number)):
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
        doubt = self._drop_unconfirmed(changes) if self._due else ""
        return self.batch(changes, listed=False), doubt

    def _hold_back(self, key: Key, event: WatchEvent[T], number: int | None) -> bool:
        """Hold an event back that is not newer than a response. Return whether it was."""
        response = self._responses.get(key)
        if response is None:
            return False
        meta = event.object.metadata
        if number is None:
            del self._responses[key]
            return False
        if number > response.version:
            # A deleted object is still in the store's past, or waits for finalizers: then it has a deletionTimestamp.
            deleted = response.obj is None and meta.uid == response.uid
            if not deleted or event.type == "DELETED" or meta.deletionTimestamp is not None:
                del self._responses[key]
                return deleted and event.type == "DELETED"
        elif number == response.version and response.obj is not None and event.type != "DELETED":
            del self._responses[key]
            return True
        response.delivered = None if event.type == "DELETED" else event.object
        return True

    def _drop_unconfirmed(self, changes: list[Change[T]]) -> str:
        """Delete objects from responses whose version the watch has passed without delivering them.

        They do not match the watch's selector. Return a reason to list again if the watch had delivered an older
        version: then it should have delivered this one, or a deletion.
        """
        doubt = ""
        while self._due and self._number is not None and self._due[0][0] <= self._number:
            number, key = heapq.heappop(self._due)
            response = self._responses.get(key)
            if response is None or response.version != number:
                continue
            if response.delivered is None:
                del self._responses[key]
                if response.obj is not None:
                    changes.append(Deleted(self.store.pop(key)))
            elif response.obj is not None:
                doubt = (
                    f"the watch did not deliver resource version {number}, which the hub returned for a write"
                )
        return doubt

    def _respond_again(self, response: _Response[T], listed: T | None) -> None:
        """Store a response after a list that may have been requested before it."""
        if response.obj is not None:
            self.observe(response.obj)
        elif listed is not None and _is_undeleted(listed, response):
            self.observe_deletion(listed)

    def _rewind(self) -> tuple[dict[Key, _Response[T]], frozenset[_Response[T]]]:
        """Put the store back to what the watch delivered; return the responses, and those that a list must contain."""
        responses, expected = self._responses, self._expected
        for key, response in responses.items():
            if response.delivered is None:
                self.store.pop(key, None)
            else:
                self.store[key] = response.delivered
        self._responses, self._due, self._expected = {}, [], frozenset()
        return responses, expected

    def _is_newer(self, version: str) -> bool:
        number = number_of(version)
        return number is None or self._number is None or number > self._number

    def batch(self, changes: Sequence[Change[T]], *, listed: bool) -> Batch[T]:
        return Batch(changes=tuple(changes), epoch=self.epoch, listed=listed, resource_version=self.version)


def _is_undeleted(listed: T, deletion: _Response[T]) -> bool:
    """Whether a list has an object as it was before we deleted it."""
    meta = listed.metadata
    return meta.uid == deletion.uid and meta.deletionTimestamp is None


def _is_lost(response: _Response[T], listed: T | None, version: str, *, expected: bool) -> bool:
    """Whether a list lacks a response that it should contain."""
    if response.obj is None:
        return expected and listed is not None and _is_undeleted(listed, response)
    reached = number_of(version)
    if reached is None:
        return False
    if reached < response.version:
        return expected
    number = None if listed is None else number_of(listed.metadata.resourceVersion)
    return number is not None and number < response.version
