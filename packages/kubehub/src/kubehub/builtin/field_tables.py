"""The field tables: one ``.fields`` file per group version, read on first use of one of its types.

The line of a field is

    <protobuf number> <JSON name><marks> <type> <options>

Types: ``string int32 int64 bool double bytes Time MicroTime Quantity IntOrString RawExtension FieldsV1 JSON``, the
name of a type of the same file, or ``core.PodSpec`` for one of another; ``[T]`` a list, ``{T}`` a map from strings,
``<T>`` a list that protobuf wraps into a message. ``(Name)`` after a type is its Go name, which decoding errors
contain; an ``enum`` line may list its values. The fields of a field called ``*`` are inlined in its parent's JSON.

Marks say when a field is encoded: ``?`` if it is set, even to zero; ``!`` always; without a mark, unless it is empty.
(A nested object without ``?`` is never empty, except with ``~``.) Fields that are always encoded are required in the
published schema, except with the option ``optional``; others are required with the option ``required``.

Options: ``atomic``, ``set`` and ``keys=`` are server-side apply's list and map types, ``merge=`` the key of a
strategic merge, ``patch=`` its strategies if they aren't just ``merge``, ``default=`` a JSON value.
"""

import json
import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from kubehub.builtin.shapes import (
    COLLECTIONS,
    DICTIONARY,
    GO_NAMES,
    LIST,
    MESSAGE,
    PLAIN,
    SCALARS,
    UNION,
    WRAPPED,
    Field,
    Shape,
    Type,
)
from kubehub.schema import ARRAY, ATOMIC, GRANULAR, MAP, OBJECT, Node

_BRACKETS: Final = {"[": (LIST, "[]"), "<": (WRAPPED, "[]"), "{": (DICTIONARY, "map[string]")}
_LIST_SUFFIX: Final = "List"


class Library:
    """All tables of a folder. Types refer to each other across files, without cycles between files."""

    def __init__(self, folder: Path) -> None:
        self._paths = {path.stem: path for path in folder.glob("*.fields")}
        self._tables: dict[str, Table] = {}
        self._lists: dict[str, Type] = {}

    def table(self, name: str) -> "Table":
        known = self._tables.get(name)
        if known is None:
            known = self._tables[name] = Table(self, self._paths[name])
        return known

    def type(self, name: str) -> Type:
        """Return a type by table and name, such as ``core.Pod`` or ``core.PodList``. Raises KeyError."""
        table, _, short = name.partition(".")
        types = self.table(f"{table}_v1").types
        if short in types or not short.endswith(_LIST_SUFFIX):
            return types[short]
        known = self._lists.get(name)
        if known is None:
            known = self._lists[name] = self._list_of(types[short.removesuffix(_LIST_SUFFIX)])
        return known

    def _list_of(self, item: Type) -> Type:
        if not item.kind:
            raise KeyError(item.name + _LIST_SUFFIX)
        core = self.table("core_v1")
        list_type = Type(
            name=item.name + _LIST_SUFFIX,
            full_name=item.full_name + _LIST_SUFFIX,
            group=item.group,
            version=item.version,
            kind=True,
            description=f"A list of {item.name} objects.",
            node=Node(type=OBJECT, name=item.full_name + _LIST_SUFFIX, required=("items",)),
        )
        one = Shape(kind=MESSAGE, go=f"v1.{item.name}", type=item)
        items = Shape(kind=LIST, go=f"[]{one.go}", element=one)
        meta = core.shape("meta.ListMeta")
        for field in (
            _field("-", "kind", core.shape("string"), SCALARS["string"]),
            _field("-", "apiVersion", core.shape("string"), SCALARS["string"]),
            _field("1", "metadata", meta, core.node(meta, "")),
            _field("2", "items!", items, Node(type=ARRAY, items=item.node)),
        ):
            list_type.fields[field.name] = field
            list_type.node.properties[field.name] = field.node
            if field.number:
                list_type.numbers[field.number] = field
        return list_type


