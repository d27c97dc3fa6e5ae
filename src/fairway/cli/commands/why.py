"""Declaration of `fairway why`: its options and its help."""

import click

from fairway.cli.lazy import runs
from fairway.cli.options.history import archive_option
from fairway.cli.options.input import moment
from fairway.cli.options.output import output_option


@click.command(
    short_help="Explain a recorded decision: why these clusters, at that time.",
    epilog="""\b
Examples:
  fairway why ns1/web --history ./hub
  fairway why ns1/web --at 2026-01-01T03:12:00Z --history ./hub
  fairway why ns1/web --at 2026-01-01T03:12:00Z --cluster c7
  fairway why 1v2q8h3k5mzr04xd

\b
The decision that the hub had at that time is decided again from its recorded inputs, and explained as by fairway
explain. What it added and removed, its margin and its cause come from its trace, also where the inputs are missing.

\b
Exit status: 0 explained, 1 no decision is recorded for that time, 2 bad input.
""",
)
@click.argument("name", metavar="NS/NAME|ID")
@click.option("--at", type=moment, metavar="TIME", help="The time of the question.  [default: now]")
@click.option(
    "--cluster", metavar="NAME", help="Explain this cluster first, and what would have made it win."
)
@click.option("--all", "everything", is_flag=True, help="Show all clusters.")
@archive_option
@output_option
@runs("fairway.cli.history.why:why")
def why() -> None:
    """Explain the decision that a placement had at a time."""
