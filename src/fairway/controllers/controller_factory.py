"""Create the controllers of one process, with what each of them needs: recorders, limits, policies.

A controller that needs kinds which the hub does not serve is created when the hub serves them, and one that can do
without some kinds gets them later.
"""

import asyncio
import logging
import socket
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, Self

from fairway.api.resources import (
    ADD_ON_DEPLOYMENT_CONFIGS,
    ADD_ON_TEMPLATES,
    CLUSTER_MANAGEMENT_ADD_ONS,
    HOSTED_CLUSTER_REQUESTS,
    HOSTING_POLICIES,
    MACHINE_MIGRATIONS,
    MANAGED_CLUSTER_ADD_ONS,
    MANAGED_CLUSTER_SCORES,
    MANIFEST_WORKS,
)
from fairway.controllers.acceptance import AcceptanceController
from fairway.controllers.addons import AddOnController
from fairway.controllers.availability import AvailabilityController
from fairway.controllers.bridge import BridgeController
from fairway.controllers.clustersets import ClusterSetController
from fairway.controllers.hosting import HostingController
from fairway.controllers.kinds import DEFINITIONS
from fairway.controllers.machines import MachinesController
from fairway.controllers.machines.hypervisors import HYPERVISORS
from fairway.controllers.machines.kinds import KUBEVIRTS
from fairway.controllers.machines.options import MachineOptions, settings_of
from fairway.controllers.machines.permit_metrics import PermitMetrics
from fairway.controllers.machines.rbac import OPTIONAL
from fairway.controllers.placement import PlacementController
from fairway.controllers.placement.queue import BACKOFF
from fairway.controllers.placement.shadow import Shadow
from fairway.controllers.pods.kinds import POD_GROUPS, STORAGE
from fairway.controllers.recovery import RecoveryController
from fairway.controllers.runtime.optional_kinds import definition_name
from fairway.controllers.runtime.reconciler import Controller
from fairway.controllers.runtime.write_limiter import EventLane, WriteLimiter
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
from fairway.engine.kind import WorkKind
from fairway.engine.queue import Backoff
from fairway.hosts.instant import SECOND
from fairway.observe.meters import Meters
from fairway.scheduling import Scheduling, Supervisor, load
from fairway.workloads.hosting.profile import HOSTING_KIND
from fairway.workloads.placement.debits import debits_of
from fairway.workloads.placement.profile import PLACEMENT_KIND
from fairway.workloads.pods.plugins.coscheduling import Coscheduling
from fairway.workloads.pods.profile import POD_KIND
from kubewire.client import Client, Clock, Forbidden, HubEvents, KubeError, NotFound, Recorder, Resource
from kubewire.client.events import Api, Sink

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
WITHOUT_CALCULATORS: Final = (
    "the hub does not serve %s: until it does, prioritizers that use it find no score"
)
NOT_WATCHED: Final = "score debits do not include %s, which cannot be listed: %s"
DEFAULT_LIMITS: Final = "the limits of KubeVirt for migrations count as its defaults: %s cannot be listed: %s"
NO_RECORDS: Final = "virtual machines do not move: %s cannot be listed: %s"
STORAGE_NOT_WATCHED: Final = (
    "pods are scheduled without %s, which cannot be listed: %s; update deploy/controllers/machines"
)
BINDINGS_AT_ONCE: Final = 32
"""Concurrent bindings of pods. Events of pods are written when there are fewer, or after many bindings."""
WAITING_FOR_KINDS: Final = (
    "the hub does not serve %s: controller %s waits for it. Apply the missing definitions: "
    "fairway crds | kubectl apply -f -"
)
SERVED: Final = "the hub serves all kinds of controller %s: it is started"
FOLLOWED: Final = "the hub serves %s: its objects count from now on"
POLL_SECONDS: Final = 5.0
"""Between checks whether the hub serves the kinds of a controller that waits for them."""


