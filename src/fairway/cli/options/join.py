"""Options of `fairway join` and its subcommands."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeVar

import click

TOKEN_VARIABLE: Final = "FAIRWAY_HUB_TOKEN"

_Command = TypeVar("_Command", bound=Callable[..., Any])


def state_option(command: _Command) -> _Command:
    option = click.option(
        "--state",
        type=click.Path(file_okay=False, path_type=Path),
        metavar="DIR",
        help="Folder of the cluster's identity.  [default: ~/.local/state/fairway/clusters/NAME]",
    )
    return option(command)


def cluster_options(command: _Command) -> _Command:
    """Add `--kubeconfig` and `--context` of the cluster; the latter is passed as `cluster_context`."""
    for option in (
        click.option(
            "--context",
            "cluster_context",
            metavar="NAME",
            help="Context of that kubeconfig.  [default: the current one]",
        ),
        click.option(
            "--kubeconfig",
            metavar="FILE",
            type=click.Path(),
            help="Kubeconfig of the joining cluster.  [default: $KUBECONFIG, ~/.kube/config, the pod's "
            "service account]",
        ),
    ):
        command = option(command)
    return command
