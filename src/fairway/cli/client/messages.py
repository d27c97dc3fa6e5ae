"""What went wrong between a command and the hub, and what to do about it."""

import re
from typing import TYPE_CHECKING, Final

from fairway.api.crd import GROUP, RESOURCES
from fairway.kube.connection import NOT_IN_A_POD, Connection
from fairway.kube.errors import (
    ApiError,
    BadRequest,
    ConfigError,
    CredentialError,
    Forbidden,
    KubeError,
    NotFound,
    TransportError,
    Unauthorized,
    UnreadableError,
    UntrustedError,
)

if TYPE_CHECKING:
    from fairway.cli.client.session import HubChoice

NO_HUB: Final = (
    "no hub to talk to: there is no kubeconfig; give one with --kubeconfig or in KUBECONFIG, "
    "or start a hub of your own with `fairway up`"
)
UNREACHABLE: Final = "{why}; is the hub of {place} running? --context names another one"
UNTRUSTED: Final = "{why} (in {place})"
UNKNOWN_TO_HUB: Final = (
    "hub {server} does not know you (401): what {place} says about the user has run out or belongs to another "
    "hub; log in anew, or name another context with --context"
)
FORBIDDEN: Final = (
    "hub {server} does not let {user} {verb} {resource}{where}; somebody who may can grant it:\n{grant}"
)
GRANT: Final = (
    "  kubectl create {role} fairway-{name}{namespace} --verb={verbs} --resource={resources}\n"
    "  kubectl create {role}binding fairway-{name}{namespace} --{role}=fairway-{name} --user={user}"
)
SILENT: Final = "hub {server} does not answer: {why}; try again, or see how it is"
REFUSED: Final = "hub {server} refuses: {why}"
NO_KUBERNETES: Final = (
    "{server} does not answer like a Kubernetes API: {why}; see what the kubeconfig {place} names"
)
NOT_SERVED: Final = (
    "hub {server} does not know {resource}: its CRD is not installed; install them with\n"
    "  fairway crds | {kubectl} apply -f -"
)
OTHER_API: Final = "hub {server} does not know {path}: it is another kind of server, or an old one"

_DENIED: Final = re.compile(
    r'User "(?P<user>[^"]*)" cannot (?P<verb>\w+) resource "(?P<plural>[^"]+)" in API group "(?P<group>[^"]*)"'
    r'(?: in the namespace "(?P<namespace>[^"]+)")?'
)
_PATH: Final = re.compile(
    r"/apis/(?P<group>[^/]+)/(?P<version>[^/]+)/(?:namespaces/[^/]+/)?(?P<plural>[^/]+)(?:/.*)?"
)
_READING: Final = ("get", "list", "watch")
_PLAIN: Final = re.compile(r"[A-Za-z0-9._@:/+=-]+")


def is_nowhere(error: KubeError) -> bool:
    """Whether neither a kubeconfig nor a pod says where the hub is."""
    return isinstance(error, ConfigError) and error.message == NOT_IN_A_POD


def told(error: KubeError, *, hub: "HubChoice", connection: Connection) -> str:
    place = connection.place or "the kubeconfig"
    server = connection.server
    match error:
        case ConfigError() | CredentialError():
            return str(error)
        case UntrustedError():
            return UNTRUSTED.format(why=error, place=place)
        case TransportError() if not error.sent:
            return UNREACHABLE.format(why=error, place=place)
        case TransportError():
            return SILENT.format(server=server, why=error)
        case UnreadableError():
            return NO_KUBERNETES.format(server=server, why=error, place=place)
        case Unauthorized():
            return UNKNOWN_TO_HUB.format(server=server, place=place)
        case Forbidden():
            return _forbidden(error, server=server)
        case NotFound() if not error.details.name:
            return _not_served(error, server=server, kubectl=hub.kubectl)
        case BadRequest():
            return REFUSED.format(server=server, why=error.message)
        case ApiError():
            code = f"{error.code} {error.reason}".rstrip()
            return REFUSED.format(server=server, why=f"{error.message} ({code})")
    return REFUSED.format(server=server, why=error)


def _forbidden(error: Forbidden, *, server: str) -> str:
    """Kubernetes' own words name the right that is missing; an admission plugin's or webhook's do not."""
    found = _DENIED.search(error.message)
    if found is None or not all(_PLAIN.fullmatch(found[each]) for each in ("user", "verb", "plural")):
        return REFUSED.format(server=server, why=error.message)
    namespace = found["namespace"]
    kind, _, subresource = found["plural"].partition("/")
    resource = f"{kind}.{found['group']}" if found["group"] else kind
    resource = f"{resource}/{subresource}" if subresource else resource
    reading = found["verb"] in _READING
    # Whoever lacks the right to read one kind of a hub's usually lacks it for all, and would be back at once.
    everything = reading and found["group"] == GROUP
    kinds = (each.name for each in RESOURCES if each.namespaced or not namespace)
    grant = GRANT.format(
        role="role" if namespace else "clusterrole",
        name="reader" if everything else f"{found['verb']}-{kind}",
        namespace=f" -n {namespace}" if namespace else "",
        verbs=",".join(_READING) if reading else found["verb"],
        resources=",".join(kinds) if everything else resource,
        user=found["user"],
    )
    where = f" in namespace {namespace}" if namespace else ""
    return FORBIDDEN.format(
        server=server, user=found["user"], verb=found["verb"], resource=resource, where=where, grant=grant
    )


def _not_served(error: NotFound, *, server: str, kubectl: str) -> str:
    path = error.request.partition(" ")[2]
    found = _PATH.fullmatch(path)
    if found is None or not found["group"].endswith(".open-cluster-management.io"):
        return OTHER_API.format(server=server, path=path)
    resource = f"{found['plural']}.{found['version']}.{found['group']}"
    return NOT_SERVED.format(server=server, resource=resource, kubectl=kubectl)
