"""`fairway explain`: why a placement selected these clusters, why not others, and what would change that."""

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click
from click.core import ParameterSource

from fairway.cli.client.session import HubChoice
from fairway.cli.completion import complete
from fairway.cli.errors import EXIT_INTERRUPTED, EXIT_OK, BadInputError
from fairway.cli.options.input import Input, input_options, load_files, load_input, moment, no_placements
from fairway.cli.options.scheduler import load_scheduling, scheduler_option
from fairway.cli.output import OutputFormat, emit, output_option, say
from fairway.cli.resource_names import resource_of, split_name

if TYPE_CHECKING:
    from fairway.engine.profile import Profile
    from fairway.whatif.world import Key, World

NOT_A_PLACEMENT: Final = (
    "cannot explain kind {word!r}; write: fairway explain placement {name}, or hostedclusterrequest {name}"
)
WHICH_PLACEMENT: Final = "no placement named; write: fairway explain placement NS/NAME"
TWO_NAMES: Final = "{word!r} and {name!r} both name an object; give one of them"
TWO_NAMESPACES: Final = "{name!r} names namespace {given!r}, but -n is {namespace!r}; give one of them"
OF_PLACEMENTS: Final = (
    "{options}: for placements only; a HostedClusterRequest takes -n, -o, --kubeconfig and --context"
)
REQUESTS: Final = ("hostedclusterrequest", "hostedclusterrequests")
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
    found = split_name(kind)
    resource = resource_of(kind) if found is None else found[0]
    if resource != "placements":
        meant = kind if "/" in kind and found is None else "NS/NAME"
        raise click.BadParameter(NOT_A_PLACEMENT.format(word=kind, name=meant), param_hint="placement")
    if found is not None:
        if name is not None:
            raise click.BadParameter(TWO_NAMES.format(word=kind, name=name), param_hint="placement")
        name = found[1]
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


@click.command(
    short_help="Explain why clusters were selected or not, and what would change it.",
    epilog="""\b
Examples:
  fairway explain -f examples/fleet placement ns1/most-free-cpu
  fairway explain -f examples/fleet placement ns1/most-free-cpu --cluster gpu-iad
  fairway explain -f fleet.json placement apps/web --cluster c17 -o json | jq .cluster.counterfactual.edits
  fairway explain placement ns1/most-free-cpu --watch
  fairway explain placement/most-free-cpu -n ns1
  fairway explain -f changed-placement.yaml --hub placement ns1/most-free-cpu
  fairway explain hostedclusterrequest default/shop

\b
Without -f, the command reads the hub; with -f and --hub, the hub as it would be with the files applied. Nothing is
written. --watch explains again whenever the answer changes. With files only, the answer is that of fairway place:
placements that precede this one, by namespace and name, are decided first. --alone leaves them undecided. A
HostedClusterRequest is explained as by fairway hosting explain: with options of the hub, -n and -o only.

\b
A placement that is not satisfied, or not as the hub has it, may wait. Where the controllers run on this machine as the
same user, its state in the queue is shown: why it waits, since when, how often it was tried, and what would wake it
(--all shows it for every placement). In a cluster, run the command in the controllers' pod.

\b
What would make a cluster win is the smallest change: the fewest edits; among equals, the least invasive (tolerate,
name a set or set another field, maxSkew, label, taint, join a set, bind a set, claim, score, amount, more clusters);
among those, the smallest change of numbers. It is verified: with the edits the cluster is selected; without any one of
them, or with one point, cluster or step of an amount less, it is not. The edits are those that plugins propose; notes
name the plugins that propose none. The decisions of other placements are kept; if one of them would change for the same
cluster, Balance may differ.

\b
-o json and -o yaml have these fields:
  placement, wanted (null: all), clusters, satisfied, reason, message, leftAlone,
  advice[]      kind, message, remedy
  recorded      names of the clusters in the hub's decisions (null: not decided, or no hub)
  queue         state, since, added, attempts, trigger, reasons[], wakes[], nextTry, leading (null: no hub, --watch,
                or the controllers do not run on this machine as this user)
  chosen[]      cluster, rank, total, contributions[]: plugin, score, weight, points, known, note
  passedOver[]  as chosen, and reason
  rejected[]    plugin, reason, count, clusters[]
  cluster       name, selected, rejectedBy, reason, rank, total, contributions[], checks[]: plugin, passed,
                reason; comparison: with, gap, contributions[]; counterfactual: state (Selected, Found,
                Blocked, NotFound), edits[]: kind, description and its own fields; alternatives[][],
                displaced[], obstacle, tried[], notes[], runs, margin: points, runnerUp
""",
)
@click.argument(
    "kind",
    shell_complete=lambda _context, _parameter, typed: [
        each for each in ("placement", REQUESTS[0]) if each.startswith(typed)
    ],
    metavar="placement|hostedclusterrequest",
)
@click.argument("name", metavar="NS/NAME", required=False, shell_complete=complete("placements"))
@click.option(
    "-n",
    "--namespace",
    "where",
    metavar="NAME",
    shell_complete=complete("namespaces"),
    help="Namespace of the placement, if NAME does not include it.",
)
@click.option(
    "--cluster",
    metavar="NAME",
    shell_complete=complete("clusters"),
    help="Explain this cluster first, and what would make it win.",
)
@click.option("--now", type=moment, metavar="TIME", help="Explain the decision at this time.  [default: now]")
@click.option("--alone", is_flag=True, help="Do not decide earlier placements first.")
@click.option("--all", "everything", is_flag=True, help="Show all clusters.")
@click.option("-w", "--watch", is_flag=True, help="Explain again whenever the answer changes.")
@scheduler_option
@output_option
@input_options
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
    """Explain why a placement selects these clusters, and why not the others."""
    request = _request_name(kind, name, where)
    if request is not None:
        source = click.get_current_context().get_parameter_source
        # The environment may name the configuration for all commands.
        refused = [option for key, option in UNUSED.items() if source(key) is ParameterSource.COMMANDLINE]
        if refused:
            raise click.UsageError(OF_PLACEMENTS.format(options=", ".join(refused)))
        from fairway.cli.hosting.request import explain_request

        return explain_request(request, output=output, hub=hub)
    asked = Question(
        name=_placement_name(kind, name, where), cluster=cluster, everything=everything, output=output
    )
    profile = load_scheduling(scheduler_config).placement
    if watch:
        if files and not with_hub and not hub.given:
            raise click.UsageError(WATCH_WHAT)
        if now is not None:
            raise click.UsageError(WATCH_NOW)
        from fairway.cli.explain.watch import follow

        loaded = None
        if files:
            loaded = load_files(files, max_file_size=max_file_size, verbose=verbose, expressions=True)
        try:
            follow(hub, asked, loaded, profile=profile)
        except KeyboardInterrupt:
            return EXIT_INTERRUPTED  # the normal way to end a watch
        return EXIT_OK
    from fairway.placement.debits import debits_of

    given = load_input(
        files,
        max_file_size=max_file_size,
        verbose=verbose,
        with_hub=with_hub,
        hub=hub,
        expressions=True,
        debits=bool(debits_of(profile)),
    )
    explain_once(given, asked, profile=profile, now=now, alone=alone or bool(given.server))
    return EXIT_OK


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    name: str
    cluster: str | None
    everything: bool
    output: OutputFormat


