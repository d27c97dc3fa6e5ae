"""`fairway accept`: accept clusters that request to join.

The agent of a new cluster creates a ManagedCluster and requests a certificate. Accepting sets hubAcceptsClient and
approves that request. Both are idempotent.
"""

from typing import Final

import click

from fairway.api.cluster import ManagedCluster
from fairway.api.resources import MANAGED_CLUSTERS
from fairway.cli.accept.wait import wait_available
from fairway.cli.client.objects import listed
from fairway.cli.client.session import talk, unknown
from fairway.cli.clusterset import names_in
from fairway.cli.errors import EXIT_NO, EXIT_OK, BadInputError
from fairway.cli.options.hub import HubChoice
from fairway.cli.options.output import OutputFormat
from fairway.cli.options.wait import refuse_contradictions
from fairway.cli.report import ChangeReport
from fairway.cli.text import cell
from fairway.controllers.acceptance.requests import (
    ARN_ANNOTATION,
    CLUSTER_LABEL,
    ReplacedError,
    Request,
    approve,
    check_requests,
)
from fairway.controllers.cluster_names import refusal
from kubewire.client import Client, Patch
from kubewire.client.csr import SIGNING_REQUESTS

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


def accept(
    context: click.Context,
    names: tuple[str, ...],
    clusters: tuple[str, ...],
    any_requester: bool,
    requesters: tuple[str, ...],
    wait: bool,
    timeout: float,
    dry_run: bool,
    output: OutputFormat,
    hub: HubChoice,
) -> int:
    refuse_contradictions(context)
    wanted = names_in((*names, *clusters), option="--clusters")
    if not wanted:
        raise click.UsageError(NO_NAMES)
    only = frozenset(names_in(requesters, option="--requesters"))

    async def work(client: Client) -> bool:
        existing = {cluster.metadata.name: cluster for cluster in await listed(client, MANAGED_CLUSTERS)}
        for name in wanted:
            if name not in existing:
                raise unknown("cluster", name, existing)
            if (reason := refusal(name)) is not None:
                raise BadInputError(reason)
        results = [
            await _accept(
                client, existing[name], report, any_requester=any_requester, only=only, dry_run=dry_run
            )
            for name in wanted
        ]
        if wait and all(results):
            await wait_available(client, wanted, seconds=timeout)
        return all(results)

    with ChangeReport(output, dry_run=dry_run) as report:
        return EXIT_OK if talk(hub, work) else EXIT_NO


async def _accept(
    client: Client,
    cluster: ManagedCluster,
    report: ChangeReport,
    *,
    any_requester: bool,
    only: frozenset[str],
    dry_run: bool,
) -> bool:
    """Accept one cluster; False if requests are pending and none could be approved."""
    name = cluster.metadata.name
    signing_requests = await listed(client, SIGNING_REQUESTS, labels=f"{CLUSTER_LABEL}={name}")
    requests = check_requests(signing_requests, name, any_requester=any_requester, only=only)
    if not cluster.spec.hubAcceptsClient:
        # Accept before approving: an agent with a certificate that is not accepted yet logs that it waits for an admin.
        patch = {"metadata": {"uid": cluster.metadata.uid}, "spec": {"hubAcceptsClient": True}}
        await client.patch(MANAGED_CLUSTERS, name, patch, kind=Patch.MERGE, dry_run=dry_run)
    for request in requests:
        try:
            done = request.verdict == "approve" and await approve(client, request, dry_run=dry_run)
        except ReplacedError as error:
            raise BadInputError(cell(str(error))) from None
        _report(request, name, report, done=done)
    # Any user may create a request labelled with this cluster; a refused one must not block the others.
    complete = not requests or any(request.verdict != "refuse" for request in requests)
    # Agents that authenticate through AWS request no certificate.
    if (
        not requests
        and not cluster.spec.hubAcceptsClient
        and ARN_ANNOTATION not in cluster.metadata.annotations
    ):
        report.note(NO_REQUEST.format(name=name))
    if cluster.spec.hubAcceptsClient:
        text, result = ALREADY, "unchanged"
    else:
        text, result = ACCEPTED, "accepted"
    report.add(
        text.format(name=name),
        kind=cluster.kind,
        name=name,
        result=result,
        changed=not cluster.spec.hubAcceptsClient,
    )
    return complete


def _report(request: Request, cluster: str, report: ChangeReport, *, done: bool) -> None:
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
    results = {"approve": "approved", "approved": "unchanged", "denied": "denied", "refuse": "refused"}
    report.add(
        text,
        kind="CertificateSigningRequest",
        name=request.name,
        result=results[request.verdict] if done or request.verdict != "approve" else "unchanged",
        changed=done,
    )
