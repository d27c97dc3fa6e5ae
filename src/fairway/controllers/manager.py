"""Run all controllers of one process: shared informers, leader election, readiness and shutdown.

Informers run in every process from the start, so a new leader has a complete view. A shard of the placement controller
has its own Lease, and so has each controller that is enabled explicitly; the other default controllers share one.
"""

import asyncio
import gc
import logging
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import Any, Final

from fairway.controllers.controller_factory import ControllerFactory
from fairway.controllers.machines import MachinesController
from fairway.controllers.placement import PlacementController, ocm_detection
from fairway.controllers.placement.ocm_detection import OcmControllerRunning
from fairway.controllers.placement.shadow import Shadow
from fairway.controllers.runtime.informer_factory import InformerFactory
from fairway.controllers.runtime.leadership import ALONE, Elected, Leadership
from fairway.controllers.runtime.reconciler import Controller
from fairway.controllers.settings import EVENTFUL, LEASE, MACHINES, PLACEMENT, Settings, lease_of
from fairway.controllers.unreadable import UnreadableReporter
from fairway.observe.meters import Meters
from fairway.scheduling import FaultReport, Scheduling
from kubewire.api.lease import Lease
from kubewire.client import SYSTEM_CLOCK, Client, Clock, Connection, Elector, Fence, LeaseThread, Resource
from kubewire.client.fence import TermGroup
from kubewire.client.leader import unique_identity

log: Final = logging.getLogger(__name__)

FIELD_MANAGER: Final = "fairway"
OCM_SECONDS: Final = 30.0
"""Between checks for OCM's placement controller."""
STALE_SECONDS: Final = 60.0
"""The process is not ready when the hub, or one kind, could not be watched for this time."""

GC_FREEZE_MIN_OBJECTS: Final = 500
"""Number of objects from which the garbage collector's view is frozen after the first sync."""

NOT_LISTED: Final = "{kind} not listed yet"
NOT_WATCHED: Final = "{kind} has not been watched for {seconds:.0f} s"
WAITING: Final = "waiting for the lease %s/%s, held by %s since %s; not running until then: %s"
PLUGIN_FAULT: Final = "%s"
PLUGIN_QUARANTINED: Final = "%s; not called for the next %.0f seconds"


