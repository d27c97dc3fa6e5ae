"""ClusterClaims of a hosting cluster: those of the hypershift add-on, and those that Fairway reads for hosting.

A ClusterClaim appears in the status of the ManagedCluster, and placements select by it. A claim has no validity; the
score beside it has.

Claims of an add-on's agent are owned by the agent's ClusterRole, so that the garbage collector deletes them when the
add-on is uninstalled.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from msgspec import Struct

from fairway.api.claim import ClusterClaim
from fairway.api.resources import CLUSTER_CLAIMS
from fairway.providers.hosted.headroom import Headroom, free, zones
from fairway.providers.hosted.sizing import GIBIBYTE
from kubewire.api.encoding import encode
from kubewire.api.meta import ObjectMeta, OwnerReference
from kubewire.client import Client, Forbidden, Informer, KubeError, NotFound, Patch, Resource
from kubewire.client.rbac import Rule

MAXIMUM: Final = 80
THRESHOLD: Final = 60
"""Default limits of hosted clusters."""

HOSTING: Final = "hostingcluster.hypershift.openshift.io"
FULL: Final = "full.hostedclustercount.hypershift.openshift.io"
ABOVE: Final = "above.threshold.hostedclustercount.hypershift.openshift.io"
ZERO: Final = "zero.hostedclustercount.hypershift.openshift.io"
# fairway.workloads.hosting reads these. An agent does not import that package, which would load the scheduler.
MAXIMUM_COUNT: Final = "maximum.hostedclustercount.fairway.dev"
"""The number of hosted clusters that a score of 100 slots stands for."""
FREE_CPU: Final = "cpu.free.hosting.fairway.dev"
FREE_MEMORY: Final = "memory.free.hosting.fairway.dev"
ZONES: Final = "zones.fairway.dev"
SCHEMA: Final = "schema.hosting.fairway.dev"
"""Required fields of HostedClusters and NodePools."""
NAMES: Final = (ABOVE, FREE_CPU, FREE_MEMORY, FULL, HOSTING, MAXIMUM_COUNT, SCHEMA, ZERO, ZONES)

FIELD_MANAGER: Final = "fairway-provider-hosted-clusters"
LABELS: Final = {
    "app.kubernetes.io/managed-by": "fairway",
    # A backup restored elsewhere must not restore claims about this cluster.
    "velero.io/exclude-from-backup": "true",
}


class Role(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """The part of a ClusterRole that is read: its uid."""

    metadata: ObjectMeta = ObjectMeta()


ROLES: Final = Resource(
    group="rbac.authorization.k8s.io",
    version="v1",
    plural="clusterroles",
    kind="ClusterRole",
    namespaced=False,
    type=Role,
)


def owned_rules(owner: str) -> tuple[Rule, ...]:
    """Permissions to have claims owned by a ClusterRole, in addition to writing them.

    Clusters with OwnerReferencesPermissionEnforcement, such as OpenShift, require permission to delete the object.
    """
    return (
        Rule(groups=(ROLES.group,), resources=(ROLES.plural,), verbs=("get",), names=(owner,)),
        Rule(
            groups=(CLUSTER_CLAIMS.group,), resources=(CLUSTER_CLAIMS.plural,), verbs=("delete",), names=NAMES
        ),
    )


NOT_WRITTEN: Final = "the claims cannot be written: {why}"
NOT_SERVED: Final = (
    "the cluster does not serve ClusterClaims: install their definition (fairway crds prints it), "
    "or set claims to false"
)
NOT_LIMITS: Final = (
    "a maximum of {maximum} and a threshold of {threshold} cannot be limits: "
    "both must be at least 1, and the maximum not less than the threshold"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Counts of hosted clusters at which a hosting cluster is full, and nearly full."""

    maximum: int = MAXIMUM
    threshold: int = THRESHOLD

    def __post_init__(self) -> None:
        if self.threshold < 1 or self.maximum < self.threshold:
            raise ValueError(NOT_LIMITS.format(maximum=self.maximum, threshold=self.threshold))


def claims_for(count: int, limits: Limits) -> Mapping[str, str]:
    return {
        HOSTING: "true",
        FULL: _format_bool(count >= limits.maximum),
        ABOVE: _format_bool(count >= limits.threshold),
        ZERO: _format_bool(count == 0),
        MAXIMUM_COUNT: str(limits.maximum),
    }


def room_claims(rooms: Iterable[Headroom]) -> Mapping[str, str]:
    """Free amounts and zones of the nodes that accept control planes."""
    rooms = list(rooms)
    whole = free(rooms)
    # Rounded down to whole cores and GiB, so that the claims, and with them the ManagedCluster on the hub, do not
    # change with every pod. 1e-9 corrects the rounding errors of a sum of millicores.
    return {
        FREE_CPU: str(math.floor(whole.cpu + 1e-9)),
        FREE_MEMORY: f"{math.floor(whole.memory / GIBIBYTE)}Gi",
        ZONES: str(zones(rooms)),
    }


def _format_bool(truth: bool) -> str:
    return "true" if truth else "false"


class Claims:
    """Writes claims that differ from those of the cluster. ``owner`` is the ClusterRole that owns them."""

    def __init__(self, client: Client, known: Informer[ClusterClaim], *, owner: str | None = None) -> None:
        self._client, self._known, self._owner_name = client, known, owner
        self._owner: OwnerReference | None = None
        self._looked_up = owner is None

    async def write(self, wanted: Mapping[str, str]) -> str:
        """Write what differs. Return the error; empty if there was none."""
        if self._looked_up and not self._outdated_claims(wanted):
            return ""
        try:
            if not await self._find_owner():
                return ""
        except KubeError as error:
            return NOT_WRITTEN.format(why=error)
        problem = ""
        for name, value in self._outdated_claims(wanted).items():
            metadata: dict[str, Any] = {"name": name, "labels": LABELS}
            if self._owner is not None:
                metadata["ownerReferences"] = [encode(self._owner)]
            body = {
                "apiVersion": CLUSTER_CLAIMS.api_version,
                "kind": CLUSTER_CLAIMS.kind,
                "metadata": metadata,
                "spec": {"value": value},
            }
            try:
                await self._client.patch(
                    CLUSTER_CLAIMS, name, body, kind=Patch.APPLY, field_manager=FIELD_MANAGER, force=True
                )
            except NotFound:
                return NOT_SERVED
            except KubeError as error:
                problem = NOT_WRITTEN.format(why=error)
        return problem

    def _outdated_claims(self, wanted: Mapping[str, str]) -> dict[str, str]:
        return {name: value for name, value in wanted.items() if not self._is_current(name, value)}

    def _is_current(self, name: str, value: str) -> bool:
        there = self._known.get(name)
        if there is None or there.spec.value != value:
            return False
        owners = there.metadata.ownerReferences or ()
        return self._owner is None or any(owner.uid == self._owner.uid for owner in owners)

    async def _find_owner(self) -> bool:
        """Return whether claims may be written: not after their owner was deleted with the add-on."""
        if self._owner_name is None:
            return True
        try:
            role = await self._client.get(ROLES, self._owner_name)
        except (Forbidden, NotFound):
            self._looked_up = True  # an agent that no add-on installed has no ClusterRole
            return self._owner is None
        self._looked_up = True
        self._owner = OwnerReference(
            apiVersion=ROLES.api_version, kind=ROLES.kind, name=self._owner_name, uid=role.metadata.uid
        )
        return True
