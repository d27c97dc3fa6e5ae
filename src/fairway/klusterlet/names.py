"""Open Cluster Management's names for objects, labels and conditions of an agent."""

import secrets
import string
from typing import Final

CLUSTER_LABEL: Final = "open-cluster-management.io/cluster-name"
ADD_ON_LABEL: Final = "open-cluster-management.io/addon-name"
JOINED_LABEL: Final = "fairway.dev/joined-as"
"""Label of all objects that joining created on a managed cluster; the value is the cluster's name on the hub."""

SUBJECT_PREFIX: Final = "system:open-cluster-management:"
ALL_AGENTS: Final = f"{SUBJECT_PREFIX}managed-clusters"
"""Group of the agents of all clusters."""

LEASE: Final = "managed-cluster-lease"
JOINED: Final = "ManagedClusterJoined"
ROTATED: Final = "ClusterCertificateRotated"

KUBECONFIG: Final = "kubeconfig"
CERTIFICATE: Final = "tls.crt"
KEY: Final = "tls.key"
CLUSTER_NAME: Final = "cluster-name"
AGENT_NAME: Final = "agent-name"
"""Files, or keys of a Secret, of an identity on the hub."""


def group_of(cluster: str) -> str:
    return f"{SUBJECT_PREFIX}{cluster}"


def user_of(cluster: str, agent: str) -> str:
    return f"{SUBJECT_PREFIX}{cluster}:{agent}"


def group_of_add_on(cluster: str, add_on: str) -> str:
    return f"{SUBJECT_PREFIX}cluster:{cluster}:addon:{add_on}"


def user_of_add_on(cluster: str, add_on: str, agent: str) -> str:
    return f"{group_of_add_on(cluster, add_on)}:agent:{agent}"


def random_suffix() -> str:
    return "".join(secrets.choice(string.ascii_lowercase + string.digits) for _ in range(5))