class Manager:
    """See ``running``."""

    def __init__(
        self,
        settings: Settings,
        *,
        informers: InformerFactory,
        controllers: Mapping[str, Controller],
        meters: Meters,
        leases: LeaseThread | None,
        client: Client,
        clock: Clock,
        factory: ControllerFactory | None = None,
    ) -> None:
        """``factory`` creates the controllers whose kinds the hub does not serve yet."""
        self._factory = factory
        self.settings, self.informers, self.controllers, self.meters = (
            settings,
            informers,
            controllers,
            meters,
        )
        self.identity = settings.identity or unique_identity()
        self.leading: dict[str, bool] = {}
        """By Lease."""
        self._leases, self._client, self._clock = leases, client, clock
        self.unreadable: UnreadableReporter | None = None
        """None if no controller of this process may create Events."""
        self._task: asyncio.Task[None] | None = None
        self._electors: list[Elector] = []
        self._members: dict[str, list[Controller]] = {}
        """Controllers by Lease. One whose kinds are served later joins them."""
        self._terms: dict[str, tuple[TermGroup, Leadership]] = {}
        """Terms of this process, by Lease."""

    @property
    def placement(self) -> PlacementController | Shadow | None:
        controller = self.controllers.get(PLACEMENT)
        return controller if isinstance(controller, PlacementController | Shadow) else None

    @property
    def machines(self) -> MachinesController | None:
        controller = self.controllers.get(MACHINES)
        return controller if isinstance(controller, MachinesController) else None

    def reports(self) -> bool:
        """Whether this process creates Events about objects that all processes watch: only one of them should."""
        if LEASE in self._groups():
            return self.leading.get(LEASE, False)
        return any(self.leading.values())

    def unready(self) -> list[str]:
        """Return why this process is not ready, as leader or as standby; empty if it is."""
        waiting = self.informers.waiting()
        if waiting:
            return [NOT_LISTED.format(kind=kind) for kind in waiting]
        # Also for a standby process: it may lead at any moment, and would then decide by an old view.
        lag = self.informers.lag()
        behind = {kind: seconds for kind, seconds in lag.items() if seconds > STALE_SECONDS}
        return [NOT_WATCHED.format(kind=kind, seconds=seconds) for kind, seconds in behind.items()]

    async def synced(self) -> None:
        await self.informers.synced()

    async def quiet(self) -> None:
        """Wait until no controller has work left, of what informers have delivered."""
        # Again and again, because a controller that is quiet may be woken by what another one has just written.
        while True:
            for controller in self.controllers.values():
                await controller.quiet()
            if all(not controller.busy for controller in self.controllers.values()):
                return

    async def over(self) -> None:
        """Wait until a controller fails, and raise its error. Ends with the block of ``running``."""
        assert self._task is not None
        await asyncio.shield(self._task)

    def measure(self) -> None:
        """Update metrics that are computed on scrape."""
        for kind, count in self.informers.counts().items():
            self.meters.objects(kind=kind, count=count)
        for name, seconds in self.informers.lag().items():
            self.meters.lag(resource=name, seconds=seconds)
        self.meters.unreadable(self.informers.unreadable())
        # Each kind of work has its own copy of a plugin, and its own quarantine.
        quarantined: dict[str, bool] = {}
        for scheduling in self.settings.scheduling:
            for plugin, active in scheduling.quarantined().items():
                quarantined[plugin] = active or quarantined.get(plugin, False)
        for plugin, active in quarantined.items():
            self.meters.plugin_quarantine(plugin=plugin, active=active)

    async def _run(self) -> None:
        await self.informers.synced()
        if sum(self.informers.counts().values()) >= GC_FREEZE_MIN_OBJECTS:
            # Most of these objects stay: exclude them from further garbage collections. A full collection first would
            # delay the first decision by a tenth of a second for 3,000 objects.
            gc.collect(1)
            gc.freeze()
        self._members = self._groups()
        try:
            async with asyncio.TaskGroup() as tasks:
                for lease in self._members:
                    tasks.create_task(self._lead(lease))
                if (factory := self._factory) is not None:
                    for name in factory.waiting:
                        tasks.create_task(self._join(name, factory))
                    for kind, readers in factory.late.items():
                        tasks.create_task(self._follow_late(kind, readers, factory))
                if PLACEMENT in self.controllers and not (self.settings.shadow or self.settings.beside_ocm):
                    tasks.create_task(self._watch_for_ocm())
        except* OcmControllerRunning as group:
            raise _first(group) from None

    async def _join(self, name: str, factory: ControllerFactory) -> None:
        """Run a controller from when the hub serves its kinds."""
        controller = await factory.create_when_served(name)
        controller.watch(self.informers)
        # A new mapping, because ``quiet`` may be in the middle of the old one.
        self.controllers = {**self.controllers, name: controller}
        await self.informers.synced()
        lease = lease_of(name)
        if lease not in self._members:
            self._members[lease] = [controller]
            await self._lead(lease)
            return
        self._members[lease].append(controller)
        if (term := self._terms.get(lease)) is not None:
            tasks, leadership = term
            running = controller.run(leadership)
            try:
                tasks.create_task(running)
            except RuntimeError:
                # The term is ending. The next one runs all members.
                running.close()

    async def _follow_late(
        self, kind: Resource[Any], readers: Iterable[str], factory: ControllerFactory
    ) -> None:
        """Have controllers read an optional kind from when the hub serves it."""
        await factory.until_served(kind)
        for name in readers:
            self.controllers[name].watch_late(self.informers, kind)

    def _groups(self) -> dict[str, list[Controller]]:
        groups: dict[str, list[Controller]] = {}
        for name, controller in self.controllers.items():
            lease = self.settings.shard.lease if name == PLACEMENT else lease_of(name)
            groups.setdefault(lease, []).append(controller)
        return groups

    async def _lead(self, lease: str) -> None:
        members = self._members[lease]
        timing = self.settings.election
        if self.settings.shadow:
            # Shadow mode needs no permission to write, and must not look like a writer.
            await asyncio.gather(*(controller.run(ALONE) for controller in members))
            return
        if timing is None:
            await self._work(lease, members, ALONE)
            return
        self.meters.leader(lease=lease, leading=False)
        self.leading[lease] = False

        async def started(fence: Fence) -> None:
            await self._work(lease, members, Elected(elector, fence))

        def wait(held: Lease) -> None:
            names = ", ".join(
                sorted(name for name, controller in self.controllers.items() if controller in members)
            )
            namespace, spec = self.settings.namespace, held.spec
            since = spec.acquireTime or spec.renewTime
            log.info(WAITING, namespace, lease, spec.holderIdentity, since, names, extra={"lease": lease})

        assert self._leases is not None
        elector = Elector(
            self._leases.lease(namespace=self.settings.namespace, name=lease),
            identity=self.identity,
            timing=timing,
            on_started=started,
            on_event=lambda _, message: log.info("%s: %s", lease, message),
            on_waiting=wait,
            runner=self._leases,
            clock=self._clock,
        )
        self._electors.append(elector)
        await elector.run()

    async def _work(self, lease: str, members: Sequence[Controller], leadership: Leadership) -> None:
        self.leading[lease] = True
        self.meters.leader(lease=lease, leading=True)
        if self.unreadable is not None:
            self.unreadable.report_all()
        try:
            # All or none: a controller that continues after the term is lost would interfere with the next leader.
            async with TermGroup() as tasks:
                self._terms[lease] = tasks, leadership
                for controller in members:
                    tasks.create_task(controller.run(leadership))
        finally:
            self._terms.pop(lease, None)
            self.leading[lease] = False
            self.meters.leader(lease=lease, leading=False)

    async def _watch_for_ocm(self) -> None:
        while True:
            await asyncio.sleep(OCM_SECONDS)
            await refuse_ocm(self._client, clock=self._clock, namespace=self.settings.ocm_namespace)


