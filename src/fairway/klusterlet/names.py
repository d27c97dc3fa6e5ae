"""Open Cluster Management's names for objects, labels and conditions of an agent."""

from typing import Final

CLUSTER_LABEL: Final = "open-cluster-management.io/cluster-name"
ADD_ON_LABEL: Final = "open-cluster-management.io/addon-name"
JOINED_LABEL: Final = "fairway.dev/joined-as"
"""Of everything on a managed cluster that is there because it joined; the value is the cluster's name on the hub."""

SUBJECT_PREFIX: Final = "system:open-cluster-management:"
EVERYBODY: Final = f"{SUBJECT_PREFIX}managed-clusters"
"""The group all agents of all clusters are in."""

LEASE: Final = "managed-cluster-lease"
JOINED: Final = "ManagedClusterJoined"
ROTATED: Final = "ClusterCertificateRotated"

KUBECONFIG: Final = "kubeconfig"
CERTIFICATE: Final = "tls.crt"
KEY: Final = "tls.key"
CLUSTER_NAME: Final = "cluster-name"
AGENT_NAME: Final = "agent-name"
"""Of the files, or keys of a Secret, that an identity on the hub consists of."""


def group_of(cluster: str) -> str:
    return f"{SUBJECT_PREFIX}{cluster}"


def user_of(cluster: str, agent: str) -> str:
    return f"{SUBJECT_PREFIX}{cluster}:{agent}"


def group_of_add_on(cluster: str, add_on: str) -> str:
    return f"{SUBJECT_PREFIX}cluster:{cluster}:addon:{add_on}"


def user_of_add_on(cluster: str, add_on: str, agent: str) -> str:
    return f"{group_of_add_on(cluster, add_on)}:agent:{agent}"
