"""VolumeBinding: rejects nodes that cannot reach the volumes of the pod's claims, or give volumes to those that wait.

A bound claim restricts the pod by the node affinity of its volume. A claim of a class with the binding mode
WaitForFirstConsumer gets its volume for the pod's node: ``volume_choice`` decides which. The volumes of the chosen node
are taken at Reserve, and bound at PreBind, before the pod is.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from fairway.api.persistent_volume import LOST, PersistentVolumeClaim
from fairway.api.storage import WAIT_FOR_FIRST_CONSUMER
from fairway.engine.points import CommitContext, Context, Reads, Timeless
from fairway.engine.status import OK, SKIPPED, Code, Status
from fairway.hosts.bitmap import Bits
from fairway.hosts.column import Key
from fairway.hosts.direction import Direction
from fairway.hosts.nodes.node_selection import RequiredNodes
from fairway.hosts.nodes.pod_columns import CLAIM, STORAGE_CAPACITY, STORAGE_CLASS, VOLUME, VOLUMES
from fairway.hosts.nodes.pod_template import PodTemplate
from fairway.hosts.nodes.storage import Storage, nodes_of
from fairway.workloads.pods.plugins.volume_choice import (
    WaitingClaim,
    choose_volumes,
    in_order,
    select_nodes,
)
from fairway.workloads.pods.workload import PodPlugin, info_of_workload, template_of
from fairway.workloads.pods.workload import nodes_of as node_snapshot

NAME = "VolumeBinding"
CONFLICT = "node(s) didn't match PersistentVolume's node affinity"
NO_VOLUME = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"
NOT_FOUND = 'persistentvolumeclaim "{claim}" not found'
NOT_CREATED = 'waiting for ephemeral volume controller to create the persistentvolumeclaim "{claim}"'
NOT_OWNED = "PVC {namespace}/{claim} was not created for pod {pod} (pod is not owner)"
DELETED = 'persistentvolumeclaim "{claim}" is being deleted'
LOST_VOLUME = 'persistentvolumeclaim "{claim}" bound to non-existent persistentvolume "{volume}"'
NOT_BOUND = "pod has unbound immediate PersistentVolumeClaims"
BAD_TIMEOUT = "bindTimeoutSeconds must not be negative; got {given!r}"
DEFAULT_TIMEOUT = 600


class VolumeBinder(Protocol):
    """Binds the volumes of pods that have a node."""

    def reserve(self, context: CommitContext, /) -> Status: ...
    def release(self, context: CommitContext, /) -> None: ...
    def has_work(self, context: CommitContext, /) -> bool: ...
    async def bind(self, context: CommitContext, /, *, timeout: float) -> Status:
        """Bind the volumes, and wait at most ``timeout`` seconds until the API server shows them as bound."""


@dataclass(frozen=True, slots=True)
class _Volumes:
    required: tuple[tuple[str, RequiredNodes | None], ...]
    """The volumes of bound claims up to the first that does not exist, and where each one is."""
    missing: bool
    """Whether a claim is bound to a volume that does not exist."""
    waiting: tuple[WaitingClaim, ...]
    """The claims that get a volume once the pod has a node."""


class VolumeBinding(PodPlugin, Timeless):
    name = NAME

    def __init__(
        self, *, bind_timeout_seconds: int = DEFAULT_TIMEOUT, binder: VolumeBinder | None = None
    ) -> None:
        if bind_timeout_seconds < 0:
            raise ValueError(BAD_TIMEOUT.format(given=bind_timeout_seconds))
        self._timeout, self._binder = bind_timeout_seconds, binder

    def pre_filter(self, context: Context, /) -> tuple[Status, Bits | None]:
        template, storage = template_of(context), node_snapshot(context).storage
        if not template.claims:
            return SKIPPED, None
        claims: list[PersistentVolumeClaim] = []
        for name in template.claims:
            claim = storage.claims.get((template.namespace, name))
            objection = _objection(template, name, claim)
            if claim is None or objection is not None:
                return Status(Code.UNRESOLVABLE, (objection or "",), plugin=NAME), None
            claims.append(claim)
        waiting = waiting_claims(claims, storage)
        if waiting is None:
            return Status(Code.UNRESOLVABLE, (NOT_BOUND,), plugin=NAME), None
        required: list[tuple[str, RequiredNodes | None]] = []
        missing = False
        for claim in claims:
            if claim.bound and not missing:
                volume = storage.volumes.get(claim.spec.volumeName)
                missing = volume is None
                required.append((claim.spec.volumeName, None if volume is None else nodes_of(volume)))
        context.state.write(NAME, _Volumes(tuple(required), missing, waiting))
        return OK, None

    def admits(self, _context: Context, _row: int, /) -> Status:
        return OK

    def filter(self, context: Context, row: int, /) -> Status:
        volumes, node = context.state.read(NAME, _Volumes), context.snapshot.host(row).metadata
        reasons: list[str] = []
        reached = all(nodes is None or nodes.matches(node.name, node.labels) for _, nodes in volumes.required)
        if not reached:
            reasons.append(CONFLICT)
        chosen = choose_volumes(volumes.waiting, node.name, node.labels) if volumes.waiting else None
        if isinstance(chosen, str):
            reasons.append(chosen)
        if reached and volumes.missing:
            reasons.append(NO_VOLUME)
        return Status(Code.UNRESOLVABLE, tuple(reasons), plugin=NAME) if reasons else OK

    def filter_fleet(self, context: Context, candidates: Bits, /) -> tuple[Status, Bits]:
        volumes, snapshot = context.state.read(NAME, _Volumes), context.snapshot
        if volumes.missing:
            return OK, snapshot.none()
        passed = candidates
        for _, nodes in volumes.required:
            if nodes is not None:
                passed = nodes.select(snapshot, passed)
        return OK, select_nodes(volumes.waiting, snapshot, passed) if volumes.waiting else passed

    def reads(self, context: Context, /) -> Reads:
        template = template_of(context)
        if not template.claims:
            return Reads()
        cells: set[Key] = set()
        shared: set[Key] = {(CLAIM, template.namespace, name) for name in template.claims}
        storage = node_snapshot(context).storage
        for name in template.claims:
            claim = storage.claims.get((template.namespace, name))
            if claim is not None and not claim.bound:
                shared.add((STORAGE_CLASS, claim.storage_class))  # it may be created
        helps: dict[Key, Direction] = {VOLUMES: Direction.UP}
        volumes = context.state.find(NAME, _Volumes)
        if volumes is not None:
            for volume, nodes in volumes.required:
                shared.add((VOLUME, volume))
                cells |= frozenset() if nodes is None else nodes.columns()
            for waiting in volumes.waiting:
                cells |= waiting.columns()
                shared |= waiting.shared()
        helps |= {key: Direction.UP for key in shared if key[0] == STORAGE_CAPACITY}
        return Reads(cells=frozenset(cells), shared=frozenset(shared), helps=helps)

    # The chosen node

    def reserve(self, context: CommitContext, /) -> Status:
        return OK if self._binder is None else self._binder.reserve(context)

    def unreserve(self, context: CommitContext, /) -> None:
        if self._binder is not None:
            self._binder.release(context)

    def releases(self, _context: CommitContext, /) -> Mapping[Key, Direction]:
        return {}  # the fleet reports its own changes

    def commit_reads(self, context: CommitContext, /) -> Reads:
        template = info_of_workload(context.workload).template
        keys = {(CLAIM, template.namespace, name) for name in template.claims}
        return Reads(shared=frozenset({VOLUMES, *keys}))

    def has_pre_bind(self, context: CommitContext, /) -> bool:
        return self._binder is not None and self._binder.has_work(context)

    async def pre_bind(self, context: CommitContext, /) -> Status:
        return OK if self._binder is None else await self._binder.bind(context, timeout=self._timeout)


def waiting_claims(claims: list[PersistentVolumeClaim], storage: Storage) -> tuple[WaitingClaim, ...] | None:
    """Return those of the claims that get a volume once the pod has a node; None if one must be bound before."""
    waiting: list[WaitingClaim] = []
    for claim in claims:
        if claim.bound:
            continue
        class_ = storage.classes.get(claim.storage_class)
        if class_ is None or class_.volumeBindingMode != WAIT_FOR_FIRST_CONSUMER or claim.spec.volumeName:
            return None
        waiting.append(WaitingClaim(claim, class_, storage))
    return in_order(waiting)


def _objection(template: PodTemplate, name: str, claim: PersistentVolumeClaim | None) -> str | None:
    """Return why a claim cannot be used."""
    ephemeral = name in template.ephemeral_claims
    if claim is None:
        return (NOT_CREATED if ephemeral else NOT_FOUND).format(claim=name)
    if claim.status.phase == LOST:
        return LOST_VOLUME.format(claim=name, volume=claim.spec.volumeName)
    if claim.metadata.deletionTimestamp is not None:
        return DELETED.format(claim=name)
    if ephemeral and not template.owns(claim):
        return NOT_OWNED.format(namespace=template.namespace, claim=name, pod=template.name_of_owner)
    return None
