"""Writes in flight, and watch events about the same objects meanwhile.

A watch event often arrives before the response. It is our own write or another client's; which one is known when all
responses have arrived. A write is identified by its resource version, a deletion by the object's uid; either is a
*sign*.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from fairway.controllers.placement.dependency_index import Owner


@dataclass(slots=True)
class InflightWrite:
    """Writes of one placement."""

    pages: set[str] = field(default_factory=set)
    """Pages that count as written."""
    heard: set[str] = field(default_factory=set)
    answered: set[str] = field(default_factory=set)

    @property
    def externally_modified(self) -> bool:
        """Whether another client wrote as well. Valid once all responses have arrived."""
        return bool(self.heard - self.answered)


class InflightWrites:
    """By placement."""

    def __init__(self) -> None:
        self._writing: dict[Owner, InflightWrite] = {}

    def begin(self, owner: Owner) -> InflightWrite:
        writing = self._writing[owner] = InflightWrite()
        return writing

    def heard(self, owner: Owner, sign: str, *, pages: Iterable[str] = ()) -> bool:
        """Record a watch event. Return whether it may be our own write, so that it has to wait for the end; then
        ``pages`` are checked again."""
        writing = self._writing.get(owner)
        if writing is None:
            return False
        writing.heard.add(sign)
        writing.pages.update(pages)
        return True

    def answered(self, owner: Owner, sign: str) -> None:
        if (writing := self._writing.get(owner)) is not None:
            writing.answered.add(sign)

    def end(self, owner: Owner) -> InflightWrite:
        return self._writing.pop(owner)
