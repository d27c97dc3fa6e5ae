"""Declaration of `fairway plan`: its options and its help."""

import click

from fairway.cli.lazy import runs
from fairway.cli.options.hub import hub_options
from fairway.cli.options.input import changes_options, moment
from fairway.cli.options.names import complete
from fairway.cli.options.output import output_option
from fairway.cli.options.scheduler import scheduler_option


@click.command(
    short_help="Show which decisions move with a change.",
    epilog="""\b
Examples:
  fairway plan -f changes/
  fairway plan --drain apps-fra
  fairway plan --lose region=eu-central --fleet examples/fleet
  fairway plan --set-weight ns1/idlest:Steady=3 --add-clusters 10 -o json

\b
The fleet is that of a hub, or of files with --fleet, such as the output of kubectl get -o yaml. A plan decides the
placements that the change concerns, one after the other in the order of namespace and name, and starts from the
recorded decisions. Placements without one are decided before the change. Nothing is written.

\b
-f        apply these files, as fairway apply does; a status in a file counts, too
--drain   taint the cluster with fairway.dev/drained:NoSelect; placements that tolerate it stay
--lose    the agents of these clusters stop: they get OCM's taint unreachable
--add-clusters  copies of the fleet's clusters, in turn by name, with their scores

\b
Exit status, for CI: 0 no decision moves, 2 decisions move, 1 an error. Other commands end with 2 after bad input.
""",
)
@click.option(
    "--fleet",
    multiple=True,
    metavar="FILE|DIR",
    help="Files with the fleet, instead of a hub. Can be repeated.",
)
@click.option(
    "--drain",
    multiple=True,
    metavar="CLUSTER",
    shell_complete=complete("clusters"),
    help="Drain this cluster. Can be repeated.",
)
@click.option(
    "--lose", multiple=True, metavar="SELECTOR", help="Lose the clusters with these labels. Can be repeated."
)
@click.option(
    "--set-weight",
    "weights",
    multiple=True,
    metavar="NS/NAME:PRIORITIZER=WEIGHT",
    help="Change the weight of a prioritizer, named as in fairway explain. Can be repeated.",
)
@click.option(
    "--add-clusters",
    type=click.IntRange(0, 100_000),
    default=0,
    metavar="N",
    help="Add clusters like those of the fleet.",
)
@click.option("--now", type=moment, metavar="TIME", help="Decide at this time.  [default: now]")
@click.option("--all", "everything", is_flag=True, help="Show all moves, clusters and reasons.")
@scheduler_option
@output_option
@changes_options
@hub_options
@runs("fairway.cli.plan.run:plan")
def plan() -> None:
    """Show which decisions of a fleet move with a change, why, and what follows. Writes nothing."""
