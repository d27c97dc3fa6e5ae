"""The built-in kinds: the types of their fields and how they are served.

``field_tables`` reads one ``.fields`` file per group version into ``shapes.Type``; ``catalog`` reads the served
resources from ``resources.table``. From a type the rest of the hub derives the schema (validation, merging, ownership),
the decoding of protobuf (``serialization.protobuf``), the published OpenAPI schema (``openapi``), and ``canonical``:
the object as kube-apiserver encodes it after decoding it into its Go struct. ``rfc3339`` parses and formats times.
"""

from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Final

from kubehub.builtin import catalog
from kubehub.builtin.field_tables import Library
from kubehub.builtin.shapes import Type
from kubehub.resource import Resource

_FOLDER: Final = Path(__file__).parent
_LIBRARY: Final = Library(_FOLDER)
_TABLES: Final = {
    "io.k8s.apimachinery.pkg.apis.meta": "meta",
    "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions": "apiextensions",
    "io.k8s.kube-aggregator.pkg.apis.apiregistration": "apiregistration",
}
_API: Final = "io.k8s.api."


@cache
def resources() -> tuple[Resource, ...]:
    """Return all served resources of the built-in kinds."""
    return tuple(catalog.read(_FOLDER / "resources.table", _LIBRARY))


@cache
def type_of(name: str) -> Type:
    """Return a type by its full name, such as ``io.k8s.api.core.v1.Pod``. Raises KeyError."""
    package, _, short = name.rpartition(".v1.")
    table = _TABLES.get(package) or package.removeprefix(_API)
    if "." in table:
        raise KeyError(name)
    return _LIBRARY.type(f"{table}.{short}")


def kind(group: str, version: str, name: str) -> Type:
    """Return the type of a kind, of its list, or of one that every group has, such as DeleteOptions. Raises
    KeyError."""
    if version == "v1":
        with suppress(KeyError):
            candidate = _LIBRARY.type(f"{group.partition('.')[0] or 'core'}.{name}")
            if candidate.kind and candidate.group == group:
                return candidate
    candidate = _LIBRARY.type(f"meta.{name}")
    if candidate.kind:
        return candidate
    raise KeyError(name)
