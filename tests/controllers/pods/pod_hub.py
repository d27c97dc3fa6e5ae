"""A fake hub with nodes and pods, and the machines controller, in virtual time.

Bindings, status patches and deletions follow the rules of kube-apiserver. ``kubelets`` starts bound pods and ends
deleted ones. A controller can be killed at a write, or run beside another scheduler.
"""

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any, cast

import msgspec

from clocks import START, LoopClock
from fairway.api.pod import Pod
from fairway.api.resources import NODES, PODS
from fairway.controllers.kinds import NAMESPACES
from fairway.controllers.machines import MachinesController
from fairway.controllers.pods.kinds import BUDGETS, CLAIMS, OWNERS, POD_GROUPS, STORAGE, VOLUMES
from fairway.controllers.runtime.leadership import ALONE, Leadership
from fairway.observe.meters import Meters
from fairway.scheduling import Scheduling, Supervisor, Watchdog, load
from fairway.scheduling.loading import parse
from fairway.workloads.pods.profile import POD_KIND
from kubewire.api.meta import format_time
from kubewire.client import Clock, Conflict, NotFound, Patch, Recorder, TransportError
from rigs.fake_hub import Call, Document, FakeHub, Key, KillableHub, check_identity, refused

NAMESPACE = "default"
GRACE = 30.0


def now() -> str:
    return format_time(START + timedelta(seconds=asyncio.get_running_loop().time()))


def profiles(text: str = "") -> Scheduling:
    """Load the profiles of pods: the default one, or those of a file."""
    supervisor = Supervisor(clock=time.monotonic, watch=Watchdog())
    if not text:
        return load(None, kind=POD_KIND, supervisor=supervisor)
    return parse(text.encode(), path=Path("scheduler.yaml"), kind=POD_KIND, supervisor=supervisor)


@dataclass
class Events:
    """Takes the place of a recorder."""

    hub: FakeHub
    reporter: str
    recorded: list[tuple[str, str, str]] = field(default_factory=list)
    """(pod, reason, note)"""
    actions: list[tuple[str, str, str]] = field(default_factory=list)
    """(type, reason, action)"""

    def event(
        self, about: Any, *, reason: str, message: str, type_: str = "Normal", action: str = "", **_: Any
    ) -> bool:
        self.recorded.append((about.metadata.name, reason, message))
        self.actions.append((type_, reason, action))
        self.hub.notify()
        return True

    def notes(self, pod: str, reason: str) -> list[str]:
        return [note for name, noted, note in self.recorded if (name, noted) == (pod, reason)]


