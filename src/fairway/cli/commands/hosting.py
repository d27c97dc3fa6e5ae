"""Declaration of `fairway hosting`: its options and its help."""

from typing import Final

import click

from fairway.cli.lazy import runs
from fairway.cli.options.hub import hub_options
from fairway.cli.options.input import input_options, moment
from fairway.cli.options.names import complete
from fairway.cli.options.output import output_option
from fairway.cli.options.scheduler import scheduler_option


@click.group(
    short_help="Show room for hosted clusters, try requests, and plan moves.",
    epilog="""\b
Examples:
  fairway hosting capacity
  fairway hosting place -f request.yaml --hub
  fairway hosting explain default/shop
  fairway hosting drain host-1
  fairway hosting rebalance
  fairway hosting recover host-1
  fairway hosting lose host-1
  fairway hosting adopt host-1
""",
)
def hosting() -> None:
    """Show the room of hosting clusters, try requests, and plan moves of hosted clusters."""


now_option: Final = click.option(
    "--now", type=moment, metavar="TIME", help="Decide at this time.  [default: now]"
)


@hosting.command(
    short_help="Show the room of each hosting cluster.",
    epilog="""\b
Examples:
  fairway hosting capacity
  fairway hosting capacity -f fleet.yaml -o json

\b
HOSTED is the published number of hosted clusters, RESERVED those that it does not include yet: requests, and decisions
of Placements with score debits, which are named below the table. SMALL, MEDIUM and LARGE are how many more of that size
fit, if all are of that size. HEADROOM is the free share of LIMITED BY, the fullest
dimension.
""",
)
@now_option
@scheduler_option
@output_option
@input_options
@runs("fairway.cli.hosting.run:capacity")
def capacity() -> None:
    """Show how many more hosted clusters fit on each hosting cluster, and what limits it."""


@hosting.command(
    short_help="Try requests, without writing.",
    epilog="""\b
Examples:
  fairway hosting place
  fairway hosting place -f request.yaml --hub
  fairway hosting place -f fleet.yaml -f requests.yaml -o yaml

\b
Without -f, the requests of the hub that have no hosting cluster yet are tried; with -f, those of the files. Each sees
what the ones before it reserve, in the order of priority. Nothing is written, and quiet hours are ignored.
Exit status: 0 all fit, 1 at least one does not, 2 bad input.
""",
)
@now_option
@scheduler_option
@output_option
@input_options
@runs("fairway.cli.hosting.run:place")
def place() -> None:
    """Show on which hosting cluster each request would be placed, and why."""


@hosting.command(
    short_help="Plan where the hosted clusters of hosts would move.",
    epilog="""\b
Examples:
  fairway hosting drain host-1
  fairway hosting drain host-1 host-2
  fairway hosting drain host-1 --apply 3bdfe398de8c
  fairway hosting drain host-1 -f fleet.yaml -o json

\b
Nothing happens until you approve the same plan by its hash. A hosted cluster that does not exist yet then moves; one
that exists keeps its place until its data is moved. From a lost host: fairway hosting recover. Hosted clusters without
a request do not move: fairway hosting adopt.
Exit status: 0 everything fits elsewhere; 1 it does not, the plan has changed, or the host is lost; 2 bad input.
""",
)
@click.argument("hosts", metavar="HOST...", nargs=-1, required=True)
@click.option("--apply", "approved", metavar="HASH", help="Approve the plan with this hash.")
@now_option
@scheduler_option
@output_option
@input_options
@runs("fairway.cli.hosting.run:drain")
def drain() -> None:
    """Plan where the hosted clusters of each HOST would move, and whether they fit on the other hosts."""


@hosting.command(
    short_help="Plan the fewest moves that bring the fleet within policy.",
    epilog="""\b
Examples:
  fairway hosting rebalance
  fairway hosting rebalance host-1 host-2
  fairway hosting rebalance --apply 3bdfe398de8c

\b
A plan lists the moves with their cost. Nothing happens until you approve the same plan by its hash. FROZEN is an
estimate: 10, 20 and 40 minutes for a small, medium and large hosted cluster, and none for one that does not exist yet.
Exit status: 0 within policy, or the plan leads there; 1 no plan does, a lost host carries hosted clusters, or the plan
has changed; 2 bad input.
""",
)
@click.argument("hosts", metavar="[HOST...]", nargs=-1)
@click.option("--apply", "approved", metavar="HASH", help="Approve the plan with this hash.")
@now_option
@scheduler_option
@output_option
@input_options
@runs("fairway.cli.hosting.run:rebalance")
def rebalance() -> None:
    """Plan the fewest moves of hosted clusters after which no hosting cluster violates a policy.

    With HOST, only these hosts count, and only their hosted clusters move."""


