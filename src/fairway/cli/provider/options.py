"""Options that `fairway provider run` and `fairway agent run` share: names, durations, addresses."""

import errno
import re
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final, TypeVar

import click

from fairway.cli.errors import BadInputError
from fairway.cli.options.serving import HEALTH, METRICS, address_option

BAD_CLUSTER: Final = (
    "{given!r} is not a valid cluster name: use at most 63 lower-case letters, digits and '-', starting and ending "
    "with a letter or digit; `fairway get clusters` lists the names"
)
BUSY: Final = "a port is in use ({reason}); set other ones with --health-address and --metrics-address"
NOT_HERE: Final = "cannot listen: {reason}; use addresses of this machine, or off"

_CLUSTER: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_NOT_OURS: Final = (errno.EADDRNOTAVAIL, errno.EACCES, errno.EAFNOSUPPORT)
_Command = TypeVar("_Command", bound=Callable[..., Any])


def cluster_name(text: str) -> str:
    if not _CLUSTER.fullmatch(text):
        raise click.BadParameter(BAD_CLUSTER.format(given=text))
    return text


def duration(text: str | float) -> float | None:
    """Parse a duration. An empty text, as from an unset template variable, is None."""
    from fairway.providers.document import Seconds

    if not isinstance(text, str):
        return text
    if not text.strip():
        return None
    try:
        return float(Seconds.parse(float(text) if text.replace(".", "", 1).isdigit() else text))
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


def addresses(command: _Command) -> _Command:
    """Add `--metrics-address` and `--health-address`."""
    for name, default, what in (
        ("--health-address", HEALTH, "Serve health checks at /livez and /readyz"),
        ("--metrics-address", METRICS, "Serve Prometheus metrics at /metrics"),
    ):
        command = address_option(name, default, what)(command)
    return command


@contextmanager
def listening() -> Iterator[None]:
    """Raise failures to listen as BadInputErrors."""
    try:
        yield
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise BadInputError(BUSY.format(reason=error.strerror)) from None
        if error.errno in _NOT_OURS or isinstance(error, socket.gaierror):
            raise BadInputError(NOT_HERE.format(reason=error.strerror)) from None
        raise