async def refuse_ocm(client: Client, *, clock: Clock, namespace: str) -> None:
    """Raises OcmControllerRunning."""
    holder = await ocm_detection.find(client, now=clock.wall(), namespace=namespace)
    if holder is not None:
        raise OcmControllerRunning(holder)


@asynccontextmanager
async def running(
    connection: Connection, settings: Settings, *, meters: Meters | None = None, clock: Clock = SYSTEM_CLOCK
) -> AsyncIterator[Manager]:
    """Run the controllers while the block runs. Raises OcmControllerRunning, and KubeErrors if the hub is
    unreachable."""
    meters = meters or Meters()
    if settings.history is not None:
        settings.history.metric = meters.history
    for scheduling in settings.scheduling:
        _watch_plugins(scheduling, meters)
    _log_configuration(settings.scheduling)
    async with AsyncExitStack() as stack:
        client = await stack.enter_async_context(Client(connection, field_manager=FIELD_MANAGER))
        leases = None
        if settings.election is not None and not settings.shadow:
            thread = LeaseThread(connection, field_manager=FIELD_MANAGER)
            leases = await stack.enter_async_context(thread)
        if PLACEMENT in settings.controllers and not (settings.shadow or settings.beside_ocm):
            await refuse_ocm(client, clock=clock, namespace=settings.ocm_namespace)
        factory = await stack.enter_async_context(
            ControllerFactory(settings, client=client, meters=meters, clock=clock)
        )
        informers = InformerFactory(client)
        controllers = await factory.create()
        for controller in controllers.values():
            controller.watch(informers)
        await stack.enter_async_context(informers)
        manager = Manager(
            settings,
            informers=informers,
            controllers=controllers,
            meters=meters,
            client=client,
            leases=leases,
            clock=clock,
            factory=factory,
        )
        if not settings.shadow and not EVENTFUL.isdisjoint({*controllers, *factory.waiting}):
            manager.unreadable = UnreadableReporter(informers, factory.recorder, enabled=manager.reports)
        manager._task = asyncio.create_task(manager._run(), name="controllers")
        try:
            yield manager
        finally:
            manager._task.cancel()
            with suppress(asyncio.CancelledError, Exception):
                await manager._task


def _first(group: BaseExceptionGroup[BaseException]) -> BaseException:
    error: BaseException = group
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def _log_configuration(loaded: Sequence[Scheduling]) -> None:
    """Log which plugins are broken, and what in the file has no effect. Each kind of work has loaded the same file."""
    for broken in dict.fromkeys(str(plugin) for scheduling in loaded for plugin in scheduling.broken):
        log.warning("%s", broken)
    for note in dict.fromkeys(str(note) for scheduling in loaded for note in scheduling.notes):
        log.info("%s", note)


def _watch_plugins(scheduling: Scheduling, meters: Meters) -> None:
    """Count the faults of plugins, and log those that begin a quarantine."""

    def report(fault_report: FaultReport) -> None:
        fault, quarantine = fault_report.fault, fault_report.quarantine
        meters.plugin_fault(plugin=fault.plugin, point=fault.point)
        if quarantine is None:
            log.warning(PLUGIN_FAULT, fault)
        else:
            log.warning(PLUGIN_QUARANTINED, fault, quarantine)

    scheduling.supervisor.is_async = True
    scheduling.supervisor.report = report
    scheduling.supervisor.measure = meters.plugin_call
