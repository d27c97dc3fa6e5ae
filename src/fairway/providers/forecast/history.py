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
    """``step`` is the length of a bucket in seconds, ``columns`` how many are kept, ``most`` how many series."""

    def __init__(self, *, step: float, columns: int, most: int) -> None:
        self.step, self.columns, self.most = step, columns, most
        self.last = -1
        """The newest bucket; -1 for none yet."""
        self._rows: dict[Key, int] = {}
        self._values: Matrix = np.full((0, columns), np.nan)
        self._counts = np.zeros(0)
        """Values in the newest bucket, whose mean it is."""

    @property
    def keys(self) -> Mapping[Key, int]:
        """Which row is whose."""
        return self._rows

    def bucket(self, moment: float) -> int:
        return int(moment // self.step)

    def record(self, values: Mapping[Key, float], *, moment: float) -> bool:
        """Whether a new bucket began, or the clock was set back by more than one: then what it made up is dropped."""
        bucket = self.bucket(moment)
        if bucket == self.last - 1:
            return False  # at the border of two, clocks that are kept exact go back and forth
        began = bucket != self.last
        if bucket > self.last:
            self._advance(bucket)
        elif began:
            self._retreat(bucket)
        self._admit(values)
        for key, value in values.items():
            row = self._rows.get(key)
            if row is None:
                continue
            before = self._values[row, -1] if self._counts[row] else 0.0
            self._counts[row] += 1
            self._values[row, -1] = before + (value - before) / self._counts[row]
        return began

    def backfill(self, points: Mapping[Key, Iterable[tuple[float, float]]], *, moment: float) -> None:
        """Values of the past, each with its time, for buckets that have none. The one of ``moment`` is the newest."""
        if self.bucket(moment) > self.last:
            self._advance(self.bucket(moment))
        self._admit(points)
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
            new = (counts > 0) & np.isnan(self._values[row])
            self._values[row, new] = sums[new] / counts[new]

    def complete(self) -> Matrix:
        """All buckets but the newest, which is still being filled."""
        return self._values[:, :-1]

    def full(self) -> bool:
        return len(self._rows) >= self.most

    def _advance(self, bucket: int) -> None:
        moved = min(bucket - self.last, self.columns) if self.last >= 0 else self.columns
        self._values = np.roll(self._values, -moved, axis=1)
        self._values[:, -moved:] = np.nan
        self._counts[:] = 0
        self.last = bucket
        self._forget(key for key, row in self._rows.items() if np.isnan(self._values[row]).all())

    def _retreat(self, bucket: int) -> None:
        """What is later than this was recorded at times that have not come yet."""
        moved = min(self.last - bucket, self.columns)
        self._values = np.roll(self._values, moved, axis=1)
        self._values[:, :moved] = np.nan
        self._counts = np.isfinite(self._values[:, -1]).astype(np.float64)
        self.last = bucket
        self._forget(key for key, row in self._rows.items() if np.isnan(self._values[row]).all())

    def _forget(self, keys: Iterable[Key]) -> None:
        """What has had no value for as long as anything is kept."""
        gone = set(keys)
        if not gone:
            return
        left = [key for key in self._rows if key not in gone]
        rows = [self._rows[key] for key in left]
        self._values, self._counts = self._values[rows], self._counts[rows]
        self._rows = {key: row for row, key in enumerate(left)}

    def _admit(self, keys: Iterable[Key]) -> None:
        new = [key for key in keys if key not in self._rows][: max(self.most - len(self._rows), 0)]
        if not new:
            return
        for key in new:
            self._rows[key] = len(self._rows)
        self._values = np.vstack([self._values, np.full((len(new), self.columns), np.nan)])
        self._counts = np.concatenate([self._counts, np.zeros(len(new))])

    def save(self, path: Path) -> None:
        """By one rename. Raises OSError."""
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
                os.fsync(file.fileno())
            os.replace(name, path)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(name)
            raise

    def load(self, path: Path) -> str:
        """What is wrong with the file, in words; empty if it was read, or if there is none."""
        try:
            with path.open("rb") as file, np.load(file, allow_pickle=False) as found:
                header = json.loads(found["header"].tobytes())
                values, counts = found["values"], found["counts"]
                keys = [(str(cluster), str(score)) for cluster, score in header["keys"]]
                last, same = int(header["last"]), header["version"] == VERSION and header["step"] == self.step
        except FileNotFoundError:
            return ""
        except Exception as error:  # numpy, zipfile and zlib have many ways of saying that a file is damaged
            return DAMAGED.format(path=path, why=f"{type(error).__name__}: {error}")
        fits = values.ndim == 2 and values.shape[0] == len(keys) == len(counts) and values.dtype == np.float64
        if not same or not fits:
            return OTHER_FORM.format(path=path)
        self.last, self._counts = last, counts.astype(np.float64)
        self._rows = {key: row for row, key in enumerate(keys)}
        # More or fewer seasons may be kept now than when it was written.
        self._values = np.full((len(keys), self.columns), np.nan)
        kept = min(self.columns, values.shape[1])
        if kept:
            self._values[:, -kept:] = values[:, -kept:]
        return ""
