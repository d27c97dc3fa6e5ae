"""Write a hub's objects as manifests to a file, to standard output, or to the files of a folder."""

import os
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Final

from fairway.cli.files.export import export, format_for
from kubehub import Document
from kubehub.portable import DEFINITION, Count, portable_objects

_FILES: Final = ("definitions.yaml", "objects.yaml", "status.yaml")

STDOUT: Final = "-"


def targets(out: str, *, status: bool) -> list[Path]:
    """Return the files to write; those of a folder in the order in which to apply them."""
    if out != STDOUT and (out.endswith(os.sep) or Path(out).is_dir()):
        return [Path(out, name) for name in (_FILES if status else _FILES[:2])]
    return [Path(out)]


def write(folder: Path, out: str, *, status: bool) -> Count:
    """Write the objects of the hub in ``folder``.

    In a folder, definitions have a file of their own, because kubectl looks up all kinds before it applies the first
    object. So have statuses, which must be applied to the subresource `status`.
    """
    count = Count()
    files = targets(out, status=status)
    documents = portable_objects(folder, count, status=status)
    if len(files) == 1:
        export(documents, out=out, output="json" if format_for(out) == "json" else "yaml")
        return count
    files[0].parent.mkdir(parents=True, exist_ok=True)
    definitions: list[Document] = []
    first = None
    for first in documents:
        if first["kind"] != DEFINITION:
            break
        definitions.append(first)
        first = None
    export(definitions, out=str(files[0]), output="yaml")
    statuses: list[Document] = []
    rest = chain([first] if first else [], documents)
    export(_split_status(rest, statuses), out=str(files[1]), output="yaml")
    if status:
        export(statuses, out=str(files[2]), output="yaml")
    count.statuses = len(statuses)
    return count


def _split_status(documents: Iterator[Document], statuses: list[Document]) -> Iterator[Document]:
    for document in documents:
        if status := document.pop("status", None):
            metadata = {k: v for k, v in document["metadata"].items() if k in ("name", "namespace")}
            named = {"apiVersion": document["apiVersion"], "kind": document["kind"], "metadata": metadata}
            statuses.append(named | {"status": status})
        yield document
