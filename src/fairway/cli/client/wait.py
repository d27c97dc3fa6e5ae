"""`--wait`: wait until controllers and agents have reached the requested state.

What is missing and what was reached go to stderr, because stdout may be a document.
"""

import asyncio
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click
from click.core import ParameterSource

from fairway.cli.errors import NegativeAnswerError
from fairway.cli.output import cell, say

if TYPE_CHECKING:
    from fairway.cli.client.watch import Feed, Observe
    from fairway.kube import Client

WAIT_SECONDS: Final = 120.0
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
TIMEOUT_OF_NOTHING: Final = "--timeout requires --wait"
NOTHING_TO_WAIT_FOR: Final = "--dry-run writes nothing, so --wait has nothing to wait for: omit one of them"

Missing = Callable[[], Mapping[str, str]]
"""Returns the objects that are not in the requested state yet, with the reason; empty when all are."""

_Command = TypeVar("_Command", bound=Callable[..., Any])


def wait_options(what: str) -> Callable[[_Command], _Command]:
    """Add `--wait` and `--timeout`, passed as `wait` and `timeout`."""

    def added(command: _Command) -> _Command:
        for option in (
            click.option(
                "--timeout",
                type=click.FloatRange(min=0),
                default=WAIT_SECONDS,
                show_default=True,
                metavar="SECONDS",
                help="Fail if --wait takes longer than this.",
            ),
            click.option("--wait", is_flag=True, help=what),
        ):
            command = option(command)
        return command

    return added


def refuse_contradictions(context: click.Context) -> None:
    """Raises click's usage errors."""
    given = context.get_parameter_source("timeout") is ParameterSource.COMMANDLINE
    if given and not context.params["wait"]:
        raise click.UsageError(TIMEOUT_OF_NOTHING)
    if context.params["wait"] and context.params.get("dry_run"):
        raise click.UsageError(NOTHING_TO_WAIT_FOR)


async def wait(
    client: "Client",
    feeds: "Sequence[Feed]",
    *,
    observe: "Observe",
    missing: Missing,
    seconds: float,
    reached: Callable[[], str],
) -> None:
    """Wait until ``missing`` returns nothing, then print ``reached`` unless it is empty.

    Raises NegativeAnswerError on timeout, and KubeErrors.
    """
    from fairway.cli.client.watch import following

    loop = asyncio.get_running_loop()
    printed = ""
    sys.stdout.flush()  # a reader of a pipe sees what was done before the wait
    async with following(client, feeds, observe) as changes:
        began = loop.time()
        deadline = began + seconds
        while found := missing():
            text, now = list_missing(found), loop.time()
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
