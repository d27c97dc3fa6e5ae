"""Connect a command to a hub, and turn failures into messages.

Messages always name the hub, because connecting to the wrong one is the usual mistake.
"""

import asyncio
import logging
import sys
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Final, TypeVar

from fairway.cli.client.messages import NO_HUB, explain_error, is_unconfigured
from fairway.cli.errors import BadInputError, CommandError
from fairway.cli.options.hub import HubChoice
from fairway.cli.text import cell, say
from fairway.observe.logs import OWN_LOGGERS
from fairway.whatif.names import suggestion
from kubewire.client import Client, Connection, KubeError

NOTE: Final = "fairway: {text}"
NO_SUCH: Final = "{what} {name} not found{where}; {hint}"
IN_NAMESPACE: Final = " in namespace {namespace}"
HUB_HAS_NONE: Final = "the hub has none"
NAMESPACE_HAS_NONE: Final = "the namespace has none; select another with -n"

_Result = TypeVar("_Result")


class HubError(CommandError):
    """The hub is unreachable or refused a request."""


class NoHubError(HubError):
    """No kubeconfig was found."""


def connection_to(hub: HubChoice) -> Connection:
    """Return the address and credentials of the hub. Raises HubError."""
    try:
        return Client.from_environment(hub.kubeconfig, context=hub.context).connection
    except KubeError as error:
        if is_unconfigured(error):
            raise NoHubError(NO_HUB) from None
        raise HubError(str(error)) from None


def unknown(what: str, name: str, known: Iterable[str], *, namespace: str = "") -> BadInputError:
    """Return the error for an unknown name, with similar names."""
    names = sorted(set(known))
    where = IN_NAMESPACE.format(namespace=namespace) if namespace else ""
    none = NAMESPACE_HAS_NONE if namespace else HUB_HAS_NONE
    hint = suggestion(name, names) if names else none
    return BadInputError(NO_SUCH.format(what=what, name=cell(name), where=where, hint=hint))


def talk(hub: HubChoice, work: Callable[[Client], Awaitable[_Result]]) -> _Result:
    """Run ``work`` with a client of the hub. Raises HubError for KubeErrors."""
    connection = connection_to(hub)

    async def at_work() -> _Result:
        async with Client(connection) as client:
            return await work(client)

    with client_warnings(), hub_errors(hub, connection):
        return asyncio.run(at_work())


@contextmanager
def hub_errors(hub: HubChoice, connection: Connection) -> Iterator[None]:
    """Raise KubeErrors as HubErrors with a message that names the remedy."""
    try:
        yield
    except KubeError as error:
        raise HubError(explain_error(error, hub=hub, connection=connection)) from error


@contextmanager
def client_warnings() -> Iterator[None]:
    """Print warnings of the client to stderr, one line each."""
    handler = _WarningPrinter()
    loggers = [logging.getLogger(name) for name in OWN_LOGGERS]
    for logger in loggers:
        logger.addHandler(handler)
    try:
        yield
    finally:
        for logger in loggers:
            logger.removeHandler(handler)


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
