"""Create the controllers of one process, with what each of them needs: recorders, limits, policies.

A controller that needs kinds which the hub does not serve is not created.
"""

import asyncio
import logging
import socket
from collections.abc import Callable, Mapping
from typing import Any, Final, Self

from fairway.controllers.acceptance import AcceptanceController
from fairway.controllers.addons import AddOnController
from fairway.controllers.availability import AvailabilityController
from fairway.controllers.bridge import BridgeController
from fairway.controllers.clustersets import ClusterSetController
from fairway.controllers.hosting import HostingController
from fairway.controllers.kinds import DEFINITIONS
from fairway.controllers.machines import MachinesController
from fairway.controllers.machines.hypervisors import HYPERVISORS
from fairway.controllers.machines.kinds import POD_GROUPS
from fairway.controllers.machines.machine_options import MachineOptions, settings_of
from fairway.controllers.machines.permit_metrics import PermitMetrics
from fairway.controllers.machines.rbac import OPTIONAL
from fairway.controllers.optional_kinds import definition_name
from fairway.controllers.placement import PlacementController
from fairway.controllers.placement.queue import BACKOFF
from fairway.controllers.placement.shadow import Shadow
from fairway.controllers.reconciler import Controller
from fairway.controllers.recovery import RecoveryController
from fairway.controllers.scores import ScoreController
from fairway.controllers.settings import (
    ACCEPTANCE,
    ADD_ONS,
    AVAILABILITY,
    BRIDGE,
    CLUSTER_SETS,
    HOSTING,
    MACHINES,
    PLACEMENT,
    RECOVERY,
    SCORES,
    Settings,
)
from fairway.controllers.write_limiter import EventLane, WriteLimiter
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
    Client,
    Clock,
    Forbidden,
    HubEvents,
    NotFound,
    Recorder,
    Resource,
)
from fairway.kube.events import Api, Sink
from fairway.observe.meters import Meters
from fairway.placement.debits import debits_of
from fairway.plugins.pods.coscheduling import Coscheduling
from fairway.scheduling import POD_DEFAULTS, Scheduling, Supervisor, load

log: Final = logging.getLogger(__name__)

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

EVENTS_KEPT: Final = 5000
EVENT_GRACE_SECONDS: Final = 15.0
"""How long pending events are written when the process stops, after the Lease is released. Kubernetes kills a pod after
30 seconds."""
EVENTS_AFTER: Final = 0.2
"""Seconds without a new decision after which events are written, although decisions are being written."""
POD_EVENTS_KEPT: Final = 50_000
"""Each pod has an event, and a burst of pods is bound before most of its events are written."""
POD_EVENT_WRITERS: Final = 4
REPORTER: Final = "placement-controller"
"""The name that OCM's controller uses in events, which users search for."""
SCORES_REPORTER: Final = "fairway-scores"
HOSTING_REPORTER: Final = "fairway-hosting"
MACHINES_REPORTER: Final = "fairway-machines"

NOT_FOLLOWED: Final = (
    "kinds of virtual machines that are installed later are found at the next start only: %s"
)
WITHOUT_CALCULATORS: Final = "the hub does not serve %s: prioritizers that use it find no score"
NOT_WATCHED: Final = "score debits do not include %s, which cannot be listed: %s"
BINDINGS_AT_ONCE: Final = 32
"""Concurrent bindings of pods. Events of pods are written when there are fewer, or after many bindings."""
NOTHING_TO_DO: Final = "the hub does not serve %s: controller %s is not started"


