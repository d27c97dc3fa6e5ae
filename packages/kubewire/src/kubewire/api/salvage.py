"""Decode an object with unreadable fields.

A hub accepts more than a typed decoder: a time with an offset of 25 hours passes the schemas of a kube-apiserver. A
client that may write one field of an object must not be able to hide the others from a controller, so a failed decode
is repeated here field by field: unreadable fields are dropped, and listed on the object. The result depends only on the
bytes, not on earlier versions of the object.

``fallback`` has the values that replace dropped fields. Reading costs at most a small factor more than decoding:
a part is decoded again only on the way down to a field that fails, and ``MOST_FIELDS`` and ``MOST_ITEMS`` bound what is
read one by one.
"""

import types
from collections.abc import Callable
from functools import cache
from typing import Annotated, Any, Final, TypeVar, Union, get_args, get_origin

import msgspec
from msgspec import NODEFAULT, Struct, structs

from kubewire.api.fallback import NO_FALLBACK, REQUIRED, Fallback, fallback_of
from kubewire.api.json_parts import elements, members
from kubewire.api.meta import ObjectMeta, UnreadableField

MOST_FIELDS: Final = 100
"""Unreadable fields in one list or map, such as ``status.conditions``. With more than these, all of it is dropped."""

MOST_ITEMS: Final = 5000
"""Items of a list or map of which one cannot be read. With more than these, all of them are dropped."""

NO_NAME: Final = "metadata.name cannot be read"
TOO_LONG: Final = "{reason}, in one of more than {most:,} items"
NOT_TEXT: Final = "Invalid text"

_LONGEST_KEY: Final = 63
_TOGETHER: Final = 32
"""Items of a list that are decoded in one call, until one of them fails."""
_FAILURES: Final = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, ValueError, TypeError)
_NULL: Final = b"null"
_METADATA: Final = "metadata"
_encode: Final = msgspec.json.encode

S = TypeVar("S", bound=Struct)
Path = tuple[str | int, ...]


class SalvageError(ValueError):
    """A document is unusable."""


class _UnreadableError(Exception):
    """A value cannot be read, and has no fallback."""

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(reason)
        self.path, self.reason = path, reason


class _TooManyError(Exception):
    """More fields are unreadable than are dropped one by one."""


class _Report:
    """Dropped fields by field of the schema; at most as many entries as a kind has fields."""

    def __init__(self) -> None:
        self._dropped: dict[tuple[str, ...], UnreadableField] = {}
        self._left: int | None = None

    @property
    def fields(self) -> tuple[UnreadableField, ...]:
        return tuple(self._dropped.values())

    def begin(self, *, limit: int | None = MOST_FIELDS) -> None:
        """Allow at most ``limit`` dropped fields from now on."""
        self._left = limit

    def drop(self, path: Path, reason: str) -> None:
        if self._left is not None:
            self._left -= 1
            if self._left < 0:
                raise _TooManyError
        self.note(path, reason)

    def note(self, path: Path, reason: str) -> None:
        field = tuple("[]" if isinstance(part, int) or part.startswith("[") else part for part in path)
        first = self._dropped.get(field)
        if first is None:
            self._dropped[field] = UnreadableField(path=_written(path), reason=reason)
        else:
            self._dropped[field] = structs.replace(first, count=first.count + 1)

    def forget(self, path: Path) -> None:
        """Remove the entries below ``path``, because the whole of it is dropped."""
        for field in [key for key in self._dropped if key[: len(path)] == path]:
            del self._dropped[field]
        self._left = None


def salvage(raw: bytes, struct: type[S]) -> S:
    """Return the object without its unreadable fields. Its metadata is a ``PartialMeta`` if a field was dropped.

    Raise SalvageError if it is not an object, or has no name.
    """
    content = members(raw)
    if content is None:
        raise SalvageError("is not a JSON object")
    report = _Report()
    values: dict[str, Any] = {}
    for field in _fields(struct):
        child = content.get(field.key)
        if child is None or child == _NULL:
            continue
        # The hub validates metadata, and it must always take effect.
        report.begin(limit=None if field.key == _METADATA else MOST_FIELDS)
        try:
            values[field.name] = field.read_bounded(child, (field.key,), report)
        except _UnreadableError as error:
            report.note(error.path, error.reason)
    return _build(struct, values, report)


