"""What the commands about the hub's data have in common: its faults as errors of a command, and privacy."""

import contextlib
import os
from collections.abc import Iterator

from fairway.cli.errors import BadInputError
from fairway.hub.pki.certificates import CertificateFault
from fairway.hub.storage.entry import StoreError


@contextlib.contextmanager
def told() -> Iterator[None]:
    """Their words are made to be read by who called the command."""
    try:
        yield
    except (StoreError, CertificateFault) as fault:
        raise BadInputError(str(fault)) from fault


@contextlib.contextmanager
def private() -> Iterator[None]:
    """Files made meanwhile are for their owner only, whoever makes them."""
    before = os.umask(0o077)
    try:
        yield
    finally:
        os.umask(before)
