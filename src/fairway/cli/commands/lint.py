"""Declaration of `fairway lint`: its options and its help."""

from typing import Final

import click

from fairway.cli.lazy import runs
from fairway.cli.options.input import input_options, moment
from fairway.cli.options.output import output_option
from fairway.cli.options.scheduler import scheduler_option

SEVERITIES: Final = ("error", "warning", "info")


@click.command(
    short_help="Find mistakes in placements.",
    epilog="""\b
Examples:
  fairway lint -f examples/fleet
  fairway lint -f fleet/ --severity info
  fairway lint -f fleet/ --rule score-expired --rule score-used-expired --now 2026-01-02T10:00:00Z
  fairway lint -f fleet/ --strict -o json
  fairway lint
  fairway lint -f new-placement.yaml --hub

\b
Include the clusters, sets, bindings and scores of the hub: most mistakes are visible only with them.
Without -f, all objects of the hub are checked; with -f and --hub, the files as they would be on the hub.
Exit status: 0 no errors, 1 errors (with --strict, also warnings), 2 bad input.
""",
)
@click.option("--now", type=moment, metavar="TIME", help="Check scores at this time.  [default: now]")
@click.option(
    "--severity",
    type=click.Choice(SEVERITIES),
    default="warning",
    show_default=True,
    help="Minimum severity to show.",
)
@click.option("--rule", "rules", multiple=True, metavar="ID", help="Apply only this rule. Can be repeated.")
@click.option("--strict", is_flag=True, help="Fail on warnings.")
@click.option("--list-rules", is_flag=True, help="List all rules and exit.")
@scheduler_option
@output_option
@input_options
@runs("fairway.cli.lint:lint")
def lint() -> None:
    """Find mistakes in placements and in the sets, scores and clusters around them."""
