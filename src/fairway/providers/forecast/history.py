"""The recorded series: one row per cluster and score, one column per time bucket, at most a fixed number.

Stored in a file that is replaced atomically, to survive restarts. An unreadable file means an empty history, never a
wrong one.
"""

import contextlib
import json
import os
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

import numpy as np

from fairway.providers.forecast.model import Matrix

VERSION: Final = 1

OTHER_FORM: Final = "{path} was written by another version or with another step; starting a new history"
DAMAGED: Final = "cannot read {path} ({why}); starting a new history"
FULL: Final = "limit of {most} series reached; further series are not recorded"

Key = tuple[str, str]
"""Cluster and score."""


class History:
    """``step``: seconds per bucket; ``columns``: number of buckets; ``most``: limit of series."""

    def __init__(self, *, step: float, columns: int, most: int) -> None:
        self.step, self.columns, self.most = step, columns, most
        self.last = -1
        """Newest bucket; -1 if there is none."""
        self._rows: dict[Key, int] = {}
        self._values: Matrix = np.full((0, columns), np.nan)
        self._counts = np.zeros(0)
        """Number of values averaged in the newest bucket."""

    @property
    def keys(self) -> Mapping[Key, int]:
        """Row of each series."""
        return self._rows

    def bucket(self, moment: float) -> int:
        return int(moment // self.step)

    def record(self, values: Mapping[Key, float], *, moment: float) -> bool:
        """Record values. Return whether a new bucket started, or the clock was set back by more than one bucket.

        In the second case, later buckets are dropped.
        """
        bucket = self.bucket(moment)
        if bucket == self.last - 1:
            return False  #  small clock adjustments at the border of two buckets
        began = bucket != self.last
        if bucket > self.last:
            self._advance(bucket)
        elif began:
            self._drop_after(bucket)
        self._add_rows(values)
        for key, value in values.items():
            row = self._rows.get(key)
            if row is None:
                continue
            # A running mean, so a bucket needs two numbers whatever the interval of readings is.
            before = self._values[row, -1] if self._counts[row] else 0.0
            self._counts[row] += 1
            self._values[row, -1] = before + (value - before) / self._counts[row]
        return began

    def backfill(self, points: Mapping[Key, Iterable[tuple[float, float]]], *, moment: float) -> None:
        """Fill empty buckets with past values and their times. The bucket of ``moment`` is the newest."""
        if self.bucket(moment) > self.last:
            self._advance(self.bucket(moment))
        self._add_rows(points)
        for key, values in points.items():
            row = self._rows.get(key)
            if row is None:
                continue
            sums, counts = np.zeros(self.columns), np.zeros(self.columns)
            for at, value in values:
                column = self.columns - 1 - (self.last - self.bucket(at))
                if 0 <= column < self.columns - 1:
                    sums[column] += value
                    counts[column] += 1
            # Recorded values win over the past of the source: they are what was published.
            new = (counts > 0) & np.isnan(self._values[row])
            self._values[row, new] = sums[new] / counts[new]

    def complete(self) -> Matrix:
        """All buckets except the newest, which is incomplete."""
        return self._values[:, :-1]

    def full(self) -> bool:
        return len(self._rows) >= self.most

    def _advance(self, bucket: int) -> None:
        moved = min(bucket - self.last, self.columns) if self.last >= 0 else self.columns
        self._values = np.roll(self._values, -moved, axis=1)
        self._values[:, -moved:] = np.nan
        self._counts[:] = 0
        self.last = bucket
        self._remove_rows(key for key, row in self._rows.items() if np.isnan(self._values[row]).all())

    def _drop_after(self, bucket: int) -> None:
        """Drop buckets after ``bucket``, which were recorded while the clock was ahead."""
        moved = min(self.last - bucket, self.columns)
        self._values = np.roll(self._values, moved, axis=1)
        self._values[:, :moved] = np.nan
        self._counts = np.isfinite(self._values[:, -1]).astype(np.float64)
        self.last = bucket
        self._remove_rows(key for key, row in self._rows.items() if np.isnan(self._values[row]).all())

    def _remove_rows(self, keys: Iterable[Key]) -> None:
        removed = set(keys)
        if not removed:
            return
        left = [key for key in self._rows if key not in removed]
        rows = [self._rows[key] for key in left]
        self._values, self._counts = self._values[rows], self._counts[rows]
        self._rows = {key: row for row, key in enumerate(left)}

    def _add_rows(self, keys: Iterable[Key]) -> None:
        new = [key for key in keys if key not in self._rows][: max(self.most - len(self._rows), 0)]
        if not new:
            return
        for key in new:
            self._rows[key] = len(self._rows)
        self._values = np.vstack([self._values, np.full((len(new), self.columns), np.nan)])
        self._counts = np.concatenate([self._counts, np.zeros(len(new))])

    def save(self, path: Path) -> None:
        """Replace the file atomically. Raises OSError."""
        header = {"version": VERSION, "step": self.step, "last": self.last, "keys": list(self._rows)}
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        try:
            with open(handle, "wb") as file:
                np.savez(
                    file,
                    header=np.frombuffer(json.dumps(header).encode(), dtype=np.uint8),
                    values=self._values,
                    counts=self._counts,
                )
                file.flush()
                # Before the rename: after a power failure, the name must not refer to an empty file.
                os.fsync(file.fileno())
            os.replace(name, path)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(name)
            raise

    def load(self, path: Path) -> str:
        """Return what is wrong with the file; empty if it was read or does not exist."""
        try:
            with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
                header = json.loads(archive["header"].tobytes())
                values, counts = archive["values"], archive["counts"]
                keys = [(str(cluster), str(score)) for cluster, score in header["keys"]]
                last, same = int(header["last"]), header["version"] == VERSION and header["step"] == self.step
        except FileNotFoundError:
            return ""
        except Exception as error:  #  numpy, zipfile and zlib raise many types for a damaged file
            return DAMAGED.format(path=path, why=f"{type(error).__name__}: {error}")
        fits = values.ndim == 2 and values.shape[0] == len(keys) == len(counts) and values.dtype == np.float64
        if not same or not fits:
            return OTHER_FORM.format(path=path)
        self.last, self._counts = last, counts.astype(np.float64)
        self._rows = {key: row for row, key in enumerate(keys)}
        # The number of kept seasons may have changed since.
        self._values = np.full((len(keys), self.columns), np.nan)
        kept = min(self.columns, values.shape[1])
        if kept:
            self._values[:, -kept:] = values[:, -kept:]
        return ""
