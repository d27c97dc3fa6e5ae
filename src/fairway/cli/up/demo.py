"""The demonstration of `fairway up`: apply the example, print its decision, and print every move with its cause.

A move is explained from the objects on the hub: the ranks and points of the clusters that were added and dropped, and
their points at the last decision.
"""

import asyncio
import logging
import sys
from contextlib import suppress
from datetime import UTC, datetime
from typing import Final

from fairway.cli.client.objects import PLACING
from fairway.cli.client.watch import Feed, following
from fairway.cli.client.world import LiveWorld, recorded
from fairway.cli.output import plain_table, say
from fairway.cli.up.tour import EXAMPLE, REQUEST, REQUEST_NAME
from fairway.documents.reader import yaml_documents
from fairway.engine.profile import Profile
from fairway.fleet.instant import to_micros
from fairway.kube import HOSTED_CLUSTER_REQUESTS, PLACEMENTS, AlreadyExists, Client, Informer, KubeError
from fairway.whatif.explain import Explanation, explain
from fairway.whatif.world import Key

log: Final = logging.getLogger(__name__)

GATHER_SECONDS: Final = 0.2
"""Collect the writes of one reconciliation into one line."""

FIRST: Final = "{placement} selected {count} of {fleet} clusters, the ones with the most free CPU:"
HOSTED: Final = "{request} (HostedClusterRequest) is hosted on {host}, with {points} points: {parts}"
MOVES: Final = "Its moves, as scores change:"
MOVE: Final = "{time}  {placement}: {changes}"
ADDED: Final = "+{cluster} (rank {rank}, {points} points{before})"
DROPPED: Final = "-{cluster} (rank {rank}, {points} points{before})"
REJECTED: Final = "-{cluster} ({plugin}: {reason})"
GONE: Final = "-{cluster} (the cluster was deleted)"
BEFORE: Final = ", was {points}"
STOPPED: Final = "moves are no longer printed: %s"


async def apply_example(client: Client) -> Key:
    """Create the example, unless it exists."""
    (document,) = (each.value for each in yaml_documents(EXAMPLE.encode()))
    namespace = document["metadata"]["namespace"]
    with suppress(AlreadyExists):
        await client.create(PLACEMENTS, document, namespace=namespace)
    return namespace, document["metadata"]["name"]


async def apply_request(client: Client) -> None:
    """Create the example of a hosted cluster, unless it exists."""
    (document,) = (each.value for each in yaml_documents(REQUEST.encode()))
    with suppress(AlreadyExists):
        await client.create(HOSTED_CLUSTER_REQUESTS, document, namespace=document["metadata"]["namespace"])


async def print_hosting(client: Client) -> None:
    """Print where the example of a hosted cluster is hosted, once it has a place."""
    namespace, name = REQUEST_NAME.split("/")
    informer = Informer(client, HOSTED_CLUSTER_REQUESTS, namespace=namespace)
    placed = asyncio.Event()

    def look(_batch: object = None) -> None:
        found = informer.get(name, namespace=namespace)
        if found is not None and found.status.hostingCluster is not None:
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
                f"{each.plugin} {each.score * each.weight}" for each in status.scores if each.score
            )
            say(HOSTED.format(request=REQUEST_NAME, host=host, points=status.total, parts=parts))
            sys.stdout.flush()


async def print_moves(client: Client, key: Key, *, profile: Profile | None = None) -> None:
    """Print the decision of a placement and its changes until cancelled."""
    world = LiveWorld(profile=profile)
    moves = Moves(key)
    try:
        async with following(client, [Feed(resource=each) for each in PLACING], world.observe) as changes:
            while True:
                current = world.world()
                selected = recorded(current, key) if key in current.placements else None
                if selected and not moves.has_printed(selected):
                    now = datetime.now(UTC)
                    found = explain(current, key, now=to_micros(now))
                    for line in moves.describe(selected, found, now=now):
                        say(line)
                    sys.stdout.flush()
                await changes.wait()
                await asyncio.sleep(GATHER_SECONDS)
    except KubeError as error:
        log.warning(STOPPED, error)


class Moves:
    """The last printed decision of a placement, and the points of all clusters at that time."""

    def __init__(self, key: Key) -> None:
        self._name = "/".join(key)
        self._selected: list[str] = []
        self._points: dict[str, int] = {}

    def has_printed(self, selected: list[str]) -> bool:
        return set(selected) == set(self._selected)

    def describe(self, selected: list[str], found: Explanation, *, now: datetime) -> list[str]:
        """Return the lines for a new decision: a table for the first one, one line for each later one."""
        before, self._selected = self._selected, selected
        hosts = {each.host: each for each in (*found.chosen, *found.passed_over)}
        rejected = {name: each for each in found.rejected for name in each.clusters}
        points, self._points = self._points, {name: each.total or 0 for name, each in hosts.items()}
        if not before:
            rows = [
                {"rank": hosts[name].rank, "cluster": name, "points": hosts[name].total}
                for name in sorted(selected, key=lambda name: hosts[name].rank or 0 if name in hosts else 0)
                if name in hosts
            ]
            table = plain_table(rows, columns={"rank": "Rank", "cluster": "Cluster", "points": "Points"})
            heading = FIRST.format(placement=self._name, count=len(selected), fleet=found.clusters)
            return [heading, *(f"  {line}" for line in table.splitlines()), MOVES]

        def ranked(template: str, name: str) -> str:
            host = hosts[name]
            was = points.get(name)
            text = "" if was is None or was == host.total else BEFORE.format(points=was)
            return template.format(cluster=name, rank=host.rank, points=host.total, before=text)

        changes = [
            ranked(ADDED, name) if name in hosts else f"+{name}" for name in selected if name not in before
        ]
        for name in before:
            if name in selected:
                continue
            if name in hosts:
                changes.append(ranked(DROPPED, name))
            elif name in rejected:
                group = rejected[name]
                changes.append(REJECTED.format(cluster=name, plugin=group.plugin, reason=group.reason))
            else:
                changes.append(GONE.format(cluster=name))
        time = now.astimezone().strftime("%H:%M:%S")
        return [MOVE.format(time=time, placement=self._name, changes=", ".join(changes))]
