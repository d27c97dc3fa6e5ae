"""`fairway scheduler check` and `fairway scheduler plugins`."""

import sys
from pathlib import Path
from typing import Any, Final

from fairway.cli.errors import EXIT_NO, EXIT_OK, BadInputError
from fairway.cli.options.output import OutputFormat
from fairway.cli.output import emit
from fairway.cli.scheduling import (
    load_all_scheduling,
    load_hosting_scheduling,
    load_pod_scheduling,
    load_scheduling,
)
from fairway.cli.text import say

BROKEN: Final = "fairway: {plugin}"
NOTE: Final = "note: {note}"


def check(file: Path, output: OutputFormat) -> int:
    all_scheduling = load_all_scheduling(file)
    rows: list[dict[str, Any]] = []
    for profile in (profile for scheduling in all_scheduling for profile in scheduling.resolved):
        for point, plugins in profile.points.items():
            for plugin in plugins:
                weight = {"weight": plugin.weight} if point == "Score" else {}
                rows.append({"profile": profile.name, "point": point, "plugin": plugin.name, **weight})
    columns = {"profile": "Profile", "point": "Point", "plugin": "Plugin", "weight": "Weight"}
    emit(rows, columns=columns, output=output)
    for note in (note for scheduling in all_scheduling for note in scheduling.notes):
        say(NOTE.format(note=note), stream=sys.stderr)
    return EXIT_OK


def plugins(scheduler_config: Path | None, output: OutputFormat, *, pods: bool, hosting: bool) -> int:
    if pods and hosting:
        raise BadInputError("--pods and --hosting name different plugins: give one of them")
    if pods:
        scheduling = load_pod_scheduling(scheduler_config)
    elif hosting:
        scheduling = load_hosting_scheduling(scheduler_config)
    else:
        scheduling = load_scheduling(scheduler_config)
    rows = [
        {"plugin": plugin.name, "origin": plugin.origin, "points": ", ".join(plugin.points)}
        for plugin in scheduling.plugins
    ]
    emit(rows, columns={"plugin": "Plugin", "origin": "Origin", "points": "Points"}, output=output)
    for broken in scheduling.broken:
        say(BROKEN.format(plugin=broken), stream=sys.stderr)
    return EXIT_NO if scheduling.broken else EXIT_OK
