"""Run all controllers of one process: shared informers, leader election, readiness and shutdown.

Informers run in every process from the start, so a new leader has a complete view. A shard of the placement controller
has its own Lease; all other controllers share one.
"""

import asyncio
import gc
import logging
import socket
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Final

from fairway.api.lease import Lease
from fairway.controllers.acceptance import AcceptanceController
from fairway.controllers.addons import AddOnController
from fairway.controllers.availability import AvailabilityController
from fairway.controllers.bridge import BridgeController
from fairway.controllers.bridge import BridgeOptions as BridgeOptions
from fairway.controllers.clustersets import ClusterSetController
from fairway.controllers.hosting import HostingController
from fairway.controllers.informer_factory import InformerFactory
from fairway.controllers.leadership import ALONE, Elected, Leadership
from fairway.controllers.placement import PlacementController, ocm_detection
from fairway.controllers.placement.controller import RESYNC_SECONDS, WORKERS
from fairway.controllers.placement.ocm_detection import OcmControllerRunning
from fairway.controllers.placement.queue import BACKOFF
from fairway.controllers.placement.shadow import SETTLE_SECONDS, Shadow
from fairway.controllers.placement.shard import Shard
from fairway.controllers.placement.write_limiter import EventLane, WriteLimiter
from fairway.controllers.reconciler import Controller
from fairway.controllers.recovery import RecoveryController
from fairway.controllers.recovery import RecoveryPolicy as RecoveryPolicy
from fairway.controllers.scores import ScoreController
from fairway.controllers.scores import SilencePolicy as ScoresPolicy
from fairway.controllers.unreadable import UnreadableReporter
from fairway.engine.profile import Profile
from fairway.engine.queue import Backoff
from fairway.fleet.instant import SECOND
from fairway.kube import (
    ADD_ON_DEPLOYMENT_CONFIGS,
    ADD_ON_TEMPLATES,
    CLUSTER_MANAGEMENT_ADD_ONS,
    HOSTED_CLUSTER_REQUESTS,
    HOSTING_POLICIES,
    MANAGED_CLUSTER_ADD_ONS,
    MANAGED_CLUSTER_SCORES,
    MANIFEST_WORKS,
    SYSTEM_CLOCK,
    Client,
    Clock,
    Connection,
    Elector,
    Fence,
    HubEvents,
    LeaseThread,
    NotFound,
    Recorder,
    Resource,
    Timing,
)
from fairway.kube.events import Api, Sink
from fairway.kube.fence import Lost
from fairway.kube.leader import unique_identity
from fairway.kube.resource import T
from fairway.observe.meters import Meters
from fairway.placement import default_profile
from fairway.scheduling import FaultReport, Scheduling

log: Final = logging.getLogger(__name__)

PLACEMENT: Final = "placement"
CLUSTER_SETS: Final = "clustersets"
AVAILABILITY: Final = "availability"
ACCEPTANCE: Final = "acceptance"
ADD_ONS: Final = "addons"
SCORES: Final = "scores"
BRIDGE: Final = "bridge"
RECOVERY: Final = "recovery"
HOSTING: Final = "hosting"
DEFAULT: Final = frozenset({PLACEMENT, CLUSTER_SETS, AVAILABILITY, ACCEPTANCE, ADD_ONS, SCORES})
"""Controllers that run by default. Those that taint clusters or write scores must be enabled explicitly."""
ALL: Final = DEFAULT | {BRIDGE, RECOVERY, HOSTING}

EVENTFUL: Final = frozenset({PLACEMENT, SCORES, RECOVERY, HOSTING})
"""Controllers whose permissions include Events."""

NEEDED: Final[Mapping[str, tuple[Resource[Any], ...]]] = {
    ADD_ONS: (
        ADD_ON_DEPLOYMENT_CONFIGS,
        ADD_ON_TEMPLATES,
        CLUSTER_MANAGEMENT_ADD_ONS,
        MANAGED_CLUSTER_ADD_ONS,
        MANIFEST_WORKS,
    ),
    BRIDGE: (MANAGED_CLUSTER_SCORES,),
    HOSTING: (HOSTED_CLUSTER_REQUESTS, HOSTING_POLICIES, MANIFEST_WORKS),
}
"""Kinds that not every hub serves, and that a controller needs."""

