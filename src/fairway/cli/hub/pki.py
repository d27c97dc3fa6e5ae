"""`fairway hub renew-pki`: replace a hub's keys on purpose, which it never does by itself."""

import contextlib
from pathlib import Path
from typing import Final

import click

from fairway.cli.output import OutputFormat, emit, output_option, say

OLD: Final = ".old"
REPLACED: Final = "{folder}: replaced {names}; the files before end in .old"
NOTHING: Final = "{folder}: nothing is missing or unusable; --all replaces the keys all the same"
CONSEQUENCES: Final = {
    "ca.pem": "Client certificates and kubeconfigs issued so far are rejected: hand out new kubeconfigs and join "
    "clusters again.",
    "tokens.pem": "Service account tokens issued so far are rejected; token Secrets get new ones when the hub starts.",
}


@click.command(
    "renew-pki",
    short_help="Replace a hub's keys on purpose.",
    epilog="""\b
Examples:
  fairway hub renew-pki --data ./hub                        replace what is missing or unusable
  fairway hub renew-pki --data ./hub --all                  replace everything, as after a leak

The hub must be stopped. If you have a backup, `fairway hub restore` brings the old keys back instead.
""",
)
@click.option(
    "--data",
    required=True,
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    metavar="DIR",
    help="The hub's folder.",
)
@click.option("--all", "everything", is_flag=True, help="Also replace keys that are in order.")
@output_option
def renew_pki(data: Path, everything: bool, output: OutputFormat) -> None:
    """Replace the certificate authority and the key of service account tokens, if missing or unusable.

    Certificates that merely expire need no command: a hub renews them while it runs.
    """
    from fairway.cli.hub.faults import private, told

    with told(), private():
        names = replace_keys(data, everything=everything)
    if output != "table":
        emit((), columns={}, output=output, document={"data": str(data), "replaced": list(names)})
    elif not names:
        say(NOTHING.format(folder=data))
    else:
        say(REPLACED.format(folder=data / "pki", names=" and ".join(names)))
        for name in names:
            say(CONSEQUENCES[name])


def replace_keys(data: Path, *, everything: bool) -> tuple[str, ...]:
    """The files replaced. Done again after a crash, it starts over. Raises StoreErrors and CertificateFaults."""
    from fairway.cli.hub.backup import require_data
    from fairway.hub.authn.jwt import KEY_FILE, Key
    from fairway.hub.hub import NOTED_AUTHORITY, NOTED_TOKEN_KEY, PKI
    from fairway.hub.pki.certificates import CertificateFault
    from fairway.hub.pki.hub_certificates import (
        AUTHORITY_CERTIFICATE_FILE,
        AUTHORITY_FILE,
        Certificates,
        read_authority,
    )
    from fairway.hub.storage.entry import Unreadable
    from fairway.hub.storage.lock import Lock
    from fairway.hub.storage.log import FILE, Log

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
                _put_aside(folder / name)
            if AUTHORITY_FILE in replaced:
                _put_aside(folder / AUTHORITY_CERTIFICATE_FILE)
            log.note(NOTED_AUTHORITY, Certificates.open(folder).fingerprint)
            log.note(NOTED_TOKEN_KEY, Key.open(folder).id)
    finally:
        lock.release()
    return tuple(replaced)


def _put_aside(path: Path) -> None:
    with contextlib.suppress(FileNotFoundError):
        path.replace(path.with_name(path.name + OLD))
