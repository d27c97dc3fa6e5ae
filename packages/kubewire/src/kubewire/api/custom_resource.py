"""CustomResourceDefinitions, generated from Structs."""

from dataclasses import dataclass
from typing import Any

from msgspec import Struct

from kubewire.api.schema import object_schema


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """One column of ``kubectl get``."""

    name: str
    type: str
    path: str
    priority: int = 0
    """Columns above 0 are shown with ``-o wide`` only."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Version:
    name: str
    struct: type[Struct]
    storage: bool = True
    deprecation: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CustomResource:
    """A kind that a CustomResourceDefinition serves: its names, versions and printed columns."""

    kind: str
    plural: str
    namespaced: bool
    versions: tuple[Version, ...]
    group: str
    short_names: tuple[str, ...] = ()
    columns: tuple[Column, ...] = ()
    is_partial: bool = False
    """Whether the Struct has only some fields of the kind, so that the others are stored unchecked."""

    @property
    def singular(self) -> str:
        return self.kind.lower()

    @property
    def name(self) -> str:
        return f"{self.plural}.{self.group}"


def crd(resource: CustomResource) -> dict[str, Any]:
    """Return the CustomResourceDefinition, with schemas generated from the Structs."""
    names: dict[str, Any] = {
        "kind": resource.kind,
        "listKind": f"{resource.kind}List",
        "plural": resource.plural,
        "singular": resource.singular,
    }
    if resource.short_names:
        names["shortNames"] = list(resource.short_names)
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": resource.name},
        "spec": {
            "group": resource.group,
            "names": names,
            "preserveUnknownFields": False,
            "scope": "Namespaced" if resource.namespaced else "Cluster",
            "versions": [_version(resource, version) for version in resource.versions],
        },
    }


def _version(resource: CustomResource, version: Version) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "name": version.name,
        "served": True,
        "storage": version.storage,
        "schema": {"openAPIV3Schema": object_schema(version.struct)},
    }
    if resource.is_partial:
        for part in ("spec", "status"):
            _keep_unknown_fields(entry["schema"]["openAPIV3Schema"]["properties"][part])
    if "status" in version.struct.__struct_fields__:
        entry["subresources"] = {"status": {}}
    if resource.columns:
        entry["additionalPrinterColumns"] = [_column(column) for column in resource.columns]
    if version.deprecation:
        entry["deprecated"] = True
        entry["deprecationWarning"] = version.deprecation
    return entry


def _column(column: Column) -> dict[str, Any]:
    entry: dict[str, Any] = {"name": column.name, "type": column.type, "jsonPath": column.path}
    return {**entry, "priority": column.priority} if column.priority else entry


def _keep_unknown_fields(schema: dict[str, Any]) -> None:
    if "properties" in schema:
        schema["x-kubernetes-preserve-unknown-fields"] = True
        for property_schema in schema["properties"].values():
            _keep_unknown_fields(property_schema)
