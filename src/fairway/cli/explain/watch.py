"""`fairway explain --watch`: explain again whenever the answer changes."""

import asyncio
import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from fairway.api.meta import format_time
from fairway.cli.client.objects import PLACING
from fairway.cli.client.session import HubChoice, talk
from fairway.cli.client.watch import Feed, following
from fairway.cli.client.world import LiveWorld
from fairway.cli.errors import BadInputError
from fairway.cli.explain.command import Question, answer, find, show
from fairway.cli.options.input import NO_PLACEMENTS_ON_HUB
from fairway.cli.output import say
from fairway.engine.points import NEVER_CHANGES
from fairway.fleet.instant import to_micros
from fairway.kube import Client

if TYPE_CHECKING:
    from fairway.cli.files.loader import LoadedObjects
    from fairway.engine.profile import Profile
    from fairway.whatif.world import Key, World

HEADING: Final = "\n--- {moment}\n"
GATHER_SECONDS: Final = 0.1
"""Collect the writes of one reconciliation into one answer."""


def follow(hub: HubChoice, asked: Question, files: "LoadedObjects | None", *, profile: "Profile") -> None:
    """Explain until interrupted. Raises BadInputError if the placement or cluster does not exist at the start."""

    async def work(client: Client) -> None:
        known = LiveWorld(files, profile=profile)
        feeds = [Feed(resource=each) for each in PLACING]
        last: str | dict[str, Any] | None = None
        async with following(client, feeds, known.observe) as changes:
            if not known.world().placements:
                raise BadInputError(NO_PLACEMENTS_ON_HUB.format(server=client.connection.server))
            while True:
                found, wait = _look(known.world(), asked, client.namespace, first=last is None)
                if found != last:
                    _print(found, asked, first=last is None)
                    last = found
                await changes.wait(wait)
                await asyncio.sleep(GATHER_SECONDS)

    talk(hub, work)


def _look(
    world: "World", asked: Question, namespace: str, *, first: bool
) -> tuple[str | dict[str, Any], float | None]:
    """Return the current answer, and the seconds until a score expires and may change it."""
    now = to_micros(datetime.now(UTC))
    try:
        key, cluster = find(world, asked, namespace=namespace)
    except BadInputError as error:
        if first:
            raise
        return str(error), None
    return answer(world, key, cluster, asked, now=now, live=True), _wait(world, key, now)


def _wait(world: "World", key: "Key", now: int) -> float | None:
    until = world.look(key, now=now).outcome.until
    return None if until == NEVER_CHANGES else max(0.0, (until - now) / 1e6)


def _print(found: str | dict[str, Any], asked: Question, *, first: bool) -> None:
    if isinstance(found, str) and asked.output != "table":
        # A deleted placement is reported as text, which must not mix with documents on stdout.
        say(found, stream=sys.stderr)
        return
    if not first and asked.output == "yaml":
        say("---")
    if not first and asked.output == "table":
        say(HEADING.format(moment=format_time(datetime.now(UTC))))
    show(found, asked.output)
    sys.stdout.flush()
