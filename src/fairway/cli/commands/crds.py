"""Declaration of `fairway crds`: its options and its help."""

from typing import Final

import click

from fairway.cli.lazy import deferred, runs
from fairway.cli.options.output import narrow

_FORMATS: Final = ("yaml", "json", "table", "wide")


@click.command(
    short_help="Print the CRDs, ready for kubectl apply.",
    epilog="""\b
Examples:
  fairway crds | kubectl apply -f -
  fairway crds --out deploy/crds.yaml
  fairway crds managedclusterscores hostedclusterrequests hostingpolicies | kubectl apply -f -
  fairway crds -o table

\b
A hub with Open Cluster Management has all of them except managedclusterscores, hostedclusterrequests and
hostingpolicies; do not replace the others there.
""",
)
@click.argument("kinds", nargs=-1, metavar="[KIND]...", shell_complete=deferred("fairway.cli.crds:offer"))
@click.option(
    "-o",
    "--output",
    type=click.Choice(_FORMATS),
    callback=narrow,
    default="yaml",
    show_default=True,
    help="table lists the kinds; yaml and json print the definitions.",
)
@click.option("--out", metavar="FILE", help="Write to this file atomically instead of standard output.")
@runs("fairway.cli.crds:crds")
def crds() -> None:
    """Print the CustomResourceDefinitions of all kinds, or of the named ones."""
