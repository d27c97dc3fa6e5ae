"""Clocks, memory and tables for benchmarks. Machines are noisy: compare medians and ratios, not seconds."""

import gc
import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

Note = Callable[[str], None]
"""Receives progress messages of a measurement."""


def machine() -> str:
    load = os.getloadavg()
    return f"{os.cpu_count()} cores, load {load[0]:.1f} {load[1]:.1f} {load[2]:.1f}, Python {sys.version.split()[0]}"


def teller(prefix: str) -> Note:
    began = time.monotonic()

    def note(text: str) -> None:
        print(f"  {time.monotonic() - began:6.1f} s  {prefix}: {text}", file=sys.stderr, flush=True)

    return note


def timed(work: Callable[..., object], *arguments: object, **options: object) -> float:
    """Run ``work`` and return its seconds."""
    start = time.perf_counter()
    work(*arguments, **options)
    return time.perf_counter() - start


def percentile(samples: Sequence[float], share: float) -> float:
    ordered = sorted(samples)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


def resident() -> int:
    """Return the resident memory of this process in bytes."""
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def table(rows: Sequence[Sequence[str]]) -> str:
    """Format rows, the first of which is the heading; the first column is aligned left, the others right."""
    widths = [max(len(row[at]) for row in rows) for at in range(len(rows[0]))]
    return "\n".join(
        "  ".join(
            text.ljust(width) if at == 0 else text.rjust(width)
            for at, (text, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    )


def write_json(path: str, document: dict[str, Any]) -> None:
    Path(path).write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
