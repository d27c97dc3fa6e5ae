"""A hub with NeonVM's kinds, synthetic nodes, the stand-in for NeonVM's controller, agents, and the machines
controller, which a test can kill at a write.

A unit is one CPU and one gibibyte.
"""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from controllers.machines.agents import permit_request
from fairway.api import crds
from fairway.api.crd import machine_crds
from fairway.api.machine_migration import MachineMigration
from fairway.api.pod import Pod
from fairway.api.resources import (
    MACHINE_MIGRATIONS,
    NODES,
    PODS,
    VIRTUAL_MACHINE_MIGRATIONS,
    VIRTUAL_MACHINES,
)
from fairway.api.virtual_machine import (
    APPROVED,
    AUTO_MIGRATION_LABEL,
    AUTOSCALING_LABEL,
    VM_NAME_LABEL,
    VirtualMachine,
    VirtualMachineMigration,
)
from fairway.controllers.machines.controller import MachinesController
from fairway.controllers.machines.options import MachineOptions
from fairway.controllers.machines.permit_metrics import PermitMetrics
from fairway.controllers.machines.virtual_machines import VirtualMachines
from fairway.controllers.machines.writer import MachineWriter
from fairway.controllers.runtime.decision_history import DecisionHistory
from fairway.controllers.runtime.informer_factory import InformerFactory
from fairway.controllers.runtime.leadership import ALONE
from fairway.controllers.runtime.writer import Writer
from fairway.engine.ledger import HostAccount
from fairway.observe.meters import Meters
from fairway.scheduling import Supervisor, Watchdog, load
from fairway.simulation.machines.kubelet import SYNTHETIC, Kubelets
from fairway.simulation.machines.neonvm import NeonVM, Step
from fairway.testing.hub import hub_in_thread
from fairway.workloads.machines.kubevirt import INSTANCE_KIND
from fairway.workloads.machines.machine import VIRTUAL_MACHINE, Machine
from fairway.workloads.machines.migration import Migration
from fairway.workloads.machines.migration_record import migration_in, record_object
from fairway.workloads.machines.permit_protocol import Permit, PermitError, decode_request, decode_size
from fairway.workloads.machines.settings import MachineSettings, machine_settings
from fairway.workloads.pods.profile import POD_KIND
from kubewire.api.meta import OwnerReference
from kubewire.client import (
    Client,
    Connection,
    HubEvents,
    Informer,
    KubeError,
    NotFound,
    Patch,
    Recorder,
    Resource,
)
from kubewire.client import load as load_kubeconfig
from kubewire.client.events import EVENTS, Api
from rigs.kubernetes import Tools, controller_manager, real_hub

NAMESPACE = "vms"
HIGH = "high"
"""A PriorityClass."""
GIB = 1 << 30
MILLI = 1000
WAIT = 20.0
"""Seconds until a condition that does not hold fails the test."""


class MortalClient(Client):
    """A client that can be killed at a write: it then sends nothing any more, and waits forever."""

    kill_at: tuple[int, bool] | None = None
    """The write, counted from 1, and whether the hub still carries it out."""
    writes = 0
    patched: set[str]
    """Kinds that were patched."""
    dead: asyncio.Event

    async def __aenter__(self) -> "MortalClient":
        self.dead, self.patched = asyncio.Event(), set()
        await super().__aenter__()
        return self

    async def _write(self, send: Callable[[], Any]) -> Any:
        if self.dead.is_set():
            await asyncio.Future()
        self.writes += 1
        if self.kill_at is not None and self.writes == self.kill_at[0]:
            self.dead.set()
            if self.kill_at[1]:
                with suppress(KubeError):
                    await send()
            await asyncio.Future()
        return await send()

    async def create(self, *args: Any, **more: Any) -> Any:
        return await self._write(lambda: super(MortalClient, self).create(*args, **more))

    async def patch(self, *args: Any, **more: Any) -> Any:
        self.patched.add(args[0].kind)
        return await self._write(lambda: super(MortalClient, self).patch(*args, **more))

    async def delete(self, *args: Any, **more: Any) -> Any:
        return await self._write(lambda: super(MortalClient, self).delete(*args, **more))


