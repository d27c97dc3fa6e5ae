"""`fairway accept`: accept clusters that request to join.

The agent of a new cluster creates a ManagedCluster and requests a certificate. Accepting sets hubAcceptsClient and
approves that request. Both are idempotent.
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
    from fairway.controllers.acceptance.requests import Request
    from fairway.kube import Client

ACCEPTED: Final = "cluster {name} accepted"
ALREADY: Final = "cluster {name} already accepted"
APPROVED: Final = "certificate request {request} of cluster {name} approved"
APPROVED_BEFORE: Final = "certificate request {request} of cluster {name} already approved"
DENIED: Final = "certificate request {request} of cluster {name} was denied before; not approved"
NOT_APPROVED: Final = "certificate request {request} of cluster {name} not approved: {reason}"
NO_REQUEST: Final = (
    "cluster {name} has no pending certificate request; its agent creates one when it joins: "
    "run accept again then"
)
NO_NAMES: Final = "no cluster named; for example: fairway accept c1 c2"


@click.command(
    short_help="Accept clusters that request to join.",
    epilog="""\b
Examples:
  fairway accept c1
  fairway accept --clusters c1,c2
  fairway accept c1 --dry-run
  fairway accept c1 --wait --timeout 300          wait until it has joined and is available

\b
A certificate request is approved if a bootstrap identity (a bootstrap token, or the service account for joining)
created it and its subject is an agent of the cluster that its label names. --skip-approve-check skips the check of
the creator. If several agents request the same cluster, none is approved unless --requesters selects one.
With --wait, progress is printed to stderr.
Exit status: 0 accepted, and with --wait available; 1 a pending request was not approved, or --wait timed out;
2 bad input.
""",
)
@click.argument("names", nargs=-1, metavar="[CLUSTER]...", shell_complete=complete("clusters"))
@click.option(
    "--clusters",
    multiple=True,
    metavar="NAMES",
    shell_complete=complete("clusters"),
    help="Clusters, separated by commas. Can be repeated.",
)
@click.option(
    "--skip-approve-check",
    "any_requester",
    is_flag=True,
    help="Approve requests regardless of who created them.",
)
@click.option(
    "--requesters",
    multiple=True,
    metavar="NAMES",
    help="Approve only requests for these common names, separated by commas.",
)
@wait_options("Wait until the clusters have joined and are available.")
@dry_run_option
@hub_options
@click.pass_context
def accept(
    context: click.Context,
    names: tuple[str, ...],
    clusters: tuple[str, ...],
    any_requester: bool,
    requesters: tuple[str, ...],
    wait: bool,
    timeout: float,
    dry_run: bool,
    hub: HubChoice,
) -> int:
    """Accept clusters: set hubAcceptsClient and approve the certificate requests of their agents."""
    refuse_contradictions(context)
    wanted = names_in((*names, *clusters), option="--clusters")
    if not wanted:
        raise click.UsageError(NO_NAMES)
    only = frozenset(names_in(requesters, option="--requesters"))

    async def work(client: "Client") -> bool:
        from fairway.cli.client.objects import listed
        from fairway.controllers.cluster_names import refusal
        from fairway.kube import MANAGED_CLUSTERS

        existing = {each.metadata.name: each for each in await listed(client, MANAGED_CLUSTERS)}
        for name in wanted:
            if name not in existing:
                raise unknown("cluster", name, existing)
            if (reason := refusal(name)) is not None:
                raise BadInputError(reason)
        results = [
            await _accept(client, existing[name], any_requester=any_requester, only=only, dry_run=dry_run)
            for name in wanted
        ]
        if wait and all(results):
            from fairway.cli.accept.wait import wait_available

            await wait_available(client, wanted, seconds=timeout)
        return all(results)

    return EXIT_OK if talk(hub, work) else EXIT_NO


async def _accept(
    client: "Client", cluster: "ManagedCluster", *, any_requester: bool, only: frozenset[str], dry_run: bool
) -> bool:
    """Accept one cluster; False if requests are pending and none could be approved."""
    from fairway.cli.client.objects import listed
    from fairway.controllers.acceptance.requests import (
        ARN_ANNOTATION,
        CLUSTER_LABEL,
        ReplacedError,
        approve,
        check_requests,
    )
    from fairway.kube import MANAGED_CLUSTERS, Patch
    from fairway.kube.csr import SIGNING_REQUESTS

    name = cluster.metadata.name
    found = await listed(client, SIGNING_REQUESTS, labels=f"{CLUSTER_LABEL}={name}")
    requests = check_requests(found, name, any_requester=any_requester, only=only)
    if not cluster.spec.hubAcceptsClient:
        # Accept before approving: an agent with a certificate that is not accepted yet logs that it waits for an admin.
        patch = {"metadata": {"uid": cluster.metadata.uid}, "spec": {"hubAcceptsClient": True}}
        await client.patch(MANAGED_CLUSTERS, name, patch, kind=Patch.MERGE, dry_run=dry_run)
    for each in requests:
        try:
            done = each.verdict == "approve" and await approve(client, each, dry_run=dry_run)
        except ReplacedError as error:
            raise BadInputError(cell(str(error))) from None
        _report(each, name, done=done, dry_run=dry_run)
    # Any user may create a request labelled with this cluster; a refused one must not block the others.
    complete = not requests or any(each.verdict != "refuse" for each in requests)
    # Agents that authenticate through AWS request no certificate.
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


def _report(request: "Request", cluster: str, *, done: bool, dry_run: bool) -> None:
    texts = {
        "approve": APPROVED if done else APPROVED_BEFORE,
        "approved": APPROVED_BEFORE,
        "denied": DENIED,
        "refuse": NOT_APPROVED,
    }
    # The name and the reason hold text of the requester, which may span several lines.
    text = texts[request.verdict].format(
        request=cell(request.name), name=cluster, reason=cell(request.reason)
    )
    say(text + (DRY_RUN if done and dry_run else ""))
