"""AddOnDeploymentConfig: how the agents of an add-on are deployed, for one cluster or for many."""

from typing import Annotated, Final

from msgspec import Struct, field

from fairway.api.addon import ADD_ON_GROUP, INSTALL_NAMESPACE
from fairway.api.annotation import Field, Int64, QuantityText
from fairway.api.meta import ObjectMeta

VARIABLE_NAME: Final = r"^[a-zA-Z_][_a-zA-Z0-9]*$"
_CONTAINER: Final = r"^(deployments|daemonsets|statefulsets|replicasets|jobs|cronjobs|pods|\*):.+:.+$"


class CustomizedVariable(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    name: Annotated[
        str, Field("Name of the variable.", required=True, max_length=255, pattern=VARIABLE_NAME)
    ] = field(default_factory=str)
    value: Annotated[str, Field("What stands for it.", max_length=1024)] = ""


class PodToleration(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    key: Annotated[str, Field("Key of the taint; empty with Exists for every key.")] = ""
    operator: Annotated[str, Field("Equal or Exists.")] = ""
    value: Annotated[str, Field("Value of the taint.")] = ""
    effect: Annotated[str, Field("Effect of the taint; empty for every effect.")] = ""
    tolerationSeconds: Annotated[Int64 | None, Field("How long a NoExecute taint is tolerated.")] = None


class NodePlacement(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    nodeSelector: Annotated[dict[str, str], Field("Labels of the nodes for the agent.")] = field(
        default_factory=dict
    )
    tolerations: Annotated[tuple[PodToleration, ...], Field("Taints of nodes the agent tolerates.")] = ()


class ImageMirror(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    mirror: Annotated[str, Field("Where the images are.", required=True)] = field(default_factory=str)
    source: Annotated[str, Field("What their names begin with; empty for any registry.")] = ""


class ProxyConfig(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    httpProxy: Annotated[str, Field("Proxy for HTTP.")] = ""
    httpsProxy: Annotated[str, Field("Proxy for HTTPS.")] = ""
    caBundle: Annotated[bytes, Field("CA certificates of the proxy.")] = b""
    noProxy: Annotated[str, Field("Hosts that are asked directly, with commas between.")] = ""


class ResourceClaim(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    name: Annotated[str, Field("Name of a claim of the pod.", required=True)] = field(default_factory=str)
    request: Annotated[str, Field("Name of a request in the claim.")] = ""


class ContainerResources(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    limits: Annotated[dict[str, QuantityText], Field("Most it may use.")] = field(default_factory=dict)
    requests: Annotated[dict[str, QuantityText], Field("What is kept for it.")] = field(default_factory=dict)
    claims: Annotated[
        tuple[ResourceClaim, ...], Field("Claims it uses.", list_type="map", map_keys=("name",))
    ] = ()


class ContainerResourceRequirements(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    containerID: Annotated[
        str,
        Field(
            "Which containers: kind:name:container, each part a name or *.", required=True, pattern=_CONTAINER
        ),
    ] = field(default_factory=str)
    resources: Annotated[ContainerResources, Field("What they get.", required=True)] = field(
        default_factory=ContainerResources
    )


class AddOnDeploymentConfigSpec(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    customizedVariables: Annotated[
        tuple[CustomizedVariable, ...],
        Field("Variables for the add-on's template.", list_type="map", map_keys=("name",)),
    ] = ()
    nodePlacement: Annotated[NodePlacement, Field("On which nodes the agent runs.")] = NodePlacement()
    registries: Annotated[tuple[ImageMirror, ...], Field("Where images come from instead.")] = ()
    proxyConfig: Annotated[ProxyConfig, Field("How the agent reaches the hub.")] = ProxyConfig()
    agentInstallNamespace: Annotated[
        str | None,
        Field(
            "Namespace of the agent; empty for the one its template says.",
            default=INSTALL_NAMESPACE,
            max_length=63,
            pattern=r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?)?$",
        ),
    ] = None
    """None if the hub has not applied the default."""
    resourceRequirements: Annotated[
        tuple[ContainerResourceRequirements, ...],
        Field(
            "What containers get; of several that fit, the last.", list_type="map", map_keys=("containerID",)
        ),
    ] = ()


class AddOnDeploymentConfig(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    apiVersion: str = f"{ADD_ON_GROUP}/v1alpha1"
    kind: str = "AddOnDeploymentConfig"
    metadata: ObjectMeta = ObjectMeta()
    spec: Annotated[AddOnDeploymentConfigSpec, Field("How agents are deployed.", required=True)] = (
        AddOnDeploymentConfigSpec()
    )
