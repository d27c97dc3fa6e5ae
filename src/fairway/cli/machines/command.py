"""`fairway machines`: nodes with virtual machines that grow, and move to make room."""

import click

from fairway.cli.machines.explain import explain
from fairway.cli.machines.migrations import migrations
from fairway.cli.machines.simulate import simulate
from fairway.cli.machines.top import top


@click.group(
    short_help="Show virtual machines that grow and move, explain pods, and simulate.",
    epilog="""\b
Examples:
  fairway machines top
  fairway machines explain pod default/web-0
  fairway machines migrations
  fairway machines simulate --nodes 50 --svg growth.svg
""",
)
def machines() -> None:
    """Show nodes with virtual machines that grow and move, explain where pods are, and simulate policies."""


for _command in (explain, migrations, simulate, top):
    machines.add_command(_command)
