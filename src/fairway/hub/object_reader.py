"""How those who decide about access read what is kept, without knowing the store."""

from collections.abc import Iterable
from typing import Protocol

from fairway.hub.resource import Document


class ObjectReader(Protocol):
    """Committed objects. ``resource`` is a key as in ``Resource.key``; documents are read, never changed."""

    def documents(self, resource: str, namespace: str | None = None) -> Iterable[Document]: ...

    def document(self, resource: str, namespace: str, name: str) -> Document | None: ...

    def touched(self, resource: str) -> int:
        """The last revision that changed any object of the resource."""

    def changed(self, resource: str, since: int) -> Iterable[tuple[str, str]] | None:
        """Namespace and name of what changed after that revision, or None when that is no longer known.

        None is always a right answer: everything is read again then.
        """
