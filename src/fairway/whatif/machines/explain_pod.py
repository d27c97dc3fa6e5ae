"""Explain where a pod is, or why it waits: a preview of its cycle, with the answer of every plugin for every node."""

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from fairway.api.pod import Pod
from fairway.engine.outcome import Outcome
from fairway.engine.status import Code
from fairway.engine.trace import HostTrace, Trace
from fairway.hosts.instant import Micros
from fairway.scheduling import Scheduling
from fairway.whatif.machines.pod_remedies import Remedy, remedies
from fairway.whatif.machines.world import ClusterObjects, PodWorld
from fairway.workloads.machines.report import natural
from fairway.workloads.machines.settings import MachineSettings
from fairway.workloads.pods.plugins.default_preemption import Preemption
from fairway.workloads.pods.plugins.vm_scaling import EarmarkPreemption
from kubewire.api.resource import Key

SCHEDULED = "PodScheduled"


@dataclass(frozen=True, slots=True)
class NodeRejection:
    """Nodes that the same plugin rejects for the same reason."""

    plugin: str
    reason: str
    nodes: tuple[str, ...]
    """By name; node-2 is before node-10."""


@dataclass(frozen=True, slots=True)
class Eviction:
    """What preemption would do: evict these pods from a node."""

    node: str
    victims: tuple[str, ...]
    violations: int
    """Victims whose eviction violates a PodDisruptionBudget."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PodExplanation:
    pod: str
    scheduler: str
    is_ours: bool
    """Whether a profile has the name of its scheduler. If not, nothing below is known."""
    node: str
    nominated: str
    gates: tuple[str, ...]
    recorded: str
    """Reason and message of the condition PodScheduled, if it is not true."""
    nodes: int
    hosts: tuple[HostTrace, ...] = ()
    """Nodes that pass every filter, by rank."""
    rejections: tuple[NodeRejection, ...] = ()
    """In the order of the plugins, the most frequent reason first."""
    failure: str = ""
    """Why the cycle ended before the filters."""
    eviction: Eviction | None = None
    preemption: str = ""
    """Why preemption does not help, or which earmarked room it would take."""
    remedies: tuple[Remedy, ...] = ()

    @property
    def fits(self) -> bool:
        return bool(self.hosts)


def explain_pod(
    cluster: ClusterObjects, key: Key, scheduling: Scheduling, settings: MachineSettings, *, now: Micros
) -> PodExplanation:
    """Explain a pod, as if it had no node and were to be placed now. Raises KeyError if it does not exist."""
    pod = cluster.pods[key]
    others = cluster.without_pod(key)
    world = PodWorld(others, scheduling, settings, now=now)
    outcome = world.preview(pod)
    condition = next((condition for condition in pod.status.conditions if condition.type == SCHEDULED), None)
    recorded = ""
    if condition is not None and condition.status != "True":
        recorded = ": ".join(text for text in (condition.reason, condition.message) if text)
    base = PodExplanation(
        pod="/".join(key),
        scheduler=pod.spec.schedulerName,
        is_ours=outcome is not None,
        node=pod.spec.nodeName,
        nominated=pod.status.nominatedNodeName,
        gates=tuple(gate.name for gate in pod.spec.schedulingGates),
        recorded=recorded,
        nodes=len(cluster.nodes),
    )
    if outcome is None:
        return base
    hosts = list(Trace(outcome))
    feasible = tuple(host for host in hosts if host.rank is not None)
    eviction, preemption = _preemption(outcome)
    tried = () if feasible else remedies(others, pod, world, scheduling, settings, now=now)
    return _with(
        base,
        hosts=feasible,
        rejections=_grouped(outcome, (host for host in hosts if host.rank is None)),
        failure=outcome.status.message if outcome.status.rejects or outcome.status.aborts else "",
        eviction=eviction,
        preemption=preemption,
        remedies=tried,
    )


def _with(base: PodExplanation, **changes: object) -> PodExplanation:
    known = {name: getattr(base, name) for name in PodExplanation.__dataclass_fields__}
    return PodExplanation(**{**known, **changes})


def _preemption(outcome: Outcome) -> tuple[Eviction | None, str]:
    relief, plan = outcome.relief, Preemption.of(outcome)
    if plan is not None:
        return Eviction(plan.node, tuple(_name(victim) for victim in plan.victims), plan.violations), ""
    if relief is None or (relief.code is Code.SUCCESS and EarmarkPreemption.of(outcome) is None):
        return None, ""
    return None, relief.message


def _name(pod: Pod) -> str:
    return f"{pod.metadata.namespace}/{pod.metadata.name}"


def _grouped(outcome: Outcome, rejected: Iterable[HostTrace]) -> tuple[NodeRejection, ...]:
    nodes: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
    counts: Counter[str] = Counter()
    for host in rejected:
        nodes[host.rejected_by, host.reason].append(host.host)
        counts[host.rejected_by] += 1
    order = {calls.plugin.name: at for at, calls in enumerate(outcome.plugins.filters)}
    groups = (
        NodeRejection(plugin, reason, tuple(sorted(names, key=natural)))
        for (plugin, reason), names in nodes.items()
    )
    return tuple(
        sorted(groups, key=lambda group: (order.get(group.plugin, -1), -len(group.nodes), group.reason))
    )