class PodHub(KillableHub):
    def __init__(self, *, live: bool = True) -> None:
        super().__init__(live=live)
        self.lose_reply_at: int | None = None
        """The write whose reply is lost, counted from 1."""
        self.before_binding: Callable[[Call], None] = lambda _: None
        """Called with each binding; may change objects, or raise in place of the hub."""
        self.instant_deletion = True
        """Whether pods on a node end at once when they are deleted, as if without grace period."""
        self.put(NAMESPACES, {"metadata": {"name": NAMESPACE}})

    # Rules of kube-apiserver

    def answer(self, call: Call, *, author: str = "") -> Any:
        if call.resource.plural != PODS.plural or call.verb == "get":
            return super().answer(call, author=author)
        old = self.documents.get(call.key)
        if call.subresource == "binding" and call.verb == "create":
            return self._bind(call, old)
        if old is None:
            raise refused(NotFound, 404, "NotFound")
        if call.verb == "delete":
            check_identity(old, call.preconditions)
            self.end(call.name, namespace=call.namespace)
            return None
        if call.verb == "patch" and call.kind is Patch.STRATEGIC:
            check_identity(old, call.body.get("metadata", {}))
            self.store(call.key, {**old, "status": _merged(old.get("status", {}), call.body["status"])})
            return self.read(call.resource, call.namespace, call.name)
        return super().answer(call, author=author)

    def _bind(self, call: Call, old: Document | None) -> Pod:
        if old is None:
            raise refused(NotFound, 404, "NotFound")
        check_identity(old, {"uid": call.body["metadata"]["uid"]})
        spec = old["spec"]
        if old["metadata"].get("deletionTimestamp") or spec.get("nodeName") or spec.get("schedulingGates"):
            raise refused(Conflict, 409, "Conflict")
        condition = {"type": "PodScheduled", "status": "True", "lastTransitionTime": now()}
        status = _merged(old.get("status", {}), {"conditions": [condition]})
        status["conditions"] = [
            condition if old["type"] == "PodScheduled" else old for old in status["conditions"]
        ]
        status.pop("nominatedNodeName", None)
        node = call.body["target"]["name"]
        self.store(call.key, {**old, "spec": {**spec, "nodeName": node}, "status": status})
        return msgspec.convert(call.body, Pod)

    def end(self, name: str, *, namespace: str = NAMESPACE) -> None:
        """Delete a pod; one on a node may only be marked."""
        key = (PODS.plural, namespace, name)
        old = self.documents[key]
        if self.instant_deletion or not old["spec"].get("nodeName"):
            self.erase(key)
        elif not old["metadata"].get("deletionTimestamp"):
            self.store(key, {**old, "metadata": {**old["metadata"], "deletionTimestamp": now()}})

    def finish(self, name: str, *, namespace: str = NAMESPACE) -> None:
        """Remove a terminating pod, as its kubelet does."""
        self.erase((PODS.plural, namespace, name))

    def deleted(self) -> list[str]:
        """Return the pods that are terminating."""
        return sorted(name for (_, name), pod in self.all(PODS).items() if pod.terminating)

    async def before_write(self, call: Call) -> None:
        if call.subresource == "binding":
            self.before_binding(call)
        if self.sent == self.lose_reply_at:
            await FakeHub._send(self, call)
            raise TransportError("the reply was lost")

    # Users and kubelets

    def node(
        self,
        name: str,
        *,
        cpu: str = "4",
        memory: str = "8Gi",
        pods: int = 110,
        labels: Mapping[str, str] | None = None,
        taints: tuple[Mapping[str, str], ...] = (),
        unschedulable: bool = False,
    ) -> None:
        document = {
            "kind": "Node",
            "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, **(labels or {})}},
            "spec": {"taints": list(taints), "unschedulable": unschedulable},
            "status": {
                "allocatable": {"cpu": cpu, "memory": memory, "pods": str(pods)},
                "conditions": [{"type": "Ready", "status": "True"}],
            },
        }
        self.put(NODES, document)

    def pod(
        self,
        name: str,
        *,
        cpu: str = "1",
        node: str = "",
        scheduler: str = "fairway",
        namespace: str = NAMESPACE,
        priority: int = 0,
        labels: Mapping[str, str] | None = None,
        status: Mapping[str, Any] | None = None,
        **spec: Any,
    ) -> None:
        document = {
            "kind": "Pod",
            "metadata": {"name": name, "labels": dict(labels or {}), "creationTimestamp": now()},
            "spec": {
                "schedulerName": scheduler,
                "priority": priority,
                "containers": [{"name": "main", "resources": {"requests": {"cpu": cpu}}}],
                **({"nodeName": node} if node else {}),
                **spec,
            },
            "status": {"phase": "Pending", **(status or {})},
        }
        self.put(PODS, document, namespace=namespace)

    def edit(self, name: str, *, namespace: str = NAMESPACE, **spec: Any) -> None:
        key: Key = (PODS.plural, namespace, name)
        old = self.documents[key]
        self.store(key, {**old, "spec": {**old["spec"], **spec}})

    def budget(self, name: str, *, labels: Mapping[str, str], allowed: int) -> None:
        document = {
            "metadata": {"name": name},
            "spec": {"selector": {"matchLabels": dict(labels)}},
            "status": {"disruptionsAllowed": allowed},
        }
        self.put(BUDGETS, document, namespace=NAMESPACE)

    def group(self, name: str, *, members: int, timeout: int = 60) -> None:
        spec = {"minMember": members, "scheduleTimeoutSeconds": timeout}
        self.put(POD_GROUPS, {"metadata": {"name": name}, "spec": spec}, namespace=NAMESPACE)

    def has(self, name: str, *, namespace: str = NAMESPACE) -> bool:
        return (PODS.plural, namespace, name) in self.documents

    def find(self, name: str, *, namespace: str = NAMESPACE) -> Pod:
        return cast("Pod", self.read(PODS, namespace, name))

    def place(self, name: str, *, namespace: str = NAMESPACE) -> str:
        return (
            self.find(name, namespace=namespace).spec.nodeName if self.has(name, namespace=namespace) else ""
        )

    async def bound(self, name: str) -> None:
        """Wait until a pod has a node."""
        await self.until(lambda: self.place(name) != "")

    def condition(self, name: str, type_: str = "PodScheduled") -> tuple[str, str, str]:
        """Return status, reason and message."""
        conditions = [condition for condition in self.find(name).status.conditions if condition.type == type_]
        return (
            (conditions[0].status, conditions[0].reason, conditions[0].message)
            if conditions
            else ("", "", "")
        )

    def placed(self) -> dict[str, str]:
        """Return the node of each pod that has one."""
        pods: Mapping[Any, Pod] = self.all(PODS)
        return {name: pod.spec.nodeName for (_, name), pod in pods.items() if pod.spec.nodeName}

    def load(self) -> Counter[str]:
        """Return the CPUs that are requested on each node."""
        counts: Counter[str] = Counter()
        for pod in self.all(PODS).values():
            if pod.spec.nodeName and not pod.finished:
                (container,) = pod.spec.containers
                counts[pod.spec.nodeName] += int(container.resources.requests["cpu"])
        return counts


def _merged(old: Document, patch: Document) -> Document:
    """Merge a status strategically: conditions by their type, other fields as in a merge patch."""
    new = {key: value for key, value in {**old, **patch}.items() if value is not None}
    if "conditions" in patch:
        conditions = {condition["type"]: condition for condition in old.get("conditions", [])}
        for condition in patch["conditions"]:
            conditions[condition["type"]] = {**conditions.get(condition["type"], {}), **condition}
        new["conditions"] = list(conditions.values())
    return new


@asynccontextmanager
async def scheduling(
    hub: PodHub,
    *,
    config: str = "",
    meters: Meters | None = None,
    leadership: Leadership = ALONE,
    clock: Clock | None = None,
) -> AsyncIterator[Events]:
    """Run the controller, until the block ends or it is killed."""
    specs = profiles(config)
    events = Events(hub, "fairway")
    controller = MachinesController(
        hub.client,
        meters=meters or Meters(),
        scheduling=specs,
        recorders=dict.fromkeys(specs.specs, cast("Recorder", events)),
        groups=True,
        clock=clock or LoopClock(),
    )
    for resource in (*OWNERS, *STORAGE):
        hub.of(resource)
    for resource in (NODES, PODS, NAMESPACES, CLAIMS, VOLUMES, BUDGETS, POD_GROUPS):
        hub.of(resource)
    controller.watch(hub.informers)
    work = asyncio.create_task(controller.run(leadership))
    try:
        await asyncio.sleep(0)
        yield events
    finally:
        work.cancel()
        with suppress(asyncio.CancelledError):
            await work
