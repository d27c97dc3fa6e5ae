"""`fairway join leave`: remove a cluster from its hub, on the side of the cluster."""

from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from fairway.cli.join.options import cluster_options, default_state, state_option
from fairway.cli.output import say

if TYPE_CHECKING:
    from fairway.klusterlet.state import State

LEFT: Final = "cluster {name} has left: its identity is deleted"
ON_HUB: Final = "To remove it from the hub, run there:"
NO_IDENTITY: Final = (
    "{folder} contains no identity of cluster {name}, so its hub is unknown and objects of works are kept"
)
NOT_RELEASED: Final = (
    "cannot release the works on the hub ({why}); if deleted ManifestWorks remain there, release them with "
    "`fairway join forget {name}` on the hub"
)


@click.command(
    short_help="Remove a cluster from its hub.",
    epilog="""\b
Examples:
  fairway join leave --name c1
  fairway join leave --name c1 --state ./c1 --kubeconfig c1.kubeconfig

\b
Objects of ManifestWorks are removed from the cluster, too.
Exit status: 0 done, 2 bad input, or the cluster is unreachable.
""",
)
@click.option("--name", required=True, metavar="NAME", help="Name of the cluster on the hub.")
@state_option
@cluster_options
def leave(name: str, state: Path | None, kubeconfig: str | None, cluster_context: str | None) -> None:
    """Remove everything that joining created on a cluster, and delete its identity.

    Objects on the hub are kept, because deleting them needs permissions there; the commands are printed.
    """
    import asyncio

    from fairway.cli.errors import BadInputError
    from fairway.cli.join.messages import cluster_message
    from fairway.cli.join.process import cluster_connection, klusterlet_errors
    from fairway.klusterlet import unjoin
    from fairway.klusterlet.state import State
    from fairway.kube import Client, KubeError

    connection = cluster_connection(kubeconfig, cluster_context)

    async def work(held: State) -> None:
        server = ""
        if held.certificate() is None:
            say(NO_IDENTITY.format(folder=held.folder, name=name))
        else:
            server = held.connection().server
            await _release(held)
        async with Client(connection) as cluster:
            async for line in unjoin.leave(cluster, name=name, server=server):
                say(line)

    with klusterlet_errors(), State.locked(state or default_state(name), cluster=name) as held:
        try:
            asyncio.run(work(held))
        except KubeError as error:
            raise BadInputError(cluster_message(error, connection)) from error
        held.clear()
    say(LEFT.format(name=name))
    say(ON_HUB)
    say(f"  kubectl delete managedcluster {name}")
    say(f"  kubectl delete namespace {name}")


async def _release(held: "State") -> None:
    from fairway.klusterlet import unjoin
    from fairway.kube import Client, KubeError
    from fairway.kube.transport import Retry

    try:
        # One attempt: leaving an unreachable hub must not block.
        async with Client(held.connection(), retry=Retry(asked=1, failed=0, unsent=0), timeout=10) as hub:
            await unjoin.release(hub, name=held.cluster)
    except KubeError as error:
        say(NOT_RELEASED.format(why=error, name=held.cluster))