@hosting.command(
    short_help="Explain where a request is hosted, or why it is not.",
    epilog="""\b
Examples:
  fairway hosting explain default/shop
  fairway hosting explain default/shop -o yaml

\b
Exit status: 0 it has a hosting cluster, 1 it has none, 2 bad input.
""",
)
@click.argument("request", metavar="NAMESPACE/NAME")
@output_option
@hub_options
@runs("fairway.cli.hosting.request:explain")
def explain() -> None:
    """Explain where a HostedClusterRequest is hosted and why, or why it is not."""


@hosting.command(
    short_help="Delete a request and its hosted cluster.",
    epilog="""\b
Examples:
  fairway hosting delete default/shop
  fairway hosting delete default/shop --wait
""",
)
@click.argument("request", metavar="NAMESPACE/NAME")
@click.option("--wait", is_flag=True, help="Wait until the hosted cluster is removed.")
@click.option(
    "--timeout",
    type=click.FloatRange(0, min_open=True),
    default=60.0,
    show_default=True,
    metavar="SECONDS",
    help="Fail if --wait takes longer than this.",
)
@output_option
@hub_options
@runs("fairway.cli.hosting.request:delete")
def delete() -> None:
    """Delete a HostedClusterRequest. Its hosting cluster then removes the hosted cluster."""


@hosting.command(
    short_help="Plan where the hosted clusters of lost hosts go.",
    epilog="""\b
Examples:
  fairway hosting recover host-1
  fairway hosting recover host-1 host-2
  fairway hosting recover host-1 --apply 3bdfe398de8c
  fairway hosting recover host-1 -f fleet.yaml -o json

\b
A host is lost if it is unavailable for longer than hostLoss.after of the policy, or its ManagedCluster is deleted. The
data of its hosted clusters is on it: they are created again without it, and only if the policy has hostLoss.recreate:
Approved. The room that spareHosts keeps is used. Nothing happens until you approve the same plan by its hash.
A host that only lost its connection to the hub runs its hosted clusters until it reconnects: make sure it is down.
Exit status: 0 everything on the host is in the plan, or it carries nothing; 1 something keeps its place or does
not fit, the host is not lost, or the plan has changed; 2 bad input.
""",
)
@click.argument("hosts", metavar="HOST...", nargs=-1, required=True)
@click.option("--apply", "approved", metavar="HASH", help="Approve the plan with this hash.")
@now_option
@scheduler_option
@output_option
@input_options
@runs("fairway.cli.hosting.recover:recover")
def recover() -> None:
    """Plan where the hosted clusters of each HOST, which are lost, are created again."""


@hosting.command(
    short_help="Show what the loss of hosts would strand.",
    epilog="""\b
Examples:
  fairway hosting lose
  fairway hosting lose host-1
  fairway hosting lose host-1 host-2
  fairway hosting lose -f fleet.yaml -o json

\b
Nothing is written, and the policy need not have spareHosts. Hosted clusters without a request count as small ones.
Exit status: 0 everything would fit elsewhere, 1 something would not, 2 bad input.
""",
)
@click.argument("hosts", metavar="[HOST...]", nargs=-1)
@now_option
@scheduler_option
@output_option
@input_options
@runs("fairway.cli.hosting.lose:lose")
def lose() -> None:
    """Show which hosted clusters would fit on no other host if all of HOST failed at once.

    Without HOST, show it for the failure of each single host."""


@hosting.command(
    short_help="Create requests for hosted clusters that exist.",
    epilog="""\b
Examples:
  fairway hosting adopt
  fairway hosting adopt host-1 -n team-a
  fairway hosting adopt host-1 --from host-1.yaml
  fairway hosting adopt host-1 -n team-a --apply

\b
Adopts hosted clusters that no HostedClusterRequest created, so that capacity, drain, rebalance and quotas see them. The
hub has the names of those that a ManifestWork carries; --from has those that someone created on the host itself. What
runs on the host is not changed. An adopted hosted cluster stays when its request is deleted. Repeat the command if it
was interrupted.
Exit status: 0 all have a request or can be adopted, 1 some cannot, 2 bad input.
""",
)
@click.argument("hosts", metavar="[HOST...]", nargs=-1)
@click.option(
    "--from",
    "source",
    metavar="FILE",
    help="HostedClusters and NodePools of one HOST, as kubectl get -o yaml prints them; - for standard input.",
)
@click.option(
    "-n",
    "--namespace",
    metavar="NAME",
    shell_complete=complete("namespaces"),
    help="Namespace of the hub for the requests, whose tenant has them.  [default: the context's]",
)
@click.option("--policy", metavar="NAME", help="HostingPolicy of the requests.  [default: default]")
@click.option(
    "--size",
    default="small",
    show_default=True,
    metavar="SIZE",
    help="Size of those without the label hypershift.openshift.io/hosted-cluster-size.",
)
@click.option("--apply", "is_applied", is_flag=True, help="Create the requests.  [default: only show them]")
@now_option
@scheduler_option
@output_option
@input_options
@runs("fairway.cli.hosting.adopt:adopt")
def adopt() -> None:
    """Create HostedClusterRequests for the hosted clusters that exist on HOST without one; without HOST, on all."""
