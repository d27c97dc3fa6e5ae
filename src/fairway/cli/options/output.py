"""Option `-o`: the format of the output."""

from collections.abc import Callable
from typing import Any, Final, Literal, TypeVar

import click

OutputFormat = Literal["table", "yaml", "json"]

FORMATS: Final = ("table", "wide", "yaml", "json")
_WIDE: Final = "fairway.wide"
"""Key in the context of the command."""

_Command = TypeVar("_Command", bound=Callable[..., Any])


def output_option(command: _Command) -> _Command:
    """Add `-o`, passed as `output`; wide is passed as table, and `is_wide` is true."""
    option = click.option(
        "-o",
        "--output",
        type=click.Choice(FORMATS),
        callback=narrow,
        default="table",
        show_default=True,
        help="Output format; wide is a table with all columns and names, also on a narrow terminal.",
    )
    return option(command)


def narrow(context: click.Context, parameter: click.Parameter, output: str) -> str:
    """Replace wide by table."""
    note_wide(context, parameter, output)
    return "table" if output == "wide" else output


def note_wide(context: click.Context, _parameter: click.Parameter, output: str) -> str:
    context.meta[_WIDE] = output == "wide"
    return output


def is_wide() -> bool:
    """Whether the user wants complete tables."""
    context = click.get_current_context(silent=True)
    return context is not None and bool(context.meta.get(_WIDE))
