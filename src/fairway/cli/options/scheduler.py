"""Option `--scheduler-config`: the profiles and plugins that decide Placements, or place pods."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import click

scheduler_option: Final[Callable[[Any], Any]] = click.option(
    "--scheduler-config",
    type=click.Path(path_type=Path),
    metavar="FILE",
    envvar="FAIRWAY_SCHEDULER_CONFIG",
    show_envvar=True,
    help="SchedulerConfiguration with profiles and plugins; see docs/how-to/plugins.md.  "
    "[default: the built-in profile, with installed plugins]",
)
