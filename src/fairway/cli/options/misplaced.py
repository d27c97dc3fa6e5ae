"""Reject options of a group that are given before a subcommand, which would ignore them."""

from collections.abc import Callable
from functools import wraps
from typing import Any, Final

import click
from click.core import ParameterSource

MISPLACED: Final = "{options}: not an option of `fairway {command}`; options of a subcommand follow its name"


def without_subcommand(command: Callable[..., Any]) -> Callable[..., Any]:
    """Run what a group does by itself only if no subcommand is given, which would ignore the group's options."""

    @wraps(command)
    def checked(context: click.Context, **options: Any) -> Any:
        if context.invoked_subcommand is None:
            return command(**options)
        _refuse_misplaced(context)
        return None

    return click.pass_context(checked)


def _refuse_misplaced(context: click.Context) -> None:
    """Raises click's usage error."""
    given = [
        option.opts[-1]
        for option in context.command.params
        if option.name and context.get_parameter_source(option.name) is ParameterSource.COMMANDLINE
    ]
    if given:
        command = f"{context.info_name} {context.invoked_subcommand}"
        raise click.UsageError(MISPLACED.format(options=", ".join(given), command=command), context)