def explain_once(
    given: Input, asked: Question, *, profile: "Profile", now: datetime | None, alone: bool
) -> None:
    from fairway.fleet.instant import to_micros
    from fairway.whatif.world import World

    world = World((each.object for each in given.objects), profile=profile)
    if not world.placements:
        raise no_placements(given)
    key, cluster = find(world, asked, namespace=given.namespace)
    micros = to_micros(now or datetime.now(UTC))
    if not alone:
        _decide_before(world, key, micros)
    from fairway.cli.explain.queue import queue_of

    queue = queue_of(given.server, key) if given.server else None
    live = bool(given.server)
    show(
        answer(world, key, cluster, asked, now=micros, live=live, queue=queue, about_queue=live), asked.output
    )


def find(world: "World", asked: Question, *, namespace: str = "") -> "tuple[Key, str | None]":
    """Find the placement and the cluster. ``namespace`` is tried first. Raises BadInputError."""
    from fairway.whatif.names import UnknownNameError, find_cluster, find_placement

    try:
        key = (namespace, asked.name)
        if key not in world.placements:
            key = find_placement(world, asked.name)
        return key, None if asked.cluster is None else find_cluster(world, asked.cluster)
    except UnknownNameError as error:
        raise BadInputError(str(error)) from None


def answer(
    world: "World",
    key: "Key",
    cluster: str | None,
    asked: Question,
    *,
    now: int,
    live: bool,
    queue: dict[str, Any] | None = None,
    about_queue: bool = False,
) -> str | dict[str, Any]:
    """Return text, or a document for -o yaml and json. ``about_queue``: whether ``queue`` was asked for."""
    from fairway.cli.client.world import recorded, reported
    from fairway.cli.explain.document import document
    from fairway.cli.explain.queue import queue_lines, waits
    from fairway.cli.explain.text import lines
    from fairway.whatif.explain import explain as explanation_of

    found = explanation_of(world, key, now=now, cluster=cluster)
    before = recorded(world, key) if live else None
    if asked.output != "table":
        return {**document(found, recorded=before), "queue": queue}
    shown = about_queue and (asked.everything or waits(found, before, queue))
    state = tuple(queue_lines(queue, name="/".join(key))) if shown else ()
    report = reported(world, key) if live else ""
    return "\n".join(
        lines(found, everything=asked.everything, live=live, recorded=before, reported=report, queue=state)
    )


def show(found: str | dict[str, Any], output: OutputFormat) -> None:
    if isinstance(found, str):
        say(found)
    else:
        emit([], columns={}, output=output, document=found)


def _decide_before(world: "World", key: "Key", now: int) -> None:
    from fairway.cli.progress import tracked

    earlier = sorted(each for each in world.placements if each < key)
    for each in tracked(earlier, "placing", total=len(earlier)):
        world.place(each, now=now)
