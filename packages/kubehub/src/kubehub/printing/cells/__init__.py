"""The cells of built-in kinds in printed tables, by kind and column name."""

from collections.abc import Mapping
from typing import Final

from kubehub.printing.cells import cluster, network, pods, storage, workloads
from kubehub.printing.cells.parts import Cell, field, since

_ANY: Final[Mapping[str, Cell]] = {
    "Name": field("metadata", "name"),
    "Age": since("metadata", "creationTimestamp"),
    "Created At": field("metadata", "creationTimestamp"),
}
_BY_KIND: Final[Mapping[str, Mapping[str, Cell]]] = {
    **cluster.KINDS,
    **pods.KINDS,
    **workloads.KINDS,
    **network.KINDS,
    **storage.KINDS,
}


def cell(kind: str, column: str) -> Cell:
    """Return the value of a cell; unknown columns are empty."""
    return _BY_KIND.get(kind, {}).get(column) or _ANY.get(column) or (lambda _, __: "")
