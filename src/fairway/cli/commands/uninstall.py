"""Declaration of `fairway uninstall`: its options and its help."""

import click

from fairway.cli.lazy import runs
from fairway.cli.options.dry_run import dry_run_option
from fairway.cli.options.hub import hub_options
from fairway.cli.options.output import output_option


@click.command(
    short_help="Delete Fairway from a hub.",
    epilog="""\b
Examples:
  fairway uninstall --dry-run
  fairway uninstall --yes
  fairway uninstall --delete-data --yes      clusters, hosted clusters, placements and CRDs, too

\b
Placements and decisions stay, and OCM's placement controller continues with them. With --delete-data, hosted clusters
and clusters are deleted first, while the controllers run that clean up after them; where OCM runs, its kinds stay.
Exit status: 0 deleted, or nothing was installed; 1 not confirmed, or not finished in time; 2 the hub is unreachable.
""",
)
@click.option(
    "--delete-data",
    is_flag=True,
    help="Also delete all HostedClusterRequests, ManagedClusters and CRDs, with all of their objects.",
)
@click.option("--yes", is_flag=True, help="Do not ask.")
@dry_run_option
@click.option(
    "--timeout",
    type=click.FloatRange(0, min_open=True),
    default=300.0,
    show_default=True,
    metavar="SECONDS",
    help="Time in which everything must be deleted.",
)
@output_option
@hub_options
@runs("fairway.cli.install.process:uninstall")
def uninstall() -> None:
    """Delete what `fairway install` or `kubectl apply -k deploy` installed on a hub."""
