"""What the hub answered to our own writes, for as long as its watch has not come that far.

Answers and watch travel apart, so either may tell of a write first. An answer is news only while the watch is behind
it: whatever the watch has told by the time it is past that version is newer, be it that the object is gone. And what
the watch has passed by without a word is not there any more, such as what was deleted before the next list, or what a
restored backup has never seen.
"""

from fairway.api.decision import PlacementDecision
from fairway.api.placement import Placement

Key = tuple[str, str]
"""(namespace, name)"""


class UnobservedWrites:
    """Of one kind. Versions that are not numbers cannot be compared, and are left out."""

    def __init__(self) -> None:
        self._reached = 0
        self._versions: dict[Key, int] = {}

    def answered(self, key: Key, version: str) -> bool:
        """Whether that is news."""
        if not version.isdecimal():
            return True
        if int(version) <= self._reached:
            return False
        self._versions[key] = int(version)
        return True

    def forget(self, key: Key) -> None:
        """We have deleted it."""
        self._versions.pop(key, None)

    def reach(self, version: str) -> list[Key]:
        """The watch has told everything up to there: what it must have told of by now."""
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
        """The hub's history went back: what we know of and the watch has not told, which never happened."""
        known = list(self._versions)
        self._reached = 0
        self._versions.clear()
        return known


def is_same_version(one: Placement | PlacementDecision | None, other: Placement | PlacementDecision) -> bool:
    """Whether both are one version of one object."""
    if one is None:
        return False
    before, after = one.metadata, other.metadata
    return before.uid == after.uid and before.resourceVersion == after.resourceVersion


def is_newer(new: Placement | PlacementDecision, old: Placement | PlacementDecision) -> bool:
    """By their versions; where those are no numbers, any other one is."""
    after, before = new.metadata.resourceVersion, old.metadata.resourceVersion
    if after.isdecimal() and before.isdecimal():
        return int(after) > int(before)
    return after != before
