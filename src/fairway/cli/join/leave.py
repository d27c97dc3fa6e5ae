"""`fairway join leave`: remove a cluster from its hub, on the side of the cluster."""

import asyncio
from pathlib import Path
from typing import Final

from fairway.cli.errors import BadInputError
from fairway.cli.join.bootstrap import default_state
from fairway.cli.join.messages import cluster_message
from fairway.cli.join.process import cluster_connection, klusterlet_errors
from fairway.cli.options.output import OutputFormat
from fairway.cli.report import ChangeReport
from fairway.klusterlet import unjoin
from fairway.klusterlet.state import State
from kubewire.client import Client, KubeError
from kubewire.client.transport import Retry

LEFT: Final = "cluster {name} has left: its identity is deleted"
ON_HUB: Final = "To remove it from the hub, run there:"
NO_IDENTITY: Final = (
    "{folder} contains no identity of cluster {name}, so its hub is unknown and objects of works are kept"
)
NOT_RELEASED: Final = (
    "cannot release the works on the hub ({why}); if deleted ManifestWorks remain there, release them with "
    "`fairway join forget {name}` on the hub"
)


def leave(
    name: str,
    state: Path | None,
    kubeconfig: str | None,
    cluster_context: str | None,
    output: OutputFormat,
) -> None:
    connection = cluster_connection(kubeconfig, cluster_context)

    async def work(held: State) -> None:
        hub = None
        if held.certificate() is None:
            report.note(NO_IDENTITY.format(folder=held.folder, name=name))
        else:
            hub = held.connection()
            await _release(held, report)
        async with Client(connection) as cluster:
            async for line in unjoin.leave(cluster, name=name, hub=hub, agent_id=held.agent_id):
                report.note(line)

    with ChangeReport(output) as report:
        with klusterlet_errors(), State.locked(state or default_state(name), cluster=name) as held:
            try:
                asyncio.run(work(held))
            except KubeError as error:
                raise BadInputError(cluster_message(error, connection)) from error
            held.clear()
        report.add(LEFT.format(name=name), kind="ManagedCluster", name=name, result="left")
        for line in (
            ON_HUB,
            *(f"  kubectl delete {kind} {name}" for kind in ("managedcluster", "namespace")),
        ):
            report.note(line)


async def _release(held: State, report: ChangeReport) -> None:
    try:
        # One attempt: leaving an unreachable hub must not block.
        async with Client(held.connection(), retry=Retry(asked=1, failed=0, unsent=0), timeout=10) as hub:
            await unjoin.release(hub, name=held.cluster)
    except KubeError as error:
        report.note(NOT_RELEASED.format(why=error, name=held.cluster))
