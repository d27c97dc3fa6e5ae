"""`fairway machines explain pod`: why a pod waits, or why it is where it is."""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from fairway.cli.client.session import unknown
from fairway.cli.completion import complete
from fairway.cli.errors import EXIT_NO, EXIT_OK, BadInputError
from fairway.cli.machines.settings import settings_in
from fairway.cli.options.input import input_options
from fairway.cli.options.scheduler import load_pod_scheduling, scheduler_option
from fairway.cli.output import OutputFormat, emit, output_option, plain_table, say

if TYPE_CHECKING:
    from fairway.whatif.machines.explain_pod import PodExplanation

BAD_NAME: Final = "{name!r} is not NAMESPACE/NAME"
NODES_SHOWN: Final = 10
NAMES_SHOWN: Final = 4
MORE: Final = "… and {count} more"
BOUND: Final = "{pod}: on node {node}"
WAITS: Final = "{pod}: waits for a node"
WOULD_FIT: Final = "{pod}: waits for a node; {best} would be chosen now"
GATED: Final = "{pod}: waits until its scheduling gates are removed: {gates}"
NOT_OURS: Final = (
    "{pod} is placed by scheduler {scheduler!r}, which is not a profile here; profiles: {profiles}. "
    "Name its configuration with --scheduler-config."
)
COUNTS: Final = "{feasible} of {nodes} nodes pass every filter"
RECORDED: Final = "Last attempt on the hub: {text}"
NOMINATED: Final = "Nominated: {node}, once its victims are deleted"
EVICTS: Final = "Preemption would evict {victims} from {node}"
VIOLATES: Final = ", and violate {count} disruption budgets"
NOTHING_HELPS: Final = "  No single change that was tried is enough."
REMEDY: Final = "  {change}: then {nodes} would pass"


@click.group(
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
def pod(
    name: str, everything: bool, scheduler_config: Path | None, output: OutputFormat, **inputs: Any
) -> int:
    """Explain where a pod is, or why it waits: what each plugin answers for each node, and what would help."""
    from fairway.cli.machines.objects import SCHEDULING, read_objects
    from fairway.fleet.instant import to_micros
    from fairway.whatif.machines.explain_pod import explain_pod
    from fairway.whatif.machines.world import ClusterObjects

    namespace, slash, short = name.rpartition("/")
    if not slash or not namespace or not short:
        raise BadInputError(BAD_NAME.format(name=name))
    scheduling = load_pod_scheduling(scheduler_config)
    cluster = ClusterObjects.of(read_objects(SCHEDULING, **inputs))
    if (namespace, short) not in cluster.pods:
        near = (each for space, each in cluster.pods if space == namespace)
        raise unknown("pod", short, near, namespace=namespace)
    now = to_micros(datetime.now(UTC))
    found = explain_pod(cluster, (namespace, short), scheduling, settings_in(scheduling), now=now)
    if not found.is_ours:
        profiles = ", ".join(sorted(scheduling.specs))
        raise BadInputError(NOT_OURS.format(pod=found.pod, scheduler=found.scheduler, profiles=profiles))
    if output == "table":
        for line in lines(found, everything=everything):
            say(line)
    else:
        emit([], columns={}, output=output, document=document(found))
    return EXIT_OK if found.fits else EXIT_NO


def lines(found: "PodExplanation", *, everything: bool) -> Iterator[str]:
    if found.node:
        yield BOUND.format(pod=found.pod, node=found.node)
    elif found.gates:
        yield GATED.format(pod=found.pod, gates=", ".join(found.gates))
    elif found.fits:
        yield WOULD_FIT.format(pod=found.pod, best=found.hosts[0].host)
    else:
        yield WAITS.format(pod=found.pod)
    yield COUNTS.format(feasible=len(found.hosts), nodes=found.nodes)
    if found.recorded:
        yield RECORDED.format(text=found.recorded)
    if found.nominated:
        yield NOMINATED.format(node=found.nominated)
    if found.hosts:
        yield ""
        yield "Nodes by rank"
        yield from _hosts(found, everything=everything)
    if found.rejections:
        yield ""
        yield "Rejected"
        rows = [
            {
                "plugin": each.plugin,
                "count": len(each.nodes),
                "reason": each.reason,
                "nodes": _names(each.nodes, everything=everything),
            }
            for each in found.rejections
        ]
        columns = {"plugin": "Plugin", "count": "Nodes", "reason": "Reason", "nodes": "Which"}
        yield from (f"  {line}" for line in plain_table(rows, columns=columns).splitlines())
    if not found.fits:
        yield from _help(found)


def _hosts(found: "PodExplanation", *, everything: bool) -> Iterator[str]:
    shown = found.hosts if everything else found.hosts[:NODES_SHOWN]
    rows = []
    for each in shown:
        parts = [f"{part.plugin} {part.points}" for part in each.contributions if part.points]
        rows.append({"rank": each.rank, "node": each.host, "total": each.total, "parts": ", ".join(parts)})
    columns = {"rank": "Rank", "node": "Node", "total": "Total", "parts": "Score × weight"}
    yield from (f"  {line}" for line in plain_table(rows, columns=columns).splitlines())
    if len(found.hosts) > len(shown):
        yield f"  {MORE.format(count=len(found.hosts) - len(shown))}"


def _names(names: tuple[str, ...], *, everything: bool) -> str:
    if everything or len(names) <= NAMES_SHOWN:
        return ", ".join(names)
    return f"{', '.join(names[:NAMES_SHOWN])} {MORE.format(count=len(names) - NAMES_SHOWN)}"


def _help(found: "PodExplanation") -> Iterator[str]:
    yield ""
    yield "What would help"
    if found.eviction is not None:
        victims = ", ".join(found.eviction.victims)
        text = EVICTS.format(victims=victims, node=found.eviction.node)
        violations = found.eviction.violations
        yield f"  {text}{VIOLATES.format(count=violations) if violations else ''}"
    elif found.preemption:
        yield f"  {found.preemption}"
    for each in found.remedies:
        nodes = "1 node" if each.nodes == 1 else f"{each.nodes} nodes"
        yield REMEDY.format(change=each.change, nodes=nodes)
    if not found.remedies and found.eviction is None:
        yield NOTHING_HELPS


def document(found: "PodExplanation") -> dict[str, Any]:
    return {
        "pod": found.pod,
        "scheduler": found.scheduler,
        "node": found.node,
        "nominatedNode": found.nominated,
        "schedulingGates": list(found.gates),
        "recorded": found.recorded,
        "nodes": found.nodes,
        "ranking": [
            {
                "rank": each.rank,
                "node": each.host,
                "total": each.total,
                "scores": {part.plugin: part.points for part in each.contributions},
            }
            for each in found.hosts
        ],
        "rejections": [
            {"plugin": each.plugin, "reason": each.reason, "nodes": list(each.nodes)}
            for each in found.rejections
        ],
        "preemption": None
        if found.eviction is None
        else {
            "node": found.eviction.node,
            "victims": list(found.eviction.victims),
            "violations": found.eviction.violations,
        },
        "remedies": [{"change": each.change, "nodes": each.nodes} for each in found.remedies],
    }