@dataclass
class MachineRig:
    connection: Connection
    client: Client
    neonvm: NeonVM
    machines: Informer[VirtualMachine]
    migrations: Informer[VirtualMachineMigration]
    pods: Informer[Pod]
    recorded: Informer[MachineMigration]
    settings: MachineSettings
    controller: MachinesController | None = None
    mortal: MortalClient | None = None
    kinds: frozenset[str] | None = frozenset({VIRTUAL_MACHINE})
    """Kinds of virtual machines that the controller watches; None to follow their definitions."""
    with_records: bool = True
    """Whether the hub serves MachineMigrations."""
    wait: float = WAIT
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    # The cluster

    async def add_node(self, name: str, units: int) -> None:
        labels = {SYNTHETIC: "true", "kubernetes.io/hostname": name}
        await self.client.create(NODES, {"metadata": {"name": name, "labels": labels}})
        # A real hub taints new nodes until a controller has seen that they are ready.
        await self.client.patch(NODES, name, {"spec": {"taints": None}}, kind=Patch.MERGE)
        await self.resize_node(name, units)

    async def resize_node(self, name: str, units: int) -> None:
        status = {
            "allocatable": {"cpu": str(units), "memory": f"{units}Gi", "pods": "110"},
            "conditions": [{"type": "Ready", "status": "True"}],
        }
        await self.client.patch(NODES, name, {"status": status}, kind=Patch.STRATEGIC, subresource="status")

    async def add_pod(self, name: str, units: int, *, node: str = "", **spec: Any) -> None:
        requests = {"cpu": str(units), "memory": f"{units}Gi"}
        container = {"name": "c", "image": "c", "resources": {"requests": requests}}
        body = {
            "metadata": {"name": name},
            "spec": {"schedulerName": "fairway", "containers": [container], **spec},
        }
        if node:
            body["spec"]["nodeName"] = node
        await self.client.create(PODS, body, namespace=NAMESPACE)

    async def add_vm(self, name: str, units: int, node: str, *, movable: bool = False, **spec: Any) -> None:
        """Create a machine, and bind its pod to a node."""
        labels = {AUTOSCALING_LABEL: "true", **({AUTO_MIGRATION_LABEL: "true"} if movable else {})}
        guest = {
            "cpus": {"min": 1, "use": units, "max": 64},
            "memorySlots": {"min": 1, "use": units, "max": 64},
            "memorySlotSize": "1Gi",
        }
        body = {"metadata": {"name": name, "labels": labels}, "spec": {"guest": guest, **spec}}
        await self.client.create(VIRTUAL_MACHINES, body, namespace=NAMESPACE)
        await self.until(lambda: self.pod_of(name) is not None)
        if node:
            await self.bind(self.vm(name).status.podName, node)
            await self.until(lambda: self.vm(name).status.phase == "Running")

    async def bind(self, pod: str, node: str) -> None:
        body = {"metadata": {"name": pod}, "target": {"apiVersion": "v1", "kind": "Node", "name": node}}
        path = PODS.path(namespace=NAMESPACE, name=pod, subresource="binding")
        await self.client.request("POST", path, body={"apiVersion": "v1", "kind": "Binding", **body})

    async def delete_pod(self, name: str) -> None:
        await self.client.delete(PODS, name, namespace=NAMESPACE)

    async def delete_vm(self, name: str) -> None:
        await self.client.delete(VIRTUAL_MACHINES, name, namespace=NAMESPACE)

    async def delete_migration(self, name: str) -> None:
        await self.client.delete(VIRTUAL_MACHINE_MIGRATIONS, name, namespace=NAMESPACE)

    async def annotate_migration(self, name: str, annotations: dict[str, str]) -> None:
        body = {"metadata": {"annotations": annotations}}
        await self.client.patch(VIRTUAL_MACHINE_MIGRATIONS, name, body, kind=Patch.MERGE, namespace=NAMESPACE)

    async def create_record(self, migration: Migration) -> None:
        await self.client.create(MACHINE_MIGRATIONS, record_object(migration), namespace=NAMESPACE)

    async def delete_record(self) -> None:
        """Delete the record of the only migration."""
        (name,) = [name for _, name in self.recorded.store]
        await self.client.delete(MACHINE_MIGRATIONS, name, namespace=NAMESPACE)
        await self.until(lambda: not self.recorded.store)

    async def create_migration(self, body: dict[str, Any]) -> None:
        await self.client.create(VIRTUAL_MACHINE_MIGRATIONS, body, namespace=NAMESPACE)

    async def resize_vm(self, name: str, units: int) -> None:
        """Change the size of a machine, as its agent does within its permit."""
        body = {"spec": {"guest": {"cpus": {"use": units}, "memorySlots": {"use": units}}}}
        await self.client.patch(VIRTUAL_MACHINES, name, body, kind=Patch.MERGE, namespace=NAMESPACE)
        await self.until(lambda: self.vm(name).status.cpus == units)

    # Agents

    async def ask(self, vm: str, units: int, *, node: str = "") -> Permit:
        """Ask for a size as the agent of a machine; wait while no controller answers."""
        async with asyncio.timeout(WAIT):
            while True:
                try:
                    return await self.ask_once(self.vm(vm).status.podName, units, node=node)
                except PermitError as refused:
                    if refused.status != 503:
                        raise
                    await asyncio.sleep(0.01)

    async def asked_or_dead(self, vm: str, units: int) -> bool:
        """Ask as ``ask`` does, until the controller dies; return whether it answered."""
        assert self.mortal is not None
        asking = asyncio.create_task(self.ask(vm, units))
        dying = asyncio.create_task(self.mortal.dead.wait())
        await asyncio.wait((asking, dying), return_when=asyncio.FIRST_COMPLETED)
        answered = asking.done() and asking.exception() is None
        for task in (asking, dying):
            task.cancel()
        await asyncio.gather(asking, dying, return_exceptions=True)
        return answered

    async def ask_once(self, pod: str, units: int, *, node: str = "") -> Permit:
        assert self.controller is not None
        body = json.dumps(permit_request(pod, units, namespace=NAMESPACE)).encode()
        return await self.controller.ask(decode_request(body), node)

    # What a test reads

    def vm(self, name: str) -> VirtualMachine:
        stored = self.machines.get(name, namespace=NAMESPACE)
        assert stored is not None, name
        return stored

    def pod(self, name: str) -> Pod | None:
        return self.pods.get(name, namespace=NAMESPACE)

    def pod_of(self, vm: str) -> Pod | None:
        return self.pod(self.vm(vm).status.podName or "-")

    def owners(self, vm: str) -> tuple[OwnerReference, ...]:
        pod = self.pod_of(vm)
        return () if pod is None else pod.metadata.ownerReferences

    def node_of(self, vm: str) -> str:
        pod = self.pod_of(vm)
        return "" if pod is None else pod.spec.nodeName

    def scheduled(self, pod: str) -> str:
        stored = self.pod(pod)
        return "" if stored is None else stored.spec.nodeName

    def condition(self, pod: str) -> str:
        """The reason of the condition PodScheduled."""
        stored = self.pod(pod)
        conditions = () if stored is None else stored.status.conditions
        return next((condition.reason for condition in conditions if condition.type == "PodScheduled"), "")

    async def reported(self, name: str, reason: str) -> None:
        """Wait for an event about an object."""
        async with asyncio.timeout(self.wait):
            while True:
                events = (await self.client.list(EVENTS, namespace=NAMESPACE)).items
                if any((pod.regarding.name, pod.reason) == (name, reason) for pod in events):
                    return
                await asyncio.sleep(0.02)

    def runners(self) -> list[Pod]:
        return [pod for pod in self.pods.store.values() if VM_NAME_LABEL in pod.metadata.labels]

    def is_held(self, step: Step) -> bool:
        """Whether the only migration waits for a step that NeonVM's stand-in holds."""
        (migration,) = self.migrations.store.values()
        phase, progress = migration.status.phase, migration.status.info.status
        target = self.pod(migration.status.targetPodName or "-")
        match step:
            case Step.TARGET:
                return phase == "" and bool(migration.metadata.finalizers)
            case Step.COPY:
                return target is not None and target.status.phase == "Running"
            case Step.COMPLETE:
                return phase == "Running" and progress == "active"
            case Step.CUTOVER:
                return progress == "completed"
            case Step.CLEANUP:
                return phase == "Succeeded"

    def approved(self, vm: str) -> int:
        """The permit that the annotations of a machine have, in units."""
        text = self.vm(vm).metadata.annotations.get(APPROVED)
        return 0 if text is None else decode_size(text, path=APPROVED)["cpu"] // MILLI

    def records(self) -> list[Migration]:
        return [migration_in(record) for record in self.recorded.store.values()]

    def has_migrations(self) -> bool:
        return bool(self.migrations.store or self.recorded.store)

    @property
    def state(self) -> VirtualMachines:
        assert self.controller is not None
        assert self.controller._term is not None
        machines = self.controller._term.machines
        assert machines is not None
        return machines

    def machine(self, vm: str) -> Machine:
        """Return a machine as the controller knows it."""
        entries = self.state.state.table.machines.values()
        (machine,) = (entry.machine for entry in entries if entry.machine.vm == vm)
        return machine

    def account(self, node: str) -> HostAccount:
        account = self.state.state.ledger.account_named(node)
        assert account is not None
        return account

    def writer(self) -> MachineWriter:
        """Return a writer of another process that also claims to lead."""
        return MachineWriter(self.client, Writer(self.client, meters=Meters(), controller="machines"))

    def check(self) -> None:
        """Check the invariants on what the hub and the ledger show."""
        for account in map(self.account, self.state.objects.hosts):
            capacity = account.capacity or {}
            kept = account.kept_room()
            for resource, amount in account.used.items():
                assert amount + kept.get(resource, 0) <= capacity.get(resource, 0), f"I1 {account.host}"
        sources = [record.source for record in self.records() if record.active]
        assert len(sources) == len(set(sources)), "I4"
        for vm in self.machines.store.values():
            if APPROVED in vm.metadata.annotations and vm.status.phase == "Running":
                name = vm.metadata.name
                assert int(str(vm.status.cpus)) <= self.approved(name), f"I6 {name}"

    async def until(self, condition: Callable[[], object]) -> None:
        """Wait until a condition holds in what the informers have."""
        try:
            async with asyncio.timeout(self.wait):
                while not _holds(condition):
                    self.changed.clear()
                    with suppress(TimeoutError):
                        async with asyncio.timeout(0.05):  # a controller may have died
                            await self.changed.wait()
        except TimeoutError:
            raise AssertionError("the condition does not hold") from None

    @asynccontextmanager
    async def controlling(
        self, *, kill_at: tuple[int, bool] | None = None, history: DecisionHistory | None = None
    ) -> AsyncIterator[MachinesController]:
        """Run the machines controller."""
        meters = Meters()
        async with MortalClient(self.connection, field_manager="fairway") as client:
            client.kill_at = kill_at
            recorder = Recorder(HubEvents(self.client), component="fairway", api=Api.EVENTS)
            async with recorder:
                controller = MachinesController(
                    client,
                    meters=meters,
                    scheduling=load(
                        None, kind=POD_KIND, supervisor=Supervisor(clock=time.monotonic, watch=Watchdog())
                    ),
                    recorders={"fairway": recorder},
                    machines=MachineOptions(
                        settings=self.settings,
                        recorder=recorder,
                        metrics=PermitMetrics(meters),
                        kinds=self.kinds,
                        records=self.with_records,
                        history=history,
                        configuration=INSTANCE_KIND in (self.kinds or ()),
                    ),
                )
                informers = InformerFactory(client)
                controller.watch(informers)
                async with informers:
                    await informers.synced()
                    task = asyncio.create_task(controller.run(ALONE))
                    self.controller, self.mortal = controller, client
                    try:
                        await asyncio.sleep(0)
                        yield controller
                        if not client.dead.is_set():
                            assert not task.done(), task.exception()
                    finally:
                        self.controller = None
                        task.cancel()
                        await asyncio.gather(task, return_exceptions=True)

    async def clear(self) -> None:
        """Delete everything, so that the next test finds an empty hub."""
        informers: tuple[Informer[Any], ...] = (self.migrations, self.machines, self.pods, self.recorded)
        for informer in informers:
            for namespace, name in list(informer.store):
                with suppress(NotFound):
                    await self.client.delete(informer.resource, name, namespace=namespace)
        await self.until(lambda: not any(informer.store for informer in informers))
        for node in (await self.client.list(NODES)).items:
            await self.client.delete(NODES, node.metadata.name)


