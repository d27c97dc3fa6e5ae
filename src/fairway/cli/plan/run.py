"""Carry out `fairway plan`."""

from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from fairway.cli.client.objects import LINTED, read_hub
from fairway.cli.client.overlay import applied_to
from fairway.cli.client.session import NoHubError, connection_to, talk
from fairway.cli.errors import EXIT_CHANGES, EXIT_OK, BadInputError
from fairway.cli.files.loader import LoadedObject, LoadedObjects
from fairway.cli.input import load_files
from fairway.cli.options.hub import HubChoice
from fairway.cli.options.output import OutputFormat
from fairway.cli.output import emit
from fairway.cli.plan.document import document
from fairway.cli.plan.text import lines
from fairway.cli.scheduling import load_scheduling
from fairway.cli.text import say
from fairway.hosts.instant import to_micros
from fairway.whatif.fleet import make
from fairway.whatif.fleet.changes import ChangeError, Editor

NO_CHANGE: Final = (
    "no change to plan; name one with -f, --drain, --lose, --set-weight or --add-clusters, for example: "
    "fairway plan --drain CLUSTER"
)
NO_FLEET: Final = "no fleet: name a hub with --kubeconfig or KUBECONFIG, or files with --fleet"
TWO_FLEETS: Final = "--fleet reads the fleet from files: leave out --kubeconfig and --context"
APPLIED: Final = "apply {kind} {name}"


def plan(
    files: tuple[str, ...],
    max_file_size: int,
    verbose: bool,
    fleet: tuple[str, ...],
    drain: tuple[str, ...],
    lose: tuple[str, ...],
    weights: tuple[str, ...],
    add_clusters: int,
    now: datetime | None,
    everything: bool,
    scheduler_config: Path | None,
    output: OutputFormat,
    hub: HubChoice,
) -> int:
    if not (files or drain or lose or weights or add_clusters):
        raise BadInputError(NO_CHANGE)
    if fleet and hub.given:
        raise BadInputError(TWO_FLEETS)
    moment = now or datetime.now(UTC)
    profile = load_scheduling(scheduler_config).profile
    written: Iterable[LoadedObject] = ()
    if files:
        written = load_files(files, max_file_size=max_file_size, verbose=verbose, expressions=True)
    before = [loaded.object for loaded in _fleet(fleet, hub, max_file_size=max_file_size, verbose=verbose)]
    editor = Editor(before)
    for file in written:
        after = applied_to(editor.existing(file.object), file.object)
        meta = after.metadata
        name = f"{meta.namespace}/{meta.name}" if meta.namespace else meta.name
        editor.put(after, APPLIED.format(kind=after.kind, name=name))
    try:
        for name in drain:
            editor.drain(name, now=moment)
        for selector in lose:
            editor.lose(selector, now=moment)
        for weight in weights:
            editor.set_weight(weight)
        editor.add_clusters(add_clusters)
    except ChangeError as error:
        raise BadInputError(str(error)) from None
    made = make(before, editor.changes(), profile=profile, now=to_micros(moment))
    if output == "table":
        for line in lines(made, everything=everything):
            say(line)
    else:
        emit([], columns={}, output=output, document=document(made))
    return EXIT_CHANGES if made.moves else EXIT_OK


def _fleet(fleet: tuple[str, ...], hub: HubChoice, *, max_file_size: int, verbose: bool) -> LoadedObjects:
    if fleet:
        return load_files(fleet, max_file_size=max_file_size, verbose=verbose)
    try:
        connection_to(hub)
    except NoHubError:
        raise BadInputError(NO_FLEET) from None
    return talk(hub, lambda client: read_hub(client, LINTED))
