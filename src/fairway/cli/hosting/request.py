"""`fairway hosting explain` and `fairway hosting delete`: one request on a hub."""

import asyncio
from typing import Any, Final

from fairway.api.hosted_request import HostedClusterRequest, HostingRejection
from fairway.api.resources import HOSTED_CLUSTER_REQUESTS
from fairway.cli.client.session import talk
from fairway.cli.errors import EXIT_NO, EXIT_OK, BadInputError, NegativeAnswerError
from fairway.cli.options.hub import HubChoice
from fairway.cli.options.output import OutputFormat
from fairway.cli.output import emit
from fairway.cli.report import ChangeReport
from fairway.cli.text import say
from fairway.workloads.hosting.requests.conditions import HOST_AVAILABLE
from fairway.workloads.hosting.workload import is_adopted
from kubewire.api.encoding import encode
from kubewire.api.meta import FALSE, TRUE, find_condition
from kubewire.client import Client, NotFound

BAD_NAME: Final = "{text!r} is not a request; write NAMESPACE/NAME"
NOT_FOUND: Final = (
    "there is no HostedClusterRequest {name}; list them with: fairway get hostedclusterrequests -A"
)
NOT_TRIED: Final = (
    "{name} is not tried yet: check that the controller hosting runs (fairway install --controllers=+hosting | kubectl "
    "apply -f -, or as a process: fairway run --controllers hosting)"
)
PLACED: Final = "{name} is hosted on {host} ({phase}), with {total} points:"
UNPLACED: Final = "{name} has no hosting cluster ({phase}): {message}"
OTHERS: Final = "Clusters that do not qualify:"
FITS: Final = "It would fit with: {change}"
DELETED: Final = "{name} is deleted"
RELEASED: Final = "{name} is deleted; the hosted cluster was adopted, and stays on {host}"
DELETING: Final = "{name} is being deleted; {host} removes the hosted cluster"
TOO_LONG: Final = (
    "{name} still exists after {seconds:g} seconds: its hosting cluster {host} has not removed it yet"
)
MORE: Final = "{names} and {count} more"
POLL_SECONDS: Final = 0.2


def explain(request: str, output: OutputFormat, hub: HubChoice) -> int:
    return explain_request(request, output=output, hub=hub)


def explain_request(request: str, *, output: OutputFormat, hub: HubChoice) -> int:
    """Implement `fairway hosting explain` and `fairway explain hostedclusterrequest`."""
    namespace, name = _parse(request)
    request_read = talk(hub, lambda client: _read(client, namespace, name))
    if request_read is None:
        raise BadInputError(NOT_FOUND.format(name=request))
    if output != "table":
        emit([], columns={}, output=output, document=encode(request_read.status))
    else:
        _print(request_read, request)
    return EXIT_OK if request_read.status.hostingCluster is not None else EXIT_NO


def delete(request: str, wait: bool, timeout: float, output: OutputFormat, hub: HubChoice) -> int:
    namespace, name = _parse(request)
    deleted, remaining = talk(hub, lambda client: _delete(client, namespace, name, timeout if wait else None))
    if is_adopted(deleted) and deleted.status.hostingCluster is not None:
        say(RELEASED.format(name=request, host=deleted.status.hostingCluster.name))
        return EXIT_OK
    if remaining is None:
        text, result = DELETED.format(name=request), "deleted"
    else:
        host = remaining.status.hostingCluster.name if remaining.status.hostingCluster else "-"
        if wait:
            raise NegativeAnswerError(TOO_LONG.format(name=request, seconds=timeout, host=host))
        text, result = DELETING.format(name=request, host=host), "deleting"
    with ChangeReport(output) as report:
        report.add(text, kind=HOSTED_CLUSTER_REQUESTS.kind, namespace=namespace, name=name, result=result)
    return EXIT_OK


def _parse(text: str) -> tuple[str, str]:
    namespace, _, name = text.partition("/")
    if not namespace or not name or "/" in name:
        raise BadInputError(BAD_NAME.format(text=text))
    return namespace, name


async def _read(client: Client, namespace: str, name: str) -> HostedClusterRequest | None:
    try:
        return await client.get(HOSTED_CLUSTER_REQUESTS, name, namespace=namespace)
    except NotFound as error:
        if error.details.name:
            return None
        raise


async def _delete(
    client: Client, namespace: str, name: str, timeout: float | None
) -> tuple[HostedClusterRequest, HostedClusterRequest | None]:
    """Return the request, and what is left of it after the time; None if it is deleted."""
    current = request = await _read(client, namespace, name)
    if request is None:
        raise BadInputError(NOT_FOUND.format(name=f"{namespace}/{name}"))
    await client.delete(HOSTED_CLUSTER_REQUESTS, name, namespace=namespace)
    uid = request.metadata.uid
    try:
        async with asyncio.timeout(timeout or 0):
            while current is not None and current.metadata.uid == uid:
                current = await _read(client, namespace, name)
                await asyncio.sleep(POLL_SECONDS)
    except TimeoutError:
        return request, current
    return request, None


def _print(hosted_cluster_request: HostedClusterRequest, name: str) -> None:
    status = hosted_cluster_request.status
    if not status.phase:
        say(NOT_TRIED.format(name=name))
        return
    if status.hostingCluster is not None:
        total = 0 if status.total is None else status.total
        say(PLACED.format(name=name, host=status.hostingCluster.name, phase=status.phase, total=total))
        rows: list[dict[str, Any]] = [
            {
                "plugin": score.plugin,
                "score": score.score,
                "weight": score.weight,
                "points": score.score * score.weight,
            }
            for score in status.scores
        ]
        if rows:
            columns = {"plugin": "Plugin", "score": "Score", "weight": "Weight", "points": "Points"}
            emit(rows, columns=columns)
    else:
        say(UNPLACED.format(name=name, phase=status.phase, message=_message(hosted_cluster_request)))
    if (outage := _outage(hosted_cluster_request)) is not None:
        say(outage)
    if status.rejections:
        say(OTHERS)
        emit(
            [
                {"count": rejection.count, "reason": rejection.reason, "clusters": _first_clusters(rejection)}
                for rejection in status.rejections
            ],
            columns={"count": "Count", "reason": "Reason", "clusters": "Clusters"},
        )
    for change in status.wouldFit:
        say(FITS.format(change=change))


def _first_clusters(rejection: HostingRejection) -> str:
    """Return the clusters of a group, and how many the status leaves out."""
    names, more = ",".join(rejection.clusters), rejection.count - len(rejection.clusters)
    return MORE.format(names=names, count=more) if names and more > 0 else names


def _outage(hosted_cluster_request: HostedClusterRequest) -> str | None:
    """Return what is the matter with the hosting cluster, or with the one that was lost."""
    condition = find_condition(hosted_cluster_request.status.conditions, HOST_AVAILABLE)
    return condition.message if condition is not None and condition.status == FALSE else None


def _message(hosted_cluster_request: HostedClusterRequest) -> str:
    return next(
        (
            condition.message
            for condition in hosted_cluster_request.status.conditions
            if condition.status != TRUE and condition.message
        ),
        "",
    )
