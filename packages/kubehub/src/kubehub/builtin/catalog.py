"""The served resources of the built-in kinds, from ``resources.table`` (which describes its format)."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from kubehub.builtin.field_tables import Library
from kubehub.resource import ALL_VERBS, Column, Resource, Scale, Subresource

# Custom resources store the selector as a string, built-in ones as an object.
_SCALE: Final = Scale(
    spec_path=".spec.replicas", status_path=".status.replicas", selector_path=".spec.selector"
)


def read(path: Path, library: Library) -> Iterator[Resource]:
    known: dict[str, Column] = {}
    for block in path.read_text(encoding="utf-8").split("\n\n"):
        lines = [line for line in block.splitlines() if not line.startswith("#")]
        if not lines:
            continue
        if "|" in lines[0]:
            known = {column.name: column for column in (_column(line, {}) for line in lines)}
        else:
            yield _resource(lines, library, known)


def _resource(lines: Sequence[str], library: Library, known: Mapping[str, Column]) -> Resource:
    plural, name, scope, *options = lines[0].split()
    parsed = {word: tuple(value.split(",")) for word, value in (option.split("=") for option in options)}
    subresources: dict[str, Subresource] = {}
    fields: list[str] = []
    columns: list[Column] = []
    deprecation = ""
    for line in lines[1:]:
        first, *rest = line.split()
        if first == "|":
            columns.append(_column(line.removeprefix("  | "), known))
        elif first == "fields":
            fields += rest
        elif first == "deprecated":
            deprecation = " ".join(rest)
        else:
            subresources[first[1:]] = _subresource(first[1:], *rest, library=library)
    type_ = library.type(name)
    return Resource(
        group=type_.group,
        version=type_.version,
        kind=type_.name,
        plural=plural,
        singular=type_.name.lower(),
        list_kind=f"{type_.name}List",
        namespaced=scope == "namespaced",
        node=type_.node,
        short_names=parsed.get("short", ()),
        categories=parsed.get("categories", ()),
        verbs=parsed.get("verbs", ALL_VERBS),
        subresources=subresources,
        scale=_SCALE if "scale" in subresources else None,
        columns=tuple(columns),
        deprecation=deprecation,
        selectable=tuple(fields),
    )


def _subresource(name: str, verbs: str, type_name: str = "", *, library: Library) -> Subresource:
    if not type_name:
        return Subresource(name=name, verbs=tuple(verbs.split(",")))
    body = library.type(type_name)
    return Subresource(
        name=name,
        verbs=tuple(verbs.split(",")),
        kind=body.name,
        group=body.group,
        version=body.version,
        node=body.node,
    )


def _column(text: str, known: Mapping[str, Column]) -> Column:
    head, _, words = (part.strip() for part in text.partition("|"))
    name, _, type_and_format = head.rstrip("*").partition(":")
    column = known.get(name, Column(name=name))
    if type_and_format:
        type_, _, format_ = type_and_format.partition("/")
        column = replace(column, type=type_, format=format_)
    return replace(column, priority=int(head.endswith("*")), description=words or column.description)
