"""What `fairway join` and the commands below it are told, and mistakes in that."""

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

MISPLACED: Final = (
    "{options}: for joining, not for `fairway join {command}`; give that command's own options after its name"
)
TWO_WAYS: Final = "give --hub-bootstrap-kubeconfig, or --hub-server and --hub-token, not both"
HALF: Final = (
    "--hub-server and a token belong together: give both, the token as --hub-token, "
    "or better as FAIRWAY_HUB_TOKEN"
)
TWO_AUTHORITIES: Final = "give --hub-ca or --hub-ca-data, not both"
NO_SERVER: Final = "--hub-ca belongs to --hub-server: give that, too"
NOT_BASE64: Final = "--hub-ca-data is not base64; `fairway join token` prints it as it should be"
PLACE: Final = "--hub-server"
TOKEN_VARIABLE: Final = "FAIRWAY_HUB_TOKEN"

_Command = TypeVar("_Command", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True, kw_only=True)
class BootstrapChoice:
    """How to reach a hub as somebody who may introduce clusters."""

    kubeconfig: Path | None = None
    server: str | None = None
    token: str | None = None
    authority: Path | None = None
    authority_data: str | None = None

    def connection(self) -> "Connection | None":
        """None if nothing was said. Raises BadInputError."""
        from fairway.kube import Connection, KubeError, load
        from fairway.kube.credentials import StoredCredentials

        # The token may come from the environment, where it need not be meant.
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
    """Where programs of a user keep what they must not forget."""
    base = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(base) / "fairway" / "clusters" / name


def state_option(command: _Command) -> _Command:
    option = click.option(
        "--state",
        type=click.Path(file_okay=False, path_type=Path),
        metavar="DIR",
        help="Where the identity is kept.  [default: ~/.local/state/fairway/clusters/NAME]",
    )
    return option(command)


def cluster_options(command: _Command) -> _Command:
    """`--kubeconfig` and `--context`, of the cluster; the latter arrives as `cluster_context`."""
    for option in (
        click.option(
            "--context",
            "cluster_context",
            metavar="NAME",
            help="The context of that kubeconfig.  [default: its current]",
        ),
        click.option(
            "--kubeconfig",
            metavar="FILE",
            type=click.Path(),
            help="How to reach the cluster that joins.  [default: $KUBECONFIG, ~/.kube/config, the pod's own]",
        ),
    ):
        command = option(command)
    return command
