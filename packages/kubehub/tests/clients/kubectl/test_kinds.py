"""Every kind: its table, its defaults, and their field managers."""

import asyncio
import json
from pathlib import Path
from typing import Any

from clients.kubectl.shell import Shell, page

MANIFESTS = Path(__file__).parent / "manifests"
POD = """
    apiVersion: v1
    kind: Pod
    metadata: {name: %s}
    spec:
      nodeName: %s
      initContainers:
        - {name: fill, image: registry.example/fill:1}
        - {name: pump, image: registry.example/pump:1, restartPolicy: Always}
      containers:
        - {name: bridge, image: registry.example/bridge:1}
        - {name: engine, image: registry.example/engine:1}
"""
LATER = "2100-01-01T00:00:00Z"
"""By a clock that is ahead: how long ago that was has no answer, but always the same one."""


def sections(name: str) -> dict[str, str]:
    """A file of texts, each under the kind it is about."""
    parts = (MANIFESTS / name).read_text(encoding="utf-8").split("== ")[1:]
    return {kind: text for kind, _, text in (part.partition("\n") for part in parts)}


async def test_tables_of_namespaced_kinds(shell: Shell) -> None:
    tables, kept = sections("kinds.tables"), sections("kinds.kept")
    await shell.run(f"create -f {MANIFESTS / 'kinds.yaml'}")
    shown = await asyncio.gather(*(shell.run(f"get {kind} -o wide") for kind in tables))
    assert {kind: table.output for kind, table in zip(tables, shown, strict=True)} == tables
    shown = await asyncio.gather(*(shell.run(f"get {kind} -o yaml --show-managed-fields") for kind in kept))
    assert {kind: table.output for kind, table in zip(kept, shown, strict=True)} == kept


async def test_tables_of_cluster_scoped_kinds(shell: Shell) -> None:
    manifest = (MANIFESTS / "cluster.yaml").read_text(encoding="utf-8").replace("$ns", shell.namespace)
    await shell("create -f -", given=manifest)
    try:
        assert await shell("get -o wide -f -", given=manifest) == (MANIFESTS / "cluster.tables").read_text(
            encoding="utf-8"
        )
    finally:
        await shell("delete --wait=false -f -", given=manifest)


async def test_deprecated_kind_returns_a_warning(shell: Shell) -> None:
    shown = await shell.run("get endpoints -o name")
    assert (shown.status, shown.output) == (0, "")
    assert shown.errors == (
        "Warning: v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice\n"
    )


def state(name: str, *, restarts: int = 0, ready: bool = False, **now: Any) -> dict[str, Any]:
    """A container state as a kubelet reports it."""
    ended = {"lastState": {"terminated": {"exitCode": 1, "finishedAt": LATER}}} if restarts else {}
    return {
        "name": name,
        "image": name,
        "imageID": name,
        "ready": ready,
        "started": ready,
        "restartCount": restarts,
        "state": now,
        **ended,
    }


FILLED = state("fill", terminated={"exitCode": 0, "reason": "Completed"})
PUMPING = state("pump", ready=True, restarts=1, running={})
SAILING = [{"type": "Initialized", "status": "True"}, {"type": "Ready", "status": "True"}]
STATES: dict[str, dict[str, Any]] = {
    "crashing": {
        "phase": "Running",
        "initContainerStatuses": [FILLED, PUMPING],
        "containerStatuses": [
            state("bridge", ready=True, running={}),
            state("engine", restarts=7, waiting={"reason": "CrashLoopBackOff"}),
        ],
    },
    "done": {
        "phase": "Succeeded",
        "containerStatuses": [
            state("bridge", terminated={"exitCode": 0, "reason": "Completed"}),
            state("engine", terminated={"exitCode": 0, "reason": "Completed"}),
        ],
    },
    "evicted": {"phase": "Failed", "reason": "Evicted"},
    "failed": {
        "phase": "Failed",
        "containerStatuses": [
            state("bridge", terminated={"exitCode": 3}),
            state("engine", terminated={"exitCode": 0, "reason": "Completed"}),
        ],
    },
    "filling": {
        "phase": "Pending",
        "initContainerStatuses": [FILLED, state("pump", waiting={"reason": "PodInitializing"})],
    },
    "leaking": {
        "phase": "Pending",
        "initContainerStatuses": [state("fill", restarts=2, waiting={"reason": "CrashLoopBackOff"})],
    },
    "sailing": {
        "phase": "Running",
        "podIPs": [{"ip": "10.1.2.3"}],
        "conditions": SAILING,
        "initContainerStatuses": [FILLED, PUMPING],
        "containerStatuses": [
            state("bridge", ready=True, running={}),
            state("engine", ready=True, running={}),
        ],
    },
}


async def test_pod_table_shows_waiting_reasons(shell: Shell) -> None:
    await shell("create -f -", given="\n---\n".join(POD % (name, "deck") for name in STATES))
    await asyncio.gather(
        *(
            shell(f"patch pod {name} --subresource=status -p '{json.dumps({'status': status})}'")
            for name, status in STATES.items()
        )
    )
    gated = POD.replace("nodeName: %s", "schedulingGates: [{name: suite.fairway.dev/tide}]") % "gated"
    await shell("create -f -", given=gated)
    assert await shell("get pods --no-headers -o wide") == page("""
        crashing   2/3   CrashLoopBackOff        8 (<invalid> ago)   0s    <none>     deck     <none>   <none>
        done       0/3   Completed               0                   0s    <none>     deck     <none>   <none>
        evicted    0/3   Evicted                 0                   0s    <none>     deck     <none>   <none>
        failed     0/3   ExitCode:3              0                   0s    <none>     deck     <none>   <none>
        filling    0/3   Init:1/2                0                   0s    <none>     deck     <none>   <none>
        gated      0/3   SchedulingGated         0                   0s    <none>     <none>   <none>   <none>
        leaking    0/3   Init:CrashLoopBackOff   2 (<invalid> ago)   0s    <none>     deck     <none>   <none>
        sailing    3/3   Running                 1 (<invalid> ago)   0s    10.1.2.3   deck     <none>   <none>
    """)
