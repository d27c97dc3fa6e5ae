"""`fairway scheduler check` and `fairway scheduler plugins`."""

import sys
from pathlib import Path
from typing import Any, Final

import click

from fairway.cli.errors import EXIT_NO, EXIT_OK
from fairway.cli.options.scheduler import (
    load_all_scheduling,
    load_pod_scheduling,
    load_scheduling,
    scheduler_option,
)
from fairway.cli.output import OutputFormat, emit, output_option, say

BROKEN: Final = "fairway: {plugin}"
NOTE: Final = "note: {note}"


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
def check(file: Path, output: OutputFormat) -> int:
    """Check a scheduler configuration, and print what it enables."""
    found = load_all_scheduling(file)
    rows: list[dict[str, Any]] = []
    for profile in (profile for each in found for profile in each.resolved):
        for point, plugins in profile.points.items():
            for each in plugins:
                weight = {"weight": each.weight} if point == "Score" else {}
                rows.append({"profile": profile.name, "point": point, "plugin": each.name, **weight})
    columns = {"profile": "Profile", "point": "Point", "plugin": "Plugin", "weight": "Weight"}
    emit(rows, columns=columns, output=output)
    for note in (note for each in found for note in each.notes):
        say(NOTE.format(note=note), stream=sys.stderr)
    return EXIT_OK


@scheduler.command(
    short_help="List plugins.",
    epilog="""\b
Examples:
  fairway scheduler plugins
  fairway scheduler plugins --scheduler-config scheduler.yaml
  fairway scheduler plugins --pods

\b
Lists built-in plugins, those of installed packages, and those of the files that the configuration names.
Exit status: 0; 1 if the plugin of an installed package cannot be loaded; 2 bad input.
""",
)
@scheduler_option
@click.option("--pods", is_flag=True, help="List the plugins that place pods instead of those of Placements.")
@output_option
def plugins(scheduler_config: Path | None, output: OutputFormat, *, pods: bool) -> int:
    """List the plugins that a configuration can name, with their extension points."""
    found = load_pod_scheduling(scheduler_config) if pods else load_scheduling(scheduler_config)
    rows = [
        {"plugin": each.name, "origin": each.origin, "points": ", ".join(each.points)}
        for each in found.plugins
    ]
    emit(rows, columns={"plugin": "Plugin", "origin": "Origin", "points": "Points"}, output=output)
    for broken in found.broken:
        say(BROKEN.format(plugin=broken), stream=sys.stderr)
    return EXIT_NO if found.broken else EXIT_OK
