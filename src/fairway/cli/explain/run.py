"""`fairway explain`: why a placement selected these clusters, why not others, and what would change that."""

import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import click
from click.core import ParameterSource

from fairway.cli.commands.explain import REQUESTS
from fairway.cli.errors import EXIT_INTERRUPTED, EXIT_OK
from fairway.cli.explain.answer import Question, answer, find, show
from fairway.cli.explain.queue import queue_of
from fairway.cli.explain.watch import follow
from fairway.cli.hosting.request import explain_request
from fairway.cli.input import Input, load_files, load_input, no_placements
from fairway.cli.options.hub import HubChoice
from fairway.cli.options.output import OutputFormat
from fairway.cli.progress import tracked
from fairway.cli.resource_names import resource_of, split_name
from fairway.cli.scheduling import load_scheduling
from fairway.engine.profile import Profile
from fairway.hosts.instant import to_micros
from fairway.whatif.world import World
from fairway.workloads.placement.debits import debits_of

NOT_A_PLACEMENT: Final = (
    "cannot explain kind {word!r}; write: fairway explain placement {name}, or hostedclusterrequest {name}"
)
WHICH_PLACEMENT: Final = "no placement named; write: fairway explain placement NS/NAME"
TWO_NAMES: Final = "{word!r} and {name!r} both name an object; give one of them"
TWO_NAMESPACES: Final = "{name!r} names namespace {given!r}, but -n is {namespace!r}; give one of them"
OF_PLACEMENTS: Final = (
    "{options}: for placements only; a HostedClusterRequest takes -n, -o, --kubeconfig and --context"
)
REQUEST_GROUP: Final = re.compile(r"(?:\.v\d+(?:(?:alpha|beta)\d+)?)?\.placement\.fairway\.dev")
UNUSED: Final = {
    "files": "-f",
    "with_hub": "--hub",
    "cluster": "--cluster",
    "now": "--now",
    "alone": "--alone",
    "everything": "--all",
    "watch": "--watch",
    "scheduler_config": "--scheduler-config",
}
"""Options by parameter that do not apply to HostedClusterRequests."""
WATCH_WHAT: Final = "--watch requires a hub; with -f, add --hub"
WATCH_NOW: Final = "--watch and --now exclude each other"


def _placement_name(kind: str, name: str | None, namespace: str | None) -> str:
    """Return NAME or NS/NAME of the placement. Raises BadParameter."""
    named = split_name(kind)
    resource = resource_of(kind) if named is None else named[0]
    if resource != "placements":
        meant = kind if "/" in kind and named is None else "NS/NAME"
        raise click.BadParameter(NOT_A_PLACEMENT.format(word=kind, name=meant), param_hint="placement")
    if named is not None:
        if name is not None:
            raise click.BadParameter(TWO_NAMES.format(word=kind, name=name), param_hint="placement")
        name = named[1]
    if not name:
        raise click.BadParameter(WHICH_PLACEMENT, param_hint="NS/NAME")
    return _in_namespace(name, namespace)


def _request_name(kind: str, name: str | None, namespace: str | None) -> str | None:
    """Return NS/NAME of the HostedClusterRequest; None if another kind is named."""
    word, slash, named = kind.partition("/")
    plain, dot, rest = word.lower().partition(".")
    if plain not in REQUESTS or (dot and not REQUEST_GROUP.fullmatch(f".{rest}")):
        return None
    if slash and name is not None:
        raise click.BadParameter(TWO_NAMES.format(word=kind, name=name), param_hint="hostedclusterrequest")
    return _in_namespace(named if slash else name or "", namespace)


def _in_namespace(name: str, namespace: str | None) -> str:
    """Add the namespace of -n to a name without one. Raises BadParameter if they differ."""
    if namespace is None:
        return name
    given, slash, _ = name.rpartition("/")
    if slash and given != namespace:
        message = TWO_NAMESPACES.format(name=name, given=given, namespace=namespace)
        raise click.BadParameter(message, param_hint="-n")
    return name if slash else f"{namespace}/{name}"


def explain(
    files: tuple[str, ...],
    max_file_size: int,
    verbose: bool,
    with_hub: bool,
    hub: HubChoice,
    kind: str,
    name: str | None,
    where: str | None,
    cluster: str | None,
    now: datetime | None,
    alone: bool,
    everything: bool,
    watch: bool,
    scheduler_config: Path | None,
    output: OutputFormat,
) -> int:
    request = _request_name(kind, name, where)
    if request is not None:
        source = click.get_current_context().get_parameter_source
        # The environment may name the configuration for all commands.
        refused = [option for key, option in UNUSED.items() if source(key) is ParameterSource.COMMANDLINE]
        if refused:
            raise click.UsageError(OF_PLACEMENTS.format(options=", ".join(refused)))
        return explain_request(request, output=output, hub=hub)
    asked = Question(
        name=_placement_name(kind, name, where), cluster=cluster, everything=everything, output=output
    )
    profile = load_scheduling(scheduler_config).profile
    if watch:
        if files and not with_hub and not hub.given:
            raise click.UsageError(WATCH_WHAT)
        if now is not None:
            raise click.UsageError(WATCH_NOW)
        loaded = None
        if files:
            loaded = load_files(files, max_file_size=max_file_size, verbose=verbose, expressions=True)
        try:
            follow(hub, asked, loaded, profile=profile)
        except KeyboardInterrupt:
            return EXIT_INTERRUPTED  # the normal way to end a watch
        return EXIT_OK
    given = load_input(
        files,
        max_file_size=max_file_size,
        verbose=verbose,
        with_hub=with_hub,
        hub=hub,
        expressions=True,
        debits=bool(debits_of(profile).defaults),
    )
    explain_once(given, asked, profile=profile, now=now, alone=alone)
    return EXIT_OK


def explain_once(
    given: Input, asked: Question, *, profile: Profile, now: datetime | None, alone: bool
) -> None:
    world = World((loaded.object for loaded in given.objects), profile=profile)
    if not world.placements:
        raise no_placements(given)
    key, cluster = find(world, asked, namespace=given.namespace)
    micros = to_micros(now or datetime.now(UTC))
    if not alone:
        world.prepare(
            key, now=micros, progress=lambda earlier: tracked(earlier, "placing", total=len(earlier))
        )
    queue = queue_of(given.server, key) if given.server else None
    live = bool(given.server)
    show(
        answer(world, key, cluster, asked, now=micros, live=live, queue=queue, about_queue=live), asked.output
    )
