"""Declaration of `fairway provider`: its options and its help."""

from pathlib import Path
from typing import Final

import click

from fairway.cli.lazy import runs
from fairway.cli.options.dry_run import dry_run_option
from fairway.cli.options.hub import hub_options
from fairway.cli.options.logs import log_options
from fairway.cli.options.output import output_option
from fairway.cli.options.publishing import addresses, cluster_name, duration, publishing_options


@click.group(
    short_help="Run score providers, and manage their scores.",
    epilog="""\b
Examples:
  fairway provider list
  fairway provider run queue.py --dry-run
  fairway provider run queue.py --cluster-name c1
  fairway provider run prometheus --config prometheus.yaml
  fairway provider cleanup queue

To write one, see docs/how-to/providers.md.
""",
)
def provider() -> None:
    """Run score providers, list them, and delete their scores from a hub.

    A provider reads raw values and publishes them as scores between -100 and 100 for placements.
    """


@provider.command(
    "list",
    short_help="List the providers that can be run by name.",
    epilog="""\b
Examples:
  fairway provider list
  fairway provider list -o json
""",
)
@output_option
@runs("fairway.cli.provider.run:list_providers")
def list_providers() -> None:
    """List the providers that can be run by name: the built-in ones, and those of installed packages.

    A package registers a provider with an entry point of the group `fairway.providers`.
    """


@provider.command(
    short_help="Delete the scores of a provider from a hub.",
    epilog="""\b
Examples:
  fairway provider cleanup queue --dry-run
  fairway provider cleanup queue
  fairway provider cleanup queue --cluster-name c1
  fairway provider cleanup queue -o json

Stop the provider first: while it runs, it publishes its scores again.
""",
)
@click.argument("name", metavar="NAME")
@click.option(
    "--cluster-name",
    type=cluster_name,
    metavar="NAME",
    help="Delete only the scores of this cluster.  [default: all clusters]",
)
@dry_run_option
@output_option
@hub_options
@runs("fairway.cli.provider.run:cleanup")
def cleanup() -> None:
    """Delete the scores of the provider NAME from a hub. Objects that Fairway does not manage are kept.

    NAME is the value of the label fairway.dev/provider of the scores.
    """


PREFIX: Final = "FAIRWAY_PROVIDER"
"""Prefix of the environment variables for options: `--cluster-name` is FAIRWAY_PROVIDER_CLUSTER_NAME."""


@provider.command(
    short_help="Run providers until they are stopped.",
    context_settings={"auto_envvar_prefix": PREFIX},
    epilog="""\b
Examples:
  fairway provider run queue.py --dry-run                     print the scores without publishing
  fairway provider run queue.py --cluster-name c1             publish for one cluster
  fairway provider run queue.py:queue --cluster-name c1       the provider queue of a file with several
  fairway provider run company.scores:queue --cluster-name c1 --once
  fairway provider run prometheus --config prometheus.yaml    for all clusters, from the hub
  fairway provider run resource-usage --cluster-name c1 --managed-kubeconfig c1.kubeconfig

Every option can be set by an environment variable: --cluster-name by FAIRWAY_PROVIDER_CLUSTER_NAME.

\b
Exit status: 0 stopped, or with --once and --dry-run all scores were read and written; 1 with --once or --dry-run
some were not; 2 bad input, or the hub is unreachable.
""",
)
@click.argument("targets", nargs=-1, required=True, metavar="FILE|NAME...")
@click.option(
    "--cluster-name",
    type=cluster_name,
    metavar="NAME",
    help="Name of the cluster to score on the hub. Omit it for providers of a whole fleet.",
)
@click.option(
    "--config",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="YAML file with the options of the provider.",
)
@click.option(
    "--managed-kubeconfig",
    type=click.Path(exists=True, dir_okay=False),
    metavar="FILE",
    help="Kubeconfig of the cluster to score, for providers that read it.  [default: the pod's service account]",
)
@click.option("--managed-context", metavar="NAME", help="Context of that kubeconfig.")
@click.option("--dry-run", is_flag=True, help="Read once, print the scores, and write nothing.")
@click.option("--once", is_flag=True, help="Read and publish once, print the scores, and exit.")
@publishing_options
@click.option(
    "--deadline",
    type=duration,
    metavar="DURATION",
    help="Timeout of one reading.  [default: 30s, or half of --valid-for if less]",
)
@click.option(
    "--leader-elect/--no-leader-elect",
    default=False,
    show_default=True,
    help="Elect a leader with a Lease; only the leader reads and writes.",
)
@click.option(
    "--lease-namespace",
    default="fairway-system",
    show_default=True,
    metavar="NAME",
    help="Namespace of the Lease.",
)
@log_options(level="info")
@addresses
@output_option
@hub_options
@click.pass_context
@runs("fairway.cli.provider.run:run")
def run() -> None:
    """Run providers: read values and publish them as AddOnPlacementScores on the hub, until stopped.

    Each is a Python file, FILE:NAME for one of several in it, MODULE:NAME, or a name from `fairway provider list`.
    Failures of a provider are reported in the condition of its scores and in the log, and do not affect others.
    """
