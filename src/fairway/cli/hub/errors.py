"""Errors of the hub's data and keys, as errors of a command."""

import contextlib
from collections.abc import Iterator

from fairway.cli.errors import BadInputError
from kubehub import CertificateFault, StoreError


@contextlib.contextmanager
def store_errors() -> Iterator[None]:
    """Raise StoreErrors and CertificateFaults as BadInputErrors; their messages are written for users."""
    try:
        yield
    except (StoreError, CertificateFault) as fault:
        raise BadInputError(str(fault)) from fault
