"""Declaration of `fairway accept`: its options and its help."""

import click

from fairway.cli.lazy import runs
from fairway.cli.options.dry_run import dry_run_option
from fairway.cli.options.hub import hub_options
from fairway.cli.options.names import complete
from fairway.cli.options.output import output_option
from fairway.cli.options.wait import wait_options


@click.command(
    short_help="Accept clusters that request to join.",
    epilog="""\b
Examples:
  fairway accept c1
  fairway accept --clusters c1,c2
  fairway accept c1 --dry-run
  fairway accept c1 --wait --timeout 300          wait until it has joined and is available

\b
A certificate request is approved if a bootstrap identity (a bootstrap token, or the service account for joining)
created it and its subject is an agent of the cluster that its label names. --skip-approve-check skips the check of
the creator. If several agents request the same cluster, none is approved unless --requesters selects one.
With --wait, progress is printed to stderr.
Exit status: 0 accepted, and with --wait available; 1 a pending request was not approved, or --wait timed out;
2 bad input.
""",
)
@click.argument("names", nargs=-1, metavar="[CLUSTER]...", shell_complete=complete("clusters"))
@click.option(
    "--clusters",
    multiple=True,
    metavar="NAMES",
    shell_complete=complete("clusters"),
    help="Clusters, separated by commas. Can be repeated.",
)
@click.option(
    "--skip-approve-check",
    "any_requester",
    is_flag=True,
    help="Approve requests regardless of who created them.",
)
@click.option(
    "--requesters",
    multiple=True,
    metavar="NAMES",
    help="Approve only requests for these common names, separated by commas.",
)
@wait_options("Wait until the clusters have joined and are available.")
@dry_run_option
@output_option
@hub_options
@click.pass_context
@runs("fairway.cli.accept.run:accept")
def accept() -> None:
    """Accept clusters: set hubAcceptsClient and approve the certificate requests of their agents."""
