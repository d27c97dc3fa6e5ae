"""Traces of arrivals: synthetic, or read from CSV."""

import csv
import math
import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final, TextIO

from fairway.hosts.instant import SECOND, Micros
from fairway.workloads.hosting.requests.demand import SIZES, SMALL

COLUMNS: Final = ("seconds", "name", "size", "tenant", "lifetime")
"""Of a CSV trace. ``lifetime`` is in seconds, and empty for an unlimited one; only ``seconds`` is required."""
LONGEST: Final = 10 * 365 * 86_400.0

NO_HEADER: Final = "line 1: the first line must name the columns; write seconds,name,size,tenant,lifetime"
UNKNOWN_COLUMN: Final = (
    "line 1: unknown column {name!r}; known columns: seconds, name, size, tenant, lifetime"
)
BAD_NUMBER: Final = "line {line}: {column} must be a number of seconds from 0 to {most:.0f}; got {text!r}"
BAD_SIZE: Final = "line {line}: there is no size {text!r}; write one of {known}"
TWICE: Final = "line {line}: the name {text!r} is used twice"
LONG_LINE: Final = "line {line}: is longer than {most:,} characters; a line has only {columns}"
NOT_CSV: Final = "line {line}: cannot parse as CSV: {reason}"
LONGEST_LINE: Final = 4096
EMPTY: Final = "the trace has no arrivals"


class TraceError(ValueError):
    """A trace that cannot be read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrival:
    at: Micros
    """After the start."""
    name: str
    size: str = SMALL
    tenant: str = "team-a"
    lifetime: Micros | None = None
    """None: unlimited."""


def synthetic(
    *, count: int, seconds: float, seed: int = 0, mix: bool = False, lifetime: float | None = None
) -> list[Arrival]:
    """Generate arrivals at random times. ``mix``: seven of ten small, two medium, one large."""
    rng = random.Random(seed)
    times = sorted(rng.uniform(0, seconds) for _ in range(count))
    names = ("small",) * 7 + ("medium",) * 2 + ("large",) if mix else (SMALL,)
    return [
        Arrival(
            at=int(at * SECOND),
            name=f"hosted-{number:05d}",
            size=rng.choice(names),
            tenant=f"team-{rng.randrange(10)}",
            lifetime=None if lifetime is None else int(rng.expovariate(1 / lifetime) * SECOND),
        )
        for number, at in enumerate(times)
    ]


def read_trace(stream: TextIO) -> list[Arrival]:
    """Read CSV. Raises TraceError."""
    rows = _rows(stream)
    header = next(rows, None)
    if not header or "seconds" not in header:
        raise TraceError(NO_HEADER)
    for name in header:
        if name not in COLUMNS:
            raise TraceError(UNKNOWN_COLUMN.format(name=name))
    arrivals = list(_arrivals(rows, header))
    if not arrivals:
        raise TraceError(EMPTY)
    return sorted(arrivals, key=lambda arrival: arrival.at)


def _rows(stream: TextIO) -> Iterator[list[str]]:
    reader = csv.reader(_lines(stream))
    while True:
        try:
            row = next(reader, None)
        except csv.Error as error:
            raise TraceError(NOT_CSV.format(line=reader.line_num, reason=error)) from None
        if row is None:
            return
        yield row


def _lines(stream: TextIO) -> Iterator[str]:
    """Yield lines. A file without line ends, such as a device, must not be read to its end."""
    number = 0
    while line := stream.readline(LONGEST_LINE + 1):
        number += 1
        if len(line) > LONGEST_LINE:
            raise TraceError(LONG_LINE.format(line=number, most=LONGEST_LINE, columns=", ".join(COLUMNS)))
        yield line


def _arrivals(rows: Iterable[list[str]], header: list[str]) -> Iterator[Arrival]:
    names: set[str] = set()
    for line, row in enumerate(rows, start=2):
        if not row:
            continue
        fields = dict(zip(header, (text.strip() for text in row), strict=False))
        size = fields.get("size") or SMALL
        if size not in SIZES:
            raise TraceError(BAD_SIZE.format(line=line, text=size, known=", ".join(sorted(SIZES))))
        name = fields.get("name") or f"hosted-{line:05d}"
        if name in names:
            raise TraceError(TWICE.format(line=line, text=name))
        names.add(name)
        lifetime = fields.get("lifetime")
        yield Arrival(
            at=_seconds(fields.get("seconds", ""), line=line, column="seconds"),
            name=name,
            size=size,
            tenant=fields.get("tenant") or "team-a",
            lifetime=_seconds(lifetime, line=line, column="lifetime") if lifetime else None,
        )


def _seconds(text: str, *, line: int, column: str) -> Micros:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not 0 <= number <= LONGEST:
        raise TraceError(BAD_NUMBER.format(line=line, column=column, text=text, most=LONGEST))
    return int(number * SECOND)
