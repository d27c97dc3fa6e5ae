"""Declaration of `fairway addon`: its options and its help."""

from typing import Final

import click

from fairway.cli.lazy import parsed_by, runs
from fairway.cli.options.hub import hub_options
from fairway.cli.options.output import output_option
from fairway.cli.options.wait import wait_options

WAIT_SECONDS: Final = 60.0
_name: Final = click.argument("name", type=parsed_by("fairway.cli.addon.run:add_on"), metavar="ADDON")


@click.group(
    short_help="Install Fairway's add-on on managed clusters.",
    epilog="""\b
Examples:
  fairway addon install resource-usage
  fairway addon status resource-usage
  fairway addon uninstall resource-usage
""",
)
def addon() -> None:
    """Manage Fairway's add-on: agents on managed clusters that publish scores on the hub.

    OCM's addon-manager deploys the agents; on a hub without OCM, `fairway run` does.
    """


@addon.command(
    short_help="Install or upgrade an add-on.",
    epilog="""\b
Examples:
  fairway addon install resource-usage                                  on all clusters
  fairway addon install resource-usage --clusters 'env in (prod,stage)'
  fairway addon install resource-usage --placement ns1/edge --set INTERVAL=5m
  fairway addon install resource-usage --image registry.example.com/fairway:0.1.0
  fairway addon install resource-usage --wait --timeout 300             wait for its agents
  fairway addon install resource-usage --dry-run -o yaml                print the objects, without a hub

\b
Settings for --set: PROVIDERS (providers to run), INTERVAL, VALID_FOR, MAXCPUCOUNT (cores that score 100),
MAXMEMCOUNT (MiB, or with a unit), SCORES (publish only these, of resource-usage), SCORE_FLOOR (score of the worst
value: 0, or -100 for OCM's symmetric form), PARITY (upstream-fixed for OCM's eight numbers), SCORE_NAME (name of the
AddOnPlacementScore), RATIOS (true adds ResourceRatioCPU and ResourceRatioMemory; the default with
--managed-cluster-scores), LOG_FORMAT. An AddOnDeploymentConfig for one cluster overrides them there.
With --wait, progress is printed to stderr.
Exit status: 0 installed, and with --wait available on all selected clusters; 1 --wait timed out; 2 bad input, or the
hub refused.
""",
)
@_name
@click.option(
    "-n",
    "--namespace",
    default="open-cluster-management-addon",
    show_default=True,
    metavar="NAME",
    help="Namespace of the placement and the settings; created if missing.",
)
@click.option(
    "--image", metavar="IMAGE", help="Container image of the agent.  [default: fairway of this version]"
)
@click.option("--clusters", metavar="SELECTOR", help="Install only on clusters with these labels.")
@click.option(
    "--placement",
    "chosen_by",
    type=parsed_by("fairway.cli.addon.run:placement"),
    metavar="NAMESPACE/NAME",
    help="Install only on the clusters that this placement selects.",
)
@click.option("--all", "everywhere", is_flag=True, help="Install on all clusters (the default).")
@click.option(
    "--set", "settings", multiple=True, metavar="NAME=VALUE", help="Agent variable. Can be repeated."
)
@click.option(
    "--managed-cluster-scores",
    is_flag=True,
    help="Also publish raw values as ManagedClusterScores, and grant the agents the permission.",
)
@click.option(
    "--take-over", is_flag=True, help="Replace an add-on of this name that Fairway does not manage."
)
@wait_options("Wait until its agents are available on all selected clusters.")
@click.option(
    "--dry-run",
    is_flag=True,
    help="Send dry-run requests and write nothing; with -o yaml or json, print the objects without a hub.",
)
@output_option
@hub_options
@click.pass_context
@runs("fairway.cli.addon.run:install")
def install() -> None:
    """Install an add-on: write its objects, its permissions, and the placement that selects its clusters.

    Objects that Fairway manages are updated; objects of other owners are kept.
    """


@addon.command(
    short_help="Show where an add-on runs and publishes.",
    epilog="""\b
Examples:
  fairway addon status resource-usage
  fairway addon status resource-usage -o json

\b
Exit status: 0 it runs and publishes on all selected clusters, 1 it does not, or is not installed, 2 bad input.
""",
)
@_name
@output_option
@hub_options
@runs("fairway.cli.addon.run:status")
def status() -> None:
    """Show on how many clusters an add-on runs and publishes, and why not on the others."""


@addon.command(
    short_help="Remove an add-on from the hub and all clusters.",
    epilog="""\b
Examples:
  fairway addon uninstall resource-usage
  fairway addon uninstall resource-usage --dry-run
  fairway addon uninstall resource-usage --timeout 300

\b
Agents are removed first, then the objects that install wrote, then the published scores.
Exit status: 0 removed, 1 still on clusters that do not respond, 2 bad input.
""",
)
@_name
@click.option(
    "--timeout",
    type=click.FloatRange(min=0),
    default=WAIT_SECONDS,
    show_default=True,
    metavar="SECONDS",
    help="How long to wait for the agents to be removed.",
)
@click.option("--dry-run", is_flag=True, help="Print what would be removed, and remove nothing.")
@output_option
@hub_options
@runs("fairway.cli.addon.run:uninstall")
def uninstall() -> None:
    """Remove an add-on: its agents from all clusters, the objects that install wrote, and the published scores.

    Objects of other owners and the namespace are kept.
    """
