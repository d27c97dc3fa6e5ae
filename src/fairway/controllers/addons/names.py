"""Open Cluster Management's names for labels, annotations and objects of add-ons."""

from typing import Final

ADD_ON_LABEL: Final = "open-cluster-management.io/addon-name"
ADD_ON_NAMESPACE_LABEL: Final = "open-cluster-management.io/addon-namespace"
"""Label of a ManifestWork on a hosting cluster: the cluster whose agent it runs."""
CLUSTER_LABEL: Final = "open-cluster-management.io/cluster-name"
TEMPLATE_LABEL: Final = "open-cluster-management.io/addon-template"
"""Label of bindings created for a template."""
FEATURE_PREFIX: Final = "feature.open-cluster-management.io/addon-"
"""Prefix of the cluster labels with the state of its add-ons."""

LIFECYCLE: Final = "addon.open-cluster-management.io/lifecycle"
MANAGED: Final = "addon-manager"
"""Value for an add-on with its own controller."""
CONFIG_HASHES: Final = "open-cluster-management.io/config-spec-hash"
"""Annotation of a ManifestWork: the hashes of the configurations it was rendered from."""
ORPHAN: Final = "addon.open-cluster-management.io/deletion-orphan"
"""Annotation of a manifest whose object stays when the add-on is deleted."""
PRE_DELETE: Final = "addon.open-cluster-management.io/addon-pre-delete"
"""Label of a Job or Pod that must succeed before the add-on is removed, and the finalizer that waits for it."""
OLD_PRE_DELETE: Final = "cluster.open-cluster-management.io/addon-pre-delete"
"""The finalizer in earlier versions of addon-framework."""
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
    """The group of the add-on's agents on this cluster."""
    return f"{_PREFIX}cluster:{cluster}:addon:{add_on}"


def common_group(add_on: str) -> str:
    """The group of the add-on's agents on all clusters."""
    return f"{_PREFIX}addon:{add_on}"


def user(cluster: str, add_on: str) -> str:
    return f"{cluster_group(cluster, add_on)}:agent:{agent_of(add_on)}"


def host(add_on: str) -> str:
    """The groups that the klusterlet requests for the agent."""
    return f"{add_on}.addon.open-cluster-management.io"


def klusterlet_group(cluster: str) -> str:
    """The group of the cluster's klusterlet, which requests the certificates of its add-ons."""
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
