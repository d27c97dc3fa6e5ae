"""Bind the volumes of pods that have a node, before the pods are bound.

A volume that exists gets its claim, and a claim to be provisioned its node; the controllers of volumes do the rest. The
pod waits until the API server shows its claims as bound. Until then the fleet shows what is assumed, so that no other
pod takes the same volume.
"""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from fairway.api.node import Node
from fairway.api.persistent_volume import (
    SELECTED_NODE,
    ClaimReference,
    PersistentVolume,
    PersistentVolumeClaim,
)
from fairway.controllers.pods.hub_access import PodAccess
from fairway.engine.points import CommitContext
from fairway.engine.status import OK, Code, Status, failed
from fairway.engine.workload import WorkloadKey
from fairway.hosts.nodes import NodeFleet
from fairway.hosts.nodes.storage import ObjectKey, nodes_of
from fairway.workloads.pods.plugins.volume_binding import NAME, waiting_claims
from fairway.workloads.pods.plugins.volume_choice import VolumeChoice, choose_volumes
from fairway.workloads.pods.workload import info_of_workload
from kubewire.client import Informer, KubeError
from kubewire.client.fence import Unconfirmed

CHOICE: Final = "fairway.dev/volumes"
"""Key of the commit's state under which Reserve leaves the volumes to bind, until they are bound or given back."""
CHANGED: Final = "a claim of the pod was deleted, or must be bound by now; trying again"
BINDING: Final = "binding volumes: {reason}"
DELETED_CLAIM: Final = 'persistentvolumeclaim "{claim}" not found'
DELETED_VOLUME: Final = 'persistentvolume "{volume}" not found'
OTHER_NODE: Final = 'pv "{volume}" node affinity doesn\'t match node "{node}"'
RESET: Final = 'ClaimRef got reset for pv "{volume}"'
NOT_PROVISIONED: Final = 'provisioning failed for PVC "{claim}"'
TIMED_OUT: Final = "binding volumes: after {seconds:.0f} seconds not bound: PersistentVolumeClaim {claims}"


