"""Progress bars on stderr for long work; none if stderr is not a terminal."""

import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from time import monotonic
from typing import Final, Protocol, TypeVar

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
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
    )
    with bar:
        task = bar.add_task(title, total=total)
        yield lambda amount: bar.advance(task, amount)


def tracked(items: Iterable[_Item], title: str, *, total: int) -> Iterator[_Item]:
    """Yield `items`, with a progress bar if they take long."""
    started = monotonic()
    step = max(1, total // _STEPS)
    advance: Advance | None = None
    with ExitStack() as stack:
        for count, item in enumerate(items, start=1):
            yield item
            if advance is None and monotonic() - started > _QUIET_SECONDS:
                advance = stack.enter_context(progress(title, total=total))
                advance(count - count % step)
            elif advance is not None and count % step == 0:
                advance(step)
