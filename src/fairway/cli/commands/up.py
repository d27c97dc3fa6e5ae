"""Declaration of `fairway up`: its options and its help."""

from typing import Final

import click

from fairway.cli.commands.hub import hub
from fairway.cli.lazy import runs
from fairway.cli.options.controllers import auto_approve_option, config_option, controllers_with_hub_option
from fairway.cli.options.history import history_options
from fairway.cli.options.output import output_option
from fairway.cli.options.scheduler import scheduler_option
from fairway.cli.up.tour import EXAMPLE

MOST_CLUSTERS: Final = 100_000
MOST_NODES: Final = 5_000
MOST_MACHINES: Final = 20_000


SHARED: Final = ("data", "port", "host", "names", "kubeconfig_out")
"""Options shared with `fairway hub`."""


def _example(context: click.Context, _parameter: click.Parameter, wanted: bool) -> None:
    if wanted and not context.resilient_parsing:
        click.echo(EXAMPLE, nl=False)
        context.exit()


@click.command(
    short_help="Run a hub and all controllers in one process.",
    epilog="""\b
Examples:
  fairway up --clusters 12                   a synthetic fleet, lost when it stops
  fairway up --clusters 12 --data ./hub      keep the data in a folder
  fairway up --clusters 1000 --period 60 --seed 7
  fairway up --nodes 3                       nodes with virtual machines that grow and move
  fairway up --controllers=+recovery --config recovery.yaml
  fairway up --data ./hub --port 0 --kubeconfig-out ./kubeconfig
  fairway up --example | fairway apply -f -  the example Placement

\b
To simulate an outage, stop the agent of a synthetic cluster; start it again with the label `fairway.dev/agent-`:
  kubectl label managedcluster NAME fairway.dev/agent=stopped
""",
)
@click.option(
    "--clusters",
    type=click.IntRange(0, MOST_CLUSTERS),
    default=0,
    show_default=True,
    help="Minimum number of synthetic clusters, which renew their leases and publish scores. Scores change as --demo "
    "says, and otherwise at random.",
)
@click.option(
    "--seed", type=int, default=0, show_default=True, help="Seed of the synthetic fleet and its scores."
)
@click.option(
    "--period",
    type=click.FloatRange(1, 86_400),
    default=60,
    show_default=True,
    metavar="SECONDS",
    help="Time between two publications of a synthetic cluster's scores, and on average between two changes of a "
    "virtual machine's load.",
)
@click.option(
    "--nodes",
    type=click.IntRange(0, MOST_NODES),
    default=0,
    show_default=True,
    help="Number of synthetic nodes with 10 CPUs and 40 GiB, for pods and virtual machines. Adds the controller "
    "machines.",
)
@click.option(
    "--vms",
    type=click.IntRange(0, MOST_MACHINES),
    help="Number of virtual machines that grow and shrink.  [default: 4 for each node]",
)
@click.option(
    "--example",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_example,
    help="Print the example and exit.",
)
@click.option(
    "--demo/--no-demo",
    default=True,
    show_default=True,
    help="With -o table, print what happens: with --clusters, apply the example Placement, let one cluster at a time "
    "fill up, fail or recover, and print the moves that it causes; with --nodes, print the migrations of virtual "
    "machines.",
)
@controllers_with_hub_option
@config_option
@auto_approve_option
@scheduler_option
@history_options(default="the folder history in that of --data; off without --data")
@click.option("-v", "--verbose", is_flag=True, help="Log at info level.")
@output_option
@runs("fairway.cli.up.run:up")
def up() -> None:
    """Run the embedded hub, all controllers and an optional synthetic fleet in one process.

    It logs to stderr, and stops on Ctrl-C or SIGTERM.
    """


up.params[:0] = [option for option in hub.params if option.name in SHARED]
