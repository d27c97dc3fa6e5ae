"""Options of a command before the name of another below it, which would not hear of them."""

import click
from click.core import ParameterSource


def refuse_misplaced(context: click.Context, message: str) -> None:
    """``message`` is about ``{options}`` and a ``{command}``."""
    given = [
        option.opts[-1]
        for option in context.command.params
        if option.name and context.get_parameter_source(option.name) is ParameterSource.COMMANDLINE
    ]
    if given:
        raise click.UsageError(
            message.format(options=", ".join(given), command=context.invoked_subcommand), context
        )
