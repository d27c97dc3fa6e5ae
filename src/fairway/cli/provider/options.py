"""What `fairway provider run` and `fairway agent run` have in common: names, durations, and where they listen."""

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
    "{given!r} cannot be the name of a cluster: it is at most 63 lower case letters, digits and '-', with a letter or "
    "digit at both ends; write what `fairway get clusters` calls it"
)
BUSY: Final = (
    "a port to listen on is taken ({reason}); give others with --health-address and --metrics-address"
)
NOT_HERE: Final = "cannot listen: {reason}; give addresses of this machine, or off"

_CLUSTER: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_NOT_OURS: Final = (errno.EADDRNOTAVAIL, errno.EACCES, errno.EAFNOSUPPORT)
_Command = TypeVar("_Command", bound=Callable[..., Any])


def cluster_name(text: str) -> str:
    if not _CLUSTER.fullmatch(text):
        raise click.BadParameter(BAD_CLUSTER.format(given=text))
    return text


def duration(text: str | float) -> float | None:
    """Empty is as good as not given: a variable of a template may be."""
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
    """Adds `--metrics-address` and `--health-address`."""
    for name, default, words in (
        ("--health-address", HEALTH, "Health, at /livez and /readyz"),
        ("--metrics-address", METRICS, "Metrics for Prometheus, at /metrics"),
    ):
        command = address_option(name, default, words)(command)
    return command


@contextmanager
def listening() -> Iterator[None]:
    """Around what listens at those: whatever keeps it from that is told in words."""
    try:
        yield
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise BadInputError(BUSY.format(reason=error.strerror)) from None
        if error.errno in _NOT_OURS or isinstance(error, socket.gaierror):
            raise BadInputError(NOT_HERE.format(reason=error.strerror)) from None
        raise
