"""Logging options of long-running commands."""

from collections.abc import Callable
from typing import Any, TypeVar

import click

from fairway.observe import logs

_Command = TypeVar("_Command", bound=Callable[..., Any])


def log_options(*, level: str) -> Callable[[_Command], _Command]:
    """Add `--log-format` and `--log-level`, with `level` as default."""

    def decorated(command: _Command) -> _Command:
        for option in (
            click.option(
                "--log-level",
                type=click.Choice(list(logs.LEVELS)),
                default=level,
                show_default=True,
                help="Minimum level to log.",
            ),
            click.option(
                "--log-format",
                type=click.Choice(logs.FORMATS),
                default="text",
                show_default=True,
                help="Format of the log on stderr.",
            ),
        ):
            command = option(command)
        return command

    return decorated
