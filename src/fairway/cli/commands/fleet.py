"""Declaration of `fairway fleet`: its options and its help."""

from typing import Final

import click

from fairway.cli.lazy import runs
from fairway.cli.options.hub import hub_options
from fairway.cli.options.input import files_options, moment
from fairway.cli.options.output import output_option
from fairway.cli.options.wait import wait_options

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
@runs("fairway.cli.fleet.run:generate")
def generate() -> None:
    """Generate a realistic fleet: clusters with scores, cluster sets, bindings and placements."""


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
@runs("fairway.cli.fleet.run:apply")
def apply() -> None:
    """Apply the clusters, sets, bindings, scores and placements in files to a hub."""


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
@runs("fairway.cli.fleet.run:delete")
def delete() -> None:
    """Delete the objects that `fairway fleet apply` wrote from these files."""


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
@runs("fairway.cli.fleet.run:show")
def show() -> None:
    """List the clusters in files, after validating every object."""
