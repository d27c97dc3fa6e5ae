"""`fairway explain --watch`: explain again whenever the answer changes."""

import asyncio
import sys
from datetime import UTC, datetime
from typing import Any, Final

from fairway.cli.client.objects import PLACING
from fairway.cli.client.session import talk
from fairway.cli.client.watch import Feed, following
from fairway.cli.client.world import LiveWorld
from fairway.cli.errors import BadInputError
from fairway.cli.explain.answer import Question, answer, find, show
from fairway.cli.files.loader import LoadedObjects
from fairway.cli.input import NO_PLACEMENTS_ON_HUB
from fairway.cli.options.hub import HubChoice
from fairway.cli.text import say
from fairway.engine.points import NEVER_CHANGES
from fairway.engine.profile import Profile
from fairway.hosts.instant import to_micros
from fairway.whatif.world import Key, World
from kubewire.api.meta import format_time
from kubewire.client import Client

HEADING: Final = "\n--- {moment}\n"
GATHER_SECONDS: Final = 0.1
"""Collect the writes of one reconciliation into one answer."""


def follow(hub: HubChoice, asked: Question, files: LoadedObjects | None, *, profile: Profile) -> None:
    """Explain until interrupted. Raises BadInputError if the placement or cluster does not exist at the start."""

    async def work(client: Client) -> None:
        known = LiveWorld(files, profile=profile)
        feeds = [Feed(resource=resource) for resource in PLACING]
        last: str | dict[str, Any] | None = None
        async with following(client, feeds, known.observe) as changes:
            if not known.world().placements:
                raise BadInputError(NO_PLACEMENTS_ON_HUB.format(server=client.connection.server))
            while True:
                current, wait = _current_answer(known.world(), asked, client.namespace, first=last is None)
                if current != last:
                    _print(current, asked, first=last is None)
                    last = current
                await changes.wait(wait)
                await asyncio.sleep(GATHER_SECONDS)

    talk(hub, work)


def _current_answer(
    world: World, asked: Question, namespace: str, *, first: bool
) -> tuple[str | dict[str, Any], float | None]:
    """Return the current answer, and the seconds until a score expires and may change it."""
    now = to_micros(datetime.now(UTC))
    try:
        key, cluster = find(world, asked, namespace=namespace)
    except BadInputError as error:
        if first:
            raise
        return str(error), None
    world.prepare(key, now=now)
    return answer(world, key, cluster, asked, now=now, live=True), _wait(world, key, now)


def _wait(world: World, key: Key, now: int) -> float | None:
    until = world.ask(key, now=now).outcome.until
    return None if until == NEVER_CHANGES else max(0.0, (until - now) / 1e6)


def _print(shown: str | dict[str, Any], asked: Question, *, first: bool) -> None:
    if isinstance(shown, str) and asked.output != "table":
        # A deleted placement is reported as text, which must not mix with documents on stdout.
        say(shown, stream=sys.stderr)
        return
    if not first and asked.output == "yaml":
        say("---")
    if not first and asked.output == "table":
        say(HEADING.format(moment=format_time(datetime.now(UTC))))
    show(shown, asked.output)
    sys.stdout.flush()