NAMESPACE: Final = "fairway-system"
LEASE: Final = "fairway-controllers"
EVENTS_KEPT: Final = 5000
EVENT_UPDATE_SECONDS: Final = 60.0
"""A repeated event is updated on the hub at most so often. A placement that follows scores may change every few
seconds, and each update costs the hub as much as a decision."""
FIELD_MANAGER: Final = "fairway"
REPORTER: Final = "placement-controller"
"""The name that OCM's controller uses in events, which users search for."""
SCORES_REPORTER: Final = "fairway-scores"
HOSTING_REPORTER: Final = "fairway-hosting"
OCM_SECONDS: Final = 30.0
"""Between checks for OCM's placement controller."""
STALE_SECONDS: Final = 60.0
"""The process is not ready when the hub, or one kind, could not be watched for so long."""

GC_FREEZE_MIN_OBJECTS: Final = 5000
"""Number of objects from which the garbage collector's view is frozen after the first sync."""

NOT_LISTED: Final = "{kind} not listed yet"
OUT_OF_SIGHT: Final = "{kind} has not been watched for {seconds:.0f} s"
WITHOUT_CALCULATORS: Final = "the hub does not serve %s: prioritizers that use it find no score"
WAITING: Final = "waiting for the lease %s/%s, held by %s since %s; not running until then: %s"
PLUGIN_FAULT: Final = "%s"
PLUGIN_QUARANTINED: Final = "%s; not called for the next %.0f seconds"
NOTHING_TO_DO: Final = "the hub does not serve %s: controller %s is not started"


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    controllers: frozenset[str] = DEFAULT
    election: Timing | None = field(default_factory=Timing)
    """None: this process is the only one, without election."""
    identity: str = ""
    """Unique identity in the election; generated if empty."""
    namespace: str = NAMESPACE
    """Namespace of the Leases."""
    shard: Shard = field(default_factory=Shard)
    shadow: bool = False
    """Compare placements with what is written, and write nothing."""
    settle: float = SETTLE_SECONDS
    """A difference must last so long to be reported."""
    beside_ocm: bool = False
    """Write placements even if OCM's own controller seems to run."""
    ocm_namespace: str = ocm_detection.NAMESPACE
    workers: int = WORKERS
    resync: float = RESYNC_SECONDS
    event_updates: float = EVENT_UPDATE_SECONDS
    grace: float = 5.0
    """How many durations of its lease a cluster may stay silent."""
    default_label: bool = True
    """Whether clusters without a cluster set are put into ``default``."""
    bridge: BridgeOptions = field(default_factory=BridgeOptions)
    recovery: RecoveryPolicy = field(default_factory=RecoveryPolicy)
    scores: ScoresPolicy = field(default_factory=ScoresPolicy)
    scheduling: Scheduling | None = None
    """Profiles and plugins; None for the default profile without third-party plugins."""

    @property
    def profile(self) -> Profile:
        """The profile that decides Placements."""
        return default_profile() if self.scheduling is None else self.scheduling.placement


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
    ) -> None:
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

    @property
    def placement(self) -> PlacementController | Shadow | None:
        found = self.controllers.get(PLACEMENT)
        return found if isinstance(found, PlacementController | Shadow) else None

    def reports(self) -> bool:
        """Whether this process creates Events about objects that all processes watch."""
        if LEASE in self._groups():
            return self.leading.get(LEASE, False)
        return any(self.leading.values())

    def unready(self) -> list[str]:
        """Return why this process is not ready, as leader or as standby; empty if it is."""
        waiting = self.informers.waiting()
        if waiting:
            return [NOT_LISTED.format(kind=kind) for kind in waiting]
        lag = self.informers.lag()
        behind = {kind: seconds for kind, seconds in lag.items() if seconds > STALE_SECONDS}
        return [OUT_OF_SIGHT.format(kind=kind, seconds=seconds) for kind, seconds in behind.items()]

    async def synced(self) -> None:
        await self.informers.synced()

    async def quiet(self) -> None:
        """Wait until no controller has work left, of what informers have delivered."""
        while True:
            for controller in self.controllers.values():
                await controller.quiet()
            if all(not each.queue.busy for each in self.controllers.values()):
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
        if self.settings.scheduling is not None:
            for plugin, active in self.settings.scheduling.quarantined().items():
                self.meters.plugin_quarantine(plugin=plugin, active=active)

    async def _run(self) -> None:
        await self.informers.synced()
        if sum(self.informers.counts().values()) >= GC_FREEZE_MIN_OBJECTS:
            # Most of these objects stay: exclude them from further garbage collections.
            gc.collect()
            gc.freeze()
        groups = self._groups()
        try:
            async with asyncio.TaskGroup() as tasks:
                for lease, members in groups.items():
                    tasks.create_task(self._lead(lease, members))
                if PLACEMENT in self.controllers and not (self.settings.shadow or self.settings.beside_ocm):
                    tasks.create_task(self._mind_ocm())
        except* OcmControllerRunning as group:
            raise _first(group) from None

    def _groups(self) -> dict[str, list[Controller]]:
        groups: dict[str, list[Controller]] = {}
        for name, controller in self.controllers.items():
            lease = self.settings.shard.lease if name == PLACEMENT else LEASE
            groups.setdefault(lease, []).append(controller)
        return groups

    async def _lead(self, lease: str, members: Sequence[Controller]) -> None:
        timing = self.settings.election
        if self.settings.shadow:
            # Shadow mode needs no permission to write, and must not look like a writer.
            await asyncio.gather(*(each.run(ALONE) for each in members))
            return
        if timing is None:
            await self._work(lease, members, ALONE)
            return
        self.meters.leader(lease=lease, leading=False)
        self.leading[lease] = False

        async def started(fence: Fence) -> None:
            await self._work(lease, members, Elected(elector, fence))

        def wait(held: Lease) -> None:
            names = ", ".join(sorted(name for name, each in self.controllers.items() if each in members))
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
            async with asyncio.TaskGroup() as tasks:
                for each in members:
                    tasks.create_task(each.run(leadership))
        except* Lost as lost:
            raise _first(lost) from None
        finally:
            self.leading[lease] = False
            self.meters.leader(lease=lease, leading=False)

    async def _mind_ocm(self) -> None:
        while True:
            await asyncio.sleep(OCM_SECONDS)
            await refuse_ocm(self._client, clock=self._clock, namespace=self.settings.ocm_namespace)