class VolumeBinder:
    def __init__(
        self,
        *,
        fleet: NodeFleet,
        hub: PodAccess,
        claims: Informer[PersistentVolumeClaim],
        volumes: Informer[PersistentVolume],
    ) -> None:
        self._fleet, self._hub, self._claims, self._volumes = fleet, hub, claims, volumes
        self._users: dict[ObjectKey | str, set[WorkloadKey]] = {}
        """The pods for which a claim, or a volume by its name, is assumed: several pods may share a claim."""
        self._waiting: dict[ObjectKey, set[asyncio.Event]] = {}
        """Set when one of these claims, or its volume, changes."""

    # Plugin calls

    def reserve(self, context: CommitContext, /) -> Status:
        """Choose the volumes on the pod's node, and assume that they are bound."""
        template = info_of_workload(context.workload).template
        if not template.claims:
            return OK
        storage, node = self._fleet.storage, self._fleet.find_node(context.hosts[0].name)
        keys = [(template.namespace, name) for name in template.claims]
        claims = [claim for key in keys if (claim := storage.claims.get(key)) is not None]
        waiting = waiting_claims(claims, storage)
        if node is None or waiting is None or len(claims) < len(keys):
            return Status(Code.UNSCHEDULABLE, (CHANGED,), plugin=NAME)
        if not waiting:
            return OK
        choice = choose_volumes(waiting, node.metadata.name, node.metadata.labels)
        if isinstance(choice, str):
            return Status(Code.UNSCHEDULABLE, (choice,), plugin=NAME)
        context.state.write(CHOICE, choice)
        for claim, volume in choice.bindings:
            self._users.setdefault(volume.metadata.name, set()).add(context.workload.key)
            self._fleet.take_volume(volume.metadata.name, _reference(claim))
        for claim in choice.provisioned:
            self._users.setdefault(key_of(claim), set()).add(context.workload.key)
            self._fleet.provision_claim(key_of(claim), node.metadata.name)
        return OK

    def release(self, context: CommitContext, /) -> None:
        """Assume nothing for a pod any more. What is written already stays: the next attempt finds it."""
        choice = context.state.find(CHOICE, VolumeChoice)
        if choice is None:
            return
        context.state.discard(CHOICE)
        for _, volume in choice.bindings:
            if self._is_last_user(volume.metadata.name, context.workload.key):
                self._fleet.release_volume(volume.metadata.name)
        for claim in choice.provisioned:
            if self._is_last_user(key_of(claim), context.workload.key):
                self._fleet.release_claim(key_of(claim))

    def _is_last_user(self, key: ObjectKey | str, workload: WorkloadKey) -> bool:
        users = self._users.get(key, set())
        users.discard(workload)
        if not users:
            self._users.pop(key, None)
        return not users

    def has_work(self, context: CommitContext, /) -> bool:
        return context.state.find(CHOICE, VolumeChoice) is not None

    async def bind(self, context: CommitContext, /, *, timeout: float) -> Status:
        choice, node = context.state.read(CHOICE, VolumeChoice), context.hosts[0].name
        try:
            await self._write(choice, node)
        except (KubeError, Unconfirmed) as error:
            return failed(BINDING.format(reason=error), plugin=NAME)
        status = await self._until_bound(choice, node, timeout)
        if status is OK:
            self.release(context)  # the hub shows what was assumed
        return status

    async def _write(self, choice: VolumeChoice, node: str) -> None:
        for claim, chosen in choice.bindings:
            volume = self._volumes.get(chosen.metadata.name) or chosen
            reference = volume.spec.claimRef
            if reference is None or reference.uid != claim.metadata.uid:
                self._volumes.observe(await self._hub.reserve_volume(volume, claim))
        for chosen_claim in choice.provisioned:
            claim = self._find_claim(key_of(chosen_claim)) or chosen_claim
            if claim.metadata.annotations.get(SELECTED_NODE) != node:
                self._claims.observe(await self._hub.select_node(claim, node))

    async def _until_bound(self, choice: VolumeChoice, node: str, timeout: float) -> Status:
        with self._changes_of(choice) as changed:
            try:
                async with asyncio.timeout(timeout):
                    # Nothing is awaited between the check and the wait, so that no change is missed. The check comes
                    # first: the claims may have been bound while the last write was under way.
                    while (status := self._check(choice, node)) is None:
                        changed.clear()
                        await changed.wait()
            except TimeoutError:
                claims = [key_of(claim) for claim in _claims_of(choice)]
                unbound = [name for key in claims for name in self._unbound(key)]
                reason = TIMED_OUT.format(seconds=timeout, claims=", ".join(unbound))
                return failed(reason, plugin=NAME)
        return status

    def _unbound(self, key: ObjectKey) -> list[str]:
        claim = self._find_claim(key)
        return [] if claim is not None and claim.bound else ["/".join(key)]

    @contextmanager
    def _changes_of(self, choice: VolumeChoice) -> Iterator[asyncio.Event]:
        changed, keys = asyncio.Event(), [key_of(claim) for claim in _claims_of(choice)]
        for key in keys:
            self._waiting.setdefault(key, set()).add(changed)
        try:
            yield changed
        finally:
            for key in keys:
                self._waiting[key].discard(changed)
                if not self._waiting[key]:
                    del self._waiting[key]

    def _check(self, choice: VolumeChoice, name: str) -> Status | None:
        """Return whether all claims are bound, or why they will not be; None while that is open."""
        node = self._fleet.find_node(name)
        problem, is_bound = "", node is not None
        for claim, volume in choice.bindings:
            problem = problem or self._problem_of_volume(claim, volume.metadata.name, node)
            current = self._find_claim(key_of(claim))
            is_bound = is_bound and current is not None and current.bound
        for claim in choice.provisioned:
            problem = problem or self._problem_of_claim(claim, node)
            current = self._find_claim(key_of(claim))
            is_bound = is_bound and current is not None and current.bound
            # Informers are not synchronised: the claim may name a volume that is not observed yet. As in
            # kube-scheduler, the pod waits for it.
            if current is not None and current.spec.volumeName:
                is_bound = is_bound and self._volumes.get(current.spec.volumeName) is not None
        if problem:
            return failed(BINDING.format(reason=problem), plugin=NAME)
        return OK if is_bound else None

    def _problem_of_volume(self, claim: PersistentVolumeClaim, name: str, node: Node | None) -> str:
        volume = self._volumes.get(name)
        if volume is None:
            return DELETED_VOLUME.format(volume=name)
        if self._find_claim(key_of(claim)) is None:
            return DELETED_CLAIM.format(claim=claim.metadata.name)
        if not _is_reached(volume, node):
            return OTHER_NODE.format(volume=name, node="" if node is None else node.metadata.name)
        reference = volume.spec.claimRef
        return RESET.format(volume=name) if reference is None or not reference.uid else ""

    def _problem_of_claim(self, given: PersistentVolumeClaim, node: Node | None) -> str:
        claim = self._find_claim(key_of(given))
        if claim is None or claim.metadata.uid != given.metadata.uid:
            return DELETED_CLAIM.format(claim=given.metadata.name)
        # A provisioner removes the annotation when it fails, so that another node is chosen.
        if node is not None and claim.metadata.annotations.get(SELECTED_NODE) != node.metadata.name:
            return NOT_PROVISIONED.format(claim=given.metadata.name)
        volume = self._volumes.get(claim.spec.volumeName)
        if volume is not None and not _is_reached(volume, node):
            return OTHER_NODE.format(
                volume=volume.metadata.name, node="" if node is None else node.metadata.name
            )
        return ""

    def _find_claim(self, key: ObjectKey) -> PersistentVolumeClaim | None:
        return self._claims.get(key[1], namespace=key[0])

    # Observations

    def claim_changed(self, claim: PersistentVolumeClaim) -> None:
        for changed in self._waiting.get(key_of(claim), ()):
            changed.set()

    def volume_changed(self, volume: PersistentVolume) -> None:
        if not self._waiting:
            return
        reference = volume.spec.claimRef
        # A volume without a claim no longer says which pod waits for it, so all check again.
        keys = {(reference.namespace, reference.name)} if reference is not None else set(self._waiting)
        for key in keys:
            for changed in self._waiting.get(key, ()):
                changed.set()


def key_of(claim: PersistentVolumeClaim) -> ObjectKey:
    return claim.metadata.namespace, claim.metadata.name


def _claims_of(choice: VolumeChoice) -> list[PersistentVolumeClaim]:
    return [*(claim for claim, _ in choice.bindings), *choice.provisioned]


def _reference(claim: PersistentVolumeClaim) -> ClaimReference:
    meta = claim.metadata
    return ClaimReference(namespace=meta.namespace, name=meta.name, uid=meta.uid)


def _is_reached(volume: PersistentVolume, node: Node | None) -> bool:
    nodes = nodes_of(volume)
    return node is None or nodes is None or nodes.matches(node.metadata.name, node.metadata.labels)
