"""Error messages of `fairway join`: what failed and what to do."""

from datetime import UTC, datetime
from typing import Final

from fairway.cli.client.messages import explain_error, is_unconfigured
from fairway.cli.options.hub import HubChoice
from kubewire.api.meta import format_time
from kubewire.client import Connection
from kubewire.client.errors import (
    ConfigError,
    CredentialError,
    Forbidden,
    KubeError,
    NotFound,
    TransportError,
    Unauthorized,
    UntrustedError,
)

NO_CLUSTER: Final = "no kubeconfig of the joining cluster found; set --kubeconfig or KUBECONFIG"
CLUSTER_CONFIG: Final = "kubeconfig of the joining cluster: {why}"
CLUSTER_UNREACHABLE: Final = "cannot reach the joining cluster: {why}; check {place}"
CLUSTER_REFUSES: Final = (
    "access to the joining cluster denied: {why}; the klusterlet needs cluster-admin there, check the "
    "user in {place}"
)
HUB_UNREACHABLE: Final = "{why}; check that the hub is running and that the address is right"
PLAIN: Final = "{why}; {server} is not TLS, and hubs serve TLS only: try https://"
UNTRUSTED: Final = "{why}; set the hub's certificate authority with --hub-ca"
CLOCK: Final = "{why}; check the clock of this machine, which shows {now}"
TOKEN_REJECTED: Final = (
    "the token was rejected by hub {server} (401): expired, or for another hub; create a new one there with "
    "`fairway join token`"
)
TOKEN_WITHOUT_RIGHTS: Final = (
    "the token has no permission to join clusters on hub {server}: {why}; "
    "create one there with `fairway join token`"
)
NO_HUB: Final = (
    "{server} does not serve ManagedClusters, so it is not a hub; to make it one, run there: "
    "fairway crds | kubectl apply -f -"
)


def cluster_message(error: Exception, connection: Connection | None = None) -> str:
    if isinstance(error, KubeError) and is_unconfigured(error):
        return NO_CLUSTER
    place = "the kubeconfig" if connection is None else connection.place or "the kubeconfig"
    if isinstance(error, Unauthorized | Forbidden):
        return CLUSTER_REFUSES.format(why=error.message, place=place)
    if isinstance(error, ConfigError | CredentialError):
        return CLUSTER_CONFIG.format(why=error)
    if isinstance(error, UntrustedError) and _is_time_error(error):
        return CLOCK.format(why=error, now=format_time(datetime.now(UTC)))
    return CLUSTER_UNREACHABLE.format(why=error, place=place)


def hub_message(error: KubeError, connection: Connection, *, joining: bool = False) -> str:
    """``joining``: the request used a bootstrap identity."""
    server = connection.server
    match error:
        case UntrustedError() if _is_time_error(error):
            return CLOCK.format(why=error, now=format_time(datetime.now(UTC)))
        case UntrustedError():
            return UNTRUSTED.format(why=error)
        case TransportError() if error.sent and server.startswith("http://"):
            return PLAIN.format(why=error, server=server)
        case TransportError():
            return HUB_UNREACHABLE.format(why=error)
        case Unauthorized() if joining:
            return TOKEN_REJECTED.format(server=server)
        case Forbidden() if joining:
            return TOKEN_WITHOUT_RIGHTS.format(server=server, why=error.message)
        case NotFound() if joining and not error.details.name:
            return NO_HUB.format(server=server)
    return explain_error(error, hub=HubChoice(), connection=connection)


def _is_time_error(error: UntrustedError) -> bool:
    """Whether a certificate is not valid at this time. OpenSSL reports that only in its message."""
    return "not yet valid" in str(error) or "has expired" in str(error)
