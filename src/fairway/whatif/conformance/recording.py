"""Compare results with those recorded from the reference implementations.

The content of a recording determines its family. A runner in `RUNNERS` checks a family; a family without a runner is an
error, never a pass.
"""

import gzip
import os
import stat
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from importlib import import_module
from typing import IO, Any, Final, Protocol

import msgspec

from fairway.whatif.conformance.differences import Difference

Row = dict[str, Any]

PLACEMENT: Final = "placement"
CEL: Final = "cel"
QUANTITY: Final = "quantity"
POD_REQUESTS: Final = "pod-requests"
POD_SCHEDULING: Final = "pod-scheduling"

# The keys in the first line that identify a family.
_SIGNS: Final[dict[str, frozenset[str]]] = {
    PLACEMENT: frozenset({"objects", "schedule", "expected"}),
    CEL: frozenset({"clusters", "scores"}),
    QUANTITY: frozenset({"text", "valid"}),
    POD_REQUESTS: frozenset({"pod", "requests"}),
    POD_SCHEDULING: frozenset({"case", "expected"}),
}
FAMILIES: Final = tuple(_SIGNS)
MOST_BYTES: Final = 1 << 30

# Family → `module:attribute` of its runner; imported when a file of the family turns up.
RUNNERS: Final[dict[str, str]] = {
    CEL: "fairway.whatif.conformance.cel:run",
    PLACEMENT: "fairway.whatif.conformance.placement:run",
    POD_REQUESTS: "fairway.whatif.conformance.pod_requests:run",
    POD_SCHEDULING: "fairway.whatif.conformance.pod_scheduling:run",
    QUANTITY: "fairway.whatif.conformance.quantity:run",
}

NO_RUNNER = "{family}: this version has no implementation to check"
UNKNOWN_CONTENT = "{file}:1: not a recording of a known family ({families})"
UNREADABLE = "{file}: cannot be read: {reason}"
IS_DIRECTORY = "it is a directory; name the files in it"
IS_DEVICE = "it is a device, not a file"
TOO_LARGE = "it has more than {limit:,} bytes once unpacked"
TOO_DEEP = "nested too deeply"
BAD_LINE = "{file}:{line}: not a JSON object: {reason}"
NO_ROWS = "{file}: contains no recorded results"
AN_ANSWER = "(an answer)"
INCOMPLETE_ROW = "{file}:{line}: the row has no {key!r}"


class ConformanceError(Exception):
    """A recording that cannot be used."""


@dataclass(frozen=True, slots=True)
class Result:
    """The result of one recorded row. It passed if there are no differences."""

    name: str
    differences: tuple[Difference, ...] = ()

    @property
    def passed(self) -> bool:
        return not self.differences


class Runner(Protocol):
    """Checks all rows of one file, in order, and yields a result for every answer recorded in them.

    A row that lacks something raises KeyError; any other exception while answering is a fault and must become
    a difference, so that one crash does not hide the other answers.
    """

    def __call__(self, rows: Iterable[Row], /) -> Iterator[Result]: ...


@dataclass(frozen=True, slots=True)
class Recording:
    """A file of recorded results."""

    file: str
    family: str
    rows: tuple[bytes, ...]

    def __len__(self) -> int:
        return len(self.rows)

    def run(self, *, runner: Runner | None = None) -> Iterator[Result]:
        """Yield every result, in the order of the file. ``runner`` replaces that of the family."""
        rows = _Rows(self)
        try:
            yield from (runner or runner_for(self.family))(rows)
        except _IncompleteRowError as error:
            message = INCOMPLETE_ROW.format(file=self.file, line=rows.line, key=error.key)
            raise ConformanceError(message) from None


def compared_result(name: str, compare: Callable[[], Iterable[Difference]]) -> Result:
    """Return the result of one row; an exception of the implementation under test is a difference."""
    try:
        return Result(name=name, differences=tuple(compare()))
    except ConformanceError:
        raise
    except Exception as error:
        crash = Difference("", AN_ANSWER, f"{type(error).__name__}: {error}")
        return Result(name=name, differences=(crash,))


class _UnreadableRowError(Exception):
    """A line is no JSON object. The message is the reason."""


class _IncompleteRowError(ConformanceError):
    def __init__(self, key: str) -> None:
        super().__init__(key)
        self.key = key


class _RecordedRow(dict[str, Any]):
    """A row that distinguishes a missing field from a KeyError of the implementation under test."""

    def __missing__(self, key: str) -> Any:
        raise _IncompleteRowError(key)


class _Rows:
    """The rows of a recording, decoded one at a time, with the current line."""

    def __init__(self, recording: Recording) -> None:
        self.line = 0
        self._recording = recording

    def __iter__(self) -> Iterator[Row]:
        for raw in self._recording.rows:
            self.line += 1
            try:
                row = _row(raw)
            except _UnreadableRowError as error:
                message = BAD_LINE.format(file=self._recording.file, line=self.line, reason=error)
                raise ConformanceError(message) from None
            yield _RecordedRow(row)


def open_recording(path: str) -> Recording:
    """Read a file, plain or gzipped whatever its name, and detect its family."""
    lines = [line for line in _content(path).split(b"\n") if line.strip()]
    if not lines:
        raise ConformanceError(NO_ROWS.format(file=path))
    try:
        first = _row(lines[0])
    except _UnreadableRowError as error:
        raise ConformanceError(BAD_LINE.format(file=path, line=1, reason=error)) from None
    for family, signs in _SIGNS.items():
        if signs <= first.keys():
            runner_for(family)
            return Recording(file=path, family=family, rows=tuple(lines))
    raise ConformanceError(UNKNOWN_CONTENT.format(file=path, families=", ".join(FAMILIES)))


def runner_for(family: str) -> Runner:
    """Return the runner of a family. Raise ConformanceError if this version has none."""
    target = RUNNERS.get(family)
    if target is None:
        raise ConformanceError(NO_RUNNER.format(family=family))
    module, _, attribute = target.partition(":")
    runner: Runner = getattr(import_module(module), attribute)
    return runner


def _row(raw: bytes) -> Row:
    try:
        return msgspec.json.decode(raw, type=dict[str, Any])
    except RecursionError:
        raise _UnreadableRowError(TOO_DEEP) from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise _UnreadableRowError(str(error)) from None


def _content(path: str) -> bytes:
    try:
        mode = os.stat(path).st_mode
        if stat.S_ISDIR(mode):
            raise ConformanceError(UNREADABLE.format(file=path, reason=IS_DIRECTORY))
        if stat.S_ISCHR(mode) or stat.S_ISBLK(mode):
            # Some devices are infinite.
            raise ConformanceError(UNREADABLE.format(file=path, reason=IS_DEVICE))
        with open(path, "rb") as stream:
            # Peek, because a pipe cannot be rewound.
            if not stream.peek(2).startswith(b"\x1f\x8b"):
                return _capped(stream, path)
            with gzip.GzipFile(fileobj=stream) as unpacked:
                return _capped(unpacked, path)
    except (OSError, EOFError, zlib.error, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ConformanceError(UNREADABLE.format(file=path, reason=reason)) from None


def _capped(stream: IO[bytes] | gzip.GzipFile, path: str) -> bytes:
    data = stream.read(MOST_BYTES + 1)
    if len(data) > MOST_BYTES:
        raise ConformanceError(UNREADABLE.format(file=path, reason=TOO_LARGE.format(limit=MOST_BYTES)))
    return data
