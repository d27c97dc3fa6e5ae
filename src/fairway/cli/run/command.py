"""`fairway run`: controllers against an existing hub."""

import os
from pathlib import Path
from typing import Final

import click

from fairway.cli.client.session import HubChoice, hub_options
from fairway.cli.options.logs import log_options
from fairway.cli.options.serving import Listening, serving_options
from fairway.cli.run.config import configured
from fairway.cli.run.options import config_option, controllers_option
from fairway.cli.run.process import serve
from fairway.controllers import manager
from fairway.controllers.manager import Settings
from fairway.controllers.placement import ocm_detection
from fairway.controllers.placement.shard import Shard
from fairway.kube import Timing
from fairway.kube.leader import unique_identity
from fairway.observe import logs

PREFIX: Final = "FAIRWAY"
"""Of the variables that stand for options: `--lease-namespace` is FAIRWAY_LEASE_NAMESPACE."""
POD_VARIABLE: Final = "POD_NAME"
"""Begins the identity of a pod, so that a Lease tells which one leads."""
DEFAULTS: Final = Settings()

SHADOW_OF_NOTHING: Final = "--shadow compares placements: it needs the controller 'placement'"
IDENTITY_OF_NOBODY: Final = "--identity is for the election, which --no-leader-elect leaves out"


def share(text: str | Shard) -> Shard:
    if isinstance(text, Shard):
        return text
    try:
        return Shard.parse(text)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


@click.command(
    short_help="Run controllers against an existing hub.",
    context_settings={"auto_envvar_prefix": PREFIX},
    epilog="""\b
Examples:
  fairway run                                     all controllers, on the hub of the current context
  fairway run --context hub --controllers placement
  fairway run --controllers=-acceptance,-availability
  fairway run --controllers=+recovery --config recovery.yaml
  fairway run --shadow --metrics-address :8080    only compare with what OCM's controller writes
  fairway run --shard 0/3 --controllers placement one of three processes that share the placements
  fairway run --log-format json --health-address :8081

Every option can be given as a variable, too: --log-format as FAIRWAY_LOG_FORMAT.

\b
Exit codes: 0 it was told to stop; 1 it must not run here, as beside OCM's own placement controller;
2 it was called in a wrong way, or the hub cannot be reached.
""",
)
@controllers_option
@config_option
@click.option(
    "--leader-elect/--no-leader-elect",
    default=True,
    show_default=True,
    help="Several processes agree by Leases on one that writes.",
)
@click.option(
    "--lease-namespace",
    default=DEFAULTS.namespace,
    show_default=True,
    metavar="NAME",
    help="Where the Leases are.",
)
@click.option(
    "--identity",
    metavar="NAME",
    help="Name of this process in the election; no two may have the same.  [default: made up]",
)
@click.option(
    "--shard",
    type=share,
    default="0/1",
    metavar="I/N",
    help="Place only this share of the namespaces.  [default: all]",
)
@click.option(
    "--shadow", is_flag=True, help="Write nothing: report where placements would come out otherwise."
)
@click.option("--beside-ocm", is_flag=True, help="Run even where OCM's own placement controller is at work.")
@click.option(
    "--ocm-namespace",
    default=ocm_detection.NAMESPACE,
    show_default=True,
    metavar="NAME",
    help="Where OCM's controllers hold their Leases.",
)
@click.option(
    "--workers",
    type=click.IntRange(1, 256),
    default=DEFAULTS.workers,
    show_default=True,
    metavar="NUMBER",
    help="Placements worked on at a time.",
)
@click.option(
    "--grace",
    type=click.FloatRange(1, 1000),
    default=DEFAULTS.grace,
    show_default=True,
    metavar="TIMES",
    help="How many lease durations a cluster may stay silent before it counts as unreachable.",
)
@click.option(
    "--default-set/--no-default-set",
    default=True,
    show_default=True,
    help="Put clusters that are in no cluster set into `default`.",
)
@log_options(level="info")
@serving_options
@hub_options
def run(
    controllers: frozenset[str],
    config: Path | None,
    leader_elect: bool,
    lease_namespace: str,
    identity: str | None,
    shard: Shard,
    shadow: bool,
    beside_ocm: bool,
    ocm_namespace: str,
    workers: int,
    grace: float,
    default_set: bool,
    log_format: logs.Format,
    log_level: str,
    listening: Listening,
    hub: HubChoice,
) -> None:
    """Run controllers against an existing hub: a real one, or one that `fairway hub` serves.

    On a hub that runs OCM some of them already run there. OCM's own placement controller is looked for, and where it
    is at work this one refuses to start: the two would undo each other's decisions.
    """
    if shadow and manager.PLACEMENT not in controllers:
        raise click.UsageError(SHADOW_OF_NOTHING)
    if identity is not None and not leader_elect:
        raise click.UsageError(IDENTITY_OF_NOBODY)
    settings = Settings(
        controllers=controllers,
        election=Timing() if leader_elect else None,
        identity=identity or unique_identity(os.environ.get(POD_VARIABLE, "")),
        namespace=lease_namespace,
        shard=shard,
        shadow=shadow,
        beside_ocm=beside_ocm,
        ocm_namespace=ocm_namespace,
        workers=workers,
        grace=grace,
        default_label=default_set,
    )
    logs.configure(format=log_format, level=log_level)
    if config is not None:
        settings = configured(settings, config)
    serve(hub, settings, listening)
