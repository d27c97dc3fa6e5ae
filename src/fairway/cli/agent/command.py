"""`fairway agent`: the agent of an add-on, which runs on a managed cluster and publishes its scores on the hub."""

from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from fairway.cli.options.logs import log_options
from fairway.cli.provider.options import addresses, cluster_name, duration
from fairway.observe import logs

if TYPE_CHECKING:
    from fairway.controllers.serving import Address

PREFIX: Final = "FAIRWAY_AGENT"
"""Of the variables that stand for options: `--interval` is FAIRWAY_AGENT_INTERVAL."""
PROVIDERS: Final = "resource-usage"
ADD_ON: Final = "resource-usage-collect"

NO_PROVIDERS: Final = "which providers? name them after commas, as in --providers resource-usage,health"


def provider_names(text: str | tuple[str, ...]) -> tuple[str, ...]:
    if not isinstance(text, str):
        return text
    names = tuple(dict.fromkeys(word.strip() for word in text.split(",") if word.strip()))
    if not names:
        raise click.BadParameter(NO_PROVIDERS)
    return names


@click.group(
    short_help="The agent of an add-on on a managed cluster.",
    epilog="""\b
Examples:
  fairway agent run --hub-kubeconfig hub/kubeconfig --cluster-name cluster1 --kubeconfig cluster1.kubeconfig
""",
)
def agent() -> None:
    """What runs on a managed cluster and publishes its scores on the hub. `fairway addon install` brings it there."""


@agent.command(
    short_help="Run it until it is told to stop.",
    context_settings={"auto_envvar_prefix": PREFIX},
    epilog="""\b
Examples:
  fairway agent run --hub-kubeconfig hub/kubeconfig --cluster-name cluster1 --kubeconfig cluster1.kubeconfig
  fairway agent run --hub-kubeconfig hub/kubeconfig --cluster-name cluster1    in a pod of that cluster
  fairway agent run ... --providers resource-usage,health --config options.yaml
  fairway agent run ... --managed-cluster-scores    `fairway addon install` with the same option gives it the rights

\b
The file of --config has what each provider is told, under its name:
  resource-usage:
    shapes: {web: {cpu: 500m, memory: 1Gi}}

Every option can be given as a variable, too: --interval as FAIRWAY_AGENT_INTERVAL.

\b
Exit codes: 0 it was told to stop; 2 it was called in a wrong way, the hub kubeconfig is missing or wrong, or the hub
does not know who it is.
""",
)
@click.option(
    "--hub-kubeconfig",
    required=True,
    metavar="FILE",
    type=click.Path(),
    help="How to reach the hub. It and the files it names are read again when they change.",
)
@click.option(
    "--cluster-name",
    required=True,
    type=cluster_name,
    metavar="NAME",
    help="What the hub calls the cluster; nothing in a kubeconfig tells.",
)
@click.option(
    "--kubeconfig",
    metavar="FILE",
    type=click.Path(),
    help="How to reach the cluster that is scored.  [default: the pod's own, $KUBECONFIG]",
)
@click.option("--context", metavar="NAME", help="The context of that kubeconfig.  [default: its current]")
@click.option(
    "--providers",
    type=provider_names,
    default=PROVIDERS,
    show_default=True,
    metavar="NAMES",
    help="What to run, from `fairway provider list`.",
)
@click.option(
    "--config",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Options of the providers, as YAML, under their names.",
)
@click.option(
    "--interval",
    type=duration,
    metavar="DURATION",
    help="Between readings when nothing changes.  [default: the provider's own]",
)
@click.option(
    "--valid-for",
    type=duration,
    metavar="DURATION",
    help="How long a score counts after its reading.  [default: three intervals, and at least 3m]",
)
@click.option("--adopt", is_flag=True, help="Take over scores of the same name that somebody else made.")
@click.option(
    "--managed-cluster-scores",
    is_flag=True,
    help="Publish raw values besides, as ManagedClusterScores, for those who read these.",
)
@click.option(
    "--addon-name", default=ADD_ON, show_default=True, metavar="NAME", help="What the add-on is called."
)
@click.option(
    "--addon-namespace",
    metavar="NAME",
    help="Where the agent lives, and its Lease.  [default: the pod's own]",
)
@click.option(
    "--lease/--no-lease",
    default=True,
    show_default=True,
    help="Renew a Lease named like the add-on as long as its scores are published.",
)
@click.option(
    "--confined-to",
    type=click.Path(file_okay=False, path_type=Path),
    hidden=True,  # said by `fairway join --local-agents`, of what others told it to start
    help="Read no file elsewhere, start no program, run no provider but those that are installed.",
)
@log_options(level="info")
@addresses
def run(
    hub_kubeconfig: str,
    cluster_name: str,
    kubeconfig: str | None,
    context: str | None,
    providers: tuple[str, ...],
    config: Path | None,
    interval: float | None,
    valid_for: float | None,
    adopt: bool,
    managed_cluster_scores: bool,
    addon_name: str,
    addon_namespace: str | None,
    lease: bool,
    confined_to: Path | None,
    log_format: logs.Format,
    log_level: str,
    health_address: "Address | None",
    metrics_address: "Address | None",
) -> None:
    """Run the agent: read the cluster, and publish its scores on the hub until told to stop.

    Ready means that the scores of every provider are on the hub, and valid.
    """
    from fairway.cli.agent.process import Job, serve

    logs.configure(format=log_format, level=log_level)
    serve(
        Job(
            hub_kubeconfig=Path(hub_kubeconfig),
            cluster=cluster_name,
            kubeconfig=kubeconfig,
            context=context,
            providers=providers,
            config=config,
            interval=interval,
            valid_for=valid_for,
            adopt=adopt,
            managed_cluster_scores=managed_cluster_scores,
            add_on=addon_name,
            namespace=addon_namespace,
            lease=lease,
            confined_to=confined_to,
            health=health_address,
            metrics=metrics_address,
        )
    )
