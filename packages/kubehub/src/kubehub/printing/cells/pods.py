"""Cells of pods: ready containers, status, restarts."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from kubehub.printing.cells.parts import NONE, Cell, at, optional_text
from kubehub.resource import Document
from kubewire.api import age

_TERMINAL: Final = ("Succeeded", "Failed")
_UNREACHABLE: Final = "NodeLost"


@dataclass(slots=True)
class _Summary:
    reason: str
    ready: int = 0
    restarts: int = 0
    last: str = ""
    """Return when a restarted container last ended; Kubernetes' timestamps sort as strings."""

    def count(self, state: Document) -> None:
        self.restarts += state.get("restartCount") or 0
        self.last = max(self.last, at(state, "lastState", "terminated", "finishedAt") or "")


def _summarize(pod: Document) -> _Summary:
    phase = at(pod, "status", "phase") or ""
    summary = _Summary(at(pod, "status", "reason") or phase)
    for condition in at(pod, "status", "conditions") or ():
        if condition.get("type") == "PodScheduled" and condition.get("reason") == "SchedulingGated":
            summary.reason = "SchedulingGated"
    initializing = _initialize(pod, summary)
    if not initializing or _condition(pod, "Initialized"):
        _run(pod, summary)
    if at(pod, "metadata", "deletionTimestamp"):
        if at(pod, "status", "reason") == _UNREACHABLE:
            summary.reason = "Unknown"
        elif phase not in _TERMINAL:
            summary.reason = "Terminating"
    return summary


def _initialize(pod: Document, summary: _Summary) -> bool:
    """Return whether an init container is still running, with the status to print."""
    steps = at(pod, "spec", "initContainers") or ()
    sidecars = _sidecars(pod)
    for index, state in enumerate(at(pod, "status", "initContainerStatuses") or ()):
        summary.count(state)
        ended, waiting = at(state, "state", "terminated"), at(state, "state", "waiting", "reason")
        if ended is not None and not ended.get("exitCode"):
            continue
        if state.get("name") in sidecars and state.get("started"):
            summary.ready += bool(state.get("ready"))
            continue
        if ended is not None:
            summary.reason = f"Init:{_exit_reason(ended)}"
        elif waiting and waiting != "PodInitializing":
            summary.reason = f"Init:{waiting}"
        else:
            summary.reason = f"Init:{index}/{len(steps)}"
        return True
    return False


def _run(pod: Document, summary: _Summary) -> None:
    summary.restarts, summary.last = 0, ""
    sidecars = _sidecars(pod)
    for state in at(pod, "status", "initContainerStatuses") or ():
        if state.get("name") in sidecars:
            summary.count(state)
    running, failure = False, ""
    for state in reversed(at(pod, "status", "containerStatuses") or ()):
        summary.count(state)
        ended = at(state, "state", "terminated")
        if waiting := at(state, "state", "waiting", "reason"):
            summary.reason = waiting
        elif ended is not None:
            summary.reason = _exit_reason(ended)
            failure = summary.reason if ended.get("exitCode") else failure
        elif state.get("ready") and at(state, "state", "running") is not None:
            running = True
            summary.ready += 1
    if summary.reason == "Completed":
        if running and _condition(pod, "Ready"):
            summary.reason = "Running"
        elif failure:
            summary.reason = failure
        elif running:
            summary.reason = "NotReady"


def _sidecars(pod: Document) -> set[str]:
    steps = at(pod, "spec", "initContainers") or ()
    return {step.get("name", "") for step in steps if step.get("restartPolicy") == "Always"}


def _exit_reason(ended: Document) -> str:
    if reason := ended.get("reason"):
        return str(reason)
    return f"Signal:{ended['signal']}" if ended.get("signal") else f"ExitCode:{ended.get('exitCode', 0)}"


def _condition(pod: Document, kind: str) -> bool:
    return kind in _true_conditions(pod)


def _true_conditions(pod: Document) -> Iterator[str]:
    for condition in at(pod, "status", "conditions") or ():
        if condition.get("status") == "True":
            yield condition.get("type", "")


def _ready(pod: Document, _: datetime) -> str:
    wanted = len(at(pod, "spec", "containers") or ()) + len(_sidecars(pod))
    return f"{_summarize(pod).ready}/{wanted}"


def _status(pod: Document, _: datetime) -> str:
    return _summarize(pod).reason


def _restarts(pod: Document, now: datetime) -> str:
    summary = _summarize(pod)
    return (
        f"{summary.restarts} ({age.since(summary.last, now=now)} ago)"
        if summary.restarts and summary.last
        else str(summary.restarts)
    )


def _address(pod: Document, _: datetime) -> str:
    addresses = at(pod, "status", "podIPs") or ()
    return (addresses[0].get("ip") if addresses else at(pod, "status", "podIP")) or NONE


def _gates(pod: Document, _: datetime) -> str:
    gates = at(pod, "spec", "readinessGates") or ()
    if not gates:
        return NONE
    true = set(_true_conditions(pod))
    return f"{sum(gate.get('conditionType') in true for gate in gates)}/{len(gates)}"


KINDS: Final[Mapping[str, Mapping[str, Cell]]] = {
    "Pod": {
        "Ready": _ready,
        "Status": _status,
        "Restarts": _restarts,
        "IP": _address,
        "Node": optional_text("spec", "nodeName"),
        "Nominated Node": optional_text("status", "nominatedNodeName"),
        "Readiness Gates": _gates,
    }
}