def _holds(condition: Callable[[], object]) -> bool:
    try:
        return bool(condition())
    except (AssertionError, ValueError):  # an object that does not exist yet
        return False


@asynccontextmanager
async def machine_rig(kubeconfig: Path, **args: Any) -> AsyncIterator[MachineRig]:
    """Use a hub without the nodes and machines of other tests. ``args`` are settings of machines."""
    connection = load_kubeconfig(kubeconfig).context()
    async with Client(connection, field_manager="test") as client:
        neonvm = NeonVM(client, bandwidth=1 << 50, poll=0.01)
        machines, migrations, recorded = (
            Informer(client, VIRTUAL_MACHINES),
            Informer(client, VIRTUAL_MACHINE_MIGRATIONS),
            Informer(client, MACHINE_MIGRATIONS),
        )
        async with machines, migrations, recorded, Informer(client, PODS) as pods:
            informers: tuple[Informer[Any], ...] = (machines, migrations, pods, recorded)
            for watched in informers:
                await watched.synced.wait()
            settings = machine_settings(args)
            rig = MachineRig(connection, client, neonvm, machines, migrations, pods, recorded, settings)
            for informer in informers:
                informer.subscribe(lambda _: rig.changed.set())
            async with Kubelets(client).running(), neonvm.running():
                try:
                    yield rig
                finally:
                    neonvm.release()
                    await rig.clear()


