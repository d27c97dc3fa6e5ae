"""The interface through which authentication, RBAC and admission read objects, independent of the store."""

from collections.abc import Iterable
from typing import Protocol

from kubehub.resource import Document


class ObjectReader(Protocol):
    """Reads committed objects. ``resource`` is a ``Resource.key``; callers must not modify documents."""

    def documents(self, resource: str, namespace: str | None = None) -> Iterable[Document]: ...

    def document(self, resource: str, namespace: str, name: str) -> Document | None: ...

    def last_revision(self, resource: str) -> int:
        """Return the last revision that changed an object of the resource."""

    def changed_since(self, resource: str, since: int) -> Iterable[tuple[str, str]] | None:
        """Return namespace and name of the objects that changed after ``since``, or None when that is unknown.

        On None, callers read all objects again.
        """
