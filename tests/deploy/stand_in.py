"""A stand-in for OCM's placement controller, with its Deployment, lease and decisions.

If the environment variable names OCM's program, that runs. Otherwise the stand-in holds the same lease and decides as
in the recorded answers.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

from deploy.kubelet import Kubelet, Pod
from fairway.controllers.manager import running
from fairway.controllers.placement.ocm_detection import LEASE, NAMESPACE
from fairway.controllers.settings import PLACEMENT, Settings
from kubewire.client import Client, Connection, Elector, HubLease, Timing
from rigs.processes import LOOPBACK, POLL, Port, Process

PROGRAM = "FAIRWAY_OCM_PLACEMENT"
LABELS = {"app": "clustermanager-placement-controller"}
NAME = "cluster-manager-placement-controller"
TIMING = Timing(lease=137, renew=107, retry=26)

DEPLOYMENT: dict[str, Any] = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": NAME},
    "spec": {
        "replicas": 1,
        "selector": {"matchLabels": LABELS},
        "template": {
            "metadata": {"labels": LABELS},
            "spec": {"containers": [{"name": "placement-controller", "image": "placement"}]},
        },
    },
}


def is_ocm(pod: Pod) -> bool:
    return bool(pod["metadata"]["labels"] == {**pod["metadata"]["labels"], **LABELS})


async def install(connection: Connection) -> None:
    async with Client(connection) as client:
        await client.request("POST", "/api/v1/namespaces", body={"metadata": {"name": NAMESPACE}})
        await client.request("POST", f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments", body=DEPLOYMENT)


@asynccontextmanager
async def at_work(
    connection: Connection, kubelet: Kubelet, *, kubeconfig: Path, folder: Path
) -> AsyncIterator[None]:
    """Run while the hub has a pod of it."""
    program = os.environ.get(PROGRAM)

    def start() -> Any:
        if program:
            return _program(Path(program), kubeconfig=kubeconfig, folder=folder)
        return _stand_in(connection)

    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(_follow(kubelet, start))
        yield
        task.cancel()


async def _follow(kubelet: Kubelet, start: Callable[[], Any]) -> None:
    while True:
        while not kubelet.strangers:
            await asyncio.sleep(POLL)
        async with start():
            while kubelet.strangers:
                await asyncio.sleep(POLL)


@asynccontextmanager
async def _program(path: Path, *, kubeconfig: Path, folder: Path) -> AsyncIterator[None]:
    with Port() as port:
        process = Process(
            [
                path,
                "controller",
                f"--kubeconfig={kubeconfig}",
                f"--namespace={NAMESPACE}",
                f"--listen={LOOPBACK}:{port}",
            ],
            log=folder / "ocm.log",
            env={"POD_NAME": NAME, "HOME": str(folder)},
        )
        try:
            yield
        finally:
            await process.stop()


@asynccontextmanager
async def _stand_in(connection: Connection) -> AsyncIterator[None]:
    settings = Settings(controllers=frozenset({PLACEMENT}), election=None, beside_ocm=True)

    async def decide(_fence: object) -> None:
        async with running(connection, settings) as manager:
            await manager.over()

    async with Client(connection) as client:
        elector = Elector(
            HubLease(client, namespace=NAMESPACE, name=LEASE),
            identity="ocm",
            timing=TIMING,
            on_started=decide,
        )
        task = asyncio.create_task(elector.run())
        try:
            yield
        finally:
            # It releases its lease on SIGTERM, as OCM's controller does.
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
