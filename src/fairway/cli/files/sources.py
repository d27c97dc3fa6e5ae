"""Read files, directories and streams as UTF-8 text.

Files that are missing, unreadable, devices, too large, binary, not UTF-8 or empty are rejected before a parser sees
them. The size and the first block are checked before the rest is read, so that a disk image is rejected quickly.
"""

import gzip
import io
import os
import stat
import sys
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final

from fairway.api.amount_display import display_bytes
from fairway.cli.errors import Problem
from fairway.cli.progress import tracked
from fairway.cli.text import cell, say

STDIN: Final = "-"
STDIN_NAME: Final = "<stdin>"
SUFFIXES: Final = (".yaml", ".yml", ".json", ".jsonl")
DEFAULT_MAX_BYTES: Final = 512 * 1024 * 1024
_BLOCK: Final = 64 * 1024
_CHUNK: Final = 1024 * 1024
_GZIP_MAGIC: Final = b"\x1f\x8b"
_UTF16_MARKS: Final = (b"\xff\xfe", b"\xfe\xff")

SKIPPED: Final = "fairway: skipped {count:,} binary {files}: {names}{more}"
MORE_SKIPPED: Final = " and {count:,} more"
SKIPPED_SHOWN: Final = 3
NOT_FOUND = "no such file or directory"
NOT_FOUND_REMEDY = "check the path given to -f"
NO_PERMISSION = "permission denied"
NO_PERMISSION_REMEDY = "make it readable for the current user"
NOT_A_FILE = "is a {kind}, not a file or directory"
NOT_A_FILE_REMEDY = "pipe its content in and use -f -"
TOO_LARGE = "is {size}, larger than the limit of {limit}"
TOO_LARGE_UNPACKED = "is larger than the limit of {limit} when uncompressed"
TOO_LARGE_REMEDY = "raise the limit with --max-file-size, for example --max-file-size 4GiB"
BINARY = "looks like binary data, not YAML or JSON"
BINARY_REMEDY = "name a YAML or JSON file, plain or gzipped"
UTF16 = "is encoded as UTF-16"
UTF16_REMEDY = "save it as UTF-8"
NOT_UTF8 = "byte {byte:#04x} is not valid UTF-8"
NOT_UTF8_REMEDY = "save the file as UTF-8"
BAD_GZIP = "is a damaged gzip file: {reason}"
BAD_GZIP_REMEDY = "create it again, or name the uncompressed file"
EMPTY = "is empty"
EMPTY_REMEDY = "name a file with at least one Kubernetes object"
NO_FILES = "contains no *.yaml, *.yml, *.json or *.jsonl file (plain or .gz)"
NO_FILES_REMEDY = "name a directory with Kubernetes objects"
CLOSED = "is closed"
CLOSED_REMEDY = "pipe objects in, or name a file with -f"
CANNOT_READ = "cannot read: {reason}"

_KINDS: Final = (
    (stat.S_ISFIFO, "named pipe"),
    (stat.S_ISCHR, "character device"),
    (stat.S_ISBLK, "block device"),
    (stat.S_ISSOCK, "socket"),
)


@dataclass(frozen=True, slots=True)
class Source:
    """The content of one file, as valid UTF-8 without a byte order mark."""

    name: str
    data: bytes


class SourceError(Exception):
    def __init__(self, problem: Problem) -> None:
        super().__init__(str(problem))
        self.problem = problem


def find_files(paths: Iterable[str], *, problems: list[Problem]) -> list[str]:
    """Return the files that `paths` name, each once; directories are searched recursively in name order.

    Hidden files and directories are skipped, and so are binary files in directories; links to directories are not
    followed.
    """
    readable: list[str] = []
    binary: list[str] = []
    seen: set[tuple[int, int]] = set()
    for path in paths:
        if path == STDIN:
            if STDIN not in readable:
                readable.append(STDIN)
            continue
        try:
            is_directory = stat.S_ISDIR(os.stat(path).st_mode)
            members = sorted(_members(path)) if is_directory else [path]
        except (OSError, ValueError) as error:
            problems.append(_os_problem(path, error))
            continue
        if not members:
            problems.append(Problem(file=path, message=NO_FILES, remedy=NO_FILES_REMEDY))
        for member in members:
            try:
                status = os.stat(member)
            except OSError as error:
                problems.append(_os_problem(member, error))
                continue
            identity = (status.st_dev, status.st_ino)
            if identity in seen:
                continue
            # Opening anything but a regular file may wait for a writer.
            if is_directory and stat.S_ISREG(status.st_mode) and _is_binary(member):
                binary.append(member)
            else:
                seen.add(identity)
                readable.append(member)
    if binary:
        files = "file" if len(binary) == 1 else "files"
        more = MORE_SKIPPED.format(count=len(binary) - SKIPPED_SHOWN) if len(binary) > SKIPPED_SHOWN else ""
        names = ", ".join(map(cell, binary[:SKIPPED_SHOWN]))
        say(SKIPPED.format(count=len(binary), files=files, names=names, more=more), stream=sys.stderr)
    return readable


def _is_binary(path: str) -> bool:
    """Look at the first block. ``read`` unpacks gzip and has advice for UTF-16, so neither is binary here."""
    try:
        with open(path, "rb", buffering=0) as stream:
            head = stream.read(_BLOCK)
    except OSError:
        return False  # reported when the file is read
    return b"\x00" in head and not head.startswith((_GZIP_MAGIC, *_UTF16_MARKS))