async def refuse_ocm(client: Client, *, clock: Clock, namespace: str) -> None:
    """Raises OcmControllerRunning."""
    found = await ocm_detection.find(client, now=clock.wall(), namespace=namespace)
    if found is not None:
        raise OcmControllerRunning(found)


@asynccontextmanager
async def running(
    connection: Connection,
    settings: Settings,
    *,
    meters: Meters | None = None,
    clock: Clock = SYSTEM_CLOCK,
) -> AsyncIterator[Manager]:
    """Run the controllers while the block runs. Raises OcmControllerRunning, and KubeErrors if the hub is
    unreachable."""
    meters = meters or Meters()
    if settings.scheduling is not None:
        _watch_plugins(settings.scheduling, meters)
    async with AsyncExitStack() as stack:
        client = await stack.enter_async_context(Client(connection, field_manager=FIELD_MANAGER))
        leases = None
        if settings.election is not None and not settings.shadow:
            thread = LeaseThread(connection, field_manager=FIELD_MANAGER)
            leases = await stack.enter_async_context(thread)
        limiter = WriteLimiter()
        events = HubEvents(client)
        recorder = await stack.enter_async_context(
            _recorder(
                EventLane(events, limiter), REPORTER, every=settings.event_updates, meters=meters, clock=clock
            )
        )
        of_scores = await stack.enter_async_context(
            _recorder(events, SCORES_REPORTER, every=settings.event_updates, meters=meters, clock=clock)
        )
        of_hosting = await stack.enter_async_context(
            _recorder(events, HOSTING_REPORTER, every=settings.event_updates, meters=meters, clock=clock)
        )
        if PLACEMENT in settings.controllers and not (settings.shadow or settings.beside_ocm):
            await refuse_ocm(client, clock=clock, namespace=settings.ocm_namespace)
        # Without these controllers, the permission to check is not needed.
        readers = settings.controllers & {PLACEMENT, SCORES}
        calculators = bool(readers) and await _serves(client, MANAGED_CLUSTER_SCORES)
        if PLACEMENT in settings.controllers and not calculators:
            log.info(WITHOUT_CALCULATORS, MANAGED_CLUSTER_SCORES)
        wanted = {name for name in settings.controllers if await _has_work(client, name, settings)}
        informers = InformerFactory(client)
        makers = _makers(
            settings,
            client,
            recorder,
            of_scores,
            of_hosting,
            limiter=limiter,
            meters=meters,
            calculators=calculators,
            clock=clock,
        )
        controllers = {name: make() for name, make in makers.items() if name in wanted}
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
        )
        if not settings.shadow and not EVENTFUL.isdisjoint(controllers):
            manager.unreadable = UnreadableReporter(informers, recorder, enabled=manager.reports)
        manager._task = asyncio.create_task(manager._run(), name="controllers")
        try:
            yield manager
        finally:
            manager._task.cancel()
            with suppress(asyncio.CancelledError, Exception):
                await manager._task


