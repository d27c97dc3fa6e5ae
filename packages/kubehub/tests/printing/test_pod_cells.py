"""The cells of pods. The client suite shows the same states on both hubs."""

from datetime import UTC, datetime
from typing import Any

import pytest

from kubehub.printing import cells
from kubehub.resource import Document

NOW = datetime(2026, 1, 1, 1, tzinfo=UTC)
ENDED = {"terminated": {"exitCode": 1, "finishedAt": "2026-01-01T00:00:00Z"}}


def state(name: str, *, restarts: int = 0, ready: bool = False, **now: Any) -> Document:
    before = {"lastState": ENDED} if restarts else {}
    return {"name": name, "ready": ready, "started": ready, "restartCount": restarts, "state": now, **before}


def completed(name: str, code: int = 0) -> Document:
    return state(
        name, terminated={"exitCode": code, "reason": "Completed"} if not code else {"exitCode": code}
    )


def running(name: str, **more: Any) -> Document:
    return state(name, ready=True, running={}, **more)


def condition(kind: str, status: str = "True", reason: str = "") -> Document:
    return {"type": kind, "status": status, "reason": reason}


@pytest.mark.parametrize(
    ("status", "row"),
    [
        ({"phase": "Pending"}, ("0/3", "Pending", "0")),
        ({"phase": "Failed", "reason": "Evicted"}, ("0/3", "Evicted", "0")),
        (
            {"phase": "Pending", "conditions": [condition("PodScheduled", "False", "SchedulingGated")]},
            ("0/3", "SchedulingGated", "0"),
        ),
        ({"initContainerStatuses": [state("fill", waiting={})]}, ("0/3", "Init:0/2", "0")),
        (
            {
                "initContainerStatuses": [
                    completed("fill"),
                    state("pump", waiting={"reason": "PodInitializing"}),
                ]
            },
            ("0/3", "Init:1/2", "0"),
        ),
        (
            {"initContainerStatuses": [state("fill", restarts=2, waiting={"reason": "CrashLoopBackOff"})]},
            ("0/3", "Init:CrashLoopBackOff", "2 (60m ago)"),
        ),
        ({"initContainerStatuses": [completed("fill", 3)]}, ("0/3", "Init:ExitCode:3", "0")),
        (
            {
                "phase": "Running",
                "initContainerStatuses": [completed("fill"), running("pump", restarts=1)],
                "containerStatuses": [running("bridge"), running("engine")],
            },
            ("3/3", "Running", "1 (60m ago)"),
        ),
        (
            {
                "phase": "Running",
                "containerStatuses": [
                    running("bridge"),
                    state("engine", restarts=7, waiting={"reason": "CrashLoopBackOff"}),
                ],
            },
            ("1/3", "CrashLoopBackOff", "7 (60m ago)"),
        ),
        ({"containerStatuses": [completed("bridge"), completed("engine")]}, ("0/3", "Completed", "0")),
        ({"containerStatuses": [completed("bridge"), running("engine")]}, ("1/3", "NotReady", "0")),
        (
            {
                "containerStatuses": [completed("bridge"), running("engine")],
                "conditions": [condition("Ready")],
            },
            ("1/3", "Running", "0"),
        ),
        ({"containerStatuses": [completed("bridge"), completed("engine", 5)]}, ("0/3", "ExitCode:5", "0")),
        (
            {"containerStatuses": [state("bridge", terminated={"exitCode": 0, "signal": 9})]},
            ("0/3", "Signal:9", "0"),
        ),
    ],
)
def test_pod_cells_show_ready_status_and_restarts(status: dict[str, Any], row: tuple[str, str, str]) -> None:
    assert shown({**pod(), "status": status}) == row


@pytest.mark.parametrize(
    ("status", "told"),
    [
        ({"phase": "Running"}, "Terminating"),
        ({"phase": "Running", "reason": "NodeLost"}, "Unknown"),
        ({"phase": "Succeeded"}, "Succeeded"),
    ],
)
def test_deleted_pod_shows_terminating_until_it_ends(status: dict[str, Any], told: str) -> None:
    going = {**pod(), "metadata": {"name": "a", "deletionTimestamp": "2026-01-01T00:00:00Z"}}
    assert shown({**going, "status": status})[1] == told


def test_wide_pod_cells_show_node_and_readiness_gates() -> None:
    document = pod()
    document["spec"] |= {
        "nodeName": "deck",
        "readinessGates": [{"conditionType": "Tide"}, {"conditionType": "Wind"}],
    }
    document["status"] = {"podIPs": [{"ip": "10.1.2.3"}], "conditions": [condition("Tide")]}
    columns = ("IP", "Node", "Nominated Node", "Readiness Gates")
    assert [cells.cell("Pod", column)(document, NOW) for column in columns] == [
        "10.1.2.3",
        "deck",
        "<none>",
        "1/2",
    ]


def pod() -> Document:
    return {
        "metadata": {"name": "ship"},
        "spec": {
            "initContainers": [{"name": "fill"}, {"name": "pump", "restartPolicy": "Always"}],
            "containers": [{"name": "bridge"}, {"name": "engine"}],
        },
    }


def shown(document: Document) -> tuple[str, ...]:
    return tuple(cells.cell("Pod", column)(document, NOW) for column in ("Ready", "Status", "Restarts"))
