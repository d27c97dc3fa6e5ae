"""The pods of one leadership term: the nodes with their pods, the queue, and the commits.

Informers feed the fleet and the queue. A pod counts on its node from the moment a node is chosen (AssumePod) until the
hub shows it there, deletes it, or the commit gives the place back.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from msgspec import structs

from fairway.api.node import Node
from fairway.api.persistent_volume import PersistentVolume, PersistentVolumeClaim
from fairway.api.pod import Pod, PodStatus
from fairway.api.pod_disruption_budget import PodDisruptionBudget
from fairway.api.pod_group import PodGroup
from fairway.api.pod_owner import PodOwner
from fairway.api.storage import CSIDriver, CSINode, CSIStorageCapacity, StorageClass, VolumeAttachment
from fairway.controllers.kinds import Namespace
from fairway.controllers.pods.binding import DefaultBinder
from fairway.controllers.pods.diagnosis import commit_error, fit_error
from fairway.controllers.pods.gangs import Gangs
from fairway.controllers.pods.hub_access import PodAccess
from fairway.controllers.pods.keys import PodsKey
from fairway.controllers.pods.metrics import PodMetrics
from fairway.controllers.pods.preemption import Preemptor
from fairway.controllers.pods.status import SCHEDULER_ERROR, UNSCHEDULABLE, PodReporter
from fairway.controllers.pods.volume_binder import VolumeBinder
from fairway.controllers.runtime.decision_history import DecisionHistory
from fairway.controllers.runtime.scheduling_loop import SchedulingLoop
from fairway.engine.commit.instructions import ForCaller, Returned
from fairway.engine.dependencies import Event, event_of
from fairway.engine.outcome import Outcome
from fairway.engine.profile import Enabled, Profile, ProfileSpec, plugins_of
from fairway.engine.queue import Backoff
from fairway.engine.scheduler import Scheduler
from fairway.engine.workload import HostKey, Workload, WorkloadKey
from fairway.hosts.direction import ANY
from fairway.hosts.instant import SECOND, Micros, to_micros
from fairway.hosts.journal import NOTHING, Change, joined
from fairway.hosts.nodes import NodeFleet
from fairway.hosts.nodes.pod_owners import POD_OWNERS, PodOwners, owner_of
from fairway.hosts.nodes.pod_template import PodInfo
from fairway.hosts.steps import Steps, strides
from fairway.scheduling import Scheduling
from fairway.workloads.pods import pod_registry, pod_workload
from fairway.workloads.pods.plugins.assume_pod import AssumePod
from fairway.workloads.pods.plugins.default_preemption import NEVER_PREEMPTS, VICTIMS_TERMINATE, Preemption
from fairway.workloads.pods.plugins.nominated_pods import NominatedPods
from fairway.workloads.pods.plugins.vm_scaling import EarmarkPreemption, MachineRoom
from kubewire.client import Clock, Informer, Recorder

PRE_FILTER: Final = "PreFilter"
FILTER: Final = "Filter"
RESERVE: Final = "Reserve"

StorageObject = StorageClass | CSIDriver | CSINode | CSIStorageCapacity | VolumeAttachment

CHANGED: Final = "nodes or pods changed"
COMMITTED: Final = "a pod took its place, or gave it back"


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulingHooks:
    """What an extension uses of the scheduling that it extends, once that is loaded."""

    fleet: NodeFleet
    preview: Callable[[Workload[PodInfo]], Outcome | None]
    """Returns what a cycle of a pod would decide now; None if another scheduler places it."""
    wake: Callable[[Event], None]
    """Wakes the pods that an event concerns."""
    report: Callable[[str], None]
    """Wakes the pods that the changes of the fleet concern which nothing has reported yet."""


class Extension:
    """What virtual machines add to the scheduling of pods. This one adds nothing."""

    @property
    def room(self) -> MachineRoom | None:
        return None

    def profile(self, spec: ProfileSpec, /) -> ProfileSpec:
        """Return a profile with the plugins that every profile needs beside its own."""
        return spec

    def take_room(self, pod: Pod, plan: EarmarkPreemption, /) -> None:
        """Close earmarks for a pod that was nominated to their node."""

    # What the hub shows, once the scheduling of pods has taken it

    def upsert_node(self, node: Node, /) -> None: ...
    def delete_node(self, node: Node, /) -> None: ...
    def upsert_pod(self, pod: Pod, /) -> None: ...
    def delete_pod(self, pod: Pod, /) -> None: ...

    def on_event(self, event: Event, /) -> None:
        """Take an event that wakes pods."""


def no_extension(_hooks: SchedulingHooks) -> Extension:
    return Extension()


class PodScheduling:
    """``fleet`` has the nodes and pods, ``loop`` runs the ``scheduler``.

    Virtual machines preview where their pods could run, and pods ask them for room: each needs the other. So ``extend``
    creates them in here, and gets hooks that work as soon as the constructor has returned.
    """

    def __init__(
        self,
        *,
        scheduling: Scheduling,
        hub: PodAccess,
        pods: Informer[Pod],
        claims: Informer[PersistentVolumeClaim],
        volumes: Informer[PersistentVolume],
        reporter: PodReporter,
        recorders: Mapping[str, Recorder],
        metrics: PodMetrics,
        wake: Callable[[PodsKey], None],
        clock: Clock,
        extend: Callable[[SchedulingHooks], Extension] = no_extension,
        history: DecisionHistory | None = None,
    ) -> None:
        self._history = history
        self.fleet = NodeFleet()
        self._changes: list[Change] = []
        """Of the fleet, not reported yet."""
        self.fleet.follow(self._changes.append)
        self.extension = extend(
            SchedulingHooks(
                fleet=self.fleet,
                preview=self.preview,
                wake=lambda event: self.loop.on_event(event),
                report=self.report,
            )
        )
        self.owners = PodOwners()
        self._hub, self._reporter, self._clock = hub, reporter, clock
        self._volume_binder = VolumeBinder(fleet=self.fleet, hub=hub, claims=claims, volumes=volumes)
        self.preemptor = Preemptor(
            fleet=self.fleet,
            pods=pods,
            hub=hub,
            reporter=reporter,
            recorders=recorders,
            metrics=metrics,
            wake=wake,
            report=self.report,
            take_room=self.extension.take_room,
            clock=clock,
        )
        profiles = self._profiles(scheduling)
        self._gangs = Gangs(profiles)
        self._names = frozenset(profile.name for profile in profiles)
        configuration = scheduling.configuration
        self.scheduler = Scheduler(
            profiles=profiles,
            profile_name=lambda workload: workload.spec.pod.spec.schedulerName,
            host_key=host_key,
            backoff=Backoff(
                initial=configuration.initial_backoff_seconds * SECOND,
                maximum=configuration.max_backoff_seconds * SECOND,
            ),
            changes=self._take_committed,
        )
        self.loop = SchedulingLoop(
            self.scheduler,
            snapshot=self.fleet.snapshot,
            read_back=self._read_back,
            on_outcome=self._decided,
            on_bound=self._bound,
            on_returned=self._returned,
            settle=self._settle,
            on_nominated=lambda nominate: self.preemptor.carry_out(nominate, self.loop),
            clock=clock,
        )

    def _profiles(self, scheduling: Scheduling) -> list[Profile]:
        """Build the profiles. Each has its own plugins, except those that keep what is shared."""
        registry = pod_registry(room=self.extension.room, owners=self.owners, volumes=self._volume_binder)
        registry.register(AssumePod.name, lambda: AssumePod(fleet=self.fleet), kind=AssumePod)
        registry.register(
            DefaultBinder.name, lambda: DefaultBinder(self._hub, history=self._history), kind=DefaultBinder
        )
        registry.register(NominatedPods.name, lambda: NominatedPods(fleet=self.fleet), kind=NominatedPods)
        profiles = scheduling.build(registry, change=lambda spec: extended(self.extension.profile(spec)))
        for profile in profiles:
            for plugin in plugins_of(profile):
                if isinstance(plugin, NominatedPods):
                    plugin.attach(profile)
        return profiles

    def _settle(self, now: Micros) -> list[ForCaller]:
        # The next cycle reads a snapshot with these changes: an event after it would come too late.
        self.report(CHANGED)
        return self._gangs.settle(self.scheduler, now=now)

    def preview(self, workload: Workload[PodInfo]) -> Outcome | None:
        """Return what a cycle of a pod would decide now; None if another scheduler places it."""
        return self.scheduler.preview(workload, self.fleet.snapshot(), now=to_micros(self._clock.wall()))

    # Observations

    def load(self, nodes: Iterable[Node], pods: Iterable[Pod]) -> Steps[None]:
        """Begin with what the hub shows."""
        given = list(pods)
        self.fleet.load(nodes)
        yield from self.fleet.load_pods(given)
        for some in strides(pod for pod in given if pod.spec.schedulerName in self._names):
            yield
            for pod in some:
                self._upsert_pod(pod, None)
        self._changes.clear()  # no pod was tried yet

    def upsert_node(self, node: Node) -> None:
        self.fleet.upsert_node(node)
        self.report("node updated")
        self.extension.upsert_node(node)

    def delete_node(self, node: Node) -> None:
        """Delete a node. One that is recreated under the same name has another uid."""
        self.fleet.delete_node(node.metadata.name)
        self.loop.remove_host(host_key(node))
        self.report("node deleted")
        self.extension.delete_node(node)

    def upsert_pod(self, pod: Pod, old: Pod | None = None) -> None:
        """Add or update a pod; ``old`` is its last version."""
        self._upsert_pod(pod, old)
        self.extension.upsert_pod(pod)

    def _upsert_pod(self, pod: Pod, old: Pod | None) -> None:
        node = pod.spec.nodeName
        ours = pod.spec.schedulerName in self._names
        if node:
            self._nominate(pod, "")
            # First the fleet: from here on the place is the observed one, whatever becomes of the commit.
            self.fleet.upsert_pod(pod)
            if ours:
                key = key_of(pod)
                self._wake(self._gangs.upsert_pod(pod))
                self.loop.observed(key, (self._host_named(node),))
            self.report("pod updated")
        elif ours:
            if pod.terminating or pod.finished:
                self._nominate(pod, "")
                self._forget(pod)
            else:
                # Only a change counts: until it is written, the hub does not show what this scheduler decided.
                if old is None or old.status.nominatedNodeName != pod.status.nominatedNodeName:
                    self._nominate(pod, pod.status.nominatedNodeName)
                self._wake(self._gangs.upsert_pod(pod))
                self._offer(pod)

    def _offer(self, pod: Pod) -> None:
        try:
            workload = queued_pod(pod)
        except ValueError as error:  # such as a negative request, which kube-apiserver rejects
            self._forget(pod)
            self._reporter.failed(key_of(pod), SCHEDULER_ERROR, str(error))
        else:
            self.loop.put(workload)

    def delete_pod(self, pod: Pod) -> None:
        self._nominate(pod, "")
        if pod.spec.schedulerName in self._names:
            self._forget(pod)
        self.fleet.delete_pod(pod.metadata.namespace, pod.metadata.name)
        self.report("pod deleted")
        self.extension.delete_pod(pod)

    def reset_pod(self, pod: Pod) -> None:
        """Take a pod back that has lost its node, which only a restored backup of the hub does."""
        self.fleet.delete_pod(pod.metadata.namespace, pod.metadata.name)
        self.report("pod lost its node")
        self.upsert_pod(pod)

    def upsert_group(self, group: PodGroup) -> None:
        self._wake(self._gangs.upsert_group(group))

    def delete_group(self, group: PodGroup) -> None:
        self._wake(self._gangs.delete_group(group))

    def upsert_namespace(self, namespace: Namespace) -> None:
        self.fleet.upsert_namespace(namespace.metadata.name, namespace.metadata.labels)
        self.report("namespace updated")

    def delete_namespace(self, namespace: Namespace) -> None:
        self.fleet.delete_namespace(namespace.metadata.name)
        self.report("namespace deleted")

    def upsert_claim(self, claim: PersistentVolumeClaim) -> None:
        self.fleet.upsert_claim(claim)
        self._volume_binder.claim_changed(claim)
        self.report("PersistentVolumeClaim updated")

    def delete_claim(self, claim: PersistentVolumeClaim) -> None:
        self.fleet.delete_claim(claim.metadata.namespace, claim.metadata.name)
        self._volume_binder.claim_changed(claim)
        self.report("PersistentVolumeClaim deleted")

    def upsert_volume(self, volume: PersistentVolume) -> None:
        self.fleet.upsert_volume(volume)
        self._volume_binder.volume_changed(volume)
        self.report("PersistentVolume updated")

    def delete_volume(self, volume: PersistentVolume) -> None:
        self.fleet.delete_volume(volume.metadata.name)
        self._volume_binder.volume_changed(volume)
        self.report("PersistentVolume deleted")

    def upsert_storage(self, object_: StorageObject) -> None:
        """Add or update a StorageClass, CSIDriver, CSINode, CSIStorageCapacity or VolumeAttachment."""
        match object_:
            case StorageClass():
                self.fleet.upsert_class(object_)
            case CSIDriver():
                self.fleet.upsert_driver(object_)
            case CSINode():
                self.fleet.upsert_csi_node(object_)
            case CSIStorageCapacity():
                self.fleet.upsert_capacity(object_)
            case VolumeAttachment():
                self.fleet.upsert_attachment(object_)
        self.report(f"{object_.kind} updated")

    def delete_storage(self, object_: StorageObject) -> None:
        match object_:
            case StorageClass():
                self.fleet.delete_class(object_.metadata.name)
            case CSIDriver():
                self.fleet.delete_driver(object_.metadata.name)
            case CSINode():
                self.fleet.delete_csi_node(object_.metadata.name)
            case CSIStorageCapacity():
                self.fleet.delete_capacity(object_)
            case VolumeAttachment():
                self.fleet.delete_attachment(object_)
        self.report(f"{object_.kind} deleted")

    def upsert_budget(self, budget: PodDisruptionBudget) -> None:
        self.fleet.upsert_budget(budget)

    def delete_budget(self, budget: PodDisruptionBudget) -> None:
        self.fleet.delete_budget(budget.metadata.namespace, budget.metadata.name)

    def upsert_owner(self, owner: PodOwner) -> None:
        self._owners_changed(self.owners.upsert(owner), owner)

    def delete_owner(self, owner: PodOwner) -> None:
        self._owners_changed(self.owners.delete(owner), owner)

    def _owners_changed(self, changed: bool, owner: PodOwner) -> None:
        if changed:
            self._wake(Event(label=f"{owner.kind} changed", columns={POD_OWNERS: ANY}))

    def report(self, label: str) -> None:
        """Wake the pods that the changes of the fleet concern which nothing has reported yet."""
        change = self._take_changes()
        if change.columns or change.added:
            self._wake(event_of(change, label=label))

    def _take_changes(self) -> Change:
        """Return what changed in the fleet since the last call, so that each change is reported exactly once."""
        if not self._changes:
            return NOTHING
        change = joined(self._changes)
        self._changes.clear()
        return change

    def _take_committed(self) -> Change:
        """The same for the scheduler, which wakes pods itself, and excludes the one that took or gave back a place."""
        change = self._take_changes()
        if change.columns or change.added:
            self.extension.on_event(event_of(change, label=COMMITTED))
        return change

    def _wake(self, event: Event | None) -> None:
        if event is not None:
            self.loop.on_event(event)
            self.extension.on_event(event)

    def _nominate(self, pod: Pod, node: str) -> None:
        if node or self.fleet.nominations:
            self.fleet.nominate(pod, node)
            self.report("pod nominated")

    def _forget(self, pod: Pod) -> None:
        key = key_of(pod)
        self.loop.delete(key)
        self._wake(self._gangs.delete_pod(pod))
        self._reporter.forget(key)

    def _host_named(self, node: str) -> HostKey:
        known = self.fleet.find_node(node)
        return HostKey(node, "") if known is None else host_key(known)

    # Results

    def _decided(self, outcome: Outcome) -> None:
        if not len(outcome.selected_rows):
            workload: Any = outcome.context.workload
            if outcome.status.aborts:
                self._give_up(workload, SCHEDULER_ERROR, outcome.status.message)
            elif keeps_nomination(outcome):
                if outcome.relief is not None and outcome.relief.message == NEVER_PREEMPTS:
                    self._gangs.reject_pod(workload.spec.pod)
                self._reporter.failed(workload.key, UNSCHEDULABLE, fit_error(outcome))
            elif (plan := Preemption.of(outcome) or EarmarkPreemption.of(outcome)) is not None:
                self._reporter.failed(workload.key, UNSCHEDULABLE, fit_error(outcome), node=plan.node)
            else:
                self._gangs.reject_pod(workload.spec.pod)
                self._give_up(workload, UNSCHEDULABLE, fit_error(outcome))

    def _give_up(self, workload: Workload[PodInfo], reason: str, message: str) -> None:
        """Report a failed attempt after which the pod does not wait for a certain node."""
        self._nominate(workload.spec.pod, "")
        self._reporter.failed(workload.key, reason, message, node="")

    def _bound(self, key: WorkloadKey, hosts: tuple[HostKey, ...]) -> None:
        self._reporter.bound(key, hosts[0].name)

    def _returned(self, returned: Returned) -> None:
        if returned.error:
            self._reporter.failed(returned.key, SCHEDULER_ERROR, returned.error)
        else:
            reasons = [reason for rejection in returned.rejections for reason in rejection.reasons]
            self._reporter.failed(returned.key, UNSCHEDULABLE, commit_error(reasons))

    async def _read_back(self, key: WorkloadKey) -> tuple[HostKey, ...] | None:
        pod = await self._hub.read(key)
        return None if pod is None or not pod.spec.nodeName else (self._host_named(pod.spec.nodeName),)

    async def run(self) -> None:
        await self.loop.run()


def host_key(node: Node) -> HostKey:
    return HostKey.of(node.metadata)


def key_of(pod: Pod) -> WorkloadKey:
    meta = pod.metadata
    return WorkloadKey.of(meta)


def keeps_nomination(outcome: Outcome) -> bool:
    """Return whether the pod still waits for the room that an earlier attempt makes, or must not make any."""
    relief = outcome.relief
    return relief is not None and relief.message in (NEVER_PREEMPTS, VICTIMS_TERMINATE)


def queued_pod(pod: Pod) -> Workload[PodInfo]:
    """Return a pod without a node as a workload. Two versions that are scheduled alike are equal: a condition that
    this scheduler writes must not wake the pod."""
    owner = owner_of(pod.metadata)
    meta = structs.replace(
        pod.metadata,
        resourceVersion="",
        generation=0,
        finalizers=(),
        ownerReferences=() if owner is None else (owner,),
    )
    return pod_workload(structs.replace(pod, metadata=meta, status=PodStatus()))


def extended(spec: ProfileSpec) -> ProfileSpec:
    """Return a profile with AssumePod as its first Reserve plugin, and NominatedPods as its last Filter plugin."""
    nominated = (Enabled(NominatedPods.name),)
    return spec.extended(
        {PRE_FILTER: nominated, FILTER: nominated, RESERVE: (Enabled(AssumePod.name),)}, first=(RESERVE,)
    )
