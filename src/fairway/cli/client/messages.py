"""Error messages for requests to a hub: what failed and what to do."""

import re
from typing import Final

from fairway.api.crd import GROUP, RESOURCES
from fairway.api.hosting_policy import HOSTING_GROUP
from fairway.cli.options.hub import HubChoice
from kubewire.client.connection import NOT_IN_A_POD, Connection
from kubewire.client.errors import (
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

NO_HUB: Final = "no kubeconfig found; set --kubeconfig or KUBECONFIG, or start a hub with `fairway up`"
UNREACHABLE: Final = "{why}; check that the hub of {place} is running, or select another one with --context"
UNTRUSTED: Final = "{why} (in {place})"
UNKNOWN_TO_HUB: Final = (
    "credentials in {place} were rejected by hub {server} (401): expired, or for another hub; log in again, or select "
    "another context with --context"
)
FORBIDDEN: Final = (
    "hub {server} does not allow {user} to {verb} {resource}{where}; an administrator can grant it:\n{grant}"
)
GRANT: Final = (
    "  kubectl create {role} fairway-{name}{namespace} --verb={verbs} --resource={resources}\n"
    "  kubectl create {role}binding fairway-{name}{namespace} --{role}=fairway-{name} --user={user}"
)
SILENT: Final = "no response from hub {server}: {why}; try again, or check the hub"
REFUSED: Final = "hub {server} refused the request: {why}"
NO_KUBERNETES: Final = (
    "the response of {server} is not that of a Kubernetes API: {why}; check the server in {place}"
)
NOT_SERVED: Final = (
    "hub {server} does not serve {resource}: its CRD is not installed; install the CRDs with\n"
    "  fairway crds | {kubectl} apply -f -"
)
OTHER_API: Final = "hub {server} does not serve {path}: not a Kubernetes API server, or an old version"

_DENIED: Final = re.compile(
    r'User "(?P<user>[^"]*)" cannot (?P<verb>\w+) resource "(?P<plural>[^"]+)" in API group "(?P<group>[^"]*)"'
    r'(?: in the namespace "(?P<namespace>[^"]+)")?'
)
_PATH: Final = re.compile(
    r"/apis/(?P<group>[^/]+)/(?P<version>[^/]+)/(?:namespaces/[^/]+/)?(?P<plural>[^/]+)(?:/.*)?"
)
_READING: Final = ("get", "list", "watch")
_PLAIN: Final = re.compile(r"[A-Za-z0-9._@:/+=-]+")


def is_unconfigured(error: KubeError) -> bool:
    """Whether there is neither a kubeconfig nor a pod's service account."""
    return isinstance(error, ConfigError) and error.message == NOT_IN_A_POD


def explain_error(error: KubeError, *, hub: HubChoice, connection: Connection) -> str:
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
    """Kubernetes' own message names the missing permission; that of an admission plugin or webhook does not."""
    match = _DENIED.search(error.message)
    if match is None or not all(_PLAIN.fullmatch(match[name]) for name in ("user", "verb", "plural")):
        return REFUSED.format(server=server, why=error.message)
    namespace = match["namespace"]
    kind, _, subresource = match["plural"].partition("/")
    resource = f"{kind}.{match['group']}" if match["group"] else kind
    resource = f"{resource}/{subresource}" if subresource else resource
    reading = match["verb"] in _READING
    # A user who may not read one of OCM's kinds usually may not read the others either.
    everything = reading and match["group"] == GROUP
    kinds = (resource.name for resource in RESOURCES if resource.namespaced or not namespace)
    grant = GRANT.format(
        role="role" if namespace else "clusterrole",
        name="reader" if everything else f"{match['verb']}-{kind}",
        namespace=f" -n {namespace}" if namespace else "",
        verbs=",".join(_READING) if reading else match["verb"],
        resources=",".join(kinds) if everything else resource,
        user=match["user"],
    )
    where = f" in namespace {namespace}" if namespace else ""
    return FORBIDDEN.format(
        server=server, user=match["user"], verb=match["verb"], resource=resource, where=where, grant=grant
    )


def _not_served(error: NotFound, *, server: str, kubectl: str) -> str:
    path = error.request.partition(" ")[2]
    match = _PATH.fullmatch(path)
    if match is None or not match["group"].endswith((".open-cluster-management.io", HOSTING_GROUP)):
        return OTHER_API.format(server=server, path=path)
    resource = f"{match['plural']}.{match['version']}.{match['group']}"
    return NOT_SERVED.format(server=server, resource=resource, kubectl=kubectl)
