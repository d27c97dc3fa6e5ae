"""`fairway up`: the embedded hub, all controllers and an optional synthetic fleet in one process."""

from pathlib import Path
from typing import Final

import click

from fairway.cli.hub.command import hub
from fairway.cli.options.scheduler import load_pod_scheduling, load_scheduling, scheduler_option
from fairway.cli.output import OutputFormat, output_option
from fairway.cli.run.options import config_option, controllers_with_hub_option
from fairway.cli.up.tour import EXAMPLE

MOST_CLUSTERS: Final = 100_000
MOST_NODES: Final = 5_000
MOST_MACHINES: Final = 20_000
VMS_WITHOUT_NODES: Final = "--vms requires --nodes"
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
    help="Minimum number of synthetic clusters, which renew their leases and publish changing scores.",
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
    help="With -o table, print what happens: with --clusters, apply the example Placement, and print its decision and "
    "its moves; with --nodes, print the migrations of virtual machines.",
)
@controllers_with_hub_option
@config_option
@scheduler_option
@click.option("-v", "--verbose", is_flag=True, help="Log at info level.")
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
    nodes: int,
    vms: int | None,
    demo: bool,
    controllers: frozenset[str],
    config: Path | None,
    scheduler_config: Path | None,
    verbose: bool,
    output: OutputFormat,
) -> None:
    """Run the embedded hub, all controllers and an optional synthetic fleet in one process.

    It logs to stderr, and stops on Ctrl-C or SIGTERM.
    """
    # Imported here to keep `fairway --help` fast.
    from fairway.api import crds
    from fairway.api.crd import machine_crds
    from fairway.cli.hub import process
    from fairway.cli.run.config import configured
    from fairway.cli.up import services
    from fairway.controllers.settings import MACHINES
    from fairway.controllers.settings import Settings as Controllers
    from fairway.hub import Settings
    from fairway.whatif.simulation.creation import SimulationOptions
    from fairway.whatif.simulation.machines.creation import MachineOptions

    if vms and not nodes:
        raise click.UsageError(VMS_WITHOUT_NODES)
    if nodes:
        controllers |= {MACHINES}
    definitions = (*crds(), *(machine_crds() if nodes else ()))
    settings = Settings(folder=data, host=host, port=port, names=names, definitions=definitions)
    options = SimulationOptions(clusters=clusters, seed=seed, period=period)
    synthetic = MachineOptions(nodes=nodes, machines=vms, seed=seed, period=period)
    machines = MACHINES in controllers
    running = Controllers(
        controllers=controllers,
        identity=services.IDENTITY,
        scheduling=load_scheduling(scheduler_config, beside_pods=machines),
        pod_scheduling=load_pod_scheduling(scheduler_config) if machines else None,
    )
    if config is not None:
        running = configured(running, config)
    process.serve(
        settings,
        kubeconfig=kubeconfig_out,
        output=output,
        verbose=verbose,
        companion=services.companion(options, running, machines=synthetic, demo=demo and output == "table"),
    )


up.params[:0] = [each for each in hub.params if each.name in SHARED]
