"""Messages between the scheduler and a worker.

The scheduler sends pickles, which the worker may trust. The worker's messages are decoded strictly and contain data
only: a plugin that wrote to the connection, or damaged the memory of its process, must not run code here.
"""

import pickle
import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Final, get_args

import msgspec
import numpy as np

from fairway.api.placement import Placement
from fairway.engine import remedies
from fairway.engine.points import Reads
from fairway.engine.status import Code, Status

LARGEST_ANSWER: Final = 64 << 20
"""Bytes. The scores of a million clusters take 16 MiB."""
HEADER: Final = struct.Struct("!Q")

_ARRAY, _STATUS, _READS, _REMEDY = range(1, 5)
_KINDS: Final = "iufb"
_REMEDIES: Final[Mapping[str, type[Any]]] = {kind.__name__: kind for kind in get_args(remedies.Remedy)}


class WireError(Exception):
    """The worker sent what is no message."""


# From the scheduler


@dataclass(frozen=True, slots=True, kw_only=True)
class FileSource:
    path: str
    shown: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PackageSource:
    """An entry point."""

    value: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Describe:
    """List the plugins of a file, or of an entry point with this name."""

    source: FileSource | PackageSource
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """Create the plugin. ``memory_limit`` is in bytes, beyond what the process has when it starts."""

    source: FileSource | PackageSource
    name: str
    args: Mapping[str, Any]
    memory_limit: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CellUpdates:
    """What changed since the last request: parts to drop, and new values by row."""

    dropped: tuple[tuple[str, ...], ...] = ()
    cells: Mapping[tuple[str, ...], tuple[tuple[int, ...], tuple[Any, ...]]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """``cycle`` is the same for all questions about one snapshot, workload and time."""

    cycle: int
    placement: Placement
    now: int
    generation: int
    live: Any
    held: Any
    """The rows that the workload has now; None if hosts are not clusters."""
    updates: CellUpdates
    method: str
    args: tuple[Any, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A column, or another part of the snapshot, that the plugin reads for the first time; or a piece of it."""

    value: Any
    last: bool = True


# From the worker


class Need(msgspec.Struct, frozen=True, tag=True):
    """The plugin reads a part of the snapshot that was not sent yet. Large parts are sent in several pieces."""

    part: tuple[str, ...]
    piece: int
    seconds: float
    """What the plugin took since the last message."""


class Answer(msgspec.Struct, frozen=True, tag=True):
    value: bytes
    """Packed by ``pack``."""


class Failed(msgspec.Struct, frozen=True, tag=True):
    """A fault of the plugin. ``fatal`` if the process ends because of it."""

    point: str
    reason: str
    fatal: bool = False


class Plugin(msgspec.Struct, frozen=True):
    """A plugin class: its name, and the methods that it has."""

    name: str
    methods: tuple[str, ...]
    timeless: bool


class Described(msgspec.Struct, frozen=True, tag=True):
    plugins: tuple[Plugin, ...]


class Refused(msgspec.Struct, frozen=True, tag=True):
    """The plugin cannot be loaded or created."""

    reason: str
    remedy: str = ""


class Ready(msgspec.Struct, frozen=True, tag=True):
    pass


Reply = Need | Answer | Failed | Described | Refused | Ready
_replies: Final = msgspec.msgpack.Decoder(Reply)


def frame(message: object) -> bytes:
    """Return a message of the scheduler as bytes."""
    data = pickle.dumps(message, protocol=pickle.HIGHEST_PROTOCOL)
    return HEADER.pack(len(data)) + data


def frame_reply(reply: Reply) -> bytes:
    data = msgspec.msgpack.encode(reply)
    return HEADER.pack(len(data)) + data


def decode_reply(data: bytes) -> Reply:
    """Raises WireError."""
    try:
        reply: Reply = _replies.decode(data)
    except msgspec.MsgspecError as error:
        raise WireError(str(error)) from None
    return reply


def pack(value: object) -> bytes:
    """Encode what a plugin returned. Raises TypeError or OverflowError for what has no encoding."""
    return msgspec.msgpack.encode(_packed(value))


def unpack(data: bytes) -> Any:
    """Raises WireError."""
    try:
        return msgspec.msgpack.decode(data, ext_hook=_unpacked)
    except Exception as error:  # whatever NumPy, an enumeration or a constructor raises for nonsense
        raise WireError(str(error)) from None


def _packed(value: Any) -> Any:
    match value:
        case None | bool() | int() | float() | str() | bytes():
            return value
        case np.ndarray():
            if value.dtype.kind not in _KINDS:
                raise TypeError(f"an array of {value.dtype}")
            return _extension(_ARRAY, value.dtype.str, value.shape, np.ascontiguousarray(value).tobytes())
        case np.generic():
            return value.item()
        case Status():
            return _extension(_STATUS, value.code.value, value.reasons, value.plugin, value.field)
        case Reads():
            return _extension(_READS, sorted(value.cells), sorted(value.shared), value.anything)
        case dict():
            return {key: _packed(item) for key, item in value.items()}
        case list() | tuple():
            return [_packed(item) for item in value]
    if type(value).__name__ in _REMEDIES:
        values = [getattr(value, field.name) for field in fields(value)]
        return _extension(_REMEDY, type(value).__name__, values)
    raise TypeError(f"an object of class {type(value).__name__}")


def _extension(code: int, *content: object) -> msgspec.msgpack.Ext:
    return msgspec.msgpack.Ext(code, msgspec.msgpack.encode(content))


def _unpacked(code: int, data: memoryview) -> Any:
    content = msgspec.msgpack.decode(data)
    if code == _ARRAY:
        kind = np.dtype(content[0])
        if kind.kind not in _KINDS:
            raise WireError(f"an array of {kind}")
        return np.frombuffer(content[2], dtype=kind).reshape(content[1])
    if code == _STATUS:
        return Status(Code(content[0]), _texts(content[1]), str(content[2]), str(content[3]))
    if code == _READS:
        cells, shared, anything = content
        return Reads(cells=_keys(cells), shared=_keys(shared), anything=bool(anything))
    if code == _REMEDY:
        return _REMEDIES[content[0]](*map(_hashable, content[1]))
    raise WireError(f"an extension with code {code}")


def _texts(values: Iterable[Any]) -> tuple[str, ...]:
    return tuple(map(str, values))


def _keys(keys: Iterable[Any]) -> frozenset[tuple[str, ...]]:
    return frozenset(_texts(key) for key in keys)


def _hashable(value: Any) -> Any:
    return tuple(map(_hashable, value)) if isinstance(value, list) else value
