"""Option `--scheduler-config`: the profiles and plugins that decide Placements."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from fairway.cli.errors import InputProblemsError, Problem

if TYPE_CHECKING:
    from fairway.scheduling import Scheduling

_Command = TypeVar("_Command", bound=Callable[..., Any])

scheduler_option: Final[Callable[[Any], Any]] = click.option(
    "--scheduler-config",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="SchedulerConfiguration with profiles and plugins; see docs/how-to/plugins.md.  "
    "[default: the built-in profile, with installed plugins]",
)


def load_scheduling(path: Path | None) -> "Scheduling":
    """Load a configuration, with the plugins of installed packages. Raises InputProblemsError."""
    from fairway.scheduling import PLACEMENT_DEFAULTS, ConfigurationError, Supervisor, Watchdog, load

    try:
        return load(
            path, base=PLACEMENT_DEFAULTS, supervisor=Supervisor(clock=time.monotonic, watch=Watchdog())
        )
    except ConfigurationError as error:
        raise InputProblemsError(
            [
                Problem(
                    file=each.file, line=each.line, path=each.field, message=each.message, remedy=each.remedy
                )
                for each in error.problems
            ]
        ) from None
