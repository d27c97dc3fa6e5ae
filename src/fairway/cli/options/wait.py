"""Options `--wait` and `--timeout` of commands that write to a hub."""

from collections.abc import Callable
from typing import Any, Final, TypeVar

import click
from click.core import ParameterSource

WAIT_SECONDS: Final = 120.0
TIMEOUT_OF_NOTHING: Final = "--timeout requires --wait"
NOTHING_TO_WAIT_FOR: Final = "--dry-run writes nothing, so --wait has nothing to wait for: omit one of them"

_Command = TypeVar("_Command", bound=Callable[..., Any])


def wait_options(what: str) -> Callable[[_Command], _Command]:
    """Add `--wait` and `--timeout`, passed as `wait` and `timeout`."""

    def added(command: _Command) -> _Command:
        for option in (
            click.option(
                "--timeout",
                type=click.FloatRange(min=0),
                default=WAIT_SECONDS,
                show_default=True,
                metavar="SECONDS",
                help="Fail if --wait takes longer than this.",
            ),
            click.option("--wait", is_flag=True, help=what),
        ):
            command = option(command)
        return command

    return added


def refuse_contradictions(context: click.Context) -> None:
    """Raises click's usage errors."""
    given = context.get_parameter_source("timeout") is ParameterSource.COMMANDLINE
    if given and not context.params["wait"]:
        raise click.UsageError(TIMEOUT_OF_NOTHING)
    if context.params["wait"] and context.params.get("dry_run"):
        raise click.UsageError(NOTHING_TO_WAIT_FOR)
