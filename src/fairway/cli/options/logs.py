"""How a command that goes on running writes its log."""

from collections.abc import Callable
from typing import Any, TypeVar

import click

from fairway.observe import logs

_Command = TypeVar("_Command", bound=Callable[..., Any])


def log_options(*, level: str) -> Callable[[_Command], _Command]:
    """`--log-format` and `--log-level`, which is `level` unless told."""

    def decorated(command: _Command) -> _Command:
        for option in (
            click.option(
                "--log-level",
                type=click.Choice(list(logs.LEVELS)),
                default=level,
                show_default=True,
                help="How much.",
            ),
            click.option(
                "--log-format",
                type=click.Choice(logs.FORMATS),
                default="text",
                show_default=True,
                help="How to write the log, which goes to stderr.",
            ),
        ):
            command = option(command)
        return command

    return decorated
