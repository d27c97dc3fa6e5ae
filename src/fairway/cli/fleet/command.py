"""`fairway fleet`: generate synthetic fleets, show the clusters in files, and apply files to a hub."""

from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, Literal, cast

import click

from fairway.cli.client.session import HubChoice, hub_options, talk
from fairway.cli.client.wait import refuse_contradictions, wait_options
from fairway.cli.errors import EXIT_OK
from fairway.cli.options.input import files_options, load_files, moment
from fairway.cli.output import OutputFormat, emit, output_option, say

if TYPE_CHECKING:
    from fairway.api.cluster import ManagedCluster
    from fairway.cli.fleet.writer import Done, Tally

NOTHING_WRITTEN: Final = "dry run: nothing was written"
BAD_YEAR: Final = "year must be between {first} and {last}"
# RFC 3339 years have four digits, and the times of a fleet reach a few years back and hours ahead.
_FIRST_YEAR: Final = 1970
_LAST_YEAR: Final = 9998

_dry_run: Final = click.option("--dry-run", is_flag=True, help="Send dry-run requests and write nothing.")


@click.group(
    short_help="Generate fleets, show files, and apply them to a hub.",
    epilog="""\b
Examples:
  fairway fleet generate --clusters 100 --seed 7 --out fleet.yaml
  fairway fleet show -f fleet.yaml
  fairway fleet apply -f fleet.yaml
""",
)
def fleet() -> None:
    """Generate fleets, show the clusters in files, and apply files to a hub."""


@fleet.command(
    short_help="Generate a realistic fleet.",
    epilog="""\b
Examples:
  fairway fleet generate --clusters 20                            YAML on standard output
  fairway fleet generate --clusters 10000 --seed 7 --out fleet.json
  fairway fleet generate --clusters 100000 --out fleet.jsonl.gz
  fairway fleet generate --clusters 50 --placements 40 --out fleet/   one file per kind in a directory

The same seed gives the same fleet, byte for byte, on every machine. Objects include their status: apply them to a hub
with `fairway fleet apply`, and use --now "$(date -u +%FT%TZ)" so that the scores are not expired.
""",
)
@click.option(
    "--clusters",
    type=click.IntRange(min=0, max=10_000_000),
    required=True,
    help="Number of managed clusters.",
)
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of the random numbers.")
@click.option(
    "--placements",
    type=click.IntRange(min=0, max=1_000_000),
    default=12,
    show_default=True,
    help="Number of placements.",
)
@click.option(
    "--now",
    type=moment,
    metavar="TIME",
    default="2026-01-01T00:00:00Z",
    show_default=True,
    help="The current time of the fleet.",
)
@click.option(
    "--out",
    metavar="FILE|DIR/",
    help="File or directory to write; .gz compresses, a directory gets one file per kind.",
)
@click.option(
    "-o",
    "--output",
    type=click.Choice(["yaml", "json", "jsonl"]),
    help="Format.  [default: by the name of --out, otherwise yaml]",
)
def generate(
    clusters: int,
    seed: int,
    placements: int,
    now: datetime,
    out: str | None,
    output: Literal["yaml", "json", "jsonl"] | None,
) -> None:
    """Generate a realistic fleet: clusters with scores, cluster sets, bindings and placements."""
    from fairway.cli.files.export import export, format_for
    from fairway.cli.progress import tracked
    from fairway.whatif.synthetic import generate as make

    if not _FIRST_YEAR <= now.year <= _LAST_YEAR:
        message = BAD_YEAR.format(first=_FIRST_YEAR, last=_LAST_YEAR)
        raise click.BadParameter(message, param_hint="'--now'")
    documents = make(clusters=clusters, seed=seed, placements=placements, now=now)
    # About two objects for each cluster; good enough for a progress bar.
    documents = tracked(documents, "generating", total=clusters * 2 + placements)
    export(documents, out=out, output=output or format_for(out))


@fleet.command(
    short_help="Apply the fleet in files to a hub.",
    epilog="""\b
Examples:
  fairway fleet apply -f fleet.json
  fairway fleet apply -f examples/fleet --dry-run
  fairway fleet generate --clusters 1000 --now "$(date -u +%FT%TZ)" -o jsonl | fairway fleet apply -f -

\b
Missing namespaces are created. The status of clusters and scores is written, because agents report it. Versions and
uids in the files are ignored. Every written object gets the label fairway.dev/fleet=applied; existing objects without
the label are kept. Applying again changes only differences. `fairway fleet delete` with the same files deletes the
objects. PlacementDecisions are skipped: the placement controller writes them.
""",
)
@files_options
@_dry_run
@output_option
@hub_options
def apply(
    files: tuple[str, ...],
    max_file_size: int,
    verbose: bool,
    dry_run: bool,
    output: OutputFormat,
    hub: HubChoice,
) -> int:
    """Apply the clusters, sets, bindings, scores and placements in files to a hub."""
    from fairway.cli.fleet import writer

    objects = [each.object for each in load_files(files, max_file_size=max_file_size, verbose=verbose)]
    tallies = talk(hub, lambda client: writer.apply(client, objects, dry_run=dry_run))
    return _report(tallies, ("created", "changed", "unchanged", "kept"), dry_run=dry_run, output=output)


@fleet.command(
    short_help="Delete what apply wrote from a hub.",
    epilog="""\b
Examples:
  fairway fleet delete -f fleet.json
  fairway fleet delete -f fleet.json --wait
  fairway fleet delete -f fleet.json --dry-run

\b
Only objects with the label fairway.dev/fleet=applied are deleted, and only namespaces that apply created. A hub
empties a namespace before it disappears; --wait waits for that.
""",
)
@files_options
@wait_options("Wait until the deleted namespaces no longer exist.")
@_dry_run
@output_option
@hub_options
@click.pass_context
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
    """Delete the objects that `fairway fleet apply` wrote from these files."""
    from fairway.cli.fleet import writer

    refuse_contradictions(context)
    objects = [each.object for each in load_files(files, max_file_size=max_file_size, verbose=verbose)]
    seconds = timeout if wait else 0
    tallies = talk(hub, lambda client: writer.delete(client, objects, dry_run=dry_run, seconds=seconds))
    return _report(tallies, ("deleted", "kept", "absent"), dry_run=dry_run, output=output)


def _report(
    tallies: "list[Tally]", columns: "tuple[Done, ...]", *, dry_run: bool, output: OutputFormat
) -> int:
    rows = [each.row(columns) for each in tallies]
    emit(rows, columns={each: each.capitalize() for each in ("kind", *columns)}, output=output)
    if dry_run and output == "table":
        say(NOTHING_WRITTEN)
    return EXIT_OK


@fleet.command(
    short_help="List the clusters in files.",
    epilog="""\b
Examples:
  fairway fleet show -f examples/fleet
  fairway fleet show -f clusters.yaml -f scores.yaml -o json
  kubectl get managedclusters -o json | fairway fleet show -f -
""",
)
@files_options
@output_option
def show(files: tuple[str, ...], max_file_size: int, verbose: bool, output: OutputFormat) -> None:
    """List the clusters in files, after validating every object."""
    from fairway.api.cluster import ManagedCluster

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
        from fairway.api.amount_display import display_amount

        rows = [row | {name: display_amount(name, row[name]) for name in ("cpu", "memory")} for row in rows]
    emit(rows, columns=columns, output=output)


def _row(cluster: "ManagedCluster") -> dict[str, Any]:
    from fairway.api.cluster import CLUSTER_SET_LABEL
    from fairway.api.meta import find_condition

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
