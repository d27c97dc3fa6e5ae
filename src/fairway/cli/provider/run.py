"""`fairway provider run`: run providers as a process."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from fairway.cli.client.session import HubChoice, hub_options
from fairway.cli.options.logs import log_options
from fairway.cli.output import OutputFormat, output_option
from fairway.cli.provider.options import addresses, cluster_name, duration, publishing_options
from fairway.observe import logs

if TYPE_CHECKING:
    from fairway.controllers.serving import Address

PREFIX: Final = "FAIRWAY_PROVIDER"
"""Prefix of the environment variables for options: `--cluster-name` is FAIRWAY_PROVIDER_CLUSTER_NAME."""
POD_VARIABLE: Final = "POD_NAME"

ONE_CONFIG: Final = "--config allows one provider: run the others in separate processes"
ELECTION_OF_ONE: Final = "--leader-elect excludes --cluster-name: a cluster has one agent"
OUTPUT_OF_NOTHING: Final = "-o requires --dry-run or --once"


@click.command(
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
def run(
    ctx: click.Context,
    targets: tuple[str, ...],
    cluster_name: str | None,
    config: Path | None,
    managed_kubeconfig: str | None,
    managed_context: str | None,
    dry_run: bool,
    once: bool,
    interval: float | None,
    valid_for: float | None,
    deadline: float | None,
    adopt: bool,
    managed_cluster_scores: bool,
    leader_elect: bool,
    lease_namespace: str,
    log_format: logs.Format,
    log_level: str,
    health_address: "Address | None",
    metrics_address: "Address | None",
    output: OutputFormat,
    hub: HubChoice,
) -> None:
    """Run providers: read values and publish them as AddOnPlacementScores on the hub, until stopped.

    Each is a Python file, FILE:NAME for one of several in it, MODULE:NAME, or a name from `fairway provider list`.
    Failures of a provider are reported in the condition of its scores and in the log, and do not affect others.
    """
    from fairway.cli.provider.process import Job, read_once, serve
    from fairway.kube import Timing
    from fairway.kube.leader import unique_identity
    from fairway.providers.runner import Settings

    if config is not None and len(targets) > 1:
        raise click.UsageError(ONE_CONFIG)
    if leader_elect and cluster_name is not None:
        raise click.UsageError(ELECTION_OF_ONE)
    source = ctx.get_parameter_source("output")
    if source is click.core.ParameterSource.COMMANDLINE and not (dry_run or once):
        raise click.UsageError(OUTPUT_OF_NOTHING)
    settings = Settings(
        cluster=cluster_name,
        interval=interval,
        valid_for=valid_for,
        deadline=deadline,
        adopt=adopt,
        managed_cluster_scores=managed_cluster_scores,
        election=Timing() if leader_elect and not (once or dry_run) else None,
        identity=unique_identity(os.environ.get(POD_VARIABLE, "")),
        lease_namespace=lease_namespace,
        lease_name=f"fairway-provider-{lease_name(targets[0])}",
    )
    job = Job(
        targets=targets,
        config=config,
        managed_kubeconfig=managed_kubeconfig,
        managed_context=managed_context,
        settings=settings,
        hub=hub,
    )
    if dry_run or once:
        read_once(job, dry_run=dry_run, output=output)
        return
    serve(
        job,
        health=health_address,
        metrics=metrics_address,
        configure=lambda: logs.configure(format=log_format, level=log_level),
    )


def lease_name(target: str) -> str:
    """Return the name of the Lease: replicas run the same command, so they get the same name."""
    tail = target.rpartition(":")[2] or target
    plain = Path(tail).stem.lower()
    return "".join(each if each.isascii() and each.isalnum() else "-" for each in plain).strip("-") or "run"
