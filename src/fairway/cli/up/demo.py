"""The demonstration of `fairway up`: apply the example, print its decision, and print every move with its cause.

A move is explained from the objects on the hub: the ranks and points of the clusters that were added and dropped, and
their points at the last decision.
"""

import asyncio
import logging
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Final

from fairway.api.resources import HOSTED_CLUSTER_REQUESTS, PLACEMENTS
from fairway.cli.client.moves import GATHER_SECONDS, cause, traces
from fairway.cli.client.objects import PLACING
from fairway.cli.client.watch import Feed, following
from fairway.cli.client.world import LiveWorld, recorded
from fairway.cli.layout import terminal_width
from fairway.cli.output import plain_table
from fairway.cli.text import say
from fairway.cli.up.tour import EXAMPLE, REQUEST, REQUEST_NAME
from fairway.engine.profile import Profile
from fairway.engine.trace import HostTrace
from fairway.hosts.instant import to_micros
from fairway.whatif.world import Key
from kubewire.client import AlreadyExists, Client, Informer, KubeError
from kubewire.documents.reader import yaml_documents

log: Final = logging.getLogger(__name__)

FIRST: Final = "{placement} selected {count} of {fleet} clusters, the ones with the most free CPU:"
HOSTED: Final = "{request} (HostedClusterRequest) is hosted on {host}, with {points} points: {parts}"
MOVES: Final = "From now on, one cluster at a time changes. Below each event are the moves that it causes:"
MOVE: Final = "{time}  {placement}:"
ADDED: Final = "          +{cluster} ({cause})"
DROPPED: Final = "          -{cluster} ({cause})"
STOPPED: Final = "moves are no longer printed: %s"


async def apply_example(client: Client) -> Key:
    """Create the example, unless it exists."""
    (document,) = (document.value for document in yaml_documents(EXAMPLE.encode()))
    namespace = document["metadata"]["namespace"]
    with suppress(AlreadyExists):
        await client.create(PLACEMENTS, document, namespace=namespace)
    return namespace, document["metadata"]["name"]


async def apply_request(client: Client) -> None:
    """Create the example of a hosted cluster, unless it exists."""
    (document,) = (document.value for document in yaml_documents(REQUEST.encode()))
    with suppress(AlreadyExists):
        await client.create(HOSTED_CLUSTER_REQUESTS, document, namespace=document["metadata"]["namespace"])


async def print_hosting(client: Client) -> None:
    """Print where the example of a hosted cluster is hosted, once it has a place."""
    namespace, name = REQUEST_NAME.split("/")
    informer = Informer(client, HOSTED_CLUSTER_REQUESTS, namespace=namespace)
    placed = asyncio.Event()

    def look(_batch: object = None) -> None:
        current = informer.get(name, namespace=namespace)
        if current is not None and current.status.hostingCluster is not None:
            placed.set()

    async with informer:
        await informer.synced.wait()
        informer.subscribe(look)
        look()
        await placed.wait()
        request = informer.get(name, namespace=namespace)
        if request is not None and request.status.hostingCluster is not None:
            status, host = request.status, request.status.hostingCluster.name
            parts = ", ".join(
                f"{score.plugin} {score.score * score.weight}" for score in status.scores if score.score
            )
            say(HOSTED.format(request=REQUEST_NAME, host=host, points=status.total, parts=parts))
            sys.stdout.flush()


async def print_moves(client: Client, moves: "Moves", *, profile: Profile | None = None) -> None:
    """Print the decision of a placement and its changes until cancelled."""
    world, key = LiveWorld(profile=profile), moves.key
    try:
        async with following(
            client, [Feed(resource=resource) for resource in PLACING], world.observe
        ) as changes:
            while True:
                current = world.world()
                decided = recorded(current, key) if key in current.placements else None
                if decided is not None and decided.clusters and not moves.has_printed(decided.clusters):
                    now = datetime.now(UTC)
                    hosts = traces(current, key, now=to_micros(now))
                    for line in moves.describe(decided.clusters, hosts, now=now):
                        say(line)
                    sys.stdout.flush()
                await changes.wait()
                await asyncio.sleep(GATHER_SECONDS)
    except KubeError as error:
        log.warning(STOPPED, error)


class Moves:
    """The last printed decision of a placement, and the points of all clusters at that time."""

    def __init__(self, key: Key) -> None:
        self.key = key
        self.ranked: list[str] = []
        """The selected clusters, the best first."""
        self._name = "/".join(key)
        self._selected: tuple[str, ...] = ()
        self._points: dict[str, int] = {}

    def has_printed(self, selected: Sequence[str]) -> bool:
        return set(selected) == set(self._selected)

    def describe(
        self, selected: Sequence[str], hosts: Mapping[str, HostTrace], *, now: datetime
    ) -> list[str]:
        """Return the lines for a new decision: a table for the first one, a line for each cluster of later ones."""
        before, self._selected = self._selected, tuple(selected)
        points = self._points
        self._points = {name: host.total for name, host in hosts.items() if host.total is not None}
        present = [name for name in selected if name in hosts]
        self.ranked = sorted(present, key=lambda name: hosts[name].rank or 0)
        if not before:
            rows = [
                {"rank": hosts[name].rank, "cluster": name, "points": hosts[name].total}
                for name in self.ranked
            ]
            columns = {"rank": "Rank", "cluster": "Cluster", "points": "Points"}
            table = plain_table(rows, columns=columns, width=terminal_width(indent="  "))
            heading = FIRST.format(placement=self._name, count=len(selected), fleet=len(hosts))
            return [heading, *(f"  {line}" for line in table.splitlines()), MOVES]
        changes = [
            template.format(cluster=name, cause=cause(hosts.get(name), before=points.get(name)))
            for template, names, others in ((ADDED, selected, before), (DROPPED, before, selected))
            for name in names
            if name not in others
        ]
        time = now.astimezone().strftime("%H:%M:%S")
        return [MOVE.format(time=time, placement=self._name), *changes]
