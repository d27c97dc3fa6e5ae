"""Two migrations, a gang and a preemption on a real hub, during which the scheduler is killed; and the invariants that
the objects on the hub show."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from controllers.machines.agents import CLUSTER_WIDE, create_agents, permit_request, token, user
from controllers.machines.machine_rig import HIGH, NAMESPACE, MachineRig
from controllers.serving.asking import HOST, ask, unverified
from fairway.api.pod import Pod
from fairway.api.resources import MACHINE_MIGRATIONS, PODS, VIRTUAL_MACHINE_MIGRATIONS, VIRTUAL_MACHINES
from fairway.api.virtual_machine import VM_NAME_LABEL
from fairway.controllers import settings
from fairway.controllers.serving import Address
from fairway.controllers.settings import Settings
from fairway.hosts.nodes.pod_template import template_of
from fairway.simulation.machines.neonvm import NeonVM, Step
from fairway.workloads.machines.migration import BEFORE_CUTOVER, Phase
from fairway.workloads.machines.migration_record import migration_in
from fairway.workloads.machines.neonvm import demand_of, size_of
from fairway.workloads.machines.settings import machine_settings
from fairway.workloads.pods.plugins.coscheduling import GROUP_LABEL
from kube.killable_scheduler import Cut, KillableScheduler, killable_scheduler
from kube.killable_scheduler import record_of as written_record
from kube.pod_cluster import CPUS, GANGS, POOL, PodCluster, PodSpace, create_gang, pod_space
from kubewire.api.lease import LeaseSpec, parse_micro_time
from kubewire.client import Informer
from kubewire.client import load as load_kubeconfig
from kubewire.client.lease import LEASES
from rigs.processes import Port

MACHINES, CALM, PLAIN, GANG, FULL = (f"crash-{name}" for name in ("vms", "calm", "plain", "gang", "full"))
"""Pools of nodes."""
MEMBERS = ("member-0", "member-1", "member-2")
VICTIMS = ("victim-0", "victim-1")
MILLI = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class CrashStory:
    rig: MachineRig
    space: PodSpace
    scheduler: KillableScheduler
    agents: Address
    token: str

    async def die_in(
        self,
        phase: Phase,
        *cuts: Cut,
        when: Callable[[], object] = lambda: True,
        meanwhile: Callable[[], Awaitable[object]] | None = None,
        options: tuple[object, ...] = ("--no-leader-elect",),
    ) -> None:
        """Kill the scheduler when the hub has this phase of the migration of B, the scheduler does not know that yet,
        its other writes wait at their cuts, and ``when`` holds. ``meanwhile`` is awaited once it has the phase."""
        written = Cut(matches=written_record("vm-b", phase))
        async with self.scheduler.life(written, *cuts, options=options):
            await self.until(lambda: self.phase("vm-b") is phase)
            if meanwhile is not None:
                await meanwhile()
            await self.until(lambda: all(cut.reached.is_set() for cut in cuts) and when())
        await self.check()

    async def until(self, condition: Callable[[], object]) -> None:
        await self.rig.until(condition)

    def phase(self, vm: str) -> Phase | None:
        """Return the phase of a machine's migration; None if it has none."""
        return next((record.phase for record in self.rig.records() if record.vm == vm), None)

    def moves(self, vm: str) -> bool:
        """Return whether NeonVM has a migration of a machine."""
        return any(migration.spec.vmName == vm for migration in self.rig.migrations.store.values())

    def is_bound(self, *pods: str) -> bool:
        return all(self.rig.scheduled(pod) for pod in pods)

    def is_refused(self, pod: str) -> bool:
        live = self.rig.pod(pod)
        return live is not None and any(
            (condition.type, condition.status) == ("PodScheduled", "False")
            for condition in live.status.conditions
        )

    async def request_permits(self, units: int, *vms: str) -> tuple[int, ...]:
        return tuple([await self.request_permit(vm, units) for vm in vms])

    async def request_permit(self, vm: str, units: int) -> int:
        """Ask for a size as the agent of a machine, which grows by two CPUs at a time; return the permit."""
        body = permit_request(self.rig.vm(vm).status.podName, units, namespace=NAMESPACE, unit=2)
        while True:
            try:
                answer = await ask(
                    self.agents, "POST", "/permit", tls=unverified(), token=self.token, body=body
                )
            except OSError:  # it does not listen yet
                await asyncio.sleep(0.02)
                continue
            if answer.code == 200:
                return int(answer.document["permit"]["vCPUs"])
            assert answer.code == 503, answer.text
            await asyncio.sleep(0.02)

    async def lease(self) -> LeaseSpec:
        lease = await self.rig.client.get(
            LEASES, settings.lease_of(settings.MACHINES), namespace=Settings().namespace
        )
        return lease.spec

    def waiting(self) -> dict[str, str]:
        """Return the pods without a node, each with the node that it is nominated to."""
        pods = self.space.pods.values()
        return {pod.metadata.name: pod.status.nominatedNodeName for pod in pods if not pod.spec.nodeName}

    async def add_pod(self, name: str, units: int, *, pool: str, node: str = "", **spec: Any) -> None:
        """Create a pod that waits for a node of a pool, or for this one."""
        selector = {POOL: pool, **({"kubernetes.io/hostname": node} if node else {})}
        await self.rig.add_pod(name, units, nodeSelector=selector, **spec)

    async def create(self) -> None:
        """Create everything but the pods that wait. One CPU is free beside A, B and X, and B may move: A can grow by
        two CPUs if it keeps the free one until B has left. C can if D moves, or Y leaves."""
        for pool, count in ((MACHINES, 2), (CALM, 2), (PLAIN, 1), (GANG, 1), (FULL, 1)):
            await self.space.add_nodes(*(f"{pool}-{number}" for number in range(count)), pool=pool)
        for name, units, pool in (
            *(("vm-a", 4, MACHINES), ("vm-b", 1, MACHINES)),
            *(("vm-c", 4, CALM), ("vm-d", 3, CALM)),
        ):
            movable = name in ("vm-b", "vm-d")
            await self.rig.add_vm(name, units, f"{pool}-0", movable=movable, nodeSelector={POOL: pool})
        await self.rig.add_pod("x", 4, node=f"{MACHINES}-0")
        await self.rig.add_pod("y", 3, node=f"{CALM}-0")
        for victim in VICTIMS:
            await self.rig.add_pod(victim, CPUS // 2, node=f"{FULL}-0")
        await create_gang(self.space, "gang", len(MEMBERS))

    async def add_gang(self) -> None:
        labels = {GROUP_LABEL: "gang"}
        await self.space.add_pods(
            MEMBERS, cpu=str(CPUS // 2), scheduler=GANGS, labels=labels, selector={POOL: GANG}
        )

    async def make_migration_unnecessary(self) -> None:
        """Delete Y while D is being copied."""
        await self.until(lambda: self.phase("vm-d") is Phase.COPYING)
        await self.rig.delete_pod("y")

    async def add_preemptor(self) -> None:
        await self.add_pod("urgent", CPUS, pool=FULL, priorityClassName=HIGH)

    # The invariants

    async def check(self) -> None:
        """Check what the hub has while no scheduler runs."""
        client = self.rig.client
        machines = {
            machine.metadata.name: machine
            for machine in (await client.list(VIRTUAL_MACHINES, namespace=NAMESPACE)).items
        }
        recorded = await client.list(MACHINE_MIGRATIONS, namespace=NAMESPACE)
        records = [migration_in(item) for item in recorded.items]
        pods = {pod.metadata.name: pod for pod in (await client.list(PODS, namespace=NAMESPACE)).items}
        kept = Counter[str]()
        """Room that is kept for machines, by pod."""
        for record in records:
            for claim in record.claims:
                if not claim.from_source or record.source.name not in pods:
                    kept[claim.beneficiary.name] += claim.amounts["cpu"]
        used = Counter[str]()
        for pod in pods.values():
            vm = machines.get(pod.metadata.labels.get(VM_NAME_LABEL, ""))
            amount = _requests(pod)
            if vm is not None:
                demand = demand_of(vm)
                amount = size_of(vm)["cpu"]
                if demand is not None:
                    approved, requested = demand.approved["cpu"], demand.requested["cpu"]
                    assert amount <= approved <= requested, f"I6 {vm.metadata.name}"
                    amount = min(requested, approved + kept[pod.metadata.name])
            used[pod.spec.nodeName] += amount
        del used[""]
        assert all(total <= CPUS * MILLI for total in used.values()), f"I1, I2, I3 {used}"
        for name, vm in machines.items():
            runners = [pod for pod in pods.values() if pod.metadata.labels.get(VM_NAME_LABEL) == name]
            targets = sum(record.vm == name for record in records)
            assert targets <= 1, f"I4: two migrations of {name}"
            assert vm.status.podName in pods, f"{name} is lost"
            running = [runner for runner in runners if not runner.terminating]
            assert len(running) <= 1 + targets, f"{name} is doubled"
        for record in records:
            if record.phase in BEFORE_CUTOVER:
                assert machines[record.vm].status.podName == record.source.name, "I4: before cutover"
        assert "thief" not in pods or not pods["thief"].spec.nodeName, "I2: room of vm-a"


def moment(written: str) -> datetime:
    moment = parse_micro_time(written)
    assert moment is not None
    return moment


def _requests(pod: Pod) -> int:
    return template_of(pod).requests.get("cpu", 0)


@asynccontextmanager
async def crash_story(cluster: PodCluster, folder: Path) -> AsyncIterator[CrashStory]:
    """Replace the scheduler of a cluster by one that can be killed."""
    await cluster.fairway.stop(grace=0)
    try:
        async with _crash_story(cluster, folder) as story:
            yield story
    finally:
        await cluster.fairway.restart(grace=0)


@asynccontextmanager
async def _crash_story(cluster: PodCluster, folder: Path) -> AsyncIterator[CrashStory]:
    kubeconfig = cluster.hub.kubeconfig
    with Port() as port:
        options = (
            *("--scheduler-config", cluster.configuration),
            *("--permit-address", f"{HOST}:{port}", "--permit-agent", user(CLUSTER_WIDE)),
        )
        async with (
            pod_space(cluster, NAMESPACE) as space,
            Informer(space.client, VIRTUAL_MACHINES) as machines,
            Informer(space.client, VIRTUAL_MACHINE_MIGRATIONS) as migrations,
            Informer(space.client, MACHINE_MIGRATIONS) as recorded,
            NeonVM(space.client, bandwidth=1 << 50, poll=0.01).running() as neonvm,
            killable_scheduler(kubeconfig, folder, *options) as scheduler,
        ):
            rig = MachineRig(
                load_kubeconfig(kubeconfig).context(),
                space.client,
                neonvm,
                machines,
                migrations,
                space.informer,
                recorded,
                machine_settings({}),
                wait=120.0,
            )
            for informer in (machines, migrations, space.informer, recorded):
                await informer.synced.wait()
                informer.subscribe(lambda _: rig.changed.set())
            neonvm.hold(Step.COMPLETE, Step.CUTOVER, Step.CLEANUP)
            await create_agents(space.client, ())
            bearer = await token(space.client, CLUSTER_WIDE)
            story = CrashStory(
                rig=rig,
                space=space,
                scheduler=scheduler,
                agents=Address(host=HOST, port=port.number),
                token=bearer,
            )
            await story.create()
            yield story