def machine_definitions() -> tuple[dict[str, Any], ...]:
    """Return the definitions of NeonVM's kinds, and of the records of migrations."""
    ours = (crd for crd in crds() if crd["spec"]["names"]["kind"] == MACHINE_MIGRATIONS.kind)
    return (*machine_crds(), *ours)


@contextmanager
def embedded_machine_hub(folder: Path, *, more: Sequence[dict[str, Any]] = ()) -> Iterator[Path]:
    """Run an embedded hub with NeonVM's kinds, and those of ``more`` definitions; yield its kubeconfig."""
    with hub_in_thread(folder=folder, definitions=(*machine_definitions(), *more)) as address:
        asyncio.run(prepare_machine_hub(address.kubeconfig, definitions=()))
        yield address.kubeconfig


@asynccontextmanager
async def real_machine_hub(tools: Tools, folder: Path) -> AsyncIterator[Path]:
    """Run a kube-apiserver with NeonVM's kinds and the garbage collector; yield its kubeconfig."""
    async with real_hub(tools, folder=folder) as hub:
        # The garbage collector looks for new kinds every 30 seconds only.
        await prepare_machine_hub(hub.kubeconfig, definitions=machine_definitions())
        async with controller_manager(
            tools,
            kubeconfig=hub.kubeconfig,
            folder=folder,
            controllers=("garbage-collector-controller",),
            leader_elect=False,
        ):
            yield hub.kubeconfig


async def prepare_machine_hub(kubeconfig: Path, *, definitions: Sequence[Mapping[str, Any]]) -> None:
    """Create the namespace and the PriorityClass of the tests, and the definitions of kinds."""
    async with Client(load_kubeconfig(kubeconfig).context()) as client:
        for definition in definitions:
            path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
            await client.request("POST", path, body=definition)
        await client.request("POST", "/api/v1/namespaces", body={"metadata": {"name": NAMESPACE}})
        high = {"metadata": {"name": HIGH}, "value": 1000}
        await client.request("POST", "/apis/scheduling.k8s.io/v1/priorityclasses", body=high)
        for resource in (VIRTUAL_MACHINES, VIRTUAL_MACHINE_MIGRATIONS, MACHINE_MIGRATIONS):
            while not await _serves(client, resource):
                await asyncio.sleep(0.1)


async def _serves(client: Client, resource: Resource[Any]) -> bool:
    try:
        await client.newest(resource)
    except NotFound:
        return False
    return True
