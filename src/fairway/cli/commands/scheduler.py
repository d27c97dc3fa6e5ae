"""Declaration of `fairway scheduler`: its options and its help."""

from pathlib import Path

import click

from fairway.cli.lazy import runs
from fairway.cli.options.output import output_option
from fairway.cli.options.scheduler import scheduler_option


@click.group(
    short_help="Check scheduler configurations, and list plugins.",
    epilog="""\b
Examples:
  fairway scheduler check scheduler.yaml
  fairway scheduler plugins
""",
)
def scheduler() -> None:
    """Check scheduler configurations, and list the plugins that they can name."""


@scheduler.command(
    short_help="Check a scheduler configuration.",
    epilog="""\b
Examples:
  fairway scheduler check scheduler.yaml
  fairway scheduler check scheduler.yaml -o json
  fairway scheduler check kube-scheduler.yaml     a KubeSchedulerConfiguration

\b
Prints the plugins of each extension point, in the order of their calls, and notes about what has no effect here.
Commands call plugins up to Choose; those from Reserve on are called by the controllers, before they write a decision.
Exit status: 0 valid, 2 invalid; every problem is printed with its file, line, field, reason and remedy.
""",
)
@click.argument("file", type=click.Path(path_type=Path), metavar="FILE")
@output_option
@runs("fairway.cli.scheduler.run:check")
def check() -> None:
    """Check a scheduler configuration, and print what it enables."""


@scheduler.command(
    short_help="List plugins.",
    epilog="""\b
Examples:
  fairway scheduler plugins
  fairway scheduler plugins --scheduler-config scheduler.yaml
  fairway scheduler plugins --pods
  fairway scheduler plugins --hosting

\b
Lists built-in plugins, those of installed packages, and those of the files that the configuration names.
Exit status: 0; 1 if the plugin of an installed package cannot be loaded; 2 bad input.
""",
)
@scheduler_option
@click.option("--pods", is_flag=True, help="List the plugins that place pods instead of those of Placements.")
@click.option("--hosting", is_flag=True, help="List the plugins that place HostedClusterRequests.")
@output_option
@runs("fairway.cli.scheduler.run:plugins")
def plugins() -> None:
    """List the plugins that a configuration can name, with their extension points."""
