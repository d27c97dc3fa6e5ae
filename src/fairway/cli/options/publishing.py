"""Options that `fairway provider run` and `fairway agent run` share."""

import re
from collections.abc import Callable
from typing import Any, Final, TypeVar

import click

from fairway.cli.lazy import parsed_by
from fairway.cli.options.serving import HEALTH, METRICS, address_option

BAD_CLUSTER: Final = (
    "{given!r} is not a valid cluster name: use at most 63 lower-case letters, digits and '-', starting and ending "
    "with a letter or digit; `fairway get clusters` lists the names"
)

_CLUSTER: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_Command = TypeVar("_Command", bound=Callable[..., Any])

duration: Final = parsed_by("fairway.cli.provider.config:duration")
"""The type of an option that is a duration."""


def cluster_name(text: str) -> str:
    if not _CLUSTER.fullmatch(text):
        raise click.BadParameter(BAD_CLUSTER.format(given=text))
    return text


def publishing_options(command: _Command) -> _Command:
    """Add `--interval`, `--valid-for`, `--adopt` and `--managed-cluster-scores`."""
    for option in (
        click.option(
            "--managed-cluster-scores", is_flag=True, help="Also publish raw values as ManagedClusterScores."
        ),
        click.option(
            "--adopt", is_flag=True, help="Take over existing scores of the same name from another publisher."
        ),
        click.option(
            "--valid-for",
            type=duration,
            metavar="DURATION",
            help="How long a score is valid after its reading.  [default: three intervals, at least 3m]",
        ),
        click.option(
            "--interval",
            type=duration,
            metavar="DURATION",
            help="Time between readings when nothing changes.  [default: the provider's]",
        ),
    ):
        command = option(command)
    return command


def addresses(command: _Command) -> _Command:
    """Add `--metrics-address` and `--health-address`."""
    for name, default, what in (
        ("--health-address", HEALTH, "Serve health checks at /livez and /readyz"),
        ("--metrics-address", METRICS, "Serve Prometheus metrics at /metrics"),
    ):
        command = address_option(name, default, what)(command)
    return command
