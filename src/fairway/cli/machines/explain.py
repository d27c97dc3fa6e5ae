"""`fairway machines explain pod`: why a pod waits, or why it is where it is."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from fairway.cli.client.session import unknown
from fairway.cli.errors import EXIT_NO, EXIT_OK, BadInputError
from fairway.cli.layout import terminal_width
from fairway.cli.machines.objects import SCHEDULING, read_objects
from fairway.cli.machines.settings import settings_in
from fairway.cli.options.output import OutputFormat
from fairway.cli.output import Row, emit, plain_table
from fairway.cli.scheduling import load_pod_scheduling
from fairway.cli.text import say
from fairway.hosts.instant import to_micros
from fairway.whatif.machines.explain_pod import PodExplanation, explain_pod
from fairway.whatif.machines.world import ClusterObjects

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


def pod(
    name: str, everything: bool, scheduler_config: Path | None, output: OutputFormat, **inputs: Any
) -> int:
    namespace, slash, short = name.rpartition("/")
    if not slash or not namespace or not short:
        raise BadInputError(BAD_NAME.format(name=name))
    scheduling = load_pod_scheduling(scheduler_config)
    cluster = ClusterObjects.of(read_objects(SCHEDULING, **inputs))
    if (namespace, short) not in cluster.pods:
        near = (pod_name for space, pod_name in cluster.pods if space == namespace)
        raise unknown("pod", short, near, namespace=namespace)
    now = to_micros(datetime.now(UTC))
    explanation = explain_pod(cluster, (namespace, short), scheduling, settings_in(scheduling), now=now)
    if not explanation.is_ours:
        profiles = ", ".join(sorted(scheduling.specs))
        raise BadInputError(
            NOT_OURS.format(pod=explanation.pod, scheduler=explanation.scheduler, profiles=profiles)
        )
    if output == "table":
        for line in lines(explanation, everything=everything):
            say(line)
    else:
        emit([], columns={}, output=output, document=document(explanation))
    return EXIT_OK if explanation.fits else EXIT_NO


def lines(pod_explanation: PodExplanation, *, everything: bool) -> Iterator[str]:
    if pod_explanation.node:
        yield BOUND.format(pod=pod_explanation.pod, node=pod_explanation.node)
    elif pod_explanation.gates:
        yield GATED.format(pod=pod_explanation.pod, gates=", ".join(pod_explanation.gates))
    elif pod_explanation.fits:
        yield WOULD_FIT.format(pod=pod_explanation.pod, best=pod_explanation.hosts[0].host)
    else:
        yield WAITS.format(pod=pod_explanation.pod)
    yield COUNTS.format(feasible=len(pod_explanation.hosts), nodes=pod_explanation.nodes)
    if pod_explanation.recorded:
        yield RECORDED.format(text=pod_explanation.recorded)
    if pod_explanation.nominated:
        yield NOMINATED.format(node=pod_explanation.nominated)
    if pod_explanation.hosts:
        yield ""
        yield "Nodes by rank"
        yield from _hosts(pod_explanation, everything=everything)
    if pod_explanation.rejections:
        yield ""
        yield "Rejected"
        rows = [
            {
                "plugin": rejection.plugin,
                "count": len(rejection.nodes),
                "reason": rejection.reason,
                "nodes": _names(rejection.nodes, everything=everything),
            }
            for rejection in pod_explanation.rejections
        ]
        columns = {"plugin": "Plugin", "count": "Nodes", "reason": "Reason", "nodes": "Which"}
        yield from _indented(rows, columns)
    if not pod_explanation.fits:
        yield from _help(pod_explanation)


def _hosts(pod_explanation: PodExplanation, *, everything: bool) -> Iterator[str]:
    shown = pod_explanation.hosts if everything else pod_explanation.hosts[:NODES_SHOWN]
    rows = []
    for host in shown:
        parts = [f"{part.plugin} {part.points}" for part in host.contributions if part.points]
        rows.append({"rank": host.rank, "node": host.host, "total": host.total, "parts": ", ".join(parts)})
    columns = {"rank": "Rank", "node": "Node", "total": "Total", "parts": "Score × weight"}
    yield from _indented(rows, columns)
    if len(pod_explanation.hosts) > len(shown):
        yield f"  {MORE.format(count=len(pod_explanation.hosts) - len(shown))}"


def _indented(rows: Sequence[Row], columns: Mapping[str, str]) -> Iterator[str]:
    table = plain_table(rows, columns=columns, width=terminal_width(indent="  "))
    yield from (f"  {line}" for line in table.splitlines())


def _names(names: tuple[str, ...], *, everything: bool) -> str:
    if everything or len(names) <= NAMES_SHOWN:
        return ", ".join(names)
    return f"{', '.join(names[:NAMES_SHOWN])} {MORE.format(count=len(names) - NAMES_SHOWN)}"


def _help(pod_explanation: PodExplanation) -> Iterator[str]:
    yield ""
    yield "What would help"
    if pod_explanation.eviction is not None:
        victims = ", ".join(pod_explanation.eviction.victims)
        text = EVICTS.format(victims=victims, node=pod_explanation.eviction.node)
        violations = pod_explanation.eviction.violations
        yield f"  {text}{VIOLATES.format(count=violations) if violations else ''}"
    elif pod_explanation.preemption:
        yield f"  {pod_explanation.preemption}"
    for remedy in pod_explanation.remedies:
        nodes = "1 node" if remedy.nodes == 1 else f"{remedy.nodes} nodes"
        yield REMEDY.format(change=remedy.change, nodes=nodes)
    if not pod_explanation.remedies and pod_explanation.eviction is None:
        yield NOTHING_HELPS


def document(pod_explanation: PodExplanation) -> dict[str, Any]:
    return {
        "pod": pod_explanation.pod,
        "scheduler": pod_explanation.scheduler,
        "node": pod_explanation.node,
        "nominatedNode": pod_explanation.nominated,
        "schedulingGates": list(pod_explanation.gates),
        "recorded": pod_explanation.recorded,
        "nodes": pod_explanation.nodes,
        "ranking": [
            {
                "rank": host.rank,
                "node": host.host,
                "total": host.total,
                "scores": {part.plugin: part.points for part in host.contributions},
            }
            for host in pod_explanation.hosts
        ],
        "rejections": [
            {"plugin": rejection.plugin, "reason": rejection.reason, "nodes": list(rejection.nodes)}
            for rejection in pod_explanation.rejections
        ],
        "preemption": None
        if pod_explanation.eviction is None
        else {
            "node": pod_explanation.eviction.node,
            "victims": list(pod_explanation.eviction.victims),
            "violations": pod_explanation.eviction.violations,
        },
        "remedies": [{"change": remedy.change, "nodes": remedy.nodes} for remedy in pod_explanation.remedies],
    }
