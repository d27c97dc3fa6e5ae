"""Replace the certificate authority and the token key of a stopped hub."""

import contextlib
from pathlib import Path
from typing import Final

from kubehub.authn.jwt import KEY_FILE, Key
from kubehub.backup import require_data
from kubehub.hub import NOTED_AUTHORITY, NOTED_TOKEN_KEY, PKI
from kubehub.pki.certificates import CertificateFault
from kubehub.pki.hub_certificates import (
    AUTHORITY_CERTIFICATE_FILE,
    AUTHORITY_FILE,
    Certificates,
    read_authority,
)
from kubehub.storage.entry import Unreadable
from kubehub.storage.lock import Lock
from kubehub.storage.log import FILE, Log

OLD: Final = ".old"
"""Suffix of the files that were replaced."""


def replace_keys(data: Path, *, everything: bool) -> tuple[str, ...]:
    """Replace missing and unusable keys, or all, and return their file names. Raises StoreErrors and CertificateFaults.

    Running it again after a crash completes it.
    """
    require_data(data)
    lock = Lock(data)
    try:
        with contextlib.closing(Log.open(data / FILE)) as log:
            if log.sealed is not None:
                raise Unreadable(log.path, detail=log.sealed)
            folder, replaced = data / PKI, []
            authority, token_key = log.notes.get(NOTED_AUTHORITY), log.notes.get(NOTED_TOKEN_KEY)
            try:
                read_authority(folder, expected=True, trusted=authority)
                unusable = everything
            except CertificateFault:
                unusable = True
            if unusable:
                replaced.append(AUTHORITY_FILE)
            try:
                Key.open(folder, expected=True, trusted=token_key)
                unusable = everything
            except CertificateFault:
                unusable = True
            if unusable:
                replaced.append(KEY_FILE)
            for name in replaced:
                _rename_old(folder / name)
            if AUTHORITY_FILE in replaced:
                _rename_old(folder / AUTHORITY_CERTIFICATE_FILE)
            log.note(NOTED_AUTHORITY, Certificates.open(folder).fingerprint)
            log.note(NOTED_TOKEN_KEY, Key.open(folder).id)
    finally:
        lock.release()
    return tuple(replaced)


def _rename_old(path: Path) -> None:
    with contextlib.suppress(FileNotFoundError):
        path.replace(path.with_name(path.name + OLD))
