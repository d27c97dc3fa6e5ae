"""The pods of one leadership term: the nodes with their pods, the queue, and the commits.

Informers feed the fleet and the queue. A pod counts on its node from the moment a node is chosen (AssumePod) until the
hub shows it there, deletes it, or the commit gives the place back.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from msgspec import structs

from fairway.api.node import Node
from fairway.api.persistent_volume import PersistentVolume, PersistentVolumeClaim
from fairway.api.pod import Pod, PodStatus
from fairway.api.pod_disruption_budget import PodDisruptionBudget
from fairway.api.pod_group import PodGroup
from fairway.api.pod_owner import PodOwner
from fairway.controllers.kinds import Namespace
from fairway.controllers.leadership import Leadership
from fairway.controllers.machines.binding import DefaultBinder
from fairway.controllers.machines.diagnosis import commit_error, fit_error
from fairway.controllers.machines.gangs import Gangs
from fairway.controllers.machines.hub_access import PodAccess
from fairway.controllers.machines.pod_metrics import PodMetrics
from fairway.controllers.machines.pod_status import SCHEDULER_ERROR, UNSCHEDULABLE, PodReporter
from fairway.controllers.machines.preemption import Preemptor
from fairway.controllers.reconciler import Key
from fairway.controllers.scheduling_loop import SchedulingLoop
from fairway.engine.commit.instructions import Returned
from fairway.engine.dependencies import Event, event_of
from fairway.engine.outcome import Outcome
from fairway.engine.profile import Enabled, Profile, ProfileSpec, build_profile, plugins_of
from fairway.engine.queue import Backoff
from fairway.engine.registry import Registry
from fairway.engine.scheduler import Scheduler
from fairway.engine.workload import HostKey, Workload, WorkloadKey
from fairway.fleet.direction import ANY
from fairway.fleet.instant import SECOND, to_micros
from fairway.fleet.journal import Change
from fairway.fleet.steps import Steps, strides
from fairway.kube import Clock, Informer, Recorder
from fairway.nodes import NodeFleet
from fairway.nodes.pod_owners import POD_OWNERS, PodOwners, owner_of
from fairway.nodes.pod_template import PodInfo
from fairway.plugins.pods import pod_registry, pod_workload
from fairway.plugins.pods.assume_pod import AssumePod
from fairway.plugins.pods.default_preemption import NEVER_PREEMPTS, VICTIMS_TERMINATE, Preemption
from fairway.plugins.pods.nominated_pods import NominatedPods
from fairway.plugins.pods.vm_scaling import EarmarkPreemption, MachineRoom
from fairway.scheduling import Scheduling

PRE_FILTER: Final = "PreFilter"
FILTER: Final = "Filter"
POST_FILTER: Final = "PostFilter"
RESERVE: Final = "Reserve"


@dataclass(frozen=True, slots=True, kw_only=True)
class Extension:
    """What virtual machines add to the profiles of pods."""

    room: MachineRoom | None = None
    take_room: Callable[[Pod, EarmarkPreemption], None] = lambda _pod, _plan: None
    """Closes earmarks for a pod that was nominated to their node."""
    register: Callable[[Registry], None] = lambda _: None
    """Registers more plugins."""
    points: Mapping[str, tuple[Enabled, ...]] = field(default_factory=dict)
    """Plugins that every profile has, after its own, by extension point."""


class PodScheduling:
    """``fleet`` has the nodes and pods, ``loop`` runs the ``scheduler``."""

    def __init__(
        self,
        *,
        scheduling: Scheduling,
        hub: PodAccess,
        pods: Informer[Pod],
        reporter: PodReporter,
        recorders: Mapping[str, Recorder],
        metrics: PodMetrics,
        wake: Callable[[Key], None],
        clock: Clock,
        fleet: NodeFleet | None = None,
        extension: Extension | None = None,
    ) -> None:
        self.fleet = NodeFleet() if fleet is None else fleet
        self.owners = PodOwners()
        self._hub, self._reporter, self._clock = hub, reporter, clock
        self._assume = AssumePod(fleet=self.fleet)
        self.preemptor = Preemptor(
            fleet=self.fleet,
            pods=pods,
            hub=hub,
            reporter=reporter,
            recorders=recorders,
            metrics=metrics,
            wake=wake,
            changed=self._changed,
            take_room=(extension or Extension()).take_room,
            clock=clock,
        )
        profiles = self._profiles(scheduling, extension or Extension())
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
        )
        self.loop = SchedulingLoop(
            self.scheduler,
            snapshot=self.fleet.snapshot,
            read_back=self._read_back,
            on_outcome=self._decided,
            on_bound=self._bound,
            on_returned=self._returned,
            settle=lambda now: self._gangs.settle(self.scheduler, now=now),
            on_nominated=lambda nominate: self.preemptor.carry_out(nominate, self.loop),
            clock=clock,
        )

    def _profiles(self, scheduling: Scheduling, extension: Extension) -> list[Profile]:
        """Build the profiles. Each has its own plugins, except those that keep what is shared."""
        registry = pod_registry(room=extension.room, owners=self.owners)
        registry.register(AssumePod.name, lambda: self._assume, kind=AssumePod)
        registry.register(DefaultBinder.name, lambda: DefaultBinder(self._hub), kind=DefaultBinder)
        extension.register(registry)
        scheduling.add_third_party(registry)
        registry.register(NominatedPods.name, lambda: NominatedPods(fleet=self.fleet), kind=NominatedPods)
        profiles = [
            build_profile(extended(spec, extension.points), registry) for spec in scheduling.specs.values()
        ]
        for profile in profiles:
            for each in plugins_of(profile):
                if isinstance(each, NominatedPods):
                    each.attach(profile)
        return profiles

    def preview(self, workload: Workload[PodInfo]) -> Outcome | None:
        """Return what a cycle of a pod would decide now; None if another scheduler places it."""
        return self.scheduler.preview(workload, self.fleet.snapshot(), now=to_micros(self._clock.wall()))

    # Observations

    def load(self, nodes: Iterable[Node], pods: Iterable[Pod]) -> Steps[None]:
        """Begin with what the hub shows."""
        given = list(pods)
        self.fleet.load(nodes)
        yield from self.fleet.load_pods(given)
        for some in strides(each for each in given if each.spec.schedulerName in self._names):
            yield
            for pod in some:
                self.upsert_pod(pod)

    def upsert_node(self, node: Node) -> None:
        self._changed(self.fleet.upsert_node(node), "node updated")

    def delete_node(self, node: Node) -> None:
        """Delete a node. One that is recreated under the same name has another uid."""
        change = self.fleet.delete_node(node.metadata.name)
        self.loop.remove_host(host_key(node))
        self._changed(change, "node deleted")

    def upsert_pod(self, pod: Pod, old: Pod | None = None) -> None:
        """Add or update a pod; ``old`` is its last version."""
        node = pod.spec.nodeName
        ours = pod.spec.schedulerName in self._names
        if node:
            self._nominate(pod, "")
            # First the fleet: from here on the place is the observed one, whatever becomes of the commit.
            change = self.fleet.upsert_pod(pod)
            if ours:
                key = key_of(pod)
                self._assume.observed(key)
                self._wake(self._gangs.upsert_pod(pod))
                self.loop.observed(key, (self._host_named(node),))
            self._changed(change, "pod updated")
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
        self._changed(self.fleet.delete_pod(pod.metadata.namespace, pod.metadata.name), "pod deleted")

    def reset_pod(self, pod: Pod) -> None:
        """Take a pod back that has lost its node, which only a restored backup of the hub does."""
        self.fleet.delete_pod(pod.metadata.namespace, pod.metadata.name)
        self.upsert_pod(pod)

    def upsert_group(self, group: PodGroup) -> None:
        self._wake(self._gangs.upsert_group(group))

    def delete_group(self, group: PodGroup) -> None:
        self._wake(self._gangs.delete_group(group))

    def upsert_namespace(self, namespace: Namespace) -> None:
        change = self.fleet.upsert_namespace(namespace.metadata.name, namespace.metadata.labels)
        self._changed(change, "namespace updated")

    def delete_namespace(self, namespace: Namespace) -> None:
        self._changed(self.fleet.delete_namespace(namespace.metadata.name), "namespace deleted")

    def upsert_claim(self, claim: PersistentVolumeClaim) -> None:
        self._changed(self.fleet.upsert_claim(claim), "PersistentVolumeClaim updated")

    def delete_claim(self, claim: PersistentVolumeClaim) -> None:
        change = self.fleet.delete_claim(claim.metadata.namespace, claim.metadata.name)
        self._changed(change, "PersistentVolumeClaim deleted")

    def upsert_volume(self, volume: PersistentVolume) -> None:
        self._changed(self.fleet.upsert_volume(volume), "PersistentVolume updated")

    def delete_volume(self, volume: PersistentVolume) -> None:
        self._changed(self.fleet.delete_volume(volume.metadata.name), "PersistentVolume deleted")

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
            self._changed(Change((), {POD_OWNERS: ANY}), f"{owner.kind} changed")

    def _changed(self, change: Change, label: str) -> None:
        """Wake the pods that a change of the fleet concerns."""
        if change.columns or change.added:
            self._wake(event_of(change, label=label))

    def _wake(self, event: Event | None) -> None:
        if event is not None:
            self.loop.on_event(event)

    def _nominate(self, pod: Pod, node: str) -> None:
        if node or self.fleet.nominations:
            self._changed(self.fleet.nominate(pod, node), "pod nominated")

    def _forget(self, pod: Pod) -> None:
        key = key_of(pod)
        self.loop.delete(key)
        self._wake(self._gangs.delete_pod(pod))
        self._assume.observed(key)
        self._reporter.forget(key)

    def _host_named(self, node: str) -> HostKey:
        found = self.fleet.find_node(node)
        return HostKey(node, "") if found is None else host_key(found)

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
            reasons = [reason for each in returned.rejections for reason in each.reasons]
            self._reporter.failed(returned.key, UNSCHEDULABLE, commit_error(reasons))

    async def _read_back(self, key: WorkloadKey) -> tuple[HostKey, ...] | None:
        pod = await self._hub.read(key)
        return None if pod is None or not pod.spec.nodeName else (self._host_named(pod.spec.nodeName),)

    async def run(self, leadership: Leadership) -> None:
        await self.loop.run(leadership)


def host_key(node: Node) -> HostKey:
    return HostKey(node.metadata.name, node.metadata.uid)


def key_of(pod: Pod) -> WorkloadKey:
    meta = pod.metadata
    return WorkloadKey(meta.namespace, meta.name, meta.uid)


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


def extended(spec: ProfileSpec, points: Mapping[str, tuple[Enabled, ...]]) -> ProfileSpec:
    """Return a profile with AssumePod as its first Reserve plugin, NominatedPods as its last Filter plugin, and with
    more plugins, unless it has them already: at its end, but before those that preempt pods."""
    merged = dict(spec.points)
    for point, more in points.items():
        found = spec.points.get(point, ())
        new = tuple(each for each in more if each.plugin not in {one.plugin for one in found})
        merged[point] = (*new, *found) if point == POST_FILTER else (*found, *new)
    for point in (PRE_FILTER, FILTER):
        merged[point] = (*merged.get(point, ()), Enabled(NominatedPods.name))
    merged[RESERVE] = (Enabled(AssumePod.name), *merged.get(RESERVE, ()))
    return replace(spec, points=merged)
