"""Options that `fairway provider run` and `fairway agent run` share, and the file of `--config`."""

import errno
import re
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from fairway.cli.errors import BadInputError
from fairway.cli.options.serving import HEALTH, METRICS, address_option

if TYPE_CHECKING:
    from fairway.providers.document import Document

BAD_CLUSTER: Final = (
    "{given!r} is not a valid cluster name: use at most 63 lower-case letters, digits and '-', starting and ending "
    "with a letter or digit; `fairway get clusters` lists the names"
)
NOT_OPTIONS: Final = "{path}: the options of a provider must be a mapping of names to values"
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


def publishing_options(command: _Command) -> _Command:
    """Add `--interval`, `--valid-for`, `--adopt` and `--managed-cluster-scores`."""
    for option in (
        click.option(
            "--managed-cluster-scores", is_flag=True, help="Also publish raw values as ManagedClusterScores."
        ),
        click.option(
            "--adopt", is_flag=True, help="Take over existing scores of the same name from another publisher."
        ),
        click.option(
            "--valid-for",
            type=duration,
            metavar="DURATION",
            help="How long a score is valid after its reading.  [default: three intervals, at least 3m]",
        ),
        click.option(
            "--interval",
            type=duration,
            metavar="DURATION",
            help="Time between readings when nothing changes.  [default: the provider's]",
        ),
    ):
        command = option(command)
    return command


def read_options(path: Path) -> "Document":
    """Read the file of `--config`. Raises BadInputError."""
    from fairway.providers.document import DocumentError, read

    try:
        found = read(path)
    except DocumentError as error:
        raise BadInputError(str(error)) from None
    if not isinstance(found.value, dict):
        raise BadInputError(NOT_OPTIONS.format(path=path))
    return found


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
