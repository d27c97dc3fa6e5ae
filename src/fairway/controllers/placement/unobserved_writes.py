"""The hub's responses to our own writes, until its watch has delivered them.

Responses and watch events arrive independently. A response counts only while the watch is behind its version: after
that the watch's state is newer, also if the object was deleted. An object that the watch passed without an event does
not exist any more, as after a deletion before the next list, or after a restored backup.
"""

from fairway.api.decision import PlacementDecision
from fairway.api.placement import Placement

Key = tuple[str, str]
"""(namespace, name)"""


class UnobservedWrites:
    """Unobserved writes of one kind. Versions that are not numbers cannot be compared, and are left out."""

    def __init__(self) -> None:
        self._reached = 0
        self._versions: dict[Key, int] = {}

    def answered(self, key: Key, version: str) -> bool:
        """Record a response. Return whether it is newer than the watch."""
        if not version.isdecimal():
            return True
        if int(version) <= self._reached:
            return False
        self._versions[key] = int(version)
        return True

    def forget(self, key: Key) -> None:
        """Forget an object that we deleted."""
        self._versions.pop(key, None)

    def reach(self, version: str) -> list[Key]:
        """The watch has reached this version. Return the keys whose writes it must have delivered by now."""
        if not version.isdecimal():
            return []
        self._reached = int(version)
        if not self._versions:
            return []
        passed = [key for key, own in self._versions.items() if own <= self._reached]
        for key in passed:
            del self._versions[key]
        return passed

    def restart(self) -> list[Key]:
        """The hub's history went back. Return the keys of writes that are void."""
        known = list(self._versions)
        self._reached = 0
        self._versions.clear()
        return known


def is_same_version(one: Placement | PlacementDecision | None, other: Placement | PlacementDecision) -> bool:
    """Whether both are the same version of the same object."""
    if one is None:
        return False
    before, after = one.metadata, other.metadata
    return before.uid == after.uid and before.resourceVersion == after.resourceVersion


def is_newer(new: Placement | PlacementDecision, old: Placement | PlacementDecision) -> bool:
    """Compare versions; if they are not numbers, any other one counts as newer."""
    after, before = new.metadata.resourceVersion, old.metadata.resourceVersion
    if after.isdecimal() and before.isdecimal():
        return int(after) > int(before)
    return after != before
