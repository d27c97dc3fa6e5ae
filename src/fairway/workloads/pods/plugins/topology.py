"""Sums over topology domains: all nodes with the same value of a label."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from fairway.hosts.bitmap import Mask
from fairway.hosts.column import Key
from fairway.hosts.nodes.cells import label
from fairway.hosts.snapshot import Snapshot

Counts = npt.NDArray[np.int64]
Codes = npt.NDArray[np.int32]


def domain_codes(snapshot: Snapshot[Any], topology_key: str) -> Codes:
    """Return the domain of each row; 0 for rows without the label."""
    return snapshot.codes(label(topology_key)).codes


@dataclass(frozen=True, slots=True)
class Counted:
    """A column as it was when its cells were added to the sums."""

    key: Key
    weight: int
    values: Counts


@dataclass(frozen=True, slots=True)
class DomainSums:
    """Weighted sums of columns over the domains of one topology key."""

    label: Key
    codes: Codes
    """Domain of each row."""
    counted: Codes
    """The same, but 0 for rows whose cells do not count."""
    sums: Counts
    """By domain."""
    columns: tuple[Counted, ...]

    @property
    def counts_any(self) -> bool:
        """Whether a cell of one of the columns counts, be it that their weights cancel each other out."""
        return any(bool(np.any(column.values[self.counted > 0])) for column in self.columns)

    def updated(self, snapshot: Snapshot[Any], generation: int) -> "DomainSums":
        """Return the sums of a later snapshot, given the generation of this one. The labels must be the same."""
        sums: Counts | None = None
        columns: list[Counted] = []
        for column in self.columns:
            rows = snapshot.journal.rows_since((column.key,), generation)
            if not rows:
                columns.append(column)
                continue
            values = snapshot.counts(column.key).values
            sums = self.sums.copy() if sums is None else sums
            for row in set(rows):
                if code := self.counted.item(row):
                    sums[code] += column.weight * (values.item(row) - column.values.item(row))
            columns.append(replace(column, values=values.copy()))
        return self if sums is None else replace(self, sums=sums, columns=tuple(columns))


def domain_sums(
    snapshot: Snapshot[Any],
    topology_key: str,
    columns: Sequence[tuple[Key, int]],
    *,
    among: Mask | None = None,
) -> DomainSums:
    """Return the sums of these columns, given with their weights, over the rows with the label, or some of them."""
    name = label(topology_key)
    column = snapshot.codes(name)
    codes: Codes = column.codes if among is None else np.where(among, column.codes, np.int32(0))
    sums = np.zeros(len(column.values), dtype=np.int64)
    counted: list[Counted] = []
    for key, weight in columns:
        values = snapshot.counts(key).values.copy()
        counts = np.bincount(codes, weights=values, minlength=len(sums)).astype(np.int64)
        sums += counts if weight == 1 else counts * weight
        counted.append(Counted(key, weight, values))
    sums[0] = 0
    return DomainSums(name, column.codes, codes, sums, tuple(counted))


def rows_in(codes: Codes, domains: Mask) -> list[int]:
    """Return the rows of these domains."""
    rows: list[int] = np.flatnonzero(domains[codes]).tolist() if domains.any() else []
    return rows
