"""What went wrong between a joining cluster, its hub and this command, and what to do about it."""

from datetime import UTC, datetime
from typing import Final

from fairway.api.meta import format_time
from fairway.cli.client.messages import is_nowhere, told
from fairway.cli.client.session import HubChoice
from fairway.kube import Connection
from fairway.kube.errors import (
    ConfigError,
    CredentialError,
    Forbidden,
    KubeError,
    NotFound,
    TransportError,
    Unauthorized,
    UntrustedError,
)

NO_CLUSTER: Final = "which cluster joins? there is no kubeconfig; give one with --kubeconfig or in KUBECONFIG"
CLUSTER_CONFIG: Final = "how to reach the cluster that joins: {why}"
CLUSTER_UNREACHABLE: Final = "the cluster that joins cannot be talked to: {why}; see what {place} names"
CLUSTER_REFUSES: Final = (
    "the cluster that joins does not let you in as you are: {why}; a klusterlet needs the rights of an administrator "
    "there, see what {place} says about the user"
)
HUB_UNREACHABLE: Final = "{why}; is the hub running, and is that its address?"
PLAIN: Final = "{why}; a hub that is asked in the clear at {server} does not answer: try https://"
UNTRUSTED: Final = "{why}; give the authority of the hub with --hub-ca"
CLOCK: Final = "{why}; is the clock of this machine right? It says {now}"
TOKEN_REJECTED: Final = (
    "hub {server} does not know who asks (401): the token has run out, or belongs to another hub; make a new one "
    "there with `fairway join token`"
)
TOKEN_WITHOUT_RIGHTS: Final = (
    "hub {server} does not let the token introduce clusters: {why}; "
    "`fairway join token`, run there, makes one that may"
)
NO_HUB: Final = (
    "{server} knows no ManagedClusters, so it is no hub; if it should be one, run there: "
    "fairway crds | kubectl apply -f -"
)


def cluster_words(error: Exception, connection: Connection | None = None) -> str:
    if isinstance(error, KubeError) and is_nowhere(error):
        return NO_CLUSTER
    place = "the kubeconfig" if connection is None else connection.place or "the kubeconfig"
    if isinstance(error, Unauthorized | Forbidden):
        return CLUSTER_REFUSES.format(why=error.message, place=place)
    if isinstance(error, ConfigError | CredentialError):
        return CLUSTER_CONFIG.format(why=error)
    if isinstance(error, UntrustedError) and _is_of_time(error):
        return CLOCK.format(why=error, now=format_time(datetime.now(UTC)))
    return CLUSTER_UNREACHABLE.format(why=error, place=place)


def hub_words(error: KubeError, connection: Connection, *, joining: bool = False) -> str:
    """``joining``: it was asked with a bootstrap identity."""
    server = connection.server
    match error:
        case UntrustedError() if _is_of_time(error):
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
    return told(error, hub=HubChoice(), connection=connection)


def _is_of_time(error: UntrustedError) -> bool:
    """Whether a certificate is good at another time than now. OpenSSL has words for it, and no name."""
    return "not yet valid" in str(error) or "has expired" in str(error)
