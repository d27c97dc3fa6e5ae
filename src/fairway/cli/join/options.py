"""Options of `fairway join` and its subcommands."""

import base64
import binascii
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from fairway.cli.errors import BadInputError

if TYPE_CHECKING:
    from fairway.kube import Connection

TWO_WAYS: Final = "--hub-bootstrap-kubeconfig excludes --hub-server and --hub-token"
HALF: Final = (
    "--hub-server and a token require each other: set the token with FAIRWAY_HUB_TOKEN or --hub-token"
)
TWO_AUTHORITIES: Final = "--hub-ca and --hub-ca-data exclude each other"
NO_SERVER: Final = "--hub-ca requires --hub-server"
NOT_BASE64: Final = "--hub-ca-data is not base64; copy it from the output of `fairway join token`"
PLACE: Final = "--hub-server"
TOKEN_VARIABLE: Final = "FAIRWAY_HUB_TOKEN"

_Command = TypeVar("_Command", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True, kw_only=True)
class BootstrapChoice:
    """Options for connecting to a hub with a bootstrap identity."""

    kubeconfig: Path | None = None
    server: str | None = None
    token: str | None = None
    authority: Path | None = None
    authority_data: str | None = None

    def connection(self) -> "Connection | None":
        """Return the connection; None without options. Raises BadInputError."""
        from fairway.kube import Connection, KubeError, load
        from fairway.kube.credentials import StoredCredentials

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

    def _authority(self) -> "Any":
        from fairway.kube.tls import Pem

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


def state_option(command: _Command) -> _Command:
    option = click.option(
        "--state",
        type=click.Path(file_okay=False, path_type=Path),
        metavar="DIR",
        help="Folder of the cluster's identity.  [default: ~/.local/state/fairway/clusters/NAME]",
    )
    return option(command)


def cluster_options(command: _Command) -> _Command:
    """Add `--kubeconfig` and `--context` of the cluster; the latter is passed as `cluster_context`."""
    for option in (
        click.option(
            "--context",
            "cluster_context",
            metavar="NAME",
            help="Context of that kubeconfig.  [default: the current one]",
        ),
        click.option(
            "--kubeconfig",
            metavar="FILE",
            type=click.Path(),
            help="Kubeconfig of the joining cluster.  [default: $KUBECONFIG, ~/.kube/config, the pod's "
            "service account]",
        ),
    ):
        command = option(command)
    return command
