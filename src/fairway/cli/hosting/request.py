"""`fairway hosting explain` and `fairway hosting delete`: one request on a hub."""

import asyncio
from typing import TYPE_CHECKING, Any, Final

import click

from fairway.cli.client.session import HubChoice, hub_options, talk
from fairway.cli.errors import EXIT_NO, EXIT_OK, BadInputError, NegativeAnswerError
from fairway.cli.hosting.command import hosting
from fairway.cli.output import OutputFormat, emit, output_option, say

if TYPE_CHECKING:
    from fairway.api.hosted_request import HostedClusterRequest
    from fairway.kube import Client

BAD_NAME: Final = "{text!r} is not a request; write NAMESPACE/NAME"
NOT_FOUND: Final = (
    "there is no HostedClusterRequest {name}; list them with: kubectl get hostedclusterrequests -A"
)
NOT_TRIED: Final = (
    "{name} is not tried yet: check that the controller hosting runs (fairway run --controllers hosting)"
)
PLACED: Final = "{name} is hosted on {host} ({phase}), with {total} points:"
UNPLACED: Final = "{name} has no hosting cluster ({phase}): {message}"
OTHERS: Final = "Clusters that do not qualify:"
FITS: Final = "It would fit with: {change}"
DELETED: Final = "{name} is deleted"
DELETING: Final = "{name} is being deleted; {host} removes the hosted cluster"
TOO_LONG: Final = (
    "{name} still exists after {seconds:g} seconds: its hosting cluster {host} has not removed it yet"
)
POLL_SECONDS: Final = 0.2


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
def explain(request: str, output: OutputFormat, hub: HubChoice) -> int:
    """Explain where a HostedClusterRequest is hosted and why, or why it is not."""
    return explain_request(request, output=output, hub=hub)


def explain_request(request: str, *, output: OutputFormat, hub: HubChoice) -> int:
    """Implement `fairway hosting explain` and `fairway explain hostedclusterrequest`."""
    from fairway.api.kinds import encode

    namespace, name = _parse(request)
    found = talk(hub, lambda client: _read(client, namespace, name))
    if found is None:
        raise BadInputError(NOT_FOUND.format(name=request))
    if output != "table":
        emit([], columns={}, output=output, document=encode(found.status))
    else:
        _print(found, request)
    return EXIT_OK if found.status.hostingCluster is not None else EXIT_NO


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
@hub_options
def delete(request: str, wait: bool, timeout: float, hub: HubChoice) -> int:
    """Delete a HostedClusterRequest. Its hosting cluster then removes the hosted cluster."""
    namespace, name = _parse(request)
    found = talk(hub, lambda client: _delete(client, namespace, name, timeout if wait else None))
    if found is None:
        say(DELETED.format(name=request))
        return EXIT_OK
    host = found.status.hostingCluster.name if found.status.hostingCluster else "-"
    if wait:
        raise NegativeAnswerError(TOO_LONG.format(name=request, seconds=timeout, host=host))
    say(DELETING.format(name=request, host=host))
    return EXIT_OK


def _parse(text: str) -> tuple[str, str]:
    namespace, _, name = text.partition("/")
    if not namespace or not name or "/" in name:
        raise BadInputError(BAD_NAME.format(text=text))
    return namespace, name


async def _read(client: "Client", namespace: str, name: str) -> "HostedClusterRequest | None":
    from fairway.kube import HOSTED_CLUSTER_REQUESTS, NotFound

    try:
        return await client.get(HOSTED_CLUSTER_REQUESTS, name, namespace=namespace)
    except NotFound as error:
        if error.details.name:
            return None
        raise


async def _delete(
    client: "Client", namespace: str, name: str, timeout: float | None
) -> "HostedClusterRequest | None":
    """Return what is left of the request after the time; None if it is deleted."""
    from fairway.kube import HOSTED_CLUSTER_REQUESTS

    found = await _read(client, namespace, name)
    if found is None:
        raise BadInputError(NOT_FOUND.format(name=f"{namespace}/{name}"))
    await client.delete(HOSTED_CLUSTER_REQUESTS, name, namespace=namespace)
    uid = found.metadata.uid
    try:
        async with asyncio.timeout(timeout or 0):
            while found is not None and found.metadata.uid == uid:
                found = await _read(client, namespace, name)
                await asyncio.sleep(POLL_SECONDS)
    except TimeoutError:
        return found
    return None


def _print(found: "HostedClusterRequest", name: str) -> None:
    status = found.status
    if not status.phase:
        say(NOT_TRIED.format(name=name))
        return
    if status.hostingCluster is not None:
        total = 0 if status.total is None else status.total
        say(PLACED.format(name=name, host=status.hostingCluster.name, phase=status.phase, total=total))
        rows: list[dict[str, Any]] = [
            {
                "plugin": each.plugin,
                "score": each.score,
                "weight": each.weight,
                "points": each.score * each.weight,
            }
            for each in status.scores
        ]
        if rows:
            columns = {"plugin": "Plugin", "score": "Score", "weight": "Weight", "points": "Points"}
            emit(rows, columns=columns)
    else:
        say(UNPLACED.format(name=name, phase=status.phase, message=_message(found)))
    if status.rejections:
        say(OTHERS)
        emit(
            [
                {"count": each.count, "reason": each.reason, "clusters": each.clusters}
                for each in status.rejections
            ],
            columns={"count": "Count", "reason": "Reason", "clusters": "Clusters"},
        )
    for change in status.wouldFit:
        say(FITS.format(change=change))


def _message(found: "HostedClusterRequest") -> str:
    from fairway.api.meta import TRUE

    return next(
        (each.message for each in found.status.conditions if each.status != TRUE and each.message), ""
    )