class Table:
    """One file: the types of one group version."""

    def __init__(self, library: Library, path: Path) -> None:
        self._library = library
        self._enums: dict[str, tuple[str, ...]] = {}
        self._shapes: dict[str, Shape] = {}
        self._nodes: dict[tuple[Shape, str], Node] = {}
        self._bodies: dict[str, list[str]] = {}
        self.types: dict[str, Type] = {}
        self._read(path)
        while self._bodies:
            self._fill(next(iter(self._bodies)))

    def _read(self, path: Path) -> None:
        lines = path.read_text(encoding="utf-8").splitlines()
        _, group, version = lines[0].split()
        package = lines[1].split()[1]
        body: list[str] = []
        for line in lines[2:]:
            if line.startswith("  "):
                body.append(line)
            elif line.startswith("enum "):
                _, name, *values = shlex.split(line) if '"' in line else line.split()
                self._enums[name] = tuple(values)
            elif line:
                role, name, *atomic = line.split()
                node = Node(name=f"{package}.{name}")
                if role == "union":
                    node.preserve_unknown = True
                else:
                    node.type = OBJECT
                if atomic:
                    node.map_type, node.raw = ATOMIC, {"x-kubernetes-map-type": ATOMIC}
                self.types[name] = Type(
                    name=name,
                    full_name=node.name,
                    group="" if group in ("core", "meta") else group,
                    version=version,
                    kind=role == "kind",
                    union=role == "union",
                    node=node,
                )
                body = self._bodies[name] = []

    def _fill(self, name: str) -> None:
        type_ = self.types[name]
        required: list[str] = []
        if type_.kind:
            for header in ("kind", "apiVersion"):
                type_.fields[header] = _field("-", header, self.shape("string"), SCALARS["string"])
        for line in self._bodies.pop(name):
            if line.startswith('  "'):
                type_.description = line.strip(' "')
                continue
            number, marked, text, *rest = line.split(None, 3)
            shape = self.shape(text)
            if marked == "*":
                inner = shape.type
                assert inner is not None
                if inner.name in self._bodies:
                    self._fill(inner.name)
                type_.fields.update(inner.fields)
                type_.embedded.update(dict.fromkeys(inner.fields, inner.name))
                required += inner.node.required
                type_.numbers[int(number)] = Field(name="", number=int(number), shape=shape, node=inner.node)
                continue
            options = rest[0] if rest else ""
            field = _field(number, marked, shape, self.node(shape, options))
            type_.fields[field.name] = field
            if field.number:
                type_.numbers[field.number] = field
            if "required" in options or (field.always and "optional" not in options):
                required.append(field.name)
        type_.node.required = tuple(required)
        if not type_.union:
            type_.node.properties.update((field.name, field.node) for field in type_.fields.values())

    def shape(self, text: str) -> Shape:
        known = self._shapes.get(text)
        if known is None:
            known = self._shapes[text] = self._parse_shape(text)
        return known

    def _parse_shape(self, text: str) -> Shape:
        go = ""
        if text.endswith(")"):
            text, _, go = text[:-1].rpartition("(")
        enum: tuple[str, ...] = ()
        table, _, short = go.rpartition(".")
        if short and table in ("", "core", "meta"):
            go = f"v1.{short}"
            enum = (self._library.table(f"{table}_v1") if table else self)._enums.get(short, ())
        bracket = _BRACKETS.get(text[0])
        if bracket is not None:
            kind, prefix = bracket
            element = self.shape(text[1:-1])
            return Shape(kind=kind, go=go or prefix + element.go, element=element)
        if text in SCALARS:
            return Shape(kind=text, go=go or GO_NAMES.get(text, text), enum=enum)
        type_ = self._library.type(text) if "." in text else self.types[text]
        return Shape(kind=UNION if type_.union else MESSAGE, go=f"v1.{type_.name}", type=type_)

    def node(self, shape: Shape, options: str) -> Node:
        known = self._nodes.get((shape, options))
        if known is None:
            known = self._nodes[shape, options] = self._build_node(shape, options)
        return known

    def _build_node(self, shape: Shape, options: str) -> Node:
        if shape.type is not None:
            base = shape.type.node
        elif shape.kind == DICTIONARY:
            assert shape.element is not None
            base = Node(type=OBJECT, additional=self.node(shape.element, ""), nullable=True)
        elif shape.element is not None:
            base = Node(type=ARRAY, items=self.node(shape.element, ""), nullable=True)
        else:
            base = SCALARS[shape.kind]
            if shape.enum:
                base = replace(base, raw={**base.raw, "enum": list(shape.enum)})
        raw = _extensions(shape, options.split())
        if not raw:
            return base
        if shape.type is not None and shape.type.name in self._bodies:
            self._fill(shape.type.name)  # the copied type must be complete
        return replace(
            base,
            raw={**base.raw, **raw},
            list_type=raw.get("x-kubernetes-list-type", ATOMIC),
            list_keys=tuple(raw.get("x-kubernetes-list-map-keys", ())),
            map_type=raw.get("x-kubernetes-map-type", base.map_type),
            merge_key=raw.get("x-kubernetes-patch-merge-key", ""),
            strategies=tuple(filter(None, raw.get("x-kubernetes-patch-strategy", "").split(","))),
            has_default="default" in raw,
            default=raw.get("default"),
        )


def _field(number: str, marked: str, shape: Shape, node: Node) -> Field:
    name = marked.rstrip("?!~")
    marks = marked[len(name) :]
    vanishes = shape.kind in PLAIN or shape.kind in COLLECTIONS or "~" in marks
    return Field(
        name=name,
        number=0 if number == "-" else int(number),
        shape=shape,
        node=node,
        pointer="?" in marks,
        always="!" in marks,
        shown="!" in marks or not (vanishes or "?" in marks),
    )


def _extensions(shape: Shape, options: list[str]) -> dict[str, Any]:
    """Return the options as a published schema contains them."""
    keywords: dict[str, Any] = {}
    for option in options:
        word, _, value = option.partition("=")
        if word == "keys":
            keywords["x-kubernetes-list-type"] = MAP
            keywords["x-kubernetes-list-map-keys"] = value.split(",")
        elif word == "merge":
            keywords["x-kubernetes-patch-merge-key"] = value
            keywords.setdefault("x-kubernetes-patch-strategy", "merge")
        elif word == "patch":
            keywords["x-kubernetes-patch-strategy"] = value
        elif word == "default":
            keywords["default"] = json.loads(value)
        elif word in (ATOMIC, GRANULAR, "set"):
            listed = shape.kind in (LIST, WRAPPED, "bytes")
            keywords["x-kubernetes-list-type" if listed else "x-kubernetes-map-type"] = word
    return keywords
