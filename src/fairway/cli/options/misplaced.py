"""Reject options of a group that are given before a subcommand, which would ignore them."""

from typing import Final

import click
from click.core import ParameterSource

MISPLACED: Final = "{options}: not an option of `fairway {command}`; options of a subcommand follow its name"


def refuse_misplaced(context: click.Context) -> None:
    """Raises click's usage error."""
    given = [
        option.opts[-1]
        for option in context.command.params
        if option.name and context.get_parameter_source(option.name) is ParameterSource.COMMANDLINE
    ]
    if given:
        command = f"{context.info_name} {context.invoked_subcommand}"
        raise click.UsageError(MISPLACED.format(options=", ".join(given), command=command), context)
