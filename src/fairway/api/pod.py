"""Pod: the fields that determine its requests, its scheduling, and whether it still counts.

Other fields are dropped while decoding, because a cluster may have a hundred thousand pods.
"""

from typing import Final

from msgspec import Struct, field

from fairway.api.pod_affinity import Affinity, Toleration, TopologySpreadConstraint
from kubewire.api.annotation import Int32, QuantityText, Time
from kubewire.api.meta import ObjectMeta

PENDING: Final = "Pending"
SUCCEEDED: Final = "Succeeded"
FAILED: Final = "Failed"

ALWAYS: Final = "Always"
"""An init container with this restart policy is a sidecar: it runs as long as the pod."""

NEVER: Final = "Never"
"""The preemption policy of pods that wait for room without evicting others."""

RESIZE_PENDING: Final = "PodResizePending"
INFEASIBLE: Final = "Infeasible"

Quantities = dict[str, QuantityText]
"""Amounts by resource. Absent and empty differ: without a status the spec counts."""


class ResourceRequirements(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    requests: Quantities | None = None


class ContainerPort(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    containerPort: Int32 = 0
    hostPort: Int32 = 0
    hostIP: str = ""
    protocol: str = ""


class Container(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    name: str = ""
    image: str = ""
    ports: tuple[ContainerPort, ...] = ()
    resources: ResourceRequirements = ResourceRequirements()
    restartPolicy: str = ""


class ClaimVolume(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    claimName: str = ""


class EphemeralVolume(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """Its claim is named after the pod and the volume."""


class ImageVolume(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    reference: str = ""


class CloudDisk(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """A disk of Google Compute Engine."""

    pdName: str = ""
    readOnly: bool = False


class BlockStore(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """A disk of Amazon Web Services."""

    volumeID: str = ""


class IscsiDisk(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    iqn: str = ""
    readOnly: bool = False


class RadosImage(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """A block device of Ceph."""

    monitors: tuple[str, ...] = ()
    pool: str = ""
    image: str = ""
    readOnly: bool = False


class InlineCsi(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """A volume that lives as long as its pod."""

    driver: str = ""


class Volume(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """Volumes of other kinds have a name only."""

    name: str = ""
    persistentVolumeClaim: ClaimVolume | None = None
    ephemeral: EphemeralVolume | None = None
    image: ImageVolume | None = None
    gcePersistentDisk: CloudDisk | None = None
    awsElasticBlockStore: BlockStore | None = None
    iscsi: IscsiDisk | None = None
    rbd: RadosImage | None = None
    csi: InlineCsi | None = None


class PodResourceClaim(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """A device that the pod needs."""

    name: str = ""


class SchedulingGate(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    name: str = ""


class PodSpec(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    nodeName: str = ""
    containers: tuple[Container, ...] = ()
    initContainers: tuple[Container, ...] = ()
    overhead: Quantities | None = None
    resources: ResourceRequirements | None = None
    schedulingGates: tuple[SchedulingGate, ...] = ()
    schedulerName: str = ""
    priority: Int32 | None = None
    preemptionPolicy: str = ""
    nodeSelector: dict[str, str] | None = None
    affinity: Affinity | None = None
    tolerations: tuple[Toleration, ...] = ()
    resourceClaims: tuple[PodResourceClaim, ...] = ()
    topologySpreadConstraints: tuple[TopologySpreadConstraint, ...] = ()
    volumes: tuple[Volume, ...] = ()


class ContainerStatus(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    name: str = ""
    allocatedResources: Quantities | None = None
    """Resources that the kubelet granted."""
    resources: ResourceRequirements | None = None
    """Resources that the container runs with."""


class PodCondition(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""


class ClaimedAmount(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    name: str = ""
    quantity: QuantityText | None = None


class ClaimedOverhead(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    name: str = ""
    perPod: QuantityText | None = None
    perContainer: QuantityText | None = None


class NodeAllocatableClaim(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """What a ResourceClaim takes of the node's ordinary resources. 1.36 wrote ``resources``, later ones the rest."""

    containers: tuple[str, ...] = ()
    mapping: tuple[ClaimedAmount, ...] = ()
    overhead: tuple[ClaimedOverhead, ...] = ()
    resources: Quantities = field(default_factory=dict)


class PodIP(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    ip: str = ""


class PodStatus(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    phase: str = ""
    podIP: str = ""
    podIPs: tuple[PodIP, ...] = ()
    startTime: Time | None = None
    nominatedNodeName: str = ""
    conditions: tuple[PodCondition, ...] = ()
    containerStatuses: tuple[ContainerStatus, ...] = ()
    initContainerStatuses: tuple[ContainerStatus, ...] = ()
    allocatedResources: Quantities | None = None
    resources: ResourceRequirements | None = None
    nodeAllocatableResourceClaimStatuses: tuple[NodeAllocatableClaim, ...] = ()


class Pod(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    apiVersion: str = "v1"
    kind: str = "Pod"
    metadata: ObjectMeta = ObjectMeta()
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()

    @property
    def finished(self) -> bool:
        """Whether all containers have terminated and do not restart, so that the pod uses no resources."""
        return self.status.phase in (SUCCEEDED, FAILED)

    @property
    def terminating(self) -> bool:
        return self.metadata.deletionTimestamp is not None
