"""Declaration of `fairway history`: its options and its help."""

import click

from fairway.cli.lazy import parsed_by, runs
from fairway.cli.options.history import archive_option
from fairway.cli.options.output import output_option


@click.command(
    short_help="List recorded decisions: when, what changed, and what caused it.",
    epilog="""\b
Examples:
  fairway history --history ./hub
  fairway history ns1/web --since 2d --history ./hub
  fairway history --cluster c7 --since 3h -o json
  fairway history 1v2q8h3k5mzr04xd

\b
Each line is a decision that changed what the hub has. ID is in the annotation fairway.dev/decision-record of the
PlacementDecision, and names the record to fairway why and fairway replay. MARGIN is by how many points the last
selected cluster was ahead of the next one. Warnings about gaps and files that cannot be read go to stderr.

\b
-o json and -o yaml have these fields:
  records[]   id, kind, name, at, before[], after[], added[], removed[], cause, error, margin, replayable, version,
              trace: status, message, hosts, feasible, stages[]: plugin, left; added[], removed[], last, next: host,
              rank, total, rejectedBy, reason, terms[]: plugin, score, weight
  gaps[]      since, until, lost, why
  warnings[]

\b
Exit status: 0 there are records, 1 there are none, 2 bad input.
""",
)
@click.argument("name", metavar="[NS/NAME|ID]", required=False)
@click.option(
    "--since",
    type=parsed_by("fairway.cli.history.times:since"),
    metavar="TIME|DURATION",
    help="Only decisions since a time, or in the last 30m, 3h or 2d.",
)
@click.option("--cluster", metavar="NAME", help="Only decisions that added or removed this cluster or node.")
@click.option(
    "--kind",
    type=click.Choice(("placement", "hostedcluster", "pod", "migration")),
    help="Only decisions of this kind of work.",
)
@archive_option
@output_option
@runs("fairway.cli.history.run:history")
def history() -> None:
    """List the decisions that changed what the hub has."""