def _members(directory: str) -> Iterator[str]:
    def stop(error: OSError) -> None:
        raise error

    walked = os.walk(directory, onerror=stop)
    for folder, inner, files in tracked(walked, "searching", total=None):
        inner[:] = [name for name in inner if not name.startswith(".")]
        for name in files:
            if not name.startswith(".") and name.lower().removesuffix(".gz").endswith(SUFFIXES):
                yield os.path.join(folder, name)


def size_of(path: str) -> int:
    """Return the size in bytes; 0 for a stream."""
    return 0 if path == STDIN else Path(path).stat().st_size


def read(path: str, *, max_bytes: int = DEFAULT_MAX_BYTES) -> Source:
    """Read one file or standard input. Raises SourceError."""
    name = STDIN_NAME if path == STDIN else path
    try:
        if path == STDIN:
            if sys.stdin is None:
                raise SourceError(Problem(file=name, message=CLOSED, remedy=CLOSED_REMEDY))
            data = _read_stream(sys.stdin.buffer, name, max_bytes)
        else:
            _refuse_devices(path)
            with open(path, "rb") as stream:
                data = _read_stream(stream, name, max_bytes)
    except (OSError, ValueError) as error:
        raise SourceError(_os_problem(name, error)) from None
    data = data.removeprefix(b"\xef\xbb\xbf")
    _check_text(name, data)
    return Source(name=name, data=data)


def _refuse_devices(path: str) -> None:
    # /dev/stdin and the shell's <(...) are pipes with a writer.
    if path == "/dev/stdin" or path.startswith(("/dev/fd/", "/proc/self/fd/")):
        return
    mode = os.stat(path).st_mode
    for is_kind, kind in _KINDS:
        if is_kind(mode):
            message = NOT_A_FILE.format(kind=kind)
            raise SourceError(Problem(file=path, message=message, remedy=NOT_A_FILE_REMEDY))


def _read_stream(stream: IO[bytes], name: str, max_bytes: int) -> bytes:
    head = stream.read(_BLOCK)
    packed = head.startswith(_GZIP_MAGIC)
    if not packed:
        _sniff(name, head)
    try:
        size = os.fstat(stream.fileno()).st_size
    except (OSError, ValueError):
        size = 0
    if size > max_bytes:
        message = TOO_LARGE.format(size=display_bytes(size), limit=display_bytes(max_bytes))
        raise SourceError(Problem(file=name, message=message, remedy=TOO_LARGE_REMEDY))
    if packed:
        return _unpack(stream, head, name, max_bytes)
    return _read_capped(stream, head, name, max_bytes)


def _read_capped(stream: IO[bytes] | gzip.GzipFile, head: bytes, name: str, max_bytes: int) -> bytes:
    chunks = [head]
    total = len(head)
    while total <= max_bytes:
        chunk = stream.read(_CHUNK)
        if not chunk:
            return b"".join(chunks)
        chunks.append(chunk)
        total += len(chunk)
    raise _too_large(name, max_bytes)


def _unpack(stream: IO[bytes], head: bytes, name: str, max_bytes: int) -> bytes:
    try:
        with gzip.GzipFile(mode="rb", fileobj=_Rejoined(head, stream)) as unpacked:
            first = unpacked.read(_BLOCK)
            _sniff(name, first)
            return _read_capped(unpacked, first, name, max_bytes)
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        message = BAD_GZIP.format(reason=error)
        raise SourceError(Problem(file=name, message=message, remedy=BAD_GZIP_REMEDY)) from None


class _Rejoined(io.RawIOBase):
    """A stream with its first block prepended; standard input cannot seek."""

    def __init__(self, head: bytes, rest: IO[bytes]) -> None:
        self._head = head
        self._rest = rest

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        if not self._head:
            return self._rest.read(size)
        taken = self._head if size < 0 else self._head[:size]
        self._head = self._head[len(taken) :]
        return taken


def _sniff(name: str, head: bytes) -> None:
    if head.startswith(_UTF16_MARKS):
        raise SourceError(Problem(file=name, message=UTF16, remedy=UTF16_REMEDY))
    if b"\x00" in head:
        raise SourceError(Problem(file=name, message=BINARY, remedy=BINARY_REMEDY))


def _check_text(name: str, data: bytes) -> None:
    if not data.strip():
        raise SourceError(Problem(file=name, message=EMPTY, remedy=EMPTY_REMEDY))
    if b"\x00" in data:
        raise SourceError(Problem(file=name, message=BINARY, remedy=BINARY_REMEDY))
    if data.isascii():
        return
    try:
        data.decode()
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        message = NOT_UTF8.format(byte=data[error.start])
        raise SourceError(Problem(file=name, line=line, message=message, remedy=NOT_UTF8_REMEDY)) from None


def _too_large(name: str, max_bytes: int) -> SourceError:
    message = TOO_LARGE_UNPACKED.format(limit=display_bytes(max_bytes))
    return SourceError(Problem(file=name, message=message, remedy=TOO_LARGE_REMEDY))


def _os_problem(name: str, error: OSError | ValueError) -> Problem:
    if isinstance(error, FileNotFoundError | NotADirectoryError):
        return Problem(file=name, message=NOT_FOUND, remedy=NOT_FOUND_REMEDY)
    if isinstance(error, PermissionError):
        return Problem(file=str(error.filename or name), message=NO_PERMISSION, remedy=NO_PERMISSION_REMEDY)
    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return Problem(file=name, message=CANNOT_READ.format(reason=reason))
