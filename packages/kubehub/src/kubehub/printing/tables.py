"""Build the tables that ``kubectl get`` prints."""

from collections.abc import Callable, Sequence
from datetime import datetime
from functools import lru_cache
from typing import Any, Final

import msgspec

from kubehub.printing import cells
from kubehub.resource import Column, Document, Resource
from kubewire.api import age, jsonpath

NONE: Final = "<none>"
_INTEGERS: Final = ("integer", "number", "boolean")

Cell = Callable[[Document, datetime], Any]

NAME: Final = Column(
    name="Name", type="string", format="name", description="The name, unique in its namespace."
)
AGE: Final = Column(
    name="Age", type="date", description="How long ago it was created.", path=".metadata.creationTimestamp"
)


def columns(resource: Resource) -> tuple[Column, ...]:
    if not resource.custom:
        return resource.columns or (NAME, AGE)
    return (NAME, *(resource.columns or (AGE,)))


def definitions(resource: Resource) -> list[Document]:
    return [
        {
            "name": column.name,
            "type": column.type,
            "format": column.format,
            "description": column.description,
            "priority": column.priority,
        }
        for column in columns(resource)
    ]


def _custom(column: Column) -> Cell:
    try:
        path = jsonpath.json_path(column.path)
    except jsonpath.PathError:
        return lambda _, __: NONE

    def cell(document: Document, now: datetime) -> Any:
        values = jsonpath.values(path, document)
        if not values or values[0] is None:
            return None
        value = values[0]
        if column.type == "date":
            return age.since(value, now=now)
        if column.type == "string":
            if len(values) > 1:
                return ",".join(v if isinstance(v, str) else _text(v) for v in values)
            return value if isinstance(value, str) else _text(value)
        if column.type in _INTEGERS and isinstance(value, int | float | bool):
            return value
        return None

    return cell


def _text(value: object) -> str:
    return msgspec.json.encode(value).decode()


@lru_cache(maxsize=1024)
def _cells(kind: str, custom: bool, listed: tuple[Column, ...]) -> tuple[Cell, ...]:
    if not custom:
        return tuple(cells.cell(kind, column.name) for column in listed)
    return (cells.cell(kind, "Name"), *(_custom(column) for column in listed[1:]))


def partial(document: Document) -> Document:
    return {
        "kind": "PartialObjectMetadata",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": document.get("metadata") or {},
    }


def rows(resource: Resource, documents: Sequence[Document], *, include: str, now: datetime) -> list[Document]:
    """``include`` is what each row contains: Metadata, Object or None."""
    made = _cells(resource.kind, resource.custom, columns(resource))
    result = []
    for document in documents:
        row: Document = {"cells": [cell(document, now) for cell in made]}
        if include == "Object":
            row["object"] = document
        elif include != "None":
            row["object"] = partial(document)
        else:
            row["object"] = None
        result.append(row)
    return result


def table(
    resource: Resource,
    documents: Sequence[Document],
    *,
    metadata: Document,
    include: str,
    now: datetime,
    headed: bool = True,
) -> Document:
    return {
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": metadata,
        "columnDefinitions": definitions(resource) if headed else None,
        "rows": rows(resource, documents, include=include, now=now),
    }
