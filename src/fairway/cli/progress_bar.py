"""Progress bars on stderr."""

from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

from fairway.cli.progress import Advance


@contextmanager
def draw(title: str, *, total: float | None) -> Iterator[Advance]:
    """Yield a function that advances the bar."""
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
