"""Option `--scheduler-config`: the profiles and plugins that decide Placements, or place pods."""

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from fairway.cli.errors import InputProblemsError, Problem

if TYPE_CHECKING:
    from fairway.scheduling import Base, Scheduling

_Command = TypeVar("_Command", bound=Callable[..., Any])

scheduler_option: Final[Callable[[Any], Any]] = click.option(
    "--scheduler-config",
    type=click.Path(path_type=Path),
    metavar="FILE",
    envvar="FAIRWAY_SCHEDULER_CONFIG",
    show_envvar=True,
    help="SchedulerConfiguration with profiles and plugins; see docs/how-to/plugins.md.  "
    "[default: the built-in profile, with installed plugins]",
)


def load_scheduling(path: Path | None, *, beside_pods: bool = False) -> "Scheduling":
    """Load the profile of Placements, with the plugins of installed packages. Raises InputProblemsError.

    ``beside_pods`` is whether the file may have profiles of pods, which are skipped.
    """
    from fairway.scheduling import PLACEMENT_BESIDE_PODS, PLACEMENT_DEFAULTS

    return _load(path, PLACEMENT_BESIDE_PODS if beside_pods else PLACEMENT_DEFAULTS)


def load_pod_scheduling(path: Path | None) -> "Scheduling":
    """Load the profiles of pods: a KubeSchedulerConfiguration, or the profiles of a SchedulerConfiguration that are not
    for Placements. Raises InputProblemsError."""
    from fairway.scheduling import POD_DEFAULTS

    return _load(path, POD_DEFAULTS)


def load_all_scheduling(path: Path) -> "list[Scheduling]":
    """Load the profiles that a file has, of Placements and of pods. Raises InputProblemsError with all problems."""
    found, problems = [], []
    for load in (partial(load_scheduling, beside_pods=True), load_pod_scheduling):
        try:
            found.append(load(path))
        except InputProblemsError as error:
            problems += [each for each in error.problems if each not in problems]
    if problems:
        raise InputProblemsError(problems)
    placement, pods = found
    if pods.is_kube:
        return [pods]
    return [placement, pods] if any(each.path for each in pods.configuration.profiles) else [placement]


def _load(path: Path | None, base: "Base") -> "Scheduling":
    from fairway.scheduling import ConfigurationError, Supervisor, Watchdog, load

    try:
        return load(path, base=base, supervisor=Supervisor(clock=time.monotonic, watch=Watchdog()))
    except ConfigurationError as error:
        raise InputProblemsError(
            [
                Problem(
                    file=each.file, line=each.line, path=each.field, message=each.message, remedy=each.remedy
                )
                for each in error.problems
            ]
        ) from None
