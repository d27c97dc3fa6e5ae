"""Defaults of a HostingPolicy for what requests create on a hosting cluster."""

from typing import Annotated, Any, Final

from msgspec import Struct, field

from kubewire.api.annotation import Field

OBJECT_NAME: Final = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"


class HostedClusterSecret(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    name: Annotated[
        str,
        Field(
            "Name of a Secret in the namespace of the request; it is created beside the HostedCluster.",
            required=True,
            pattern=OBJECT_NAME,
            max_length=253,
        ),
    ] = field(default_factory=str)


class HostedClusterDefaults(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    labels: Annotated[dict[str, str], Field("Labels of each HostedCluster.")] = field(default_factory=dict)
    annotations: Annotated[dict[str, str], Field("Annotations of each HostedCluster.")] = field(
        default_factory=dict
    )
    spec: Annotated[dict[str, Any], Field("Fields of the spec of each HostedCluster.")] = field(
        default_factory=dict
    )


class NodePoolDefaults(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    labels: Annotated[dict[str, str], Field("Labels of each NodePool.")] = field(default_factory=dict)
    spec: Annotated[dict[str, Any], Field("Fields of the spec of each NodePool.")] = field(
        default_factory=dict
    )


class HostingTemplate(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """Fields that requests leave out. Those that a request writes take precedence."""

    hostedCluster: Annotated[HostedClusterDefaults, Field("Defaults for the HostedCluster.")] = (
        HostedClusterDefaults()
    )
    nodePool: Annotated[NodePoolDefaults, Field("Defaults for each NodePool of a request.")] = (
        NodePoolDefaults()
    )
    secrets: Annotated[
        tuple[HostedClusterSecret, ...],
        Field(
            "Secrets of the namespace of the request to create with it, besides those that the request names.",
            list_type="map",
            map_keys=("name",),
            max_items=64,
        ),
    ] = ()