def _build(struct: type[S], values: dict[str, Any], report: _Report) -> S:
    meta = values.get(_METADATA, ObjectMeta())
    if report.fields and _METADATA in struct.__struct_fields__ and isinstance(meta, ObjectMeta):
        if not meta.name:
            raise SalvageError(NO_NAME)
        values[_METADATA] = meta.partial(report.fields)
    try:
        return struct(**values)
    except (TypeError, ValueError) as error:
        raise SalvageError(str(error)) from None


class _Field:
    """One field of a Struct: how it is named, read, and replaced."""

    def __init__(self, struct: type[Struct], info: structs.FieldInfo) -> None:
        self.name, self.key = info.name, info.encode_name
        self.fallback: Fallback = fallback_of(struct, info.name)
        self.required = info.default is NODEFAULT and info.default_factory is NODEFAULT
        self._node = _Node(info.type, items=self.fallback.item)

    def read_bounded(self, raw: bytes, path: Path, report: _Report) -> Any:
        """All of it is unreadable if too many parts are."""
        try:
            return self.read(raw, path, report)
        except _TooManyError:
            report.forget(path)
        return self._replaced(
            _UnreadableError(path, f"More than {MOST_FIELDS} fields cannot be read"), report
        )

    def read(self, raw: bytes, path: Path, report: _Report) -> Any:
        """Raises _UnreadableError if the Struct is nothing without it, or its default counts."""
        try:
            if self.fallback.whole:
                return self._node.read_whole(raw, path)
            return self._node.read(raw, path, report)
        except _UnreadableError as error:
            return self._replaced(error, report)

    def _replaced(self, error: _UnreadableError, report: _Report) -> object:
        if self.fallback.value is NO_FALLBACK or self.fallback.value is REQUIRED:
            raise error
        report.drop(error.path, error.reason)
        return self.fallback.value


