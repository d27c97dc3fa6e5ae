"""What the requests of a tenant may create on a hosting cluster, by their HostingPolicy.

The agent that applies manifests on a host has all rights there, and users of the hub have none. So each namespace, name
and type that comes from a request is checked here, before a place is reserved and before a ManifestWork is written.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from fairway.api.hosted_request import DEFAULT_NAMESPACE, HostedClusterRequest
from fairway.api.hosting_policy import TOKEN_SECRETS, HostingPermits
from fairway.api.secret import Secret
from fairway.workloads.hosting.rules.host_namespaces import (
    LONGEST_NAMESPACE,
    PROTECTED,
    control_plane_namespace,
    derived_namespace,
    is_derived,
    matching,
)

OPAQUE: Final = "Opaque"
SECRET_TYPES: Final = (
    OPAQUE,
    "kubernetes.io/dockerconfigjson",
    "kubernetes.io/ssh-auth",
    "kubernetes.io/tls",
)
"""Types of the Secrets that HostedClusters and NodePools refer to: pull secrets, keys, certificates, credentials."""
WRITTEN_BY_HYPERSHIFT: Final = ("{name}-admin-kubeconfig", "{name}-kubeadmin-password")
"""Secrets that HyperShift creates beside a HostedCluster."""

FIELD: Final = "spec.hostedCluster.namespace"
NOT_PERMITTED: Final = (
    "{field}: policy {policy} does not permit namespace {namespace} on hosting clusters; remove the field, and the "
    "hosted cluster gets {derived}, or write one that permits.hostNamespaces of the policy lists{listed}"
)
NEVER_PERMITTED: Final = (
    "{field}: namespace {namespace} of a hosting cluster is protected ({protected}), whatever the policy lists; remove "
    "the field, and the hosted cluster gets {derived}"
)
OF_OTHERS: Final = (
    "{field}: namespace {namespace} is for requests of another namespace; remove the field, and the hosted cluster "
    "gets {derived}"
)
PROTECTED_CONTROL_PLANE: Final = (
    "spec.hostedCluster.name: HyperShift would run the control plane in namespace {namespace} of the hosting cluster, "
    "which is protected ({protected}); write another name"
)
TOO_LONG: Final = (
    "spec.hostedCluster.name: HyperShift runs the control plane in namespace {namespace}, which has {length} "
    "characters of at most 63; write a name of at most {most}"
)
SECRET_NAME: Final = (
    "spec.secrets: policy {policy} does not permit the name {name}; write one that permits.secretNames of the policy "
    "lists: {listed}"
)
SECRET_OF_HYPERSHIFT: Final = (
    "spec.secrets: HyperShift itself writes Secret {name} beside the HostedCluster; write another name"
)
SECRET_TYPE: Final = (
    "spec.secrets: policy {policy} does not permit Secret {namespace}/{name}, whose type is {type}; write a Secret of "
    "one of the types {listed}"
)


class NotPermitted(ValueError):
    """A request for something that its policy does not let it create on a hosting cluster."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Permits:
    host_namespaces: tuple[str, ...] = ()
    """Besides the derived one."""
    secret_types: tuple[str, ...] = SECRET_TYPES
    secret_names: tuple[str, ...] = ()
    """Empty for every name."""

    @classmethod
    def of(cls, source: HostingPermits) -> "Permits":
        return cls(
            host_namespaces=source.hostNamespaces,
            secret_types=source.secretTypes or SECRET_TYPES,
            secret_names=source.secretNames,
        )

    def namespace_for(self, request: HostedClusterRequest) -> str:
        """Return the namespace on the host for a request that has no place yet, permitted or not.

        Earlier versions wrote their default into the stored field, which cannot be changed afterwards: unless the
        policy permits it, it counts as not set.
        """
        given, own = request.spec.hostedCluster.namespace, derived_namespace(request.metadata.namespace)
        if not given or (given == DEFAULT_NAMESPACE and not matching(self.host_namespaces, given)):
            return own
        return given

    def check_namespace(self, request: HostedClusterRequest, namespace: str, *, policy: str) -> None:
        """Raises NotPermitted, also if HyperShift's namespace for the control plane is protected or too long."""
        own = derived_namespace(request.metadata.namespace)
        given = {"field": FIELD, "namespace": namespace, "derived": own}
        if protected := matching(PROTECTED, namespace):
            raise NotPermitted(NEVER_PERMITTED.format(**given, protected=protected))
        if is_derived(namespace) and namespace != own:
            raise NotPermitted(OF_OTHERS.format(**given))
        if namespace != own and not matching(self.host_namespaces, namespace):
            listed = f": {', '.join(self.host_namespaces)}" if self.host_namespaces else ", which is empty"
            raise NotPermitted(NOT_PERMITTED.format(**given, policy=policy, listed=listed))
        check_control_plane(request, namespace)

    def check_secret_names(self, request: HostedClusterRequest, *, policy: str) -> None:
        """Raises NotPermitted."""
        hosted = request.spec.hostedCluster.name or request.metadata.name
        written = {pattern.format(name=hosted) for pattern in WRITTEN_BY_HYPERSHIFT}
        for secret in request.spec.secrets:
            if secret.name in written:
                raise NotPermitted(SECRET_OF_HYPERSHIFT.format(name=secret.name))
            if self.secret_names and not matching(self.secret_names, secret.name):
                listed = ", ".join(self.secret_names)
                raise NotPermitted(SECRET_NAME.format(policy=policy, name=secret.name, listed=listed))

    def check_secret_types(self, secrets: Mapping[str, Secret], *, policy: str) -> None:
        """Raises NotPermitted."""
        for secret in secrets.values():
            given = secret.type or OPAQUE
            if given in TOKEN_SECRETS or given not in self.secret_types:
                raise NotPermitted(
                    SECRET_TYPE.format(
                        policy=policy,
                        namespace=secret.metadata.namespace,
                        name=secret.metadata.name,
                        type=given,
                        listed=", ".join(self.secret_types),
                    )
                )


def check_control_plane(request: HostedClusterRequest, namespace: str) -> None:
    name = request.spec.hostedCluster.name or request.metadata.name
    second = control_plane_namespace(namespace, name)
    if protected := matching(PROTECTED, second):
        raise NotPermitted(PROTECTED_CONTROL_PLANE.format(namespace=second, protected=protected))
    if len(second) > LONGEST_NAMESPACE:
        most = LONGEST_NAMESPACE - len(namespace) - 1
        raise NotPermitted(TOO_LONG.format(namespace=second, length=len(second), most=most))


def covers(patterns: tuple[str, ...], text: str) -> bool:
    return not patterns or bool(matching(patterns, text))


DEFAULT_PERMITS: Final = Permits()
