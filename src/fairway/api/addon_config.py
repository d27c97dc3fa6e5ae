"""AddOnDeploymentConfig: how the agents of an add-on are deployed, for one cluster or for many."""

from typing import Annotated, Final

from msgspec import Struct, field

from fairway.api.addon import ADD_ON_GROUP, INSTALL_NAMESPACE
from kubewire.api.annotation import Field, Int64, QuantityText
from kubewire.api.meta import ObjectMeta

VARIABLE_NAME: Final = r"^[a-zA-Z_][_a-zA-Z0-9]*$"
_CONTAINER: Final = r"^(deployments|daemonsets|statefulsets|replicasets|jobs|cronjobs|pods|\*):.+:.+$"


class CustomizedVariable(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    name: Annotated[
        str, Field("Name of the variable.", required=True, max_length=255, pattern=VARIABLE_NAME)
    ] = field(default_factory=str)
    value: Annotated[str, Field("Value of the variable.", max_length=1024)] = ""


class PodToleration(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    key: Annotated[str, Field("Key of the taint; empty with Exists for every key.")] = ""
    operator: Annotated[str, Field("Equal or Exists.")] = ""
    value: Annotated[str, Field("Value of the taint.")] = ""
    effect: Annotated[str, Field("Effect of the taint; empty for every effect.")] = ""
    tolerationSeconds: Annotated[Int64 | None, Field("How long a NoExecute taint is tolerated.")] = None


class NodePlacement(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    nodeSelector: Annotated[dict[str, str], Field("Labels of the nodes on which the agent may run.")] = field(
        default_factory=dict
    )
    tolerations: Annotated[tuple[PodToleration, ...], Field("Taints of nodes that the agent tolerates.")] = ()


class ImageMirror(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    mirror: Annotated[str, Field("Registry that replaces the source.", required=True)] = field(
        default_factory=str
    )
    source: Annotated[str, Field("Prefix of the image names to replace; empty matches every registry.")] = ""


class ProxyConfig(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    httpProxy: Annotated[str, Field("Proxy for HTTP.")] = ""
    httpsProxy: Annotated[str, Field("Proxy for HTTPS.")] = ""
    caBundle: Annotated[bytes, Field("CA certificates of the proxy.")] = b""
    noProxy: Annotated[str, Field("Comma-separated hosts that are not reached through the proxy.")] = ""


class ResourceClaim(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    name: Annotated[str, Field("Name of a claim of the pod.", required=True)] = field(default_factory=str)
    request: Annotated[str, Field("Name of a request in the claim.")] = ""


class ContainerResources(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    limits: Annotated[dict[str, QuantityText], Field("Maximum amounts.")] = field(default_factory=dict)
    requests: Annotated[dict[str, QuantityText], Field("Requested amounts.")] = field(default_factory=dict)
    claims: Annotated[
        tuple[ResourceClaim, ...],
        Field("Resource claims of the container.", list_type="map", map_keys=("name",)),
    ] = ()


class ContainerResourceRequirements(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    containerID: Annotated[
        str,
        Field(
            "Containers, as kind:name:container; each part is a name or *.", required=True, pattern=_CONTAINER
        ),
    ] = field(default_factory=str)
    resources: Annotated[ContainerResources, Field("Resources of these containers.", required=True)] = field(
        default_factory=ContainerResources
    )


class AddOnDeploymentConfigSpec(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    customizedVariables: Annotated[
        tuple[CustomizedVariable, ...],
        Field("Variables for the add-on's template.", list_type="map", map_keys=("name",)),
    ] = ()
    nodePlacement: Annotated[NodePlacement, Field("Nodes on which the agent runs.")] = NodePlacement()
    registries: Annotated[tuple[ImageMirror, ...], Field("Registries that replace those of the images.")] = ()
    proxyConfig: Annotated[
        ProxyConfig | None, Field("Proxy through which the agent connects to the hub.")
    ] = None
    """Clients in Go always write one, and the hash of the specification must include an empty one."""

    @property
    def proxy(self) -> ProxyConfig:
        return self.proxyConfig or ProxyConfig()

    agentInstallNamespace: Annotated[
        str | None,
        Field(
            "Namespace of the agent; empty for that of its template.",
            default=INSTALL_NAMESPACE,
            max_length=63,
            pattern=r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?)?$",
        ),
    ] = None
    """None if the hub has not applied the default."""
    resourceRequirements: Annotated[
        tuple[ContainerResourceRequirements, ...],
        Field(
            "Resources of containers; the last matching entry applies.",
            list_type="map",
            map_keys=("containerID",),
        ),
    ] = ()


class AddOnDeploymentConfig(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    apiVersion: str = f"{ADD_ON_GROUP}/v1alpha1"
    kind: str = "AddOnDeploymentConfig"
    metadata: ObjectMeta = ObjectMeta()
    spec: Annotated[AddOnDeploymentConfigSpec, Field("Deployment options of agents.", required=True)] = (
        AddOnDeploymentConfigSpec()
    )
