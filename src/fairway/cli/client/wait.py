"""`--wait`: wait until controllers and agents have reached the requested state.

What is missing and what was reached go to stderr, because stdout may be a document.
"""

import asyncio
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from fairway.cli.client.watch import Feed, Observe, following
from fairway.cli.errors import NegativeAnswerError
from fairway.cli.text import cell, say
from kubewire.client import Client

PACE_SECONDS: Final = 0.5
"""Minimum pause between two checks."""
QUIET_SECONDS: Final = 2.0
"""Progress is printed only after this time."""
NAMED: Final = 3
"""At most this many missing objects are named in a line."""

WAITING: Final = "fairway: waiting for {what}"
REACHED: Final = "fairway: {what} (after {seconds:.0f} s)"
NOT_DONE: Final = "timed out after {seconds:g} s, still waiting for {what}"
MORE: Final = "{count} more"

Missing = Callable[[], Mapping[str, str]]
"""Returns the objects that are not in the requested state yet, with the reason; empty when all are."""


async def wait(
    client: Client,
    feeds: Sequence[Feed],
    *,
    observe: Observe,
    missing: Missing,
    seconds: float,
    reached: Callable[[], str],
) -> None:
    """Wait until ``missing`` returns nothing, then print ``reached`` unless it is empty.

    Raises NegativeAnswerError on timeout, and KubeErrors.
    """
    loop = asyncio.get_running_loop()
    printed = ""
    sys.stdout.flush()  # a reader of a pipe sees what was done before the wait
    async with following(client, feeds, observe) as changes:
        began = loop.time()
        deadline = began + seconds
        while left_out := missing():
            text, now = list_missing(left_out), loop.time()
            if now >= deadline:
                raise NegativeAnswerError(NOT_DONE.format(seconds=seconds, what=text))
            quiet = began + QUIET_SECONDS - now
            if quiet <= 0 and text != printed:
                printed = text
                say(WAITING.format(what=text), stream=sys.stderr)
                sys.stderr.flush()
            left = deadline - now
            await changes.wait(min(left, quiet) if quiet > 0 else left)
            await asyncio.sleep(min(PACE_SECONDS, max(0.0, deadline - loop.time())))
        if text := reached():
            say(REACHED.format(what=text, seconds=loop.time() - began), stream=sys.stderr)


def list_missing(missing: Mapping[str, str]) -> str:
    """Format missing objects as one line, whatever text their conditions contain."""
    shown = [f"{cell(name)} ({cell(why)})" for name, why in list(missing.items())[:NAMED]]
    if len(missing) > NAMED:
        shown.append(MORE.format(count=len(missing) - NAMED))
    return ", ".join(shown)
