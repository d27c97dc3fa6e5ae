"""`fairway provider`: run score providers, list them, and delete their scores from a hub."""

import os
from pathlib import Path
from typing import Final

import click

from fairway.cli.client.session import talk
from fairway.cli.options.dry_run import DRY_RUN
from fairway.cli.options.hub import HubChoice
from fairway.cli.options.output import OutputFormat
from fairway.cli.output import emit
from fairway.cli.provider.cleanup import delete_scores
from fairway.cli.provider.process import Job, read_once, serve
from fairway.cli.text import say
from fairway.controllers.serving import Address
from fairway.observe import logs
from fairway.providers.catalogue import CATALOGUE
from fairway.providers.loading import installed
from fairway.providers.runner import Settings
from kubewire.client import Client, Timing
from kubewire.client.leader import unique_identity

LISTED: Final = {"name": "Name", "from": "From", "meaning": "Description"}
REMOVED: Final = "scores {cluster}/{resource} of provider {name} deleted"
NOTHING: Final = "the hub has no scores of provider {name}{hint}"
OTHERS: Final = "; it has scores of {names}"
BUILT_IN: Final = "fairway"


def list_providers(output: OutputFormat) -> None:
    rows = [
        {"name": name, "from": BUILT_IN, "meaning": entry.meaning}
        for name, entry in sorted(CATALOGUE.items())
    ]
    rows += [
        {"name": name, "from": point.dist.name if point.dist else "", "meaning": point.value}
        for name, point in sorted(installed().items())
    ]
    emit(rows, columns=LISTED, output=output)


def cleanup(name: str, cluster_name: str | None, dry_run: bool, output: OutputFormat, hub: HubChoice) -> None:
    async def clean(client: Client) -> None:
        outcome = await delete_scores(client, provider=name, cluster=cluster_name, dry_run=dry_run)
        if output != "table":
            rows = [{"cluster": cluster, "resource": resource} for cluster, resource in outcome.removed]
            document = {"removed": rows, "others": list(outcome.others), "dryRun": dry_run}
            emit(rows, columns={}, output=output, document=document)
            return
        for cluster, resource in outcome.removed:
            text = REMOVED.format(cluster=cluster, resource=resource, name=name)
            say(f"{text}{DRY_RUN}" if dry_run else text)
        if not outcome.removed:
            hint = OTHERS.format(names=", ".join(outcome.others)) if outcome.others else ""
            say(NOTHING.format(name=name, hint=hint))

    talk(hub, clean)


POD_VARIABLE: Final = "POD_NAME"
ONE_CONFIG: Final = "--config allows one provider: run the others in separate processes"
ELECTION_OF_ONE: Final = "--leader-elect excludes --cluster-name: a cluster has one agent"
OUTPUT_OF_NOTHING: Final = "-o requires --dry-run or --once"


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
    health_address: Address | None,
    metrics_address: Address | None,
    output: OutputFormat,
    hub: HubChoice,
) -> None:
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
    return (
        "".join(
            character if character.isascii() and character.isalnum() else "-" for character in plain
        ).strip("-")
        or "run"
    )
