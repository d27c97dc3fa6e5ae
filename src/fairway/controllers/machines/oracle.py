"""Where a machine could run: a dry run of its pod."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from msgspec import structs

from fairway.api.pod import Pod
from fairway.controllers.machines.objects import MachineObjects
from fairway.engine.dependencies import Dependencies, DependencyIndex, Event
from fairway.engine.outcome import Outcome
from fairway.engine.queue import rejections_of
from fairway.engine.status import Code
from fairway.engine.workload import HostKey, Workload
from fairway.hosts.bitmap import count
from fairway.workloads.machines.kubevirt import HOSTNAME
from fairway.workloads.machines.machine import Machine
from fairway.workloads.machines.moves import Work
from fairway.workloads.pods import pod_workload

Preview = Callable[[Workload[Any]], Outcome | None]
"""Returns what a scheduling cycle of a pod would decide; None if another scheduler places it."""


class Answer(NamedTuple):
    hosts: list[HostKey]
    dependencies: Dependencies
    """What the rejections of the other nodes depend on."""


NO_PROFILE = Answer([], Dependencies())


class MachineOracle:
    """Answers are kept until ``forget``: many machines of a node are alike. What they depend on is kept longer, until a
    change concerns it: a node that is uncordoned changes no room, and nothing else would notice that it is a target."""

    def __init__(self, objects: MachineObjects, preview: Preview) -> None:
        self._objects, self._preview = objects, preview
        self._known: dict[object, Answer] = {}
        self._index = DependencyIndex[HostKey]()
        """By the node of the machines that the answers were for."""
        self._joined: dict[HostKey, Dependencies] = {}

    def feasible(self, machine: Machine, work: Work) -> Sequence[HostKey]:
        """Return the nodes on which the machine's pod could run, the best first."""
        pod = self._objects.pods.get((machine.key.namespace, machine.key.name))
        if pod is None:
            return []
        workload = pod_workload(self._unbound(pod))
        known = (workload.spec.template.signature, tuple(sorted(self._objects.amounts(pod).items())))
        if known not in self._known:
            work.spend(len(self._objects.hosts))
            outcome = self._preview(workload)
            self._known[known] = NO_PROFILE if outcome is None else self._answer(outcome)
        answer = self._known[known]
        self._depend(machine.host, answer.dependencies)
        return answer.hosts

    def concerned(self, event: Event) -> tuple[HostKey, ...]:
        """Return the nodes for whose machines other nodes may be feasible now, each once after its last answer."""
        # A new node was rejected by no answer, so that all depend on it.
        hosts = tuple(self._joined if event.added or event.wildcard else self._index.concerned(event))
        for host in hosts:
            self._index.discard(host)
            del self._joined[host]
        return hosts

    def _depend(self, host: HostKey, dependencies: Dependencies) -> None:
        known = self._joined.get(host)
        if known is dependencies:
            return
        joined = dependencies if known is None else known.joined(dependencies)
        if joined != known:
            self._joined[host] = joined
            self._index.put(host, joined)

    def _unbound(self, pod: Pod) -> Pod:
        """Return a pod as it would be created. KubeVirt's target pods select the node to which they moved."""
        selector, instance = pod.spec.nodeSelector, self._objects.instance_of_pod(pod)
        if instance is not None and HOSTNAME not in instance.spec.nodeSelector:
            selector = {name: value for name, value in (selector or {}).items() if name != HOSTNAME}
        return structs.replace(pod, spec=structs.replace(pod.spec, nodeName="", nodeSelector=selector))

    def forget(self) -> None:
        self._known.clear()

    def _answer(self, outcome: Outcome) -> Answer:
        if outcome.status.aborts:
            return Answer([], Dependencies(anything=outcome.status.code is not Code.MISCONFIGURED))
        hosts = self._ranked(outcome)
        if len(outcome.details.rows) == count(outcome.snapshot.live):
            return Answer(hosts, Dependencies())
        return Answer(hosts, Dependencies.of(rejection.reads for rejection in rejections_of(outcome)))

    def _ranked(self, outcome: Outcome) -> list[HostKey]:
        totals, hosts = outcome.totals_by_name(), self._objects.hosts
        ranked = sorted(totals, key=lambda name: (-totals[name], name))
        return [hosts[name] for name in ranked if name in hosts]
