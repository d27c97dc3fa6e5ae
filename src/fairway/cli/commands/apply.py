"""Declaration of `fairway apply`: its options and its help."""

import click

from fairway.cli.lazy import runs
from fairway.cli.options.dry_run import dry_run_option
from fairway.cli.options.hub import hub_options
from fairway.cli.options.output import output_option


@click.command(
    short_help="Apply objects in files to a hub.",
    epilog="""\b
Examples:
  fairway apply -f examples/most-free-cpu.yaml
  fairway apply -f placements/ --dry-run
  fairway up --example | fairway apply -f -

\b
Objects of all kinds are applied, in the order of the files, with the field manager fairway-apply. If the hub refuses
one, the others are applied. To apply a whole fleet with its status, use `fairway fleet apply`.
Exit status: 0 applied, 2 bad input, or the hub refused an object.
""",
)
@click.option(
    "-f",
    "--file",
    "files",
    multiple=True,
    required=True,
    metavar="FILE|DIR",
    help="YAML or JSON file with Kubernetes objects, plain or gzipped; a directory; - for standard input. "
    "Can be repeated.",
)
@click.option("--force-conflicts", is_flag=True, help="Take over fields that other managers own.")
@dry_run_option
@output_option
@hub_options
@runs("fairway.cli.apply:apply")
def apply() -> None:
    """Apply objects in files to a hub."""
