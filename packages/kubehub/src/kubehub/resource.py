"""A served resource: names, verbs, schema, subresources, columns."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from kubehub.schema import Node

ALL_VERBS: Final = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")

Document = dict[str, Any]

_VERSION: Final = re.compile(r"v([1-9][0-9]*)(?:(alpha|beta)([1-9][0-9]*))?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A column of a printed table. ``path`` is the JSONPath of a CRD column, empty for a built-in cell."""

    name: str
    type: str = "string"
    format: str = ""
    description: str = ""
    priority: int = 0
    path: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """The JSONPaths of a custom resource's replicas."""

    spec_path: str
    status_path: str
    selector_path: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Subresource:
    name: str
    verbs: tuple[str, ...]
    kind: str = ""
    """The kind of its body if it isn't the resource's own (``Scale``, ``TokenRequest``, ``Binding``)."""
    group: str = ""
    version: str = ""
    node: Node | None = None


class Conversion(Protocol):
    """Converts between the stored and the served version. Neither method changes its argument."""

    def to_storage(self, document: Document) -> Document: ...

    def from_storage(self, document: Document) -> Document: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Resource:
    group: str
    version: str
    kind: str
    plural: str
    namespaced: bool
    node: Node
    singular: str = ""
    list_kind: str = ""
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    verbs: tuple[str, ...] = ALL_VERBS
    storage_version: str = ""
    """The version in which the store keeps all versions; empty means ``version``."""
    stored_as: str = ""
    """The key of the resource that stores the objects, if it is another one."""
    conversion: Conversion | None = None
    subresources: Mapping[str, Subresource] = field(default_factory=dict)
    scale: Scale | None = None
    columns: tuple[Column, ...] = ()
    custom: bool = False
    deprecation: str = ""
    selectable: tuple[str, ...] = ()
    """Field selectors beyond metadata.name and metadata.namespace, as dotted paths."""

    @property
    def key(self) -> str:
        """The key under which the store keeps the objects of all versions: ``plural.group``."""
        return self.stored_as or (f"{self.plural}.{self.group}" if self.group else self.plural)

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version


def version_priority(version: str) -> tuple[int, int, int, list[int]]:
    """Sort key of API versions: v2 above v1 above v1beta1 above v1alpha1; other names below these, in reverse
    alphabetical order."""
    match = _VERSION.fullmatch(version)
    if match is None:
        # The alphabetically first name has the highest priority.
        return 0, 0, 0, [-ord(char) for char in version] + [0]
    level = {None: 3, "beta": 2, "alpha": 1}[match[2]]
    return level, int(match[1]), int(match[3] or 0), []
