"""Declaration of `fairway machines`: its options and its help."""

import sys
from copy import copy
from typing import Any, Final

import click

from fairway.cli.commands.simulate import machines as simulate_machines
from fairway.cli.lazy import runs
from fairway.cli.options.input import input_options
from fairway.cli.options.names import complete
from fairway.cli.options.output import output_option
from fairway.cli.options.scheduler import scheduler_option
from fairway.cli.text import say


@click.group(
    short_help="Show virtual machines that grow and move, explain pods, and simulate.",
    epilog="""\b
Examples:
  fairway machines top
  fairway machines explain pod default/web-0
  fairway machines migrations
  fairway simulate machines --nodes 50 --chart growth.svg
""",
)
def machines() -> None:
    """Show nodes with virtual machines that grow and move, explain where pods are, and simulate policies."""


@machines.group(
    short_help="Explain where a pod is, or why it waits.",
    epilog="""\b
Examples:
  fairway machines explain pod default/web-0
""",
)
def explain() -> None:
    """Explain where a pod is, or why it waits."""


@explain.command(
    short_help="Explain where a pod is, or why it waits.",
    epilog="""\b
Examples:
  fairway machines explain pod default/web-0
  fairway machines explain pod default/web-0 --all
  fairway machines explain pod default/web-0 -f cluster.yaml -o json

\b
The pod is placed once more, as if it had no node, on the nodes as they are now; nothing is written. A pod with a node
may therefore have a better one today. Changes that would let a pod fit are tried one at a time.
Exit status: 0 a node passes every filter, 1 none does, 2 bad input.
""",
)
@click.argument("name", metavar="NAMESPACE/NAME", shell_complete=complete("pods"))
@click.option("--all", "everything", is_flag=True, help="Show all nodes.")
@scheduler_option
@output_option
@input_options
@runs("fairway.cli.machines.explain:pod")
def pod() -> None:
    """Explain where a pod is, or why it waits: what each plugin answers for each node, and what would help."""


@machines.command(
    short_help="Show migrations with the time of each step.",
    epilog="""\b
Examples:
  fairway machines migrations
  fairway machines migrations --running --timeline
  fairway machines migrations --vm default/vm-b -o json

\b
Migrations that have ended are known from Events about their virtual machine, which a hub keeps for an hour. TOOK is the
time since a migration was planned. Times are local.
""",
)
@click.option("--running", is_flag=True, help="Only migrations that have not ended.")
@click.option(
    "--vm",
    metavar="NAMESPACE/NAME",
    default="",
    shell_complete=complete("machines"),
    help="Only migrations of this virtual machine.",
)
@click.option(
    "--timeline/--no-timeline",
    default=None,
    help="Show each step.  [default: for up to 5 migrations]",
)
@output_option
@input_options
@runs("fairway.cli.machines.migrations:migrations")
def migrations() -> None:
    """Show the migrations of virtual machines: their steps, reasons, bytes, and the machines that get the room."""


RENAMED: Final = "fairway: this command is now called `{new}`"
RESOURCE_CHOICES: Final = ("cpu", "memory", "all")
SORTS: Final = ("name", "reserved", "pressure")


@machines.command(
    short_help="Show nodes and virtual machines, refreshed in place.",
    epilog="""\b
Examples:
  fairway machines top
  fairway machines top --sort pressure --resource cpu
  fairway machines top --no-watch -o json
  fairway machines top -f cluster.yaml

\b
RESERVED is what counts as used: permits of virtual machines divided by their overcommit factors, and requests of other
pods. COMMITTED is the same before overcommitment. EARMARKED is room that is kept for a machine, or will be when another
has left. PRESSURE is denied demand, and use above the WATERMARK. For machines, SIZE is what they use, PERMIT what they
may use, DEMAND what their agent asks for, each as CPUs / memory. Machines of KubeVirt have no permits; if there are
any, KIND is the kind of each machine.
Only objects of the hub are read, so this works without access to the scheduler.
""",
)
@click.option(
    "-w/-W",
    "--watch/--no-watch",
    default=None,
    help="Keep running, and refresh in place on a terminal, until q or Ctrl-C.  [default: on a terminal]",
)
@click.option(
    "--interval",
    type=click.FloatRange(0.1, 3600),
    default=2.0,
    show_default=True,
    metavar="SECONDS",
    help="Shortest time between two refreshes.",
)
@click.option(
    "--resource", type=click.Choice(RESOURCE_CHOICES), default="all", show_default=True, help="Rows of nodes."
)
@click.option("--sort", type=click.Choice(SORTS), default="name", show_default=True, help="Order of nodes.")
@scheduler_option
@output_option
@input_options
@runs("fairway.cli.machines.top:top")
def top() -> None:
    """Show what is reserved, kept and denied on each node, and the demand and permit of each virtual machine."""


def _renamed(command: click.Command, *, name: str, new: str) -> click.Command:
    """Return a command under an earlier name, which is not listed and prints the new one."""
    callback = command.callback
    assert callback is not None

    def run(**options: Any) -> Any:
        say(RENAMED.format(new=new), stream=sys.stderr)
        return callback(**options)

    earlier = copy(command)
    earlier.name, earlier.hidden, earlier.callback = name, True, run
    return earlier


machines.add_command(_renamed(simulate_machines, name="simulate", new="fairway simulate machines"))
