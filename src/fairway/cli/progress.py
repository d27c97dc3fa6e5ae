"""A progress bar on stderr for work that takes a while, and nothing at all when nobody is watching."""

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Final, Protocol, TypeVar

_Item = TypeVar("_Item")
_STEP: Final = 200


class Advance(Protocol):
    def __call__(self, amount: float, /) -> None: ...


@contextmanager
def progress(title: str, *, total: float | None, wanted: bool = True) -> Iterator[Advance]:
    """Yields a function that moves the bar on. The bar goes away at the end and rich is only imported to draw
    one.
    """
    if not wanted or not sys.stderr.isatty():
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


def tracked(items: Iterable[_Item], title: str, *, total: float | None) -> Iterator[_Item]:
    """`items`, counted on a progress bar."""
    with progress(title, total=total) as advance:
        for count, item in enumerate(items, start=1):
            yield item
            if count % _STEP == 0:
                advance(_STEP)