class ControllerFactory:
    """Use it in ``async with``: its recorders write Events in the block."""

    def __init__(self, settings: Settings, *, client: Client, meters: Meters, clock: Clock) -> None:
        self._settings, self._client, self._meters, self._clock = settings, client, meters, clock
        self._limiter = WriteLimiter(events_after=EVENTS_AFTER)
        self._calculators = False
        self._groups: bool | None = False
        self._requests = False
        self._machine_kinds: frozenset[str] | None = None
        """Kinds of virtual machines that the hub serves; None to follow their definitions."""
        events = HubEvents(client)
        self.recorder = self._recorder(EventLane(events, self._limiter), REPORTER)
        """Of the placement controller, and of faults in objects that all controllers read."""
        self._of_scores = self._recorder(events, SCORES_REPORTER)
        self._of_hosting = self._recorder(events, HOSTING_REPORTER)
        self._of_machines = self._recorder(events, MACHINES_REPORTER)
        self._pods = self._pod_scheduling() if MACHINES in settings.controllers else None
        names = () if self._pods is None else self._pods.specs
        self._bindings = WriteLimiter(at_once=BINDINGS_AT_ONCE)
        after_bindings = EventLane(events, self._bindings)
        self._of_pods = {
            name: self._recorder(after_bindings, name, capacity=POD_EVENTS_KEPT, writers=POD_EVENT_WRITERS)
            for name in names
        }
        """By profile: as of kube-scheduler, the reporter is the scheduler's name."""
        self._recorders = (
            self.recorder,
            self._of_scores,
            self._of_hosting,
            self._of_machines,
            *self._of_pods.values(),
        )

    async def __aenter__(self) -> Self:
        for recorder in self._recorders:
            await recorder.__aenter__()
        return self

    async def __aexit__(self, *_: object) -> None:
        await asyncio.gather(*(recorder.close() for recorder in self._recorders))

    async def create(self) -> dict[str, Controller]:
        """Create the controllers of the settings for which the hub serves the necessary kinds."""
        enabled = self._settings.controllers
        # Without these controllers, the permission to check is not needed.
        readers = enabled & {PLACEMENT, SCORES}
        self._calculators = bool(readers) and await self._serves(MANAGED_CLUSTER_SCORES)
        if PLACEMENT in enabled and not self._calculators:
            log.info(WITHOUT_CALCULATORS, MANAGED_CLUSTER_SCORES)
        self._requests = PLACEMENT in enabled and await self._may_list(HOSTED_CLUSTER_REQUESTS)
        if self._pods is not None:
            await self._find_optional_kinds(self._pods)
        wanted = {name for name in enabled if await self._has_work(name)}
        return {name: make() for name, make in self._makers().items() if name in wanted}

    async def _find_optional_kinds(self, pods: Scheduling) -> None:
        """Find which kinds of virtual machines the hub serves, if their definitions may not be watched."""
        gangs = any(Coscheduling.name in each.plugins() for each in pods.resolved)
        try:
            for kind in OPTIONAL:
                await self._client.list(DEFINITIONS, fields=f"metadata.name={definition_name(kind)}", limit=1)
        except Forbidden as error:
            log.warning(NOT_FOLLOWED, error)
            served = [kind for kind, each in HYPERVISORS.items() if await self._serves(each.machines)]
            self._machine_kinds = frozenset(served)
            self._groups = gangs and await self._serves(POD_GROUPS)
        else:
            self._machine_kinds, self._groups = None, None if gangs else False

    def _makers(self) -> dict[str, Callable[[], Controller]]:
        if self._settings.shadow:
            return {PLACEMENT: self._shadow}
        settings, client, meters, clock = self._settings, self._client, self._meters, self._clock
        return {
            PLACEMENT: self._placement,
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
                recorder=self._of_scores,
                policy=settings.scores,
                calculators=self._calculators,
                clock=clock,
            ),
            BRIDGE: lambda: BridgeController(client, meters=meters, options=settings.bridge, clock=clock),
            HOSTING: lambda: HostingController(
                client,
                meters=meters,
                recorder=self._of_hosting,
                debits=debits_of(settings.profile),
                clock=clock,
            ),
            MACHINES: self._machines,
            RECOVERY: lambda: RecoveryController(
                client, meters=meters, policy=settings.recovery, clock=clock
            ),
        }

    def _placement(self) -> PlacementController:
        settings = self._settings
        return PlacementController(
            self._client,
            meters=self._meters,
            recorder=self.recorder,
            profile=settings.profile,
            backoff=self._backoff(),
            shard=settings.shard,
            calculators=self._calculators,
            requests=self._requests,
            workers=settings.workers,
            resync=settings.resync,
            limiter=self._limiter,
            clock=self._clock,
        )

    def _shadow(self) -> Shadow:
        settings = self._settings
        return Shadow(
            meters=self._meters,
            profile=settings.profile,
            backoff=self._backoff(),
            shard=settings.shard,
            calculators=self._calculators,
            requests=self._requests,
            settle=settings.settle,
            clock=self._clock,
        )

    def _pod_scheduling(self) -> Scheduling:
        """Return the profiles of pods; the default one, if the settings have none."""
        if self._settings.pod_scheduling is not None:
            return self._settings.pod_scheduling
        return load(None, base=POD_DEFAULTS, supervisor=Supervisor(clock=self._clock.monotonic))

    def _machines(self) -> MachinesController:
        assert self._pods is not None
        return MachinesController(
            self._client,
            meters=self._meters,
            scheduling=self._pods,
            recorders=self._of_pods,
            machines=self._machine_options(self._pods),
            groups=self._groups,
            limiter=self._bindings,
            clock=self._clock,
        )

    def _machine_options(self, pods: Scheduling) -> MachineOptions:
        return MachineOptions(
            settings=settings_of(pods.specs),
            recorder=self._of_machines,
            metrics=PermitMetrics(self._meters),
            kinds=self._machine_kinds,
        )

    def _backoff(self) -> Backoff:
        """Return the back-off of Placements; that of the file, if it has one."""
        scheduling = self._settings.scheduling
        if scheduling is None or not scheduling.configuration.sets_backoff:
            return BACKOFF
        given = scheduling.configuration
        return Backoff(
            initial=given.initial_backoff_seconds * SECOND,
            maximum=given.max_backoff_seconds * SECOND,
            window=0,
        )

    def _recorder(
        self, sink: Sink, reporter: str, *, capacity: int = EVENTS_KEPT, writers: int = 1
    ) -> Recorder:
        return Recorder(
            sink,
            component=reporter,
            instance=f"{reporter}-{socket.gethostname()}",
            api=Api.EVENTS,
            capacity=capacity,
            writers=writers,
            grace=EVENT_GRACE_SECONDS,
            update_every=self._settings.event_updates,
            clock=self._clock,
            observe=self._meters.event,
        )

    async def _has_work(self, controller: str) -> bool:
        needed = NEEDED.get(controller, ())
        if controller == RECOVERY and not self._settings.recovery.health.resource:
            needed = (MANAGED_CLUSTER_SCORES,)
        for resource in needed:
            if not await self._serves(resource):
                log.warning(NOTHING_TO_DO, resource, controller)
                return False
        return True

    async def _may_list(self, resource: Resource[Any]) -> bool:
        """Return whether the hub serves a kind, and permits to list it; those of an earlier version may not."""
        try:
            return await self._serves(resource)
        except Forbidden as error:
            log.warning(NOT_WATCHED, resource, error)
            return False

    async def _serves(self, resource: Resource[Any]) -> bool:
        try:
            await self._client.newest(resource)
        except NotFound:
            return False
        return True
