"""The bootstrap identity of `fairway join`, and the folder of a cluster's identity."""

import base64
import binascii
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from fairway.cli.errors import BadInputError
from kubewire.client import Connection, KubeError, load
from kubewire.client.credentials import StoredCredentials
from kubewire.client.tls import Pem

TWO_WAYS: Final = "--hub-bootstrap-kubeconfig excludes --hub-server and --hub-token"
HALF: Final = (
    "--hub-server and a token require each other: set the token with FAIRWAY_HUB_TOKEN or --hub-token"
)
TWO_AUTHORITIES: Final = "--hub-ca and --hub-ca-data exclude each other"
NO_SERVER: Final = "--hub-ca requires --hub-server"
NOT_BASE64: Final = "--hub-ca-data is not base64; copy it from the output of `fairway join token`"
PLACE: Final = "--hub-server"


@dataclass(frozen=True, slots=True, kw_only=True)
class BootstrapChoice:
    """Options for connecting to a hub with a bootstrap identity."""

    kubeconfig: Path | None = None
    server: str | None = None
    token: str | None = None
    authority: Path | None = None
    authority_data: str | None = None

    def connection(self) -> Connection | None:
        """Return the connection; None without options. Raises BadInputError."""
        # A token in the environment may be left from another command.
        given = self.server is not None or self.authority is not None or self.authority_data is not None
        if self.kubeconfig is not None:
            if given:
                raise BadInputError(TWO_WAYS)
            try:
                return load(self.kubeconfig).context()
            except KubeError as error:
                raise BadInputError(str(error)) from None
        if not given and self.token is None:
            return None
        if self.server is None:
            raise BadInputError(HALF if self.token is not None else NO_SERVER)
        if not self.token:
            raise BadInputError(HALF)
        try:
            return Connection(
                server=self.server.rstrip("/"),
                credentials=StoredCredentials(token=self.token.strip()),
                authority=self._authority(),
                place=PLACE,
            )
        except KubeError as error:
            raise BadInputError(str(error)) from None

    def _authority(self) -> Any:
        if self.authority is not None:
            if self.authority_data is not None:
                raise BadInputError(TWO_AUTHORITIES)
            return Pem(path=str(self.authority), place=str(self.authority), name="--hub-ca")
        if self.authority_data is None:
            return None
        try:
            data = base64.b64decode(self.authority_data, validate=True)
        except binascii.Error:
            raise BadInputError(NOT_BASE64) from None
        return Pem(data=data, place=PLACE, name="--hub-ca-data")


def default_state(name: str) -> Path:
    """Return the default folder of a cluster's identity, in the user's state folder."""
    base = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(base) / "fairway" / "clusters" / name
