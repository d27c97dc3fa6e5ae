"""Changes of inputs as bytes.

Scores are most of it: each publication changes the expiry of every cluster's scores. So they are columns: names of
clusters as numbers, expiries as differences, values in one byte each.
"""

import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec
import numpy as np

from fairway.api.cluster import ManagedCluster
from fairway.api.score import (
    AddOnPlacementScore,
    AddOnPlacementScoreItem,
    AddOnPlacementScoreStatus,
    ManagedClusterScore,
)
from fairway.history.inputs import BINDINGS, DEBITS, HOSTS, REQUESTS, SETS, InputChange
from fairway.hosts.clusters import cells
from fairway.hosts.clusters.hostset import HostSet
from fairway.hosts.clusters.scores import SILENT, is_silent
from fairway.hosts.column import Key
from fairway.hosts.instant import SECOND, from_micros, to_micros
from kubewire.api.meta import TRUE, Condition, ObjectMeta, UnreadableField

LEVEL: Final = 3
"""Of compression; level 6 took twice as long for 6 % fewer bytes."""
LARGEST: Final = 1 << 30
"""Bytes of a change after decompression: a foreign file must not exhaust the memory."""

_WIDTHS: Final[tuple[Any, ...]] = (np.int8, np.int16, np.int32, np.int64)

_encoder: Final = msgspec.msgpack.Encoder()
_UNREADABLE: Final = b'"unreadable":['

Tables = dict[Key, dict[str, Any]]
"""Objects by part and name."""


