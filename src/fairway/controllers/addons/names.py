"""Open Cluster Management's names for labels, annotations and objects of add-ons."""

from typing import Final

ADD_ON_LABEL: Final = "open-cluster-management.io/addon-name"
CLUSTER_LABEL: Final = "open-cluster-management.io/cluster-name"
TEMPLATE_LABEL: Final = "open-cluster-management.io/addon-template"
"""Of bindings that were made for a template."""
FEATURE_PREFIX: Final = "feature.open-cluster-management.io/addon-"
"""Of the labels of a ManagedCluster that say how its add-ons are."""

LIFECYCLE: Final = "addon.open-cluster-management.io/lifecycle"
MANAGED: Final = "addon-manager"
SELF_MANAGED: Final = "self"
"""Such an add-on has a controller of its own, which does everything for it."""
CONFIG_HASHES: Final = "addon.open-cluster-management.io/config-spec-hash"
"""Of a ManifestWork: which state of which configurations it was made of."""
ORPHAN: Final = "addon.open-cluster-management.io/deletion-orphan"
"""Of a manifest whose object stays when the add-on goes."""
PRE_DELETE: Final = "addon.open-cluster-management.io/addon-pre-delete"
"""Of a Job or Pod that must end well before the rest is removed; and the finalizer that waits for it."""
HOSTING_CLUSTER: Final = "addon.open-cluster-management.io/hosting-cluster-name"

AVAILABLE: Final = "available"
UNHEALTHY: Final = "unhealthy"
UNREACHABLE: Final = "unreachable"

HUB_KUBECONFIG: Final = "/managed/hub-kubeconfig/kubeconfig"
HUB_KUBECONFIG_FOLDER: Final = "/managed/hub-kubeconfig"
HUB_KUBECONFIG_VOLUME: Final = "hub-kubeconfig"
PROXY_CA_FOLDER: Final = "/managed/proxy-ca"
PROXY_CA_FILE: Final = "ca-bundle.crt"
PROXY_CA_VOLUME: Final = "proxy-ca-bundle"

_PREFIX: Final = "system:open-cluster-management:"


def agent_of(add_on: str) -> str:
    return f"{add_on}-agent"


def cluster_group(cluster: str, add_on: str) -> str:
    """The agents of the add-on on this cluster."""
    return f"{_PREFIX}cluster:{cluster}:addon:{add_on}"


def common_group(add_on: str) -> str:
    """The agents of the add-on on all clusters."""
    return f"{_PREFIX}addon:{add_on}"


def user(cluster: str, add_on: str) -> str:
    return f"{cluster_group(cluster, add_on)}:agent:{agent_of(add_on)}"


def host(add_on: str) -> str:
    """What the klusterlet asks for beside the name of the user."""
    return f"{add_on}.addon.open-cluster-management.io"


def klusterlet_group(cluster: str) -> str:
    """The agents of the cluster itself, which ask for the certificates of its add-ons."""
    return f"{_PREFIX}{cluster}"


def deploy_work(add_on: str) -> str:
    return f"addon-{add_on}-deploy-0"


def pre_delete_work(add_on: str) -> str:
    return f"addon-{add_on}-pre-delete"


def binding(add_on: str) -> str:
    return f"open-cluster-management:{add_on}:clusterrole:agent"


def hub_kubeconfig_secret(add_on: str) -> str:
    return f"{add_on}-hub-kubeconfig"


def client_certificate_secret(add_on: str, signer: str) -> str:
    return f"{add_on}-{signer.replace('/', '-')}-client-cert"


def proxy_ca(add_on: str) -> str:
    return f"{add_on}-proxy-ca"
