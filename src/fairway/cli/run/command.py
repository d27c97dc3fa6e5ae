"""`fairway run`: run controllers against an existing hub."""

import os
from pathlib import Path
from typing import Final

import click

from fairway.cli.client.session import HubChoice, hub_options
from fairway.cli.options.logs import log_options
from fairway.cli.options.permits import permit_options
from fairway.cli.options.scheduler import load_pod_scheduling, load_scheduling, scheduler_option
from fairway.cli.options.serving import Listening, serving_options
from fairway.cli.run.config import configured
from fairway.cli.run.options import config_option, controllers_option
from fairway.cli.run.process import serve
from fairway.controllers.placement import ocm_detection
from fairway.controllers.placement.shard import Shard
from fairway.controllers.settings import MACHINES, PLACEMENT, Settings
from fairway.kube import Timing
from fairway.kube.leader import unique_identity
from fairway.kube.lease import LONGEST_LEASE, SHORTEST_LEASE
from fairway.observe import logs

PREFIX: Final = "FAIRWAY"
"""Prefix of the environment variables for options: `--lease-namespace` is FAIRWAY_LEASE_NAMESPACE."""
POD_VARIABLE: Final = "POD_NAME"
"""Prefix of the identity in Leases, which shows the leading pod."""
DEFAULTS: Final = Settings()

SHADOW_OF_NOTHING: Final = "--shadow requires the controller 'placement'"
IDENTITY_OF_NOBODY: Final = "--identity and --no-leader-elect exclude each other"


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
  fairway run --scheduler-config scheduler.yaml   decide placements with other profiles and plugins
  fairway run --controllers machines              schedule pods with schedulerName: fairway
  fairway run --controllers machines --permit-address :10299
                                                  grant growth to virtual machines, too
  fairway run --shadow --metrics-address :8080    only compare with the decisions of OCM's controller
  fairway run --shard 0/3 --controllers placement one of three processes that share the placements
  fairway run --log-format json --health-address :8081

Every option can be set by an environment variable: --log-format by FAIRWAY_LOG_FORMAT.

\b
Exit status: 0 stopped; 1 not allowed to run here, for example beside OCM's placement controller; 2 bad input, or the
hub is unreachable.
""",
)
@controllers_option
@config_option
@scheduler_option
@click.option(
    "--leader-elect/--no-leader-elect",
    default=True,
    show_default=True,
    help="Elect a leader with Leases; only the leader writes.",
)
@click.option(
    "--lease-namespace",
    default=DEFAULTS.namespace,
    show_default=True,
    metavar="NAME",
    help="Namespace of the Leases.",
)
@click.option(
    "--lease-duration",
    type=click.IntRange(SHORTEST_LEASE, LONGEST_LEASE),
    default=Timing().lease,
    show_default=True,
    metavar="SECONDS",
    help="Time after which another process replaces a leader that does not renew its Lease.",
)
@click.option(
    "--identity", metavar="NAME", help="Unique name of this process in the election.  [default: generated]"
)
@click.option(
    "--shard",
    type=share,
    default="0/1",
    metavar="I/N",
    help="Decide only placements in this share of the namespaces.  [default: all]",
)
@click.option("--shadow", is_flag=True, help="Write nothing; report where decisions would differ.")
@click.option("--beside-ocm", is_flag=True, help="Run even if OCM's placement controller is running.")
@click.option(
    "--ocm-namespace",
    default=ocm_detection.NAMESPACE,
    show_default=True,
    metavar="NAME",
    help="Namespace of the Leases of OCM's controllers.",
)
@click.option(
    "--workers",
    type=click.IntRange(1, 256),
    default=DEFAULTS.workers,
    show_default=True,
    metavar="NUMBER",
    help="Number of placements whose decisions are written concurrently.",
)
@click.option(
    "--grace",
    type=click.FloatRange(1, 1000),
    default=DEFAULTS.grace,
    show_default=True,
    metavar="TIMES",
    help="Lease durations without renewal until a cluster is marked unreachable.",
)
@click.option(
    "--default-set/--no-default-set",
    default=True,
    show_default=True,
    help="Add clusters without a cluster set to the set `default`.",
)
@log_options(level="info")
@permit_options
@serving_options
@hub_options
def run(
    controllers: frozenset[str],
    config: Path | None,
    scheduler_config: Path | None,
    leader_elect: bool,
    lease_namespace: str,
    lease_duration: int,
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

    A hub with OCM already runs some of them. If OCM's placement controller is running, this command refuses to start,
    because the two would overwrite each other's decisions.
    """
    if shadow and PLACEMENT not in controllers:
        raise click.UsageError(SHADOW_OF_NOTHING)
    if identity is not None and not leader_elect:
        raise click.UsageError(IDENTITY_OF_NOBODY)
    machines = MACHINES in controllers
    settings = Settings(
        controllers=controllers,
        election=Timing.of_lease(lease_duration) if leader_elect else None,
        identity=identity or unique_identity(os.environ.get(POD_VARIABLE, "")),
        namespace=lease_namespace,
        shard=shard,
        shadow=shadow,
        beside_ocm=beside_ocm,
        ocm_namespace=ocm_namespace,
        workers=workers,
        grace=grace,
        default_label=default_set,
        scheduling=load_scheduling(scheduler_config, beside_pods=machines),
        pod_scheduling=load_pod_scheduling(scheduler_config) if machines else None,
    )
    logs.configure(format=log_format, level=log_level)
    if config is not None:
        settings = configured(settings, config)
    serve(hub, settings, listening)