class Codec:
    """Encodes the changes of one file in order: clusters get numbers as they appear."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self._new: list[str] = []

    def encode(self, change: InputChange) -> bytes:
        self._new = []
        parts = [[list(part), self._part(part, objects)] for part, objects in change.parts.items()]
        body = _encoder.encode([change.complete, self._new, parts])
        return zlib.compress(body, LEVEL)

    def _number(self, name: str) -> int:
        number = self._numbers.get(name)
        if number is None:
            number = self._numbers[name] = len(self._numbers)
            self._new.append(name)
        return number

    def _part(self, part: Key, objects: Mapping[str, Any]) -> Any:
        if part[0] == cells.SCORE:
            return self._scores(objects)
        pairs = objects.items()
        if part == DEBITS:
            return [[name, _debits(debits)] for name, debits in pairs]
        if part == HOSTS or part[0] == cells.CALCULATOR:
            return [[name, None if thing is None else msgspec.json.encode(thing)] for name, thing in pairs]
        return [[name, msgspec.to_builtins(thing)] for name, thing in pairs]

    def _scores(self, scores: Mapping[str, AddOnPlacementScore | None]) -> list[Any]:
        groups: dict[tuple[tuple[str, ...], bool] | None, list[tuple[int, AddOnPlacementScore | None]]] = {}
        for name, score in scores.items():
            shape = None
            if score is not None:
                shape = (tuple([item.name for item in score.status.scores]), is_silent(score))
            groups.setdefault(shape, []).append((self._number(name), score))
        packed: list[Any] = []
        for shape, members in groups.items():
            members.sort(key=lambda member: member[0])
            numbers = _packed(np.diff([number for number, _ in members], prepend=0))
            if shape is None:
                packed.append([None, False, numbers])
                continue
            present = [score for _, score in members if score is not None]
            times = [score.status.validUntil for score in present]
            known = [to_micros(time) for time in times if time is not None]
            values = [[item.value for item in score.status.scores] for score in present]
            packed.append(
                [
                    list(shape[0]),
                    shape[1],
                    numbers,
                    bytes(time is not None for time in times),
                    _times(known),
                    _packed(np.array(values, dtype=np.int64).T.ravel()),
                ]
            )
        return packed


def _debits(debits: Mapping[tuple[str, str], Mapping[tuple[str, str], int]] | None) -> Any:
    if debits is None:
        return None
    return [
        [list(owner), [[list(score), delta] for score, delta in deltas.items()]]
        for owner, deltas in debits.items()
    ]


def _times(times: Sequence[int]) -> list[Any]:
    """Whole seconds, as most are, take a sixth of the bytes."""
    unit = SECOND if all(time % SECOND == 0 for time in times) else 1
    return [unit, _packed(np.diff(np.array(times, dtype=np.int64) // unit, prepend=0))]


def _packed(numbers: Any) -> list[Any]:
    """The first number has another size than the differences that follow."""
    array = np.asarray(numbers, dtype=np.int64)
    if not len(array):
        return [0, 0, b""]
    first, rest = int(array[0]), array[1:]
    largest = int(np.abs(rest).max(initial=0))
    width = next(at for at, bits in enumerate((7, 15, 31, 63)) if largest < 1 << bits)
    return [width, first, rest.astype(_WIDTHS[width]).tobytes()]


def _unpacked(packed: Any, count: int) -> Any:
    width, first, rest = packed
    if not count:
        return np.zeros(0, dtype=np.int64)
    numbers = np.empty(count, dtype=np.int64)
    numbers[0], numbers[1:] = first, np.frombuffer(rest, dtype=_WIDTHS[width])
    return numbers


class InputDecoder:
    """Applies the changes of one file in order. ``tables`` has the objects as of the last one."""

    def __init__(self) -> None:
        self.tables: Tables = {}
        self._names: list[str] = []

    def apply(self, data: bytes) -> None:
        """Raises ValueError for data that is no change."""
        try:
            decompressor = zlib.decompressobj()
            body = decompressor.decompress(data, LARGEST)
            if decompressor.unconsumed_tail or not decompressor.eof:
                raise ValueError("incomplete")
            _complete, new, parts = msgspec.msgpack.decode(body)
            self._names += new
            for part, packed in parts:
                table = self.tables.setdefault(tuple(part), {})
                for name, thing in self._objects(tuple(part), packed):
                    if thing is None:
                        table.pop(name, None)
                    else:
                        table[name] = thing
        except (zlib.error, msgspec.DecodeError, TypeError, IndexError, KeyError, OverflowError) as error:
            raise ValueError(str(error)) from None

    def _objects(self, part: Key, packed: Any) -> Iterator[tuple[str, Any]]:
        if part[0] == cells.SCORE:
            yield from self._scores(part[1], packed)
            return
        for name, thing in packed:
            yield name, None if thing is None else _object(part, thing)

    def _scores(self, resource: str, groups: Iterable[Any]) -> Iterator[tuple[str, Any]]:
        for items, silent, numbers, *rest in groups:
            width, _, data = numbers
            count = len(data) // np.dtype(_WIDTHS[width]).itemsize + 1
            names = [self._names[number] for number in np.cumsum(_unpacked(numbers, count)).tolist()]
            if items is None:
                yield from ((name, None) for name in names)
                continue
            timed, (unit, seconds), values = rest
            times = iter((np.cumsum(_unpacked(seconds, sum(timed))) * unit).tolist())
            matrix = _unpacked(values, count * len(items)).reshape(len(items), count)
            conditions = (Condition(type=SILENT, status=TRUE),) if silent else ()
            for at, name in enumerate(names):
                status = AddOnPlacementScoreStatus(
                    conditions=conditions,
                    scores=tuple(
                        AddOnPlacementScoreItem(name=item, value=int(matrix[number, at]))
                        for number, item in enumerate(items)
                    ),
                    validUntil=from_micros(next(times)) if timed[at] else None,
                )
                yield (
                    name,
                    AddOnPlacementScore(metadata=ObjectMeta(name=resource, namespace=name), status=status),
                )


def _object(part: Key, thing: Any) -> Any:
    if part == HOSTS:
        return _with_unreadable(thing, ManagedCluster)
    if part[0] == cells.CALCULATOR:
        return _with_unreadable(thing, ManagedClusterScore)
    if part == SETS:
        return msgspec.convert(thing, HostSet)
    if part == BINDINGS:
        return frozenset(thing)
    if part == REQUESTS:
        return tuple(thing)
    if part == DEBITS:
        return {
            (owner[0], owner[1]): {(score[0], score[1]): delta for score, delta in deltas}
            for owner, deltas in thing
        }
    return int(thing)


def _with_unreadable(body: bytes, kind: type[Any]) -> Any:
    """Restore which fields of the object could not be read, which its type does not decode."""
    thing = msgspec.json.decode(body, type=kind)
    if _UNREADABLE in body:
        raw = msgspec.json.decode(body).get("metadata", {}).get("unreadable", ())
        fields = msgspec.convert(raw, tuple[UnreadableField, ...])
        thing = msgspec.structs.replace(thing, metadata=thing.metadata.partial(fields))
    return thing
