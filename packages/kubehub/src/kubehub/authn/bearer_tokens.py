"""Unsigned bearer tokens: those of a static file, and bootstrap tokens in secrets."""

import csv
import hashlib
import hmac
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from kubehub.authn.service_account_tokens import secret_data
from kubehub.object_reader import ObjectReader
from kubehub.user import User

BOOTSTRAPPERS: Final = "system:bootstrappers"
BOOTSTRAP_TYPE: Final = "bootstrap.kubernetes.io/token"
TOO_FEW_COLUMNS: Final = (
    "record {record} must have at least 3 columns (token, user name, user uid), found {found}"
)

_BOOTSTRAP: Final = re.compile(r"([a-z0-9]{6})\.([a-z0-9]{16})")
_EXTRA_GROUP: Final = re.compile(r"system:bootstrappers:[a-z0-9:-]{0,255}[a-z0-9]")


class TokenFileFault(Exception):
    """The token file can't be used. The message contains the line number, never the line."""


class StaticTokens:
    """Tokens of a file, kept as digests, so that the time of a lookup reveals nothing about other tokens."""

    def __init__(self, users: Mapping[bytes, User] | None = None) -> None:
        self._users = dict(users or {})

    @classmethod
    def read(cls, path: Path) -> "StaticTokens":
        """Read lines of ``token,user,uid,"group1,group2"``; the last line with a token wins."""
        users: dict[bytes, User] = {}
        with path.open(newline="", encoding="utf-8") as file:
            for number, record in enumerate(filter(None, csv.reader(file)), start=1):
                if len(record) < 3:
                    raise TokenFileFault(TOO_FEW_COLUMNS.format(record=number, found=len(record)))
                token, name, uid, *groups = record
                if token:
                    listed = tuple(groups[0].split(",")) if groups else ()
                    users[_digest(token)] = User(name=name, uid=uid, groups=listed)
        return cls(users)

    def authenticate(self, token: str) -> User | None:
        return self._users.get(_digest(token))


def bootstrap_user(token: str, *, objects: ObjectReader, now: datetime) -> User | None:
    """Return the user of the token ``<id>.<secret>``, from the secret kube-system/bootstrap-token-<id>."""
    parts = _BOOTSTRAP.fullmatch(token)
    if parts is None:
        return None
    identifier, given = parts.groups()
    secret = objects.document("secrets", "kube-system", f"bootstrap-token-{identifier}")
    if (
        secret is None
        or secret["metadata"].get("deletionTimestamp")
        or secret.get("type") != BOOTSTRAP_TYPE
        or not hmac.compare_digest(secret_data(secret, "token-secret"), given.encode())
        or secret_data(secret, "token-id") != identifier.encode()
        or not _is_current(secret_data(secret, "expiration"), now)
        or secret_data(secret, "usage-bootstrap-authentication") != b"true"
    ):
        return None
    groups = {BOOTSTRAPPERS}
    if extra := secret_data(secret, "auth-extra-groups"):
        listed = extra.decode(errors="replace").split(",")
        if not all(map(_EXTRA_GROUP.fullmatch, listed)):
            return None
        groups.update(listed)
    return User(name=f"system:bootstrap:{identifier}", groups=tuple(sorted(groups)))


def _is_current(expiration: bytes, now: datetime) -> bool:
    """Treat an invalid time as past."""
    if not expiration:
        return True
    try:
        moment = datetime.fromisoformat(expiration.decode())
    except ValueError:
        return False
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)) > now


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode(errors="surrogateescape")).digest()
