"""How much memory this process may use, and the share of it that memos of decisions get."""

import os
from pathlib import Path
from typing import Final

CONTAINER_LIMITS: Final = (
    Path("/sys/fs/cgroup/memory.max"),
    Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"),
)
"""Of the control group, versions 2 and 1. The first says ``max`` where there is no limit, the second a huge number."""

SHARE: Final = 4
"""Memos get a quarter: 256 MiB in the container of deploy/, whose fleet and objects need the rest."""


def memo_limit(limits: tuple[Path, ...] = CONTAINER_LIMITS) -> int:
    """Return the bytes that memos may take."""
    available = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    for path in limits:
        try:
            text = path.read_text(encoding="ascii").strip()
        except OSError:
            continue
        # The machine's memory is the limit of a container without one.
        if text.isdigit():
            available = min(available, int(text))
    return available // SHARE
