"""Identity of an add-on's agent on the hub: its permissions, and which certificate requests are approved.

Permissions are granted to the group of this add-on's agents on this cluster. OCM also grants them to the group of the
add-on's agents on all clusters, so any agent may write the scores of every cluster.
"""

from collections.abc import Iterator
from typing import Final

from fairway.api.addon import ManagedClusterAddOn, RegistrationConfig, RegistrationSubject
from fairway.api.addon_template import (
    CURRENT_CLUSTER,
    CUSTOM_SIGNER,
    KUBE_CLIENT,
    SINGLE_NAMESPACE,
    AddOnTemplate,
)
from fairway.controllers.addons import conditions, names, works
from fairway.controllers.csr_approval import is_client_certificate
from fairway.controllers.kinds import RBAC_GROUP, RoleBinding, RoleRef, Subject
from kubewire.api import csr
from kubewire.api.meta import ObjectMeta
from kubewire.client.csr import CLIENT_SIGNER, CertificateSigningRequest

EVERYBODY: Final = "system:authenticated"
"""Agents of old OCM versions also request this group, which contains all authenticated users."""

NOT_THE_KLUSTERLET: Final = "created by {user}, which is not the agent of cluster {cluster}"
UNREADABLE: Final = "{field} cannot be read"
OTHER_SIGNER: Final = "its signer is {signer}"
OTHER_USAGES: Final = "its usages are {usages}"
NO_REQUEST: Final = "spec.request must contain exactly one PEM certificate request"
OTHER_USER: Final = "its subject is {asked}, not {wanted}"


def registrations(template: AddOnTemplate, *, cluster: str, add_on: str) -> tuple[RegistrationConfig, ...]:
    return tuple(_registrations(template, cluster=cluster, add_on=add_on))


def _registrations(template: AddOnTemplate, *, cluster: str, add_on: str) -> Iterator[RegistrationConfig]:
    default_subject = subject(cluster, add_on)
    for entry in template.spec.registration:
        if entry.type == KUBE_CLIENT:
            yield RegistrationConfig(signerName=CLIENT_SIGNER, subject=default_subject)
        elif entry.customSigner is not None:
            custom = entry.customSigner
            yield RegistrationConfig(signerName=custom.signerName, subject=custom.subject or default_subject)


def subject(cluster: str, add_on: str) -> RegistrationSubject:
    return RegistrationSubject(
        user=names.user(cluster, add_on),
        groups=(names.cluster_group(cluster, add_on), names.common_group(add_on)),
    )


def roles(template: AddOnTemplate) -> tuple[str, ...]:
    """ClusterRoles to grant in the namespace of the cluster."""
    return tuple(
        dict.fromkeys(
            permission.currentCluster.clusterRoleName
            for entry in template.spec.registration
            if entry.kubeClient is not None
            for permission in entry.kubeClient.hubPermissions
            if permission.type == CURRENT_CLUSTER and permission.currentCluster is not None
        )
    )


def unsupported(template: AddOnTemplate, add_on: str) -> str:
    """A registration that only OCM's addon-manager supports; empty if there is none."""
    for entry in template.spec.registration:
        if entry.type == CUSTOM_SIGNER and entry.customSigner is not None:
            return conditions.CUSTOM_SIGNER.format(signer=entry.customSigner.signerName)
        permissions = () if entry.kubeClient is None else entry.kubeClient.hubPermissions
        if any(permission.type == SINGLE_NAMESPACE for permission in permissions):
            return conditions.SINGLE_NAMESPACE.format(group=names.common_group(add_on))
    return ""


def binding(add_on: ManagedClusterAddOn, role: str, *, first: bool) -> RoleBinding:
    """The binding of the first role has the name that OCM uses."""
    meta = add_on.metadata
    name = names.binding(meta.name)
    return RoleBinding(
        metadata=ObjectMeta(
            name=name if first else f"{name}:{role}",
            namespace=meta.namespace,
            labels={names.ADD_ON_LABEL: meta.name, names.TEMPLATE_LABEL: ""},
            ownerReferences=(works.owner_of(add_on),),
        ),
        role_ref=RoleRef(kind="ClusterRole", api_group=RBAC_GROUP, name=role),
        subjects=(
            Subject(kind="Group", api_group=RBAC_GROUP, name=names.cluster_group(meta.namespace, meta.name)),
        ),
    )


def registers(template: AddOnTemplate) -> bool:
    """Whether the agent has an identity at the hub's own API.

    The status of a ManagedClusterAddOn is not used, because the cluster itself may write it.
    """
    return any(entry.type == KUBE_CLIENT for entry in template.spec.registration)


def refusal(request: CertificateSigningRequest, *, cluster: str, add_on: str) -> str:
    """Why a request with this add-on's labels is not approved; empty if it may be.

    Any requester can set labels. The requested subject and the requester cannot be forged.
    """
    spec = request.spec
    if request.unreadable:
        return UNREADABLE.format(field=request.unreadable)
    if spec.signer_name != CLIENT_SIGNER:
        return OTHER_SIGNER.format(signer=spec.signer_name)
    wanted = subject(cluster, add_on)
    if not is_klusterlet(request, cluster):
        return NOT_THE_KLUSTERLET.format(user=spec.username, cluster=cluster)
    if not is_client_certificate(spec):
        return OTHER_USAGES.format(usages=", ".join(spec.usages))
    try:
        requested = csr.read(spec.request)
    except csr.InvalidRequest:
        return NO_REQUEST
    groups = {*wanted.groups, *(requested.groups & {EVERYBODY})}
    hosts = frozenset({names.host(add_on)})
    if not requested.is_for(wanted.user, groups=frozenset(groups), hosts=hosts):
        return OTHER_USER.format(asked=requested.subject, wanted=wanted.user)
    return ""


def is_klusterlet(request: CertificateSigningRequest, cluster: str) -> bool:
    """Whether the requester is the cluster's klusterlet, by name and group, which only the hub's signer issues."""
    group = names.klusterlet_group(cluster)
    return group in request.spec.groups and bool(csr.agent_of(request.spec.username, group=group))
