"""Declaration of `fairway place`: its options and its help."""

import click

from fairway.cli.lazy import runs
from fairway.cli.options.input import input_options, moment
from fairway.cli.options.names import complete
from fairway.cli.options.output import output_option
from fairway.cli.options.scheduler import scheduler_option


@click.command(
    short_help="Decide placements and print the decisions.",
    epilog="""\b
Examples:
  fairway place -f examples/fleet
  fairway place -f examples/fleet --reasons --placement ns1/most-free-cpu
  fairway place -f fleet.json --now 2026-01-02T10:00:00Z -o yaml | kubectl apply --dry-run=client -f -
  fairway place -f fleet.json --strict
  fairway place
  fairway place -f new-placement.yaml --hub

\b
Without -f, the placements of the hub are decided; with -f and --hub, those of the files, or all of the hub if the files
have none, on the hub as it would be with the files applied. Nothing is written. ON THE HUB is the difference from the
hub's decisions.

\b
The answer for a placement is the same, whether it is asked alone or with others, and by fairway explain: what the
controller would decide next. Placements with a recorded decision keep it meanwhile; those without one are decided in
the order of namespace and name, and each sees the earlier decisions.
-o yaml and -o json print a v1 List: each Placement with its status, then its PlacementDecisions.
Exit status: 0 decided, 1 with --strict if a placement is not satisfied or misconfigured, 2 bad input.
""",
)
@click.option(
    "--placement",
    "wanted",
    multiple=True,
    metavar="NS/NAME",
    shell_complete=complete("placements"),
    help="Decide only this placement. Can be repeated.",
)
@click.option("--now", type=moment, metavar="TIME", help="Decide at this time.  [default: now]")
@click.option("--reasons", is_flag=True, help="Show the reason for each selected cluster.")
@click.option("--all", "everything", is_flag=True, help="Show all selected clusters.")
@click.option("--strict", is_flag=True, help="Fail if a placement is not satisfied.")
@scheduler_option
@output_option
@input_options
@runs("fairway.cli.place:place")
def place() -> None:
    """Decide placements with the clusters and scores of files or of a hub."""
