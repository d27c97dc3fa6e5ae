"""A new kind of work, jobs on clusters, on what all kinds share. docs/how-to/new-kind-of-work.md explains this code."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated, Any

import pytest
from msgspec import Struct

from fairway.api import crds
from fairway.api.cluster import ManagedCluster
from fairway.api.resources import MANAGED_CLUSTERS
from fairway.controllers.runtime.informer_factory import InformerFactory
from fairway.controllers.runtime.leadership import ALONE, leading
from fairway.controllers.runtime.scheduling_loop import SchedulingLoop
from fairway.controllers.runtime.store_changes import StoreChanges
from fairway.controllers.runtime.writer import Writer
from fairway.engine import Context, Reads, Registry, Status, Timeless, WorkKind, build_profile
from fairway.engine.dependencies import event_of
from fairway.engine.ledger import InsufficientCapacity, Ledger, LedgerColumns
from fairway.engine.points import CommitContext
from fairway.engine.profile import Enabled
from fairway.engine.queue import PrioritySort
from fairway.engine.scheduler import Scheduler
from fairway.engine.status import OK, failed, unschedulable
from fairway.engine.workload import HostKey, Workload, WorkloadKey, milli
from fairway.hosts.clusters import Fleet
from fairway.hosts.direction import Direction
from fairway.hosts.resources import grantable
from fairway.observe.meters import Meters
from fairway.scheduling import ConfigurationError, Supervisor, loading
from kubehub.testing import hub_in_thread
from kubewire.api import CustomResource, ObjectMeta, Version, crd
from kubewire.api.annotation import Field
from kubewire.client import Client, Conflict, Informer, NotFound, Patch, Resource, load

# The objects: fairway/api/job.py


class JobSpec(Struct, frozen=True, kw_only=True):
    cpu: Annotated[str, Field("The cores that the job needs.", required=True)] = "1"
    priority: Annotated[int, Field("Jobs of higher priority are placed first.")] = 0


class JobStatus(Struct, frozen=True, kw_only=True, omit_defaults=True):
    cluster: Annotated[str, Field("Where the job runs.")] = ""
    uid: Annotated[str, Field("The uid of that cluster.")] = ""


class Job(Struct, frozen=True, kw_only=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: Annotated[JobSpec, Field("What to run.", required=True)] = JobSpec()
    status: Annotated[JobStatus, Field("Where it runs.")] = JobStatus()


JOBS = Resource(group="example.com", version="v1", plural="jobs", kind="Job", namespaced=True, type=Job)
DEFINITION = CustomResource(
    group="example.com",
    kind="Job",
    plural="jobs",
    namespaced=True,
    versions=(Version(name="v1", struct=Job),),
)

# What is placed, and by which rules: fairway/workloads/jobs/

CPU = grantable("cpu")


def workload_of(job: Job) -> Workload[JobSpec]:
    demand = {"cpu": milli(job.spec.cpu)}
    return Workload(
        key=WorkloadKey.of(job.metadata), spec=job.spec, priority=job.spec.priority, demand=demand
    )


class Room(Timeless):
    """Rejects clusters whose cores are promised to other jobs, and prefers those with the most left."""

    name = "Room"

    def filter(self, context: Context, row: int, /) -> Status:
        workload: Any = context.workload
        left, asked = context.snapshot.counts(CPU).values[row], workload.demand["cpu"]
        return OK if left >= asked else unschedulable(f"has {left}m of cpu left", plugin=self.name)

    def score(self, context: Context, row: int, /) -> int:
        return min(100, int(context.snapshot.counts(CPU).values[row]) // 1000)

    def reads(self, _context: Context, /) -> Reads:
        return Reads(cells=frozenset({CPU}), helps={CPU: Direction.UP})


class ReserveRoom:
    """Promises the cores to the job, so that the next cycle sees them taken."""

    name = "ReserveRoom"

    def __init__(self, *, ledger: Ledger) -> None:
        self._ledger = ledger

    def reserve(self, context: CommitContext, /) -> Status:
        try:
            with self._ledger.transaction() as change:
                change.reserve(context.hosts[0], context.workload.key, context.workload.demand)
        except InsufficientCapacity as refused:
            return unschedulable(str(refused), plugin=self.name)
        return OK

    def unreserve(self, context: CommitContext, /) -> None:
        with self._ledger.transaction() as change:
            change.release(context.hosts[0], context.workload.key)


def job_registry(ledger: Ledger | None = None) -> Registry:
    registry = Registry()
    registry.register("PrioritySort", PrioritySort)
    registry.register("Room", Room)
    registry.register("ReserveRoom", lambda: ReserveRoom(ledger=ledger or Ledger()), kind=ReserveRoom)
    registry.declare("BindInStatus", {"Bind"})
    return registry


JOB_KIND = WorkKind(
    name="jobs",
    profile="jobs",
    registry=job_registry,
    enabled=(Enabled("PrioritySort"), Enabled("Room"), Enabled("ReserveRoom"), Enabled("BindInStatus")),
    required=("Bind",),
)

# What reads and writes the hub: fairway/controllers/jobs/


class BindInStatus:
    name = "BindInStatus"

    def __init__(self, controller: "JobController") -> None:
        self._controller = controller

    async def bind(self, context: CommitContext, /) -> Status:
        (cluster,), key = context.hosts, context.workload.key
        job = self._controller.jobs.get(key.name, namespace=key.namespace)
        if job is None:
            return failed("the job was deleted", plugin=self.name)
        status = {"status": {"cluster": cluster.name, "uid": cluster.uid}}
        try:
            written = await self._controller.writer.patch(JOBS, job.metadata, status, subresource="status")
        except (Conflict, NotFound) as error:
            return failed(str(error), plugin=self.name)
        self._controller.jobs.observe(written)
        return OK


class JobController:
    def __init__(self, client: Client, informers: InformerFactory, meters: Meters) -> None:
        self.client = client
        self.writer = Writer(client, meters=meters, controller="jobs")
        self.jobs, self.clusters = informers.of(JOBS), informers.of(MANAGED_CLUSTERS)
        self.fleet, self.ledger = Fleet(), Ledger()
        LedgerColumns(self.ledger, self.fleet)
        registry = job_registry(self.ledger)
        registry.register(BindInStatus.name, lambda: BindInStatus(self), kind=BindInStatus)
        self.scheduler = Scheduler(
            profiles=[build_profile(JOB_KIND.spec(), registry)],
            profile_name=lambda _: JOB_KIND.profile,
            host_key=lambda cluster: HostKey.of(cluster.metadata),
        )
        self.loop = SchedulingLoop(self.scheduler, snapshot=self.fleet.snapshot, read_back=self.read_back)
        self.fleet.follow(lambda change: self.loop.on_event(event_of(change, label="clusters changed")))

    async def work(self) -> None:
        """Place jobs for one leadership term. The next term begins with a new controller."""
        changes = StoreChanges()
        try:
            changes.follow(self.clusters, self.add_cluster, self.delete_cluster)
            changes.follow(self.jobs, self.add_job, self.delete_job)
            await self.loop.run()
        finally:
            changes.close()

    def add_cluster(self, cluster: ManagedCluster) -> None:
        self.fleet.upsert_cluster(cluster)
        with self.ledger.transaction() as change:
            capacity = {"cpu": milli(cluster.status.allocatable.get("cpu", "0"))}
            change.set_capacity(HostKey.of(cluster.metadata), capacity)

    def delete_cluster(self, cluster: ManagedCluster) -> None:
        self.fleet.delete_cluster(cluster.metadata.name)
        self.loop.remove_host(HostKey.of(cluster.metadata))
        with self.ledger.transaction() as change:
            change.remove_host(HostKey.of(cluster.metadata))

    def add_job(self, job: Job) -> None:
        workload, cluster = workload_of(job), HostKey(job.status.cluster, job.status.uid)
        if not cluster.name:
            self.loop.put(workload)
            return
        with self.ledger.transaction() as change:
            change.confirm(cluster, workload.key, workload.demand)
        self.loop.observed(workload.key, (cluster,))

    def delete_job(self, job: Job) -> None:
        key, cluster = WorkloadKey.of(job.metadata), HostKey(job.status.cluster, job.status.uid)
        self.loop.delete(key)
        with self.ledger.transaction() as change:
            change.observe(cluster, key, None)

    async def read_back(self, key: WorkloadKey) -> tuple[HostKey, ...] | None:
        """Return where the hub shows a job, after a write whose answer was lost."""
        job = await self.client.get(JOBS, key.name, namespace=key.namespace)
        return (HostKey(job.status.cluster, job.status.uid),) if job.status.cluster else None


# The proof


@asynccontextmanager
async def placing_jobs(client: Client) -> AsyncIterator[JobController]:
    informers = InformerFactory(client)
    controller = JobController(client, informers, Meters())
    async with informers:
        await informers.synced()
        with leading(ALONE):
            term = asyncio.create_task(controller.work())
        try:
            yield controller
        finally:
            term.cancel()
            await asyncio.wait([term])


@pytest.fixture(scope="module")
def kubeconfig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("hub")
    with hub_in_thread(folder=folder, definitions=(*crds(), crd(DEFINITION))) as hub:
        yield hub.kubeconfig


@pytest.fixture
async def client(kubeconfig: Path) -> AsyncIterator[Client]:
    async with Client(load(kubeconfig).context(), field_manager="user") as opened:
        yield opened


async def create_cluster(client: Client, name: str, *, cpu: str) -> None:
    made = await client.create(MANAGED_CLUSTERS, {"metadata": {"name": name}, "spec": {}})
    status = {"status": {"allocatable": {"cpu": cpu}}}
    await client.patch(MANAGED_CLUSTERS, made.metadata.name, status, kind=Patch.MERGE, subresource="status")


async def create_job(client: Client, name: str, *, cpu: str, priority: int) -> Job:
    job = {"metadata": {"name": name}, "spec": {"cpu": cpu, "priority": priority}}
    return await client.create(JOBS, job, namespace="default")


async def places(client: Client, count: int) -> dict[str, str]:
    """Wait until so many jobs have a place, and return all jobs."""
    async with Informer(client, JOBS) as informer:
        async for _ in informer.changes():
            clusters = {job.metadata.name: job.status.cluster for job in informer.store.values()}
            if sum(map(bool, clusters.values())) == count:
                return clusters
    raise AssertionError


async def test_jobs_are_placed_by_room_and_wait_for_it(client: Client) -> None:
    await create_cluster(client, "large", cpu="6")
    await create_cluster(client, "small", cpu="3")
    for name, priority in (("first", 3), ("second", 2), ("third", 1)):
        await create_job(client, name, cpu="2500m", priority=priority)
    fourth = await create_job(client, "fourth", cpu="2500m", priority=0)
    expected = {"first": "large", "second": "large", "third": "small"}
    async with placing_jobs(client) as controller:
        assert await places(client, 3) == {**expected, "fourth": ""}
        await controller.loop.quiet()
        explanation = controller.scheduler.queue.explain(WorkloadKey.of(fourth.metadata))
        assert explanation is not None
        assert explanation.reasons == ("Room: rejects 2 of 2 hosts",)
    # Another term knows from the hub what is promised.
    async with placing_jobs(client):
        await client.delete(JOBS, "third", namespace="default")
        assert await places(client, 3) == {"first": "large", "second": "large", "fourth": "small"}


def test_profile_of_jobs_is_configured_as_every_other(tmp_path: Path) -> None:
    file = tmp_path / "scheduler.yaml"
    head = "apiVersion: fairway.dev/v1alpha1\nkind: SchedulerConfiguration\nprofiles:\n"
    head += "- schedulerName: jobs\n  plugins: "
    file.write_text(head + "{score: {enabled: [{name: Room, weight: 3}]}}\n")
    scheduling = loading.load(file, kind=JOB_KIND, supervisor=Supervisor(clock=lambda: 0.0))
    assert scheduling.specs["jobs"].points["Score"] == (Enabled("Room", 3),)
    file.write_text(head + "{filter: {enabled: [{name: Rom}]}}\n")
    with pytest.raises(ConfigurationError, match=r"unknown plugin 'Rom'; did you mean 'Room'\?"):
        loading.load(file, kind=JOB_KIND, supervisor=Supervisor(clock=lambda: 0.0))
