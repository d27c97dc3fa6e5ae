"""Declaration of `fairway agent`: its options and its help."""

from pathlib import Path
from typing import Final

import click

from fairway.cli.lazy import runs
from fairway.cli.options.logs import log_options
from fairway.cli.options.publishing import addresses, cluster_name, publishing_options

PREFIX: Final = "FAIRWAY_AGENT"
"""Prefix of the environment variables for options: `--interval` is FAIRWAY_AGENT_INTERVAL."""
PROVIDERS: Final = "resource-usage"
ADD_ON: Final = "resource-usage-collect"
NO_PROVIDERS: Final = "no provider named; for example: --providers resource-usage,health"


def provider_names(text: str | tuple[str, ...]) -> tuple[str, ...]:
    if not isinstance(text, str):
        return text
    names = tuple(dict.fromkeys(word.strip() for word in text.split(",") if word.strip()))
    if not names:
        raise click.BadParameter(NO_PROVIDERS)
    return names


@click.group(
    short_help="Run the add-on's agent on a managed cluster.",
    epilog="""\b
Examples:
  fairway agent run --hub-kubeconfig hub/kubeconfig --cluster-name cluster1 --kubeconfig cluster1.kubeconfig
""",
)
def agent() -> None:
    """Run the add-on's agent, which publishes a managed cluster's scores on the hub.

    `fairway addon install` deploys it to managed clusters.
    """


@agent.command(
    short_help="Run the agent until it is stopped.",
    context_settings={"auto_envvar_prefix": PREFIX},
    epilog="""\b
Examples:
  fairway agent run --hub-kubeconfig hub/kubeconfig --cluster-name cluster1 --kubeconfig cluster1.kubeconfig
  fairway agent run --hub-kubeconfig hub/kubeconfig --cluster-name cluster1    in a pod of that cluster
  fairway agent run ... --providers resource-usage,health --config options.yaml
  fairway agent run ... --managed-cluster-scores    `fairway addon install` with the same option grants the permission

\b
The file of --config contains the options of each provider, under its name:
  resource-usage:
    shapes: {web: {cpu: 500m, memory: 1Gi}}

Every option can be set by an environment variable: --interval by FAIRWAY_AGENT_INTERVAL.

\b
Exit status: 0 stopped; 2 bad input, a missing or invalid hub kubeconfig, or rejected credentials.
""",
)
@click.option(
    "--hub-kubeconfig",
    required=True,
    metavar="FILE",
    type=click.Path(),
    help="Kubeconfig of the hub. It and the files it names are reloaded when they change.",
)
@click.option(
    "--cluster-name", required=True, type=cluster_name, metavar="NAME", help="Name of the cluster on the hub."
)
@click.option(
    "--kubeconfig",
    metavar="FILE",
    type=click.Path(),
    help="Kubeconfig of the cluster to score.  [default: the pod's service account, $KUBECONFIG]",
)
@click.option("--context", metavar="NAME", help="Context of that kubeconfig.  [default: the current one]")
@click.option(
    "--providers",
    type=provider_names,
    default=PROVIDERS,
    show_default=True,
    metavar="NAMES",
    help="Providers to run, separated by commas; see `fairway provider list`.",
)
@click.option(
    "--config",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="YAML file with the options of the providers, under their names.",
)
@publishing_options
@click.option("--addon-name", default=ADD_ON, show_default=True, metavar="NAME", help="Name of the add-on.")
@click.option(
    "--addon-namespace", metavar="NAME", help="Namespace of the agent and its Lease.  [default: the pod's]"
)
@click.option(
    "--lease/--no-lease",
    default=True,
    show_default=True,
    help="Renew a Lease named after the add-on while its scores are published.",
)
@click.option(
    "--confined-to",
    type=click.Path(file_okay=False, path_type=Path),
    hidden=True,  # passed by `fairway join --local-agents` to agents that ManifestWorks started
    help="Read files only in this folder, start no program, and run only installed providers.",
)
@log_options(level="info")
@addresses
@runs("fairway.cli.agent.run:run")
def run() -> None:
    """Run the agent: read the cluster and publish its scores on the hub until it is stopped.

    The agent is ready when valid scores of every provider are on the hub.
    """
