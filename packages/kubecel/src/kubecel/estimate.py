"""Estimate the maximum cost of an expression from the maximum sizes of its inputs.

Kubernetes rejects validation rules whose estimate exceeds a limit, so the estimate must be that of the reference,
including its omissions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from kubecel.call_estimates import Operand, estimate_call
from kubecel.checker import Checked
from kubecel.cost import CREATE_LIST, CREATE_MAP
from kubecel.extent import UNKNOWN, Extent, capped, fixed
from kubecel.syntax import (
    Call,
    Comprehension,
    CreateList,
    CreateMap,
    CreateStruct,
    Expr,
    Ident,
    Literal,
    Select,
)
from kubecel.types import Kind, Type

Path = tuple[str, ...]
SizeOf = Callable[[Path], int | None]
"""Returns the maximum size of the value at a path: a variable, then field names, ``@items``, ``@keys`` and
``@values``. None if the path is unknown."""

_SCALARS = frozenset({Kind.BOOL, Kind.DOUBLE, Kind.DURATION, Kind.INT, Kind.TIMESTAMP, Kind.UINT})
_CONTAINERS = frozenset({Kind.MAP, Kind.STRUCT, Kind.PARAM})


@dataclass(frozen=True, slots=True)
class _Entry:
    """The sizes of the keys and values of a list or map."""

    list: bool
    key: Extent
    value: Extent

    def union(self, other: _Entry | None) -> _Entry | None:
        if other is None:
            return None
        return _Entry(self.list, self.key.union(other.key), self.value.union(other.value))


@dataclass(frozen=True, slots=True)
class _Local:
    path: Path
    size: Extent | None
    entry: _Entry | None


def estimate(checked: Checked, size_of: SizeOf) -> int:
    """Return the estimate, at most ``extent.MOST``, which also means unlimited."""
    return _Estimator(checked, size_of).cost(checked.root)


class _Estimator:
    def __init__(self, checked: Checked, size_of: SizeOf) -> None:
        self._checked = checked
        self._size_of = size_of
        self._paths: dict[int, Path] = {}
        self._sizes: dict[int, Extent] = {}
        self._entries: dict[int, _Entry] = {}
        self._locals: dict[str, list[_Local]] = {}

    def cost(self, node: Expr) -> int:
        match node:
            case Literal():
                return 0
            case Ident():
                local = self._local(node.name)
                self._paths[node.id] = local.path if local is not None else (node.name.lstrip("."),)
                return 1
            case Select():
                return self._select(node)
            case Call():
                return self._call(node)
            case CreateList():
                return self._list(node)
            case CreateMap():
                return self._map(node)
            case CreateStruct():
                return capped(40 + sum(self.cost(field.value) for field in node.fields))
            case Comprehension():
                return self._bind(node) if node.macro == "bind" else self._fold(node)

    # --- sizes of nodes --------------------------------------------------------------------------------------

    def _local(self, name: str) -> _Local | None:
        stack = self._locals.get(name)
        return stack[-1] if stack else None

    @contextmanager
    def _bound(self, name: str, local: _Local) -> Iterator[None]:
        stack = self._locals.setdefault(name, [])
        stack.append(local)
        yield
        stack.pop()

    def _type(self, node: Expr) -> Type:
        return self._checked.types[node.id]

    def _path(self, node: Expr) -> Path:
        if isinstance(node, Ident):
            local = self._local(node.name)
            if local is not None:
                return local.path
        return self._paths.get(node.id, ())

    def _size(self, node: Expr) -> Extent | None:
        known = self._sizes.get(node.id) or _written_size(node)
        if known is not None:
            return known
        extent = self._known_extent(self._path(node))
        if extent is not None:
            self._sizes[node.id] = extent
            return extent
        if _scalar(self._type(node)):
            return fixed(1)
        local = self._local(node.name) if isinstance(node, Ident) else None
        return None if local is None else local.size

    def _known_extent(self, path: Path) -> Extent | None:
        most = self._size_of(path) if path else None
        return None if most is None else Extent(0, most)

    def _entry(self, node: Expr) -> _Entry | None:
        known = self._entries.get(node.id)
        if known is None and isinstance(node, Ident):
            local = self._local(node.name)
            return None if local is None else local.entry
        return known

    def _keep(self, node: Expr, size: Extent | None, entry: _Entry | None) -> None:
        if size is not None:
            self._sizes[node.id] = size
        if entry is not None:
            self._entries[node.id] = entry

    # --- nodes -----------------------------------------------------------------------------------------------

    def _select(self, node: Select) -> int:
        cost = self.cost(node.operand)
        if node.test:
            return cost
        if self._type(node.operand).kind in _CONTAINERS:
            cost += 1
        self._paths[node.id] = (*self._path(node.operand), node.field)
        return capped(cost)

    def _list(self, node: CreateList) -> int:
        cost, item = CREATE_LIST, None
        for element in node.elements:
            cost += self.cost(element)
            size = self._size(element) or UNKNOWN
            item = size if item is None else item.union(size)
        self._keep(node, None, _Entry(True, fixed(1), item or fixed(0)))
        return capped(cost)

    def _map(self, node: CreateMap) -> int:
        cost = CREATE_MAP
        keys: Extent | None = None
        values: Extent | None = None
        for entry in node.entries:
            cost += self.cost(entry.key) + self.cost(entry.value)
            key, value = self._size(entry.key) or UNKNOWN, self._size(entry.value) or UNKNOWN
            keys = key if keys is None else keys.union(key)
            values = value if values is None else values.union(value)
        self._keep(node, None, _Entry(False, keys or fixed(0), values or fixed(0)))
        return capped(cost)

    def _bind(self, node: Comprehension) -> int:
        cost = self.cost(node.range) + self.cost(node.init)
        local = _Local(self._path(node.init), self._size(node.init), self._entry(node.init))
        with self._bound(node.accumulator, local):
            cost += self.cost(node.result)
        return capped(cost)

    def _fold(self, node: Comprehension) -> int:
        cost = self.cost(node.range) + self.cost(node.init)
        accumulated = _Local(self._path(node.init), self._size(node.init), self._entry(node.init))
        with self._bound(node.accumulator, accumulated):
            with (
                self._bound(node.variable, self._item(node)),
                self._bound(node.second, self._second(node.range)),
            ):
                turn = self.cost(node.condition) + self.cost(node.step)
            cost += self.cost(node.result)
        count = self._size(node.range) or UNKNOWN
        if isinstance(node.init, Literal):
            self._keep(node, self._size(node.init), None)
        elif isinstance(node.init, (CreateList, CreateMap)):
            self._keep(node, count, self._entry(node.step))
        return capped(cost + count.most * capped(turn))

    def _item(self, node: Comprehension) -> _Local:
        entry = self._entry(node.range)
        listed = self._listed(node.range)
        path = self._path(node.range)
        if node.second and listed:
            return _Local((*path, "@indices"), None if entry is None else entry.key, None)
        size = None if entry is None else entry.value if listed else entry.key
        return _Local((*path, "@items" if listed else "@keys"), size, None)

    def _second(self, over: Expr) -> _Local:
        entry = self._entry(over)
        step = "@items" if self._listed(over) else "@values"
        return _Local((*self._path(over), step), None if entry is None else entry.value, None)

    def _listed(self, over: Expr) -> bool:
        entry = self._entry(over)
        return entry.list if entry is not None else self._type(over).kind is Kind.LIST

    # --- calls -----------------------------------------------------------------------------------------------

    def _call(self, node: Call) -> int:
        if node.function == "dyn" and node.target is None:
            cost = self.cost(node.args[0])
            self._keep(node, self._size(node.args[0]), self._entry(node.args[0]))
            return capped(cost + 1)
        if node.function == "_?._":
            return capped(self.cost(node.args[0]) + 1)
        costs = [self.cost(arg) for arg in node.args]
        overloads = self._checked.overloads.get(node.id, ())
        if not overloads:
            return 0
        args = [self._operand(arg) for arg in node.args]
        target, cost = None, 0
        if node.target is not None and overloads[0].member:
            cost = self.cost(node.target)
            target = self._operand(node.target)
        if node.function == "_?_:_":
            return self._conditional(node, costs, args)
        most = 0
        size: Extent | None = None
        for overload in overloads:
            estimated = estimate_call(self._checked.functions[node.id].name, overload.id, target, args)
            most = max(most, estimated.cost)
            if estimated.size is not None:
                size = estimated.size if size is None else size.union(estimated.size)
            if overload.id in ("index_list", "index_map"):
                entry = self._entry(node.args[0])
                size = None if entry is None else entry.value
                step = "@items" if overload.id == "index_list" else "@values"
                self._paths[node.id] = (*self._path(node.args[0]), step)
            size = size or self._size(node)
        self._keep(node, size, self._joined(node) if node.function == "_+_" else None)
        return capped(cost + sum(costs) + most)

    def _conditional(self, node: Call, costs: list[int], args: list[Operand]) -> int:
        first, second = self._entry(node.args[1]), self._entry(node.args[2])
        size = args[1].extent.union(args[2].extent)
        self._keep(node, size, None if first is None else first.union(second))
        return capped(costs[0] + max(costs[1], costs[2]))

    def _joined(self, node: Call) -> _Entry | None:
        left, right = self._entry(node.args[0]), self._entry(node.args[1])
        return None if left is None else left.union(right)

    def _operand(self, node: Expr) -> Operand:
        path = self._path(node)
        type_ = self._type(node)
        element: Extent | None = None
        if type_.kind is Kind.LIST:
            # Kubernetes estimates the size of the elements without the path of their list.
            element = self._known_extent((*path, "@items")) if path else None
        return Operand(type_, self._size(node), element, node.value if isinstance(node, Literal) else None)


def _written_size(node: Expr) -> Extent | None:
    match node:
        case Literal():
            return fixed(len(node.value) if isinstance(node.value, (str, bytes)) else 1)
        case CreateList():
            return fixed(len(node.elements))
        case CreateMap():
            return fixed(len(node.entries))
        case _:
            return None


def _scalar(type_: Type) -> bool:
    if type_.kind is Kind.OPAQUE and type_.name == "optional_type":
        return _scalar(type_.params[0])
    return type_.kind in _SCALARS
