"""Progress bars on stderr for long work; none if stderr is not a terminal."""

import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from time import monotonic
from typing import Final, Protocol, TypeVar

from fairway.cli.lazy import load

_Item = TypeVar("_Item")
_QUIET_SECONDS: Final = 0.5  # shorter work needs no bar
_STEPS: Final = 100


class Advance(Protocol):
    def __call__(self, amount: float, /) -> None: ...


@contextmanager
def progress(title: str, *, total: float | None, wanted: bool = True) -> Iterator[Advance]:
    """Yield a function that advances the bar. The bar is removed at the end. rich is imported only to draw it."""
    # A dumb terminal would keep every state of the bar.
    if not wanted or not sys.stderr.isatty() or os.environ.get("TERM") in ("dumb", "unknown"):
        yield lambda _amount: None
        return
    with load("fairway.cli.progress_bar:draw")(title, total=total) as advance:
        yield advance


def tracked(items: Iterable[_Item], title: str, *, total: int | None) -> Iterator[_Item]:
    """Yield `items`, with a progress bar if they take long. `total` is None if their number is unknown."""
    started = monotonic()
    step = max(1, (total or 0) // _STEPS)
    advance: Advance | None = None
    with ExitStack() as stack:
        for count, item in enumerate(items, start=1):
            yield item
            if advance is None and monotonic() - started > _QUIET_SECONDS:
                advance = stack.enter_context(progress(title, total=total))
                advance(count - count % step)
            elif advance is not None and count % step == 0:
                advance(step)
