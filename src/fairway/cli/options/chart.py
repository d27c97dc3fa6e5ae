"""The option --chart, whose charts require the extra ``charts``."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, Literal

import click

from fairway.cli.lazy import load

FORMATS: Final = (".svg", ".png", ".pdf")
UNKNOWN_FORMAT: Final = "{file}: the name must end in .svg, .png or .pdf"
NOT_INSTALLED: Final = (
    "requires matplotlib, which is not installed; pip install 'fairway[charts]', "
    "or leave out --chart: the table and -o json need no library"
)

Draw = Callable[..., None]


def chart_option(
    what: str, function: Literal["draw_load", "draw_denied"]
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return the option. Its value draws a chart with ``function`` of `fairway.cli.simulate.charts`."""

    def drawing(_context: click.Context, _parameter: click.Parameter, file: Path | None) -> Draw | None:
        if file is None:
            return None
        # Here, because a simulation before it may take minutes.
        if file.suffix.lower() not in FORMATS:
            raise click.BadParameter(UNKNOWN_FORMAT.format(file=file))
        try:
            draw = load(f"fairway.cli.simulate.charts:{function}")
        except ImportError:
            raise click.BadParameter(NOT_INSTALLED) from None
        return lambda *args, **options: draw(file, *args, **options)

    return click.option(
        "--chart",
        metavar="FILE",
        type=click.Path(path_type=Path, dir_okay=False),
        callback=drawing,
        help=f"Also draw {what}, as .svg, .png or .pdf; requires fairway[charts].",
    )
