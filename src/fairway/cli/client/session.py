"""Connect a command to a hub, and turn failures into messages.

Messages always name the hub, because connecting to the wrong one is the usual mistake.
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
NO_SUCH: Final = "{what} {name} not found{where}; {hint}"
IN_NAMESPACE: Final = " in namespace {namespace}"
HUB_HAS_NONE: Final = "the hub has none"
NAMESPACE_HAS_NONE: Final = "the namespace has none; select another with -n"

_Command = TypeVar("_Command", bound=Callable[..., Any])
_Result = TypeVar("_Result")


class HubError(CommandError):
    """The hub is unreachable or refused a request."""


class NoHubError(HubError):
    """No kubeconfig was found."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HubChoice:
    """The options that select a hub; without them it is found as kubectl does."""

    kubeconfig: str | None = None
    context: str | None = None

    @property
    def given(self) -> bool:
        return self.kubeconfig is not None or self.context is not None

    @property
    def kubectl(self) -> str:
        """The kubectl command for the same hub."""
        words = ["kubectl"]
        if self.kubeconfig is not None:
            words += ["--kubeconfig", self.kubeconfig]
        if self.context is not None:
            words += ["--context", self.context]
        return shlex.join(words)

    def connection(self) -> "Connection":
        """Raises HubError."""
        from fairway.cli.client.messages import NO_HUB, is_unconfigured
        from fairway.kube import Client, KubeError

        try:
            return Client.from_environment(self.kubeconfig, context=self.context).connection
        except KubeError as error:
            if is_unconfigured(error):
                raise NoHubError(NO_HUB) from None
            raise HubError(str(error)) from None


def unknown(what: str, name: str, known: Iterable[str], *, namespace: str = "") -> BadInputError:
    """Return the error for an unknown name, with similar names."""
    from fairway.whatif.names import suggestion

    names = sorted(set(known))
    where = IN_NAMESPACE.format(namespace=namespace) if namespace else ""
    none = NAMESPACE_HAS_NONE if namespace else HUB_HAS_NONE
    hint = suggestion(name, names) if names else none
    return BadInputError(NO_SUCH.format(what=what, name=cell(name), where=where, hint=hint))


def hub_options(command: _Command) -> _Command:
    """Add `--kubeconfig` and `--context`, passed together as `hub`, a HubChoice.

    Must be the decorator next to the function.
    """

    @wraps(command)
    def chosen(*arguments: Any, kubeconfig: str | None, context: str | None, **options: Any) -> Any:
        return command(*arguments, hub=HubChoice(kubeconfig=kubeconfig, context=context), **options)

    wrapped = cast("_Command", chosen)
    for option in (
        click.option(
            "--context", metavar="NAME", help="Context of the kubeconfig.  [default: the current one]"
        ),
        click.option(
            "--kubeconfig",
            metavar="FILE",
            type=click.Path(),
            help="Kubeconfig of the hub.  [default: $KUBECONFIG, ~/.kube/config, the pod's service account]",
        ),
    ):
        wrapped = option(wrapped)
    return wrapped


def talk(hub: HubChoice, work: "Callable[[Client], Awaitable[_Result]]") -> _Result:
    """Run ``work`` with a client of the hub. Raises HubError for KubeErrors."""
    from fairway.kube import Client

    connection = hub.connection()

    async def at_work() -> _Result:
        async with Client(connection) as client:
            return await work(client)

    with client_warnings(), hub_errors(hub, connection):
        return asyncio.run(at_work())


@contextmanager
def hub_errors(hub: HubChoice, connection: "Connection") -> Iterator[None]:
    """Raise KubeErrors as HubErrors with a message that names the remedy."""
    from fairway.cli.client.messages import explain_error
    from fairway.kube import KubeError

    try:
        yield
    except KubeError as error:
        raise HubError(explain_error(error, hub=hub, connection=connection)) from error


@contextmanager
def client_warnings() -> Iterator[None]:
    """Print warnings of the client to stderr, one line each."""
    handler = _WarningPrinter()
    log = logging.getLogger("fairway")
    log.addHandler(handler)
    try:
        yield
    finally:
        log.removeHandler(handler)


class _WarningPrinter(logging.Handler):
    """Prints log messages without tracebacks."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)

    def emit(self, record: logging.LogRecord) -> None:
        try:
            say(NOTE.format(text=record.getMessage()), stream=sys.stderr)
            sys.stderr.flush()
        except (OSError, ValueError):
            return  # stderr is closed
