"""`fairway up`: the embedded hub and all controllers in one process, with a synthetic fleet if wanted."""

from pathlib import Path
from typing import Final

import click

from fairway.cli.hub.command import hub
from fairway.cli.output import OutputFormat, output_option
from fairway.cli.run.options import config_option, controllers_option
from fairway.cli.up.tour import EXAMPLE

MOST_CLUSTERS: Final = 100_000
SHARED: Final = ("data", "port", "host", "names", "kubeconfig_out")
"""Options that are those of `fairway hub`."""


def _example(context: click.Context, _parameter: click.Parameter, wanted: bool) -> None:
    if wanted and not context.resilient_parsing:
        click.echo(EXAMPLE, nl=False)
        context.exit()


@click.command(
    short_help="Run a hub and all controllers in one process.",
    epilog="""\b
Examples:
  fairway up --clusters 12                   a fleet to try things on, gone when it ends
  fairway up --clusters 12 --data ./hub      kept in a folder; start it again the same way
  fairway up --clusters 1000 --period 60 --seed 7
  fairway up --controllers=+recovery --config recovery.yaml
  fairway up --data ./hub --port 0 --kubeconfig-out ./kubeconfig
  fairway up --example | kubectl apply -f -  the Placement it suggests to begin with

\b
To see what an outage does, stop the agent of a synthetic cluster; `fairway.dev/agent-` starts it again:
  kubectl label managedcluster NAME fairway.dev/agent=stopped
""",
)
@click.option(
    "--clusters",
    type=click.IntRange(0, MOST_CLUSTERS),
    default=0,
    show_default=True,
    help="Have at least so many synthetic clusters, whose leases are renewed and whose scores move.",
)
@click.option(
    "--seed", type=int, default=0, show_default=True, help="Another seed makes another fleet and other moves."
)
@click.option(
    "--period",
    type=click.FloatRange(1, 86_400),
    default=60,
    show_default=True,
    metavar="SECONDS",
    help="How often each synthetic cluster publishes its scores.",
)
@click.option(
    "--example", is_flag=True, is_eager=True, expose_value=False, callback=_example, help="Print a Placement."
)
@controllers_option
@config_option
@click.option("-v", "--verbose", is_flag=True, help="Also log what is not a warning.")
@output_option
def up(
    data: Path | None,
    port: int,
    host: str,
    names: tuple[str, ...],
    kubeconfig_out: Path | None,
    clusters: int,
    seed: int,
    period: float,
    controllers: frozenset[str],
    config: Path | None,
    verbose: bool,
    output: OutputFormat,
) -> None:
    """Run the embedded hub together with controllers: everything a Placement needs, in one process.

    Its log goes to stderr, and Ctrl-C or SIGTERM stops it, the controllers first.
    """
    # Imported here, so that `fairway --help` doesn't wait for a web server.
    from fairway.api import crds
    from fairway.cli.hub import process
    from fairway.cli.run.config import configured
    from fairway.cli.up import services
    from fairway.controllers.manager import Settings as Controllers
    from fairway.hub import Settings
    from fairway.whatif.moving import Motion

    settings = Settings(folder=data, host=host, port=port, names=names, definitions=tuple(crds()))
    motion = Motion(clusters=clusters, seed=seed, period=period)
    running = Controllers(controllers=controllers, identity=services.IDENTITY)
    if config is not None:
        running = configured(running, config)
    process.serve(
        settings,
        kubeconfig=kubeconfig_out,
        output=output,
        verbose=verbose,
        beside=services.beside(motion, running),
    )


up.params[:0] = [each for each in hub.params if each.name in SHARED]
