"""Record decisions while controllers run."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from fairway.cli.errors import BadInputError
from fairway.cli.history.times import SUBFOLDER
from fairway.cli.options.history import OFF
from fairway.history.recorder import DEFAULT_AGE, Recorder, Retention

TOO_SMALL: Final = "--history-size must be at least 1 MiB"
SMALLEST: Final = 1 << 20
NOT_A_FOLDER: Final = "--history {path}: a file has this name; name a folder"


@contextmanager
def recording(
    chosen: str | None,
    *,
    size: int,
    age: float | None,
    scheduler_config: Path | None,
    data: Path | None = None,
) -> Iterator[Recorder | None]:
    """Yield the recorder of ``--history``; None if nothing is recorded. ``data``: the folder of the hub's data, where
    the history is by default."""
    if chosen is None and data is not None:
        chosen = str(data / SUBFOLDER)
    if chosen is None or chosen == OFF:
        yield None
        return
    if size < SMALLEST:
        raise BadInputError(TOO_SMALL)
    folder = Path(chosen)
    if folder.exists() and not folder.is_dir():
        raise BadInputError(NOT_A_FOLDER.format(path=folder))
    text = "" if scheduler_config is None else scheduler_config.read_text(encoding="utf-8")
    recorder = Recorder(
        folder, profile=text, retention=Retention(size=size, age=DEFAULT_AGE if age is None else age)
    )
    try:
        yield recorder
    finally:
        recorder.close()