def _makers(
    settings: Settings,
    client: Client,
    recorder: Recorder,
    of_scores: Recorder,
    of_hosting: Recorder,
    *,
    limiter: WriteLimiter,
    meters: Meters,
    calculators: bool,
    clock: Clock,
) -> dict[str, Callable[[], Controller]]:
    def placement() -> Controller:
        if settings.shadow:
            return Shadow(
                meters=meters,
                profile=settings.profile,
                backoff=_backoff(settings),
                shard=settings.shard,
                calculators=calculators,
                settle=settings.settle,
                clock=clock,
            )
        return PlacementController(
            client,
            meters=meters,
            recorder=recorder,
            profile=settings.profile,
            backoff=_backoff(settings),
            shard=settings.shard,
            calculators=calculators,
            workers=settings.workers,
            resync=settings.resync,
            limiter=limiter,
            clock=clock,
        )

    if settings.shadow:
        return {PLACEMENT: placement}
    return {
        PLACEMENT: placement,
        CLUSTER_SETS: lambda: ClusterSetController(
            client, meters=meters, default_label=settings.default_label, clock=clock
        ),
        AVAILABILITY: lambda: AvailabilityController(
            client, meters=meters, grace=settings.grace, clock=clock
        ),
        ACCEPTANCE: lambda: AcceptanceController(client, meters=meters, clock=clock),
        ADD_ONS: lambda: AddOnController(
            client, meters=meters, ocm_namespace=settings.ocm_namespace, clock=clock
        ),
        SCORES: lambda: ScoreController(
            client,
            meters=meters,
            recorder=of_scores,
            policy=settings.scores,
            calculators=calculators,
            clock=clock,
        ),
        BRIDGE: lambda: BridgeController(client, meters=meters, options=settings.bridge, clock=clock),
        HOSTING: lambda: HostingController(client, meters=meters, recorder=of_hosting, clock=clock),
        RECOVERY: lambda: RecoveryController(client, meters=meters, policy=settings.recovery, clock=clock),
    }


def _backoff(settings: Settings) -> Backoff:
    """Return the back-off of Placements; that of the file, if it has one."""
    if settings.scheduling is None or not settings.scheduling.configuration.sets_backoff:
        return BACKOFF
    given = settings.scheduling.configuration
    return Backoff(
        initial=given.initial_backoff_seconds * SECOND, maximum=given.max_backoff_seconds * SECOND, window=0
    )


def _watch_plugins(scheduling: Scheduling, meters: Meters) -> None:
    """Count the faults of plugins, and log those that begin a quarantine."""

    def report(found: FaultReport) -> None:
        fault = found.fault
        meters.plugin_fault(plugin=fault.plugin, point=fault.point)
        if found.quarantine is None:
            log.warning(PLUGIN_FAULT, fault)
        else:
            log.warning(PLUGIN_QUARANTINED, fault, found.quarantine)

    scheduling.supervisor.report = report
    scheduling.supervisor.measure = meters.plugin_call
    for broken in scheduling.broken:
        log.warning("%s", broken)


def _recorder(sink: Sink, reporter: str, *, every: float, meters: Meters, clock: Clock) -> Recorder:
    return Recorder(
        sink,
        component=reporter,
        instance=f"{reporter}-{socket.gethostname()}",
        api=Api.EVENTS,
        capacity=EVENTS_KEPT,
        update_every=every,
        clock=clock,
        observe=meters.event,
    )


async def _serves(client: Client, resource: Resource[T]) -> bool:
    try:
        await client.newest(resource)
    except NotFound:
        return False
    return True


async def _has_work(client: Client, controller: str, settings: Settings) -> bool:
    needed = NEEDED.get(controller, ())
    if controller == RECOVERY and not settings.recovery.health.resource:
        needed = (MANAGED_CLUSTER_SCORES,)
    for resource in needed:
        if not await _serves(client, resource):
            log.warning(NOTHING_TO_DO, resource, controller)
            return False
    return True


def _first(group: BaseExceptionGroup[BaseException]) -> BaseException:
    found: BaseException = group
    while isinstance(found, BaseExceptionGroup):
        found = found.exceptions[0]
    return found
