"""Resources: the path of a kind, and the type its objects are decoded into."""

import re
from dataclasses import dataclass
from typing import Final, Generic, Protocol, TypeVar
from urllib.parse import quote

from kubewire.api.meta import ObjectMeta

NO_NAMESPACE: Final = "{kind} is not namespaced: leave out {namespace!r}"

_PLAIN: Final = re.compile(r"[a-z0-9][a-z0-9.-]*", re.ASCII)
"""Names that need no quoting, which would take as long as the rest of the path."""


class KubeStruct(Protocol):
    """A msgspec Struct with the metadata of a Kubernetes object."""

    @property
    def metadata(self) -> ObjectMeta: ...


T = TypeVar("T", bound=KubeStruct)

Key = tuple[str, str]
"""Namespace and name; the namespace of a cluster-wide object is empty."""


def key_of(obj: KubeStruct) -> Key:
    meta = obj.metadata
    return (meta.namespace, meta.name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Resource(Generic[T]):
    """``group`` is empty for the core API."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool
    type: type[T]

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    def __str__(self) -> str:
        """As kubectl names it: ``managedclusters.v1.cluster.open-cluster-management.io``."""
        return ".".join(part for part in (self.plural, self.version, self.group) if part)

    def path(
        self, *, namespace: str | None = None, name: str | None = None, subresource: str | None = None
    ) -> str:
        """The quoted path. Raise ValueError for a name that would lead to another resource."""
        if namespace is not None and not self.namespaced:
            raise ValueError(NO_NAMESPACE.format(kind=self.kind, namespace=namespace))
        if name is not None and namespace is None and self.namespaced:
            raise ValueError(f"{self.kind} is namespaced: give the namespace of {name!r}")
        if subresource is not None and name is None:
            raise ValueError(f"subresource {subresource!r} of which {self.kind}? give its name")
        parts = ["", "apis", self.group, self.version] if self.group else ["", "api", self.version]
        if namespace is not None:
            parts += ["namespaces", _segment("namespace", namespace)]
        parts.append(self.plural)
        if name is not None:
            parts.append(_segment("name", name))
        if subresource is not None:
            parts.append(_segment("subresource", subresource))
        return "/".join(parts)


def _segment(what: str, given: str) -> str:
    if _PLAIN.fullmatch(given):
        return given
    if given in ("", ".", "..") or "/" in given or "%" in given:
        raise ValueError(
            f"{what} {given!r} cannot be part of a path: it must not be empty, '.', '..' or contain '/' or '%'"
        )
    return quote(given, safe=":@!$&'()*+,;=~")
