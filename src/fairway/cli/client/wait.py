"""`--wait`: after a command has done its part, until others have done theirs. What is still missing goes to stderr."""

import asyncio
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click
from click.core import ParameterSource

from fairway.cli.errors import NegativeAnswerError
from fairway.cli.output import cell, say

if TYPE_CHECKING:
    from fairway.cli.client.watch import Feed, Hear
    from fairway.kube import Client

WAIT_SECONDS: Final = 120.0
PACE_SECONDS: Final = 0.5
"""Between looks: a fleet that comes up changes all the time."""
QUIET_SECONDS: Final = 2.0
"""What is there sooner needs no words."""
NAMED: Final = 3
"""So many are named of those that are waited for."""

WAITING: Final = "fairway: waiting for {what}"
NOT_DONE: Final = "after {seconds:g} s still waiting for {what}"
MORE: Final = "{count} more"
TIMEOUT_OF_NOTHING: Final = "--timeout says how long --wait may take: give that, too"
NOTHING_TO_WAIT_FOR: Final = "--dry-run writes nothing, so there is nothing to --wait for: give one of them"

Look = Callable[[], Mapping[str, str]]
"""What is waited for, and of each what is missing; nothing once all is well."""

_Command = TypeVar("_Command", bound=Callable[..., Any])


def wait_options(what: str) -> Callable[[_Command], _Command]:
    """Adds `--wait` and `--timeout`, which arrive as `wait` and `timeout`."""

    def added(command: _Command) -> _Command:
        for option in (
            click.option(
                "--timeout",
                type=click.FloatRange(min=0),
                default=WAIT_SECONDS,
                show_default=True,
                metavar="SECONDS",
                help="How long --wait may take.",
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
    client: "Client", feeds: "Sequence[Feed]", *, hear: "Hear", look: Look, seconds: float
) -> None:
    """Until ``look`` finds nothing missing. Raises NegativeAnswerError when the time is up, KubeErrors."""
    from fairway.cli.client.watch import following

    loop = asyncio.get_running_loop()
    told = ""
    sys.stdout.flush()  # what was done so far, whoever reads it
    async with following(client, feeds, hear) as bell:
        began = loop.time()
        deadline = began + seconds
        while missing := look():
            words, now = named(missing), loop.time()
            if now >= deadline:
                raise NegativeAnswerError(NOT_DONE.format(seconds=seconds, what=words))
            quiet = began + QUIET_SECONDS - now
            if quiet <= 0 and words != told:
                told = words
                say(WAITING.format(what=words), stream=sys.stderr)
                sys.stderr.flush()
            left = deadline - now
            await bell.wait(min(left, quiet) if quiet > 0 else left)
            await asyncio.sleep(min(PACE_SECONDS, max(0.0, deadline - loop.time())))


def named(missing: Mapping[str, str]) -> str:
    """In one line, however many they are, and whatever others wrote into them."""
    shown = [f"{cell(name)} ({cell(why)})" for name, why in list(missing.items())[:NAMED]]
    if len(missing) > NAMED:
        shown.append(MORE.format(count=len(missing) - NAMED))
    return ", ".join(shown)
