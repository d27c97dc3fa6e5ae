"""`fairway accept`: let clusters in that ask to join.

The agent of a new cluster makes a ManagedCluster and asks for a certificate. Accepting is two things: approving that
request, and setting hubAcceptsClient. Both are done by whoever may do them, and neither twice.
"""

from typing import TYPE_CHECKING, Final

import click

from fairway.cli.client.session import HubChoice, hub_options, talk, unknown
from fairway.cli.client.wait import refuse_contradictions, wait_options
from fairway.cli.clusterset import DRY_RUN, dry_run_option, names_in
from fairway.cli.completion import complete
from fairway.cli.errors import EXIT_NO, EXIT_OK, BadInputError
from fairway.cli.output import cell, say

if TYPE_CHECKING:
    from fairway.api.cluster import ManagedCluster
    from fairway.cli.accept.requests import Request
    from fairway.kube import Client

ACCEPTED: Final = "cluster {name} is accepted"
ALREADY: Final = "cluster {name} is accepted already"
APPROVED: Final = "certificate request {request} of cluster {name} is approved"
APPROVED_BEFORE: Final = "certificate request {request} of cluster {name} is approved already"
DENIED: Final = "certificate request {request} of cluster {name} was denied, and stays so"
PASSED_OVER: Final = "certificate request {request} of cluster {name} is not approved: {reason}"
NO_REQUEST: Final = (
    "no certificate request of cluster {name} waits; its agent makes one when it joins: "
    "then accept it once more"
)
NO_NAMES: Final = "which clusters? name them, as in fairway accept c1 c2"


@click.command(
    short_help="Let clusters in that ask to join.",
    epilog="""\b
Examples:
  fairway accept c1
  fairway accept --clusters c1,c2
  fairway accept c1 --dry-run
  fairway accept c1 --wait --timeout 300          until it has joined and is available

\b
A certificate request is approved if it was made by an agent that joins (a bootstrap token or the service account
for that), for the cluster it is labelled with and nobody else. --skip-approve-check leaves out who made it.
Several agents that want to be the same cluster are not approved unless --requesters says which.
With --wait, what is still missing is told on stderr.
Exit status: 0 accepted, and with --wait available; 1 a request that waits was not approved, or with --wait the time is
up; 2 bad input.
""",
)
@click.argument("names", nargs=-1, metavar="[CLUSTER]...", shell_complete=complete("clusters"))
@click.option(
    "--clusters",
    multiple=True,
    metavar="NAMES",
    shell_complete=complete("clusters"),
    help="Clusters, separated by commas; may be repeated.",
)
@click.option("--skip-approve-check", "anybody", is_flag=True, help="Approve requests whoever made them.")
@click.option(
    "--requesters",
    multiple=True,
    metavar="NAMES",
    help="Approve only requests for these common names, separated by commas.",
)
@wait_options("Until the clusters have joined and are available.")
@dry_run_option
@hub_options
@click.pass_context
def accept(
    context: click.Context,
    names: tuple[str, ...],
    clusters: tuple[str, ...],
    anybody: bool,
    requesters: tuple[str, ...],
    wait: bool,
    timeout: float,
    dry_run: bool,
    hub: HubChoice,
) -> int:
    """Accept clusters: set hubAcceptsClient, and approve the certificate their agents ask for."""
    refuse_contradictions(context)
    wanted = names_in((*names, *clusters), option="--clusters")
    if not wanted:
        raise click.UsageError(NO_NAMES)
    only = frozenset(names_in(requesters, option="--requesters"))

    async def work(client: "Client") -> bool:
        from fairway.cli.client.objects import listed
        from fairway.controllers.cluster_names import refusal
        from fairway.kube import MANAGED_CLUSTERS

        there = {each.metadata.name: each for each in await listed(client, MANAGED_CLUSTERS)}
        for name in wanted:
            if name not in there:
                raise unknown("cluster", name, there)
            if (reason := refusal(name)) is not None:
                raise BadInputError(reason)
        results = [
            await _accept(client, there[name], anybody=anybody, only=only, dry_run=dry_run) for name in wanted
        ]
        if wait and all(results):
            from fairway.cli.accept.wait import available

            await available(client, wanted, seconds=timeout)
        return all(results)

    return EXIT_OK if talk(hub, work) else EXIT_NO


async def _accept(
    client: "Client", cluster: "ManagedCluster", *, anybody: bool, only: frozenset[str], dry_run: bool
) -> bool:
    """False if requests wait and none could be approved."""
    from fairway.cli.accept.requests import ARN_ANNOTATION, approve, requests_of
    from fairway.kube import MANAGED_CLUSTERS, Patch

    name = cluster.metadata.name
    requests = await requests_of(client, name, anybody=anybody, only=only)
    if not cluster.spec.hubAcceptsClient:
        # Before its certificate: an agent that has one and finds itself not accepted says that somebody should do so.
        patch = {"metadata": {"uid": cluster.metadata.uid}, "spec": {"hubAcceptsClient": True}}
        await client.patch(MANAGED_CLUSTERS, name, patch, kind=Patch.MERGE, dry_run=dry_run)
    for each in requests:
        done = each.verdict == "approve" and await approve(client, each, dry_run=dry_run)
        _tell_request(each, name, done=done, dry_run=dry_run)
    # Anybody may make a request that looks like a cluster's; one that is refused must not stand in the way of others.
    complete = not requests or any(each.verdict != "refuse" for each in requests)
    # Agents that prove who they are through AWS ask for no certificate.
    if (
        not requests
        and not cluster.spec.hubAcceptsClient
        and ARN_ANNOTATION not in cluster.metadata.annotations
    ):
        say(NO_REQUEST.format(name=name))
    if cluster.spec.hubAcceptsClient:
        say(ALREADY.format(name=name))
        return complete
    say(ACCEPTED.format(name=name) + (DRY_RUN if dry_run else ""))
    return complete


def _tell_request(request: "Request", cluster: str, *, done: bool, dry_run: bool) -> None:
    texts = {
        "approve": APPROVED if done else APPROVED_BEFORE,
        "approved": APPROVED_BEFORE,
        "denied": DENIED,
        "refuse": PASSED_OVER,
    }
    # Whoever makes a request may give it a name of several lines.
    text = texts[request.verdict].format(request=cell(request.name), name=cluster, reason=request.reason)
    say(text + (DRY_RUN if done and dry_run else ""))
