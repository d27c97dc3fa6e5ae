"""`fairway join leave`: the end of a membership, on the cluster's side."""

from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from fairway.cli.join.options import cluster_options, default_state, state_option
from fairway.cli.output import say

if TYPE_CHECKING:
    from fairway.klusterlet.state import State

LEFT: Final = "cluster {name} has left: nothing here speaks for it any more"
ON_HUB: Final = "On the hub, what is left of it:"
NO_IDENTITY: Final = (
    "{folder} holds no identity of cluster {name}, so it is not known which hub's works are on the cluster: "
    "those stay"
)
NOT_RELEASED: Final = (
    "the hub could not be told ({why}); ManifestWorks there may wait for this cluster when they are deleted: "
    "`fairway join forget {name}`, run there, lets go of them"
)


@click.command(
    short_help="Remove what joining made on a cluster.",
    epilog="""\b
Examples:
  fairway join leave --name c1
  fairway join leave --name c1 --state ./c1 --kubeconfig c1.kubeconfig

\b
Objects that ManifestWorks brought to the cluster are removed, too.
Exit status: 0 it was done, 2 bad input, or a cluster that cannot be reached.
""",
)
@click.option("--name", required=True, metavar="NAME", help="The cluster's name on the hub.")
@state_option
@cluster_options
def leave(name: str, state: Path | None, kubeconfig: str | None, cluster_context: str | None) -> None:
    """Remove from a cluster what joining made there, and forget its identity.

    What is on the hub stays, for removing it needs rights there: the commands for it are printed.
    """
    import asyncio

    from fairway.cli.errors import BadInputError
    from fairway.cli.join.messages import cluster_words
    from fairway.cli.join.process import cluster_connection, refusals_in_words
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

    with refusals_in_words(), State.held(state or default_state(name), cluster=name) as held:
        try:
            asyncio.run(work(held))
        except KubeError as error:
            raise BadInputError(cluster_words(error, connection)) from error
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
        # Once: who leaves a hub that is gone must not wait for it.
        async with Client(held.connection(), retry=Retry(asked=1, failed=0, unsent=0), timeout=10) as hub:
            await unjoin.release(hub, name=held.cluster)
    except KubeError as error:
        say(NOT_RELEASED.format(why=error, name=held.cluster))
