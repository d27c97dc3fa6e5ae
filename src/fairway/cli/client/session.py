"""A live hub: how a command is told which one, talks to it, and puts what goes wrong into words.

The words always name the hub, because the usual mistake is to be at another one than one thinks.
"""

import asyncio
import logging
import shlex
import sys
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import wraps
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

import click

from fairway.cli.errors import BadInputError, CommandError
from fairway.cli.output import cell, say

if TYPE_CHECKING:
    from fairway.kube import Client, Connection

NOTE: Final = "fairway: {text}"
NO_SUCH: Final = "there is no {what} {name}{where}; {hint}"
IN_NAMESPACE: Final = " in namespace {namespace}"
HUB_HAS_NONE: Final = "the hub has none"
NAMESPACE_HAS_NONE: Final = "that namespace has none; -n names another"

_Command = TypeVar("_Command", bound=Callable[..., Any])
_Result = TypeVar("_Result")


class HubError(CommandError):
    """The hub cannot be reached, or refuses."""


class NoHubError(HubError):
    """Nothing says where a hub is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HubChoice:
    """What was said about which hub is meant; nothing, usually, and then it is found as kubectl finds it."""

    kubeconfig: str | None = None
    context: str | None = None

    @property
    def given(self) -> bool:
        return self.kubeconfig is not None or self.context is not None

    @property
    def kubectl(self) -> str:
        """How to call kubectl for the same hub."""
        words = ["kubectl"]
        if self.kubeconfig is not None:
            words += ["--kubeconfig", self.kubeconfig]
        if self.context is not None:
            words += ["--context", self.context]
        return shlex.join(words)

    def connection(self) -> "Connection":
        """Raises HubError."""
        from fairway.cli.client.messages import NO_HUB, is_nowhere
        from fairway.kube import Client, KubeError

        try:
            return Client.from_environment(self.kubeconfig, context=self.context).connection
        except KubeError as error:
            if is_nowhere(error):
                raise NoHubError(NO_HUB) from None
            raise HubError(str(error)) from None


def unknown(what: str, name: str, known: Iterable[str], *, namespace: str = "") -> BadInputError:
    """The complaint about a name that nothing on the hub bears, with those that are like it."""
    from fairway.whatif.names import suggestion

    names = sorted(set(known))
    where = IN_NAMESPACE.format(namespace=namespace) if namespace else ""
    none = NAMESPACE_HAS_NONE if namespace else HUB_HAS_NONE
    hint = suggestion(name, names) if names else none
    return BadInputError(NO_SUCH.format(what=what, name=cell(name), where=where, hint=hint))


def hub_options(command: _Command) -> _Command:
    """Adds `--kubeconfig` and `--context`; they arrive together as `hub`, a HubChoice.

    It belongs below the other options, next to the function.
    """

    @wraps(command)
    def chosen(*arguments: Any, kubeconfig: str | None, context: str | None, **options: Any) -> Any:
        return command(*arguments, hub=HubChoice(kubeconfig=kubeconfig, context=context), **options)

    wrapped = cast("_Command", chosen)
    for option in (
        click.option(
            "--context", metavar="NAME", help="The context of the kubeconfig.  [default: its current]"
        ),
        click.option(
            "--kubeconfig",
            metavar="FILE",
            type=click.Path(),
            help="How to reach the hub.  [default: $KUBECONFIG, ~/.kube/config, the pod's own]",
        ),
    ):
        wrapped = option(wrapped)
    return wrapped


def talk(hub: HubChoice, work: "Callable[[Client], Awaitable[_Result]]") -> _Result:
    """Runs ``work`` with a client of the hub. Raises HubError for whatever the hub or the way to it refuses."""
    from fairway.kube import Client

    connection = hub.connection()

    async def at_work() -> _Result:
        async with Client(connection) as client:
            return await work(client)

    with notes(), in_words(hub, connection):
        return asyncio.run(at_work())


@contextmanager
def in_words(hub: HubChoice, connection: "Connection") -> Iterator[None]:
    """Turns KubeErrors into HubErrors that say what to do."""
    from fairway.cli.client.messages import told
    from fairway.kube import KubeError

    try:
        yield
    except KubeError as error:
        raise HubError(told(error, hub=hub, connection=connection)) from error


@contextmanager
def notes() -> Iterator[None]:
    """What the client finds worth a warning goes to stderr, a line each."""
    handler = _Notes()
    log = logging.getLogger("fairway")
    log.addHandler(handler)
    try:
        yield
    finally:
        log.removeHandler(handler)


class _Notes(logging.Handler):
    """Without tracebacks: what is worth one ends the command."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)

    def emit(self, record: logging.LogRecord) -> None:
        try:
            say(NOTE.format(text=record.getMessage()), stream=sys.stderr)
            sys.stderr.flush()
        except (OSError, ValueError):
            return  # nobody reads it