class ControllerFactory:
    """Use it in ``async with``: its recorders write Events in the block."""

    def __init__(self, settings: Settings, *, client: Client, meters: Meters, clock: Clock) -> None:
        self._settings, self._client, self._meters, self._clock = settings, client, meters, clock
        self._limiter = WriteLimiter(events_after=EVENTS_AFTER)
        self.waiting: frozenset[str] = frozenset()
        """Controllers that ``create`` left out until the hub serves their kinds; see ``create_when_served``."""
        self.late: Mapping[Resource[Any], frozenset[str]] = {}
        """Kinds that the hub does not serve yet, and the created controllers that read them as soon as it does."""
        self._calculators = False
        self._groups: bool | None = False
        self._requests = False
        self._storage: tuple[Resource[Any], ...] = ()
        """Kinds of storage that the hub serves."""
        self._machine_kinds: frozenset[str] | None = None
        """Kinds of virtual machines that the hub serves; None to follow their definitions."""
        self._machine_records = True
        self._kubevirt_limits = True
        events = HubEvents(client)
        self.recorder = self._recorder(EventLane(events, self._limiter), REPORTER)
        """Of the placement controller, and of faults in objects that all controllers read."""
        self._of_scores = self._recorder(events, SCORES_REPORTER)
        self._of_hosting = self._recorder(events, HOSTING_REPORTER)
        self._of_machines = self._recorder(events, MACHINES_REPORTER)
        self._pods = self._scheduling(POD_KIND) if MACHINES in settings.controllers else None
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
        self._requests = PLACEMENT in enabled and await self._may_list(
            HOSTED_CLUSTER_REQUESTS, otherwise=NOT_WATCHED
        )
        if self._pods is not None:
            await self._find_optional_kinds(self._pods)
            self._storage = tuple(
                [kind for kind in STORAGE if await self._may_list(kind, otherwise=STORAGE_NOT_WATCHED)]
            )
        makers = {name: make for name, make in self._makers().items() if name in enabled}
        missing = {name: await self._missing_kind(name) for name in makers}
        self.waiting = frozenset(name for name, kind in missing.items() if kind is not None)
        for name, kind in missing.items():
            if kind is not None:
                log.warning(WAITING_FOR_KINDS, kind, name)
        late: dict[Resource[Any], frozenset[str]] = {
            MANAGED_CLUSTER_SCORES: frozenset() if self._calculators else readers,
            HOSTED_CLUSTER_REQUESTS: frozenset() if self._requests else enabled & {PLACEMENT},
        }
        self.late = {kind: names for kind, names in late.items() if names}
        return {name: make() for name, make in makers.items() if missing[name] is None}

    async def create_when_served(self, name: str) -> Controller:
        """Create a controller of ``waiting`` once the hub serves its kinds."""

        async def is_served() -> bool:
            return await self._missing_kind(name) is None

        await _until(is_served, what=f"the kinds of controller {name}")
        log.info(SERVED, name)
        return self._makers()[name]()

    async def until_served(self, kind: Resource[Any]) -> None:
        """Wait until the hub serves a kind of ``late``, and permits to list it."""
        await _until(lambda: self._serves(kind), what=str(kind))
        log.info(FOLLOWED, kind)

    async def _find_optional_kinds(self, pods: Scheduling) -> None:
        """Find which kinds of virtual machines the hub serves, if their definitions may not be watched."""
        gangs = any(Coscheduling.name in profile.plugins() for profile in pods.resolved)
        try:
            for kind in OPTIONAL:
                await self._client.list(DEFINITIONS, fields=f"metadata.name={definition_name(kind)}", limit=1)
        except (Forbidden, NotFound) as error:  # an API server can run without apiextensions
            log.warning(NOT_FOLLOWED, error)
            served = [
                kind for kind, hypervisor in HYPERVISORS.items() if await self._serves(hypervisor.machines)
            ]
            self._machine_kinds = frozenset(served)
            self._machine_records = await self._may_list(MACHINE_MIGRATIONS, otherwise=NO_RECORDS)
            self._kubevirt_limits = await self._may_list(KUBEVIRTS, otherwise=DEFAULT_LIMITS)
            self._groups = gangs and await self._serves(POD_GROUPS)
        else:
            self._machine_kinds, self._groups = None, None if gangs else False
            # An informer that may not list would keep the process from being ready.
            self._machine_records = not await self._is_forbidden(MACHINE_MIGRATIONS, then=NO_RECORDS)
            self._kubevirt_limits = not await self._is_forbidden(KUBEVIRTS, then=DEFAULT_LIMITS)

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
            ACCEPTANCE: lambda: AcceptanceController(
                client,
                meters=meters,
                ocm_namespace=settings.ocm_namespace,
                auto_approve_users=settings.auto_approve_users,
                clock=clock,
            ),
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
                scheduling=self._scheduling(HOSTING_KIND),
                debits=debits_of(settings.profile),
                history=settings.history,
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
            history=settings.history,
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

    def _scheduling(self, kind: WorkKind) -> Scheduling:
        """Return the profiles of a kind of work; the default one, if the settings have none."""
        return self._settings.scheduling_of(kind) or load(
            None, kind=kind, supervisor=Supervisor(clock=self._clock.monotonic)
        )

    def _machines(self) -> MachinesController:
        assert self._pods is not None
        return MachinesController(
            self._client,
            meters=self._meters,
            scheduling=self._pods,
            recorders=self._of_pods,
            machines=self._machine_options(self._pods),
            groups=self._groups,
            storage=self._storage,
            limiter=self._bindings,
            history=self._settings.history,
            clock=self._clock,
        )

    def _machine_options(self, pods: Scheduling) -> MachineOptions:
        return MachineOptions(
            settings=settings_of(pods.specs),
            recorder=self._of_machines,
            metrics=PermitMetrics(self._meters),
            kinds=self._machine_kinds,
            records=self._machine_records,
            history=self._settings.history,
            configuration=self._kubevirt_limits,
        )

    def _backoff(self) -> Backoff:
        """Return the back-off of Placements; that of the file, if it has one."""
        scheduling = self._settings.scheduling_of(PLACEMENT_KIND)
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

    async def _missing_kind(self, controller: str) -> Resource[Any] | None:
        needed = NEEDED.get(controller, ())
        if controller == RECOVERY and not self._settings.recovery.health.resource:
            needed = (MANAGED_CLUSTER_SCORES,)
        for resource in needed:
            if not await self._serves(resource):
                return resource
        return None

    async def _may_list(self, resource: Resource[Any], *, otherwise: str) -> bool:
        """Return whether the hub serves a kind, and permits to list it; those of an earlier version may not."""
        try:
            return await self._serves(resource)
        except Forbidden as error:
            log.warning(otherwise, resource, error)
            return False

    async def _is_forbidden(self, resource: Resource[Any], *, then: str) -> bool:
        """Return whether a kind may not be listed, whether the hub serves it or not."""
        try:
            await self._client.newest(resource)
        except Forbidden as error:
            log.warning(then, resource, error)
            return True
        except NotFound:
            pass
        return False

    async def _serves(self, resource: Resource[Any]) -> bool:
        try:
            await self._client.newest(resource)
        except NotFound:
            return False
        return True


async def _until(is_served: Callable[[], Awaitable[bool]], *, what: str) -> None:
    # Asking needs no permission beyond that of the controllers, which a watch of the definitions would.
    while True:
        await asyncio.sleep(POLL_SECONDS)
        try:
            if await is_served():
                return
        except KubeError as error:
            log.debug("cannot find %s: %s", what, error)
