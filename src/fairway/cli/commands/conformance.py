"""Declaration of `fairway conformance`: its options and its help."""

import click

from fairway.cli.lazy import runs
from fairway.cli.options.output import output_option
from fairway.cli.options.scheduler import scheduler_option


@click.command(
    short_help="Check this version against recorded answers.",
    epilog="""\b
Examples:
  fairway conformance tests/golden/quantity.jsonl
  fairway conformance tests/golden/*.jsonl tests/golden/*.gz --show 3
  fairway conformance tests/golden/cel.jsonl -o json

\b
Exit status: 0 all passed, 1 some failed, 2 a file could not be used.
""",
)
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.option(
    "--show",
    type=click.IntRange(min=0),
    default=10,
    show_default=True,
    help="Maximum number of failed rows to print in full.",
)
@scheduler_option
@output_option
@runs("fairway.cli.conformance:conformance")
def conformance() -> None:
    """Run recorded answers and compare field by field.

    Each FILE holds recorded answers of one family (placement, cel, quantity, pod-requests, pod-scheduling),
    one JSON object per line, plain or gzipped. The family is detected from the content. With --scheduler-config,
    placements are decided by the profile of that file.
    """
