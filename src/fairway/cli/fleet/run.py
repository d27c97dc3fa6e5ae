"""`fairway fleet`: generate synthetic fleets, show the clusters in files, and apply files to a hub."""

from datetime import datetime
from typing import Any, Final, Literal, cast

import click

from fairway.api.amount_display import display_amount
from fairway.api.cluster import CLUSTER_SET_LABEL, ManagedCluster
from fairway.cli.client.session import talk
from fairway.cli.errors import EXIT_OK
from fairway.cli.files.export import export, format_for
from fairway.cli.fleet import writer
from fairway.cli.fleet.writer import Done, Tally
from fairway.cli.input import load_files
from fairway.cli.options.hub import HubChoice
from fairway.cli.options.output import OutputFormat
from fairway.cli.options.wait import refuse_contradictions
from fairway.cli.output import emit
from fairway.cli.progress import tracked
from fairway.cli.text import say
from fairway.simulation.synthetic import generate as make
from kubewire.api.meta import find_condition

NOTHING_WRITTEN: Final = "dry run: nothing was written"
BAD_YEAR: Final = "year must be between {first} and {last}"


# RFC 3339 years have four digits, and the times of a fleet reach a few years back and hours ahead.
_FIRST_YEAR: Final = 1970
_LAST_YEAR: Final = 9998


def generate(
    clusters: int,
    seed: int,
    placements: int,
    now: datetime,
    out: str | None,
    output: Literal["yaml", "json", "jsonl"] | None,
) -> None:
    if not _FIRST_YEAR <= now.year <= _LAST_YEAR:
        message = BAD_YEAR.format(first=_FIRST_YEAR, last=_LAST_YEAR)
        raise click.BadParameter(message, param_hint="'--now'")
    documents = make(clusters=clusters, seed=seed, placements=placements, now=now)
    # About two objects for each cluster; good enough for a progress bar.
    documents = tracked(documents, "generating", total=clusters * 2 + placements)
    export(documents, out=out, output=output or format_for(out))


def apply(
    files: tuple[str, ...],
    max_file_size: int,
    verbose: bool,
    dry_run: bool,
    output: OutputFormat,
    hub: HubChoice,
) -> int:
    objects = [file.object for file in load_files(files, max_file_size=max_file_size, verbose=verbose)]
    tallies = talk(hub, lambda client: writer.apply(client, objects, dry_run=dry_run))
    return _report(tallies, ("created", "changed", "unchanged", "kept"), dry_run=dry_run, output=output)


def delete(
    context: click.Context,
    files: tuple[str, ...],
    max_file_size: int,
    verbose: bool,
    wait: bool,
    timeout: float,
    dry_run: bool,
    output: OutputFormat,
    hub: HubChoice,
) -> int:
    refuse_contradictions(context)
    objects = [file.object for file in load_files(files, max_file_size=max_file_size, verbose=verbose)]
    seconds = timeout if wait else 0
    tallies = talk(hub, lambda client: writer.delete(client, objects, dry_run=dry_run, seconds=seconds))
    return _report(tallies, ("deleted", "kept", "absent"), dry_run=dry_run, output=output)


def _report(tallies: list[Tally], columns: tuple[Done, ...], *, dry_run: bool, output: OutputFormat) -> int:
    rows = [tally.row(columns) for tally in tallies]
    emit(rows, columns={column: column.capitalize() for column in ("kind", *columns)}, output=output)
    if dry_run and output == "table":
        say(NOTHING_WRITTEN)
    return EXIT_OK


def show(files: tuple[str, ...], max_file_size: int, verbose: bool, output: OutputFormat) -> None:
    loaded = load_files(files, max_file_size=max_file_size, verbose=verbose)
    clusters = cast("list[ManagedCluster]", loaded.of(ManagedCluster))
    columns = {
        "name": "Name",
        "clusterSet": "Set",
        "kubernetes": "Kubernetes",
        "cpu": "CPU",
        "memory": "Memory",
        "available": "Available",
        "taints": "Taints",
    }
    rows = [_row(cluster) for cluster in clusters]
    if output == "table":
        rows = [row | {name: display_amount(name, row[name]) for name in ("cpu", "memory")} for row in rows]
    emit(rows, columns=columns, output=output)


def _row(cluster: ManagedCluster) -> dict[str, Any]:
    available = find_condition(cluster.status.conditions or (), "ManagedClusterConditionAvailable")
    return {
        "name": cluster.metadata.name,
        "clusterSet": cluster.metadata.labels.get(CLUSTER_SET_LABEL, ""),
        "kubernetes": cluster.status.version.kubernetes,
        "cpu": str(cluster.status.allocatable.get("cpu", "")),
        "memory": str(cluster.status.allocatable.get("memory", "")),
        "available": available.status if available else "Unknown",
        "taints": [f"{taint.key}:{taint.effect}" for taint in cluster.spec.taints],
    }
