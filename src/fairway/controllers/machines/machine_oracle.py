"""Where a machine could run: a dry run of its pod."""

from collections.abc import Callable, Sequence
from typing import Any

from msgspec import structs

from fairway.api.pod import Pod
from fairway.controllers.machines.machine_objects import MachineObjects
from fairway.engine.outcome import Outcome
from fairway.engine.workload import HostKey, ResourceList, Workload
from fairway.machines.kubevirt import HOSTNAME
from fairway.machines.machine import Machine
from fairway.plugins.pods import pod_workload

Preview = Callable[[Workload[Any]], Outcome | None]
"""Returns what a scheduling cycle of a pod would decide; None if another scheduler places it."""


class MachineOracle:
    """Answers are kept until ``forget``: many machines of a node are alike."""

    def __init__(self, objects: MachineObjects, *, amounts: Callable[[Pod], ResourceList]) -> None:
        self._objects, self._amounts = objects, amounts
        self.preview: Preview = lambda _: None
        self._known: dict[object, list[HostKey]] = {}

    def feasible(self, machine: Machine) -> Sequence[HostKey]:
        """Return the nodes on which the machine's pod could run, the best first."""
        pod = self._objects.pods.get((machine.key.namespace, machine.key.name))
        if pod is None:
            return []
        workload = pod_workload(self._unbound(pod))
        known = (workload.spec.template.signature, tuple(sorted(self._amounts(pod).items())))
        if known not in self._known:
            outcome = self.preview(workload)
            self._known[known] = [] if outcome is None else self._ranked(outcome)
        return self._known[known]

    def _unbound(self, pod: Pod) -> Pod:
        """Return a pod as it would be created. KubeVirt's target pods select the node to which they moved."""
        selector, instance = pod.spec.nodeSelector, self._objects.instance_of_pod(pod)
        if instance is not None and HOSTNAME not in instance.spec.nodeSelector:
            selector = {name: value for name, value in (selector or {}).items() if name != HOSTNAME}
        return structs.replace(pod, spec=structs.replace(pod.spec, nodeName="", nodeSelector=selector))

    def forget(self) -> None:
        self._known.clear()

    def _ranked(self, outcome: Outcome) -> list[HostKey]:
        totals, hosts = outcome.totals_by_name(), self._objects.hosts
        ranked = sorted(totals, key=lambda name: (-totals[name], name))
        return [hosts[name] for name in ranked if name in hosts]
