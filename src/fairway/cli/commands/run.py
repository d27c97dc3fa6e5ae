"""Declaration of `fairway run`: its options and its help."""

from typing import Final

import click

from fairway.cli.lazy import parsed_by, runs
from fairway.cli.options.controllers import auto_approve_option, config_option, controllers_option
from fairway.cli.options.history import history_options
from fairway.cli.options.hub import hub_options
from fairway.cli.options.logs import log_options
from fairway.cli.options.permits import permit_options
from fairway.cli.options.scheduler import scheduler_option
from fairway.cli.options.serving import serving_options

PREFIX: Final = "FAIRWAY"
"""Prefix of the environment variables for options: `--lease-namespace` is FAIRWAY_LEASE_NAMESPACE."""


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
    default="fairway-system",
    show_default=True,
    metavar="NAME",
    help="Namespace of the Leases.",
)
@click.option(
    "--lease-duration",
    type=click.IntRange(3, 300),
    default=15,
    show_default=True,
    metavar="SECONDS",
    help="Time after which another process replaces a leader that does not renew its Lease.",
)
@click.option(
    "--identity", metavar="NAME", help="Unique name of this process in the election.  [default: generated]"
)
@click.option(
    "--shard",
    type=parsed_by("fairway.cli.run.run:share"),
    default="0/1",
    metavar="I/N",
    help="Decide only placements in this share of the namespaces.  [default: all]",
)
@click.option("--shadow", is_flag=True, help="Write nothing; report where decisions would differ.")
@click.option("--beside-ocm", is_flag=True, help="Run even if OCM's placement controller is running.")
@click.option(
    "--ocm-namespace",
    default="open-cluster-management-hub",
    show_default=True,
    metavar="NAME",
    help="Namespace of the Leases of OCM's controllers.",
)
@click.option(
    "--workers",
    type=click.IntRange(1, 256),
    default=32,
    show_default=True,
    metavar="NUMBER",
    help="Number of placements whose decisions are written concurrently.",
)
@click.option(
    "--grace",
    type=click.FloatRange(1, 1000),
    default=5.0,
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
@auto_approve_option
@history_options(default="off")
@log_options(level="info")
@permit_options
@serving_options
@hub_options
@runs("fairway.cli.run.run:run")
def run() -> None:
    """Run controllers against an existing hub: a real one, or one that `fairway hub` serves.

    A hub with OCM already runs some of them. If OCM's placement controller is running, this command refuses to start,
    because the two would overwrite each other's decisions.
    """
