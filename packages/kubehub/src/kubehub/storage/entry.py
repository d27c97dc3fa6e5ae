"""What the store returns, and the errors it raises."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

import msgspec

Key = tuple[str, str, str]
"""(resource, namespace or "", name); the resource as in ``Resource.key``: ``plural.group``."""

ChangeType = Literal["ADDED", "MODIFIED", "DELETED"]
ADDED: Final = "ADDED"
MODIFIED: Final = "MODIFIED"
DELETED: Final = "DELETED"


class Item(msgspec.Struct, frozen=True, gc=False):
    """A stored object. ``raw`` is its JSON, in which ``metadata.resourceVersion`` equals ``revision``."""

    key: Key
    revision: int
    raw: bytes


class Change(msgspec.Struct, frozen=True, gc=False):
    """A committed write. For a deletion, ``item`` is the last state with the revision of the deletion."""

    type: ChangeType
    item: Item
    before: Item | None
    forms: dict[Hashable, Any] = {}
    """Encodings that are computed once for all watchers. Cleared once the change is no longer recent."""

    @property
    def revision(self) -> int:
        return self.item.revision

    @property
    def key(self) -> Key:
        return self.item.key

    @property
    def raw(self) -> bytes:
        return self.item.raw

    @property
    def previous(self) -> bytes | None:
        return None if self.before is None else self.before.raw


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """A page of objects, sorted by (namespace, name), all as of ``revision``."""

    items: Sequence[Item]
    revision: int
    remaining: int
    """The number of objects after the last of ``items``."""

    @property
    def more(self) -> bool:
        return self.remaining > 0


class StoreError(Exception):
    """Base of the store's errors."""


class Conflict(StoreError):
    """The object isn't in the state that the writer expected. ``current`` is its state, None if it doesn't exist."""

    def __init__(self, *, key: Key, expected: int, current: Item | None) -> None:
        actual = "absent" if current is None else f"at revision {current.revision}"
        wanted = f"at revision {expected}" if expected else "absent"
        super().__init__(f"{'/'.join(filter(None, key))} is {actual}, expected {wanted}")
        self.key, self.expected, self.current = key, expected, current


class TooOld(StoreError):
    """The changes after ``asked`` are no longer available; ``oldest`` is the first revision that can still be used."""

    def __init__(self, *, asked: int, oldest: int) -> None:
        super().__init__(f"revision {asked} is too old; the oldest available is {oldest}")
        self.asked, self.oldest = asked, oldest


class TooNew(StoreError):
    def __init__(self, *, asked: int, newest: int) -> None:
        super().__init__(f"revision {asked} is in the future; the newest is {newest}")
        self.asked, self.newest = asked, newest


READ_ONLY: Final = "the hub is read-only: {reason}"


class ReadOnly(StoreError):
    """Not written: the store accepts no writes until a probe succeeds. Everything acknowledged before is durable."""

    def __init__(self, reason: str) -> None:
        super().__init__(READ_ONLY.format(reason=reason))
        self.reason = reason


class Closed(StoreError):
    def __init__(self) -> None:
        super().__init__("closed")


class Unusable(StoreError):
    """A folder or file that can't be opened in its present state."""

    def __init__(self, message: str, *, path: Path) -> None:
        super().__init__(message)
        self.path = path


LOCKED: Final = "{path} is in use by {holder}; stop it first, or choose another folder"


class Locked(Unusable):
    def __init__(self, path: Path, *, holder: int | None) -> None:
        owner = "another process" if holder is None else f"process {holder}"
        super().__init__(LOCKED.format(path=path, holder=owner), path=path)
        self.holder = holder


DAMAGED: Final = (
    "{path} is damaged: {detail}. It was not changed. Run `fairway hub check` for details, or "
    "`fairway hub restore --force` to restore a backup"
)


class Damaged(Unusable):
    def __init__(self, path: Path, *, detail: str) -> None:
        super().__init__(DAMAGED.format(path=path, detail=detail), path=path)
        self.detail = detail


UNKNOWN_FORMAT: Final = "{path} has format {version}, this version of Fairway reads format {known}"


class UnknownFormat(Unusable):
    def __init__(self, path: Path, *, version: object, known: int) -> None:
        super().__init__(UNKNOWN_FORMAT.format(path=path, version=version, known=known), path=path)


UNREADABLE: Final = "{path} can't be opened: {detail}"


class Unreadable(Unusable):
    """The operating system refused access: permissions, I/O errors, a missing folder."""

    def __init__(self, path: Path, *, detail: str) -> None:
        super().__init__(UNREADABLE.format(path=path, detail=detail), path=path)
        self.detail = detail
