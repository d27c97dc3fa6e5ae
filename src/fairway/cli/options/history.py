"""Options about the history of decisions: where controllers write it, and where commands read it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeVar

import click

from fairway.cli.lazy import parsed_by
from fairway.cli.options.input import size

OFF: Final = "off"
VARIABLE: Final = "FAIRWAY_HISTORY"

_Command = TypeVar("_Command", bound=Callable[..., Any])


def history_options(*, default: str) -> Callable[[_Command], _Command]:
    """Add the options of processes that record decisions, passed as `history`, `history_size` and `history_age`."""

    def add(command: _Command) -> _Command:
        for option in (
            click.option(
                "--history-age",
                type=parsed_by("fairway.cli.provider.config:duration"),
                default="30d",
                show_default=True,
                metavar="DURATION",
                help="Delete recorded decisions after this time.",
            ),
            click.option(
                "--history-size",
                type=size,
                default="512MiB",
                show_default=True,
                metavar="SIZE",
                help="Delete the oldest recorded decisions beyond this size.",
            ),
            click.option(
                "--history",
                metavar="DIR|off",
                help="Folder in which decisions and what they read are recorded, for fairway history, why and replay; "
                f"off to record nothing.  [default: {default}]",
            ),
        ):
            command = option(command)
        return command

    return add


archive_option: Final = click.option(
    "--history",
    "folder",
    type=click.Path(path_type=Path),
    required=True,
    envvar=VARIABLE,
    show_envvar=True,
    metavar="DIR",
    help="Folder of the history: that of fairway run --history, or of fairway up --data.",
)