class _Node:
    """How values of one type are read: at once if possible, otherwise part by part."""

    def __init__(self, annotation: Any, *, items: object = NO_FALLBACK) -> None:
        self._annotation, self._items = annotation, items
        self._decode: Callable[[bytes], Any] = msgspec.json.Decoder(annotation).decode
        self._plain = _without_none(annotation)
        self._item: _Node | None = None
        origin, arguments = get_origin(self._plain), get_args(self._plain)
        if origin is list or (origin is tuple and arguments[1:] == (...,)):
            self._item = _Node(arguments[0])
        elif origin is dict and arguments[1] is not Any:
            self._item = _Node(arguments[1])
        self._origin = origin

    def read(self, raw: bytes, path: Path, report: _Report) -> Any:
        try:
            return self._decode(raw)
        except _FAILURES as error:
            reason = _reason(error)
        if isinstance(self._plain, type) and issubclass(self._plain, Struct):
            return self._read_struct(self._plain, raw, path, report, reason)
        if self._item is not None and self._origin is dict:
            return self._read_map(self._item, raw, path, report, reason)
        if self._item is not None:
            return self._read_list(self._item, raw, path, report, reason)
        return self._read_scalar(raw, path, reason)

    def read_whole(self, raw: bytes, path: Path) -> Any:
        """Decode all or nothing: one unreadable part could invert the meaning of the others."""
        try:
            return self._decode(raw)
        except _FAILURES as first:
            error: Exception = first
        try:
            return msgspec.convert(_without_nulls(msgspec.json.decode(raw)), self._annotation)
        except _FAILURES as second:
            error = second
        message, _, place = str(error).partition(" - at `$")
        inner = place.rstrip("`").removeprefix(".")
        raise _UnreadableError((*path, inner) if inner else path, message or _reason(error))

    def _read_struct(
        self, struct: type[Struct], raw: bytes, path: Path, report: _Report, reason: str
    ) -> Struct:
        content = members(raw)
        if content is None:
            raise _UnreadableError(path, reason)
        values: dict[str, Any] = {}
        for field in _fields(struct):
            child = content.get(field.key)
            if child is None or child == _NULL:
                continue
            try:
                if len(path) == 1 and path != (_METADATA,):
                    # Each field of a section by itself: one that is full of junk must not take others with it,
                    # such as the condition that a controller wrote, and would write again and again.
                    report.begin()
                    values[field.name] = field.read_bounded(child, (*path, field.key), report)
                else:
                    values[field.name] = field.read(child, (*path, field.key), report)
            except _UnreadableError as error:
                if field.required or field.fallback.value is REQUIRED:
                    raise
                report.drop(error.path, error.reason)
        try:
            return struct(**values)
        except (TypeError, ValueError) as error:
            raise _UnreadableError(path, str(error)) from None

    def _read_map(
        self, item: "_Node", raw: bytes, path: Path, report: _Report, reason: str
    ) -> dict[str, Any]:
        content = members(raw)
        if content is None:
            raise _UnreadableError(path, reason)
        if len(content) > MOST_ITEMS:
            raise _UnreadableError(path, TOO_LONG.format(most=MOST_ITEMS, reason=reason))
        values: dict[str, Any] = {}
        entries = list(content.items())
        for start in range(0, len(entries), _TOGETHER):
            some = entries[start : start + _TOGETHER]
            try:
                values |= self._decode(
                    b"{" + b",".join([_encode(key) + b":" + child for key, child in some]) + b"}"
                )
                continue
            except _FAILURES:
                pass
            for key, child in some:
                if child == _NULL:
                    continue
                try:
                    values[key] = item.read(child, (*path, f"[{_safe(key)}]"), report)
                except _UnreadableError as error:
                    report.drop(error.path, error.reason)
        return values

    def _read_list(self, item: "_Node", raw: bytes, path: Path, report: _Report, reason: str) -> Any:
        content = elements(raw)
        if content is None:
            raise _UnreadableError(path, reason)
        if len(content) > MOST_ITEMS:
            raise _UnreadableError(path, TOO_LONG.format(most=MOST_ITEMS, reason=reason))
        values: list[Any] = []
        for start in range(0, len(content), _TOGETHER):
            some = content[start : start + _TOGETHER]
            try:
                values += self._decode(b"[" + b",".join(some) + b"]")
            except _FAILURES:
                for at, child in enumerate(some, start):
                    self._read_item(item, child, (*path, at), report, values)
        return tuple(values) if self._origin is tuple else values

    def _read_item(self, item: "_Node", raw: bytes, path: Path, report: _Report, values: list[Any]) -> None:
        try:
            if raw == _NULL:
                raise _UnreadableError(path, "Expected an item, got `null`")
            values.append(item.read(raw, path, report))
        except _UnreadableError as error:
            report.drop(error.path, error.reason)
            if self._items is not NO_FALLBACK:
                values.append(self._items)

    def _read_scalar(self, raw: bytes, path: Path, reason: str) -> Any:
        # 3.0 is an integer for a kube-apiserver.
        try:
            number = msgspec.json.decode(raw)
            if isinstance(number, float) and number.is_integer():
                return msgspec.convert(int(number), self._annotation)
        except _FAILURES:
            pass
        raise _UnreadableError(path, reason)


@cache
def _fields(struct: type[Struct]) -> tuple[_Field, ...]:
    return tuple(_Field(struct, field) for field in structs.fields(struct))


def _without_none(annotation: Any) -> Any:
    while get_origin(annotation) is Annotated:
        annotation = get_args(annotation)[0]
    if get_origin(annotation) in (Union, types.UnionType):
        members = [member for member in get_args(annotation) if member is not types.NoneType]
        if len(members) == 1:
            return _without_none(members[0])
    return annotation


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nulls(child) for key, child in value.items() if child is not None}
    return [_without_nulls(child) for child in value] if isinstance(value, list) else value


def _reason(error: Exception) -> str:
    """Format an error without the position, which the path has, and without the value."""
    if isinstance(error, RecursionError):
        return "Nested too deeply"
    if isinstance(error, msgspec.MsgspecError) and not isinstance(error, msgspec.ValidationError):
        return NOT_TEXT
    return NOT_TEXT if isinstance(error, UnicodeDecodeError) else str(error).partition(" - at `")[0]


def _safe(key: str) -> str:
    """Shorten and escape a map key for a path; the writer of the object chose it."""
    short = key if len(key) <= _LONGEST_KEY else f"{key[:_LONGEST_KEY]}…"
    short = short.replace("[", "?").replace("]", "?")
    return short if short.isprintable() else ascii(short)[1:-1]


def _written(path: Path) -> str:
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            text += part if not text or part.startswith("[") else f".{part}"
    return text
