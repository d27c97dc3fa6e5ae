"""A progress bar on stderr for work that takes a while, and nothing at all when nobody is watching."""

import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from time import monotonic
from typing import Final, Protocol, TypeVar

_Item = TypeVar("_Item")
_PATIENCE: Final = 0.5  # seconds; what is done sooner needs no bar
_STEPS: Final = 100


class Advance(Protocol):
    def __call__(self, amount: float, /) -> None: ...


@contextmanager
def progress(title: str, *, total: float | None, wanted: bool = True) -> Iterator[Advance]:
    """Yields a function that moves the bar on. The bar goes away at the end and rich is only imported to draw
    one.
    """
    # A terminal that cannot move its cursor would keep every state of the bar.
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
    """`items`, counted on a progress bar if they take long enough to wonder."""
    started = monotonic()
    step = max(1, total // _STEPS)
    advance: Advance | None = None
    with ExitStack() as stack:
        for count, item in enumerate(items, start=1):
            yield item
            if advance is None and monotonic() - started > _PATIENCE:
                advance = stack.enter_context(progress(title, total=total))
                advance(count - count % step)
            elif advance is not None and count % step == 0:
                advance(step)
