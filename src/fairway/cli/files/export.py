"""Write Kubernetes objects as YAML, JSON or JSON lines to standard output, a file, or one file per kind.

Objects are written one by one, so a fleet may be larger than memory.
"""

import gzip
import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import IO, Any, Final, Literal

import msgspec

from fairway.cli.errors import BadInputError
from kubewire.documents.writer import dump_yaml

Format = Literal["yaml", "json", "jsonl"]

CANNOT_WRITE: Final = "cannot write {path}: {reason}"
NO_FOLDER: Final = "{option} {path}: there is no folder {folder}; create it, or name a file in another folder"
STDOUT_NAME: Final = "standard output"
_STDOUT: Final = "-"
_UNFINISHED: Final = ".unfinished"
_FILES: Final = {
    "ManagedCluster": "clusters",
    "ManagedClusterSet": "sets",
    "ManagedClusterSetBinding": "sets",
    "AddOnPlacementScore": "scores",
    "ManagedClusterScore": "scores",
    "Placement": "placements",
}
_OTHERS: Final = "others"


def require_folder(path: Path, *, option: str) -> None:
    """Raises BadInputError if the folder of a file does not exist: a mistyped path must not create folders."""
    folder = path.absolute().parent
    if not folder.is_dir():
        raise BadInputError(NO_FOLDER.format(option=option, path=path, folder=folder))


def format_for(out: str | None) -> Format:
    """Return the format that a file name implies."""
    name = (out or "").lower().removesuffix(".gz")
    if name.endswith(".jsonl"):
        return "jsonl"
    return "json" if name.endswith(".json") else "yaml"


def export(documents: Iterable[dict[str, Any]], *, out: str | None, output: Format) -> None:
    """Write every document. `out` is a file, a directory (existing, or ending in a slash), or None for stdout."""
    try:
        if out is None or out == _STDOUT:
            with _writer(sys.stdout.buffer, output) as write:
                for document in documents:
                    write(document)
        elif out.endswith(os.sep) or os.path.isdir(out):
            _export_directory(documents, out, output)
        else:
            with _opened(out) as stream, _writer(stream, output) as write:
                for document in documents:
                    write(document)
    except BrokenPipeError:
        raise
    except OSError as error:
        path = error.filename or out or STDOUT_NAME
        raise BadInputError(CANNOT_WRITE.format(path=path, reason=error.strerror or error)) from None


def _export_directory(documents: Iterable[dict[str, Any]], directory: str, output: Format) -> None:
    os.makedirs(directory, exist_ok=True)
    with ExitStack() as stack:
        writers: dict[str, Any] = {}
        for document in documents:
            name = _FILES.get(str(document.get("kind")), _OTHERS)
            if name not in writers:
                stream = stack.enter_context(_opened(os.path.join(directory, f"{name}.{output}")))
                writers[name] = stack.enter_context(_writer(stream, output))
            writers[name](document)


@contextmanager
def _opened(path: str) -> Iterator[IO[bytes]]:
    """Open a file that replaces `path` only when it is complete."""
    if os.path.exists(path) and not os.path.isfile(path):
        with _packed(path, path) as stream:
            yield stream
        return
    # Replace the target of a link, not the link.
    target = os.path.realpath(path)
    unfinished = f"{target}{_UNFINISHED}"
    try:
        with _packed(unfinished, path) as stream:
            yield stream
        os.replace(unfinished, target)
    except BaseException as error:
        with suppress(OSError):
            os.unlink(unfinished)
        if isinstance(error, OSError) and error.filename == unfinished:
            error.filename = path
        raise


@contextmanager
def _packed(written: str, path: str) -> Iterator[IO[bytes]]:
    with open(written, "wb") as stream:
        if path.lower().endswith(".gz"):
            # Without time and name in the header, the same fleet gives the same bytes.
            with gzip.GzipFile(filename="", mode="wb", fileobj=stream, compresslevel=6, mtime=0) as packed:
                yield packed  # type: ignore[misc]  # GzipFile writes bytes like any binary file
        else:
            yield stream


@contextmanager
def _writer(stream: IO[bytes], output: Format) -> Iterator[Any]:
    encode = msgspec.json.Encoder(order="sorted").encode
    first = True

    def write_yaml(document: dict[str, Any]) -> None:
        nonlocal first
        if not first:
            stream.write(b"---\n")
        first = False
        stream.write(dump_yaml(document).encode())

    def write_line(document: dict[str, Any]) -> None:
        stream.write(encode(document) + b"\n")

    def write_item(document: dict[str, Any]) -> None:
        nonlocal first
        stream.write((b"" if first else b",\n") + encode(document))
        first = False

    if output == "json":
        stream.write(b'{"apiVersion":"v1","kind":"List","items":[\n')
        yield write_item
        stream.write(b"\n]}\n")
    else:
        yield write_line if output == "jsonl" else write_yaml
    stream.flush()
