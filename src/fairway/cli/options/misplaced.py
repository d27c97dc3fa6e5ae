"""Reject options of a group that are given before a subcommand, which would ignore them."""

import click
from click.core import ParameterSource


def refuse_misplaced(context: click.Context, message: str) -> None:
    """``message`` has the placeholders ``{options}`` and ``{command}``. Raises click's usage error."""
    given = [
        option.opts[-1]
        for option in context.command.params
        if option.name and context.get_parameter_source(option.name) is ParameterSource.COMMANDLINE
    ]
    if given:
        raise click.UsageError(
            message.format(options=", ".join(given), command=context.invoked_subcommand), context
        )
