"""AddOnTemplate: manifests with variables, and the rights of the agents on the hub."""

from typing import Annotated, Final

from msgspec import Struct, field

from fairway.api.addon import ADD_ON_GROUP, RegistrationSubject, SignerName
from fairway.api.work import ManifestWorkSpec
from kubewire.api.annotation import Field
from kubewire.api.meta import ObjectMeta

KUBE_CLIENT: Final = "KubeClient"
CUSTOM_SIGNER: Final = "CustomSigner"

CURRENT_CLUSTER: Final = "CurrentCluster"
SINGLE_NAMESPACE: Final = "SingleNamespace"


class CurrentCluster(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    clusterRoleName: Annotated[
        str, Field("ClusterRole that is granted in the namespace of the cluster.", required=True)
    ] = field(default_factory=str)


class TemplateRoleRef(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    apiGroup: Annotated[str, Field("API group of the role.", required=True)] = field(default_factory=str)
    kind: Annotated[str, Field("Role or ClusterRole.", required=True)] = field(default_factory=str)
    name: Annotated[str, Field("Name of the role.", required=True)] = field(default_factory=str)


class SingleNamespace(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    namespace: Annotated[str, Field("Namespace in which the role is granted.", required=True)] = field(
        default_factory=str
    )
    roleRef: Annotated[TemplateRoleRef, Field("The role.", required=True, map_type="atomic")] = field(
        default_factory=TemplateRoleRef
    )


class HubPermission(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    type: Annotated[
        str,
        Field(
            "Where the role is granted: in the namespace of the agent's cluster, or in one namespace for all.",
            required=True,
            enum=(CURRENT_CLUSTER, SINGLE_NAMESPACE),
        ),
    ] = field(default_factory=str)
    currentCluster: Annotated[CurrentCluster | None, Field("For CurrentCluster.")] = None
    singleNamespace: Annotated[SingleNamespace | None, Field("For SingleNamespace.")] = None


class KubeClientRegistration(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    hubPermissions: Annotated[tuple[HubPermission, ...], Field("Permissions of the agent on the hub.")] = ()


class SigningCA(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    namespace: Annotated[str, Field("Namespace of the Secret.")] = ""
    name: Annotated[str, Field("Name of the Secret.", required=True)] = field(default_factory=str)


class CustomSignerRegistration(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    signerName: SignerName = field(default_factory=str)
    subject: Annotated[RegistrationSubject | None, Field("Subject of the agent's certificate.")] = None
    signingCA: Annotated[SigningCA, Field("The Secret with the signer's CA.", required=True)] = field(
        default_factory=SigningCA
    )


class TemplateRegistration(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    type: Annotated[
        str,
        Field(
            "Whether the certificate is for the API of the hub, or for a server that trusts a custom signer.",
            required=True,
            enum=(KUBE_CLIENT, CUSTOM_SIGNER),
        ),
    ] = field(default_factory=str)
    kubeClient: Annotated[KubeClientRegistration | None, Field("For KubeClient.")] = None
    customSigner: Annotated[CustomSignerRegistration | None, Field("For CustomSigner.")] = None


class AddOnTemplateSpec(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    addonName: Annotated[str, Field("Name of the add-on.", required=True)] = field(default_factory=str)
    agentSpec: Annotated[
        ManifestWorkSpec,
        Field("Manifests that are applied to managed clusters; {{NAME}} is a variable.", required=True),
    ] = field(default_factory=ManifestWorkSpec)
    registration: Annotated[
        tuple[TemplateRegistration, ...], Field("Identities of the agent on the hub.")
    ] = ()


class AddOnTemplate(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    apiVersion: str = f"{ADD_ON_GROUP}/v1alpha1"
    kind: str = "AddOnTemplate"
    metadata: ObjectMeta = ObjectMeta()
    spec: Annotated[AddOnTemplateSpec, Field("The add-on.", required=True)] = AddOnTemplateSpec()
