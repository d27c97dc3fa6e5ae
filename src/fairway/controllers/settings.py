"""Names of the controllers, and the settings of a process that runs them."""

from dataclasses import dataclass, field
from typing import Final

from fairway.controllers.bridge import BridgeOptions
from fairway.controllers.placement import ocm_detection
from fairway.controllers.placement.controller import RESYNC_SECONDS, WORKERS
from fairway.controllers.placement.shadow import SETTLE_SECONDS
from fairway.controllers.placement.shard import Shard
from fairway.controllers.recovery import RecoveryPolicy
from fairway.controllers.runtime.decision_history import DecisionHistory
from fairway.controllers.scores import SilencePolicy as ScoresPolicy
from fairway.engine.kind import WorkKind
from fairway.engine.profile import Profile
from fairway.scheduling import Scheduling
from fairway.workloads.placement.profile import PLACEMENT_KIND, default_profile
from kubewire.client import Timing

PLACEMENT: Final = "placement"
CLUSTER_SETS: Final = "clustersets"
AVAILABILITY: Final = "availability"
ACCEPTANCE: Final = "acceptance"
ADD_ONS: Final = "addons"
SCORES: Final = "scores"
BRIDGE: Final = "bridge"
RECOVERY: Final = "recovery"
HOSTING: Final = "hosting"
MACHINES: Final = "machines"
DEFAULT: Final = frozenset({PLACEMENT, CLUSTER_SETS, AVAILABILITY, ACCEPTANCE, ADD_ONS, SCORES})
"""Controllers that run by default. Those that taint clusters or write scores must be enabled explicitly."""
ALL: Final = DEFAULT | {BRIDGE, RECOVERY, HOSTING, MACHINES}

EVENTFUL: Final = frozenset({PLACEMENT, SCORES, RECOVERY, HOSTING, MACHINES})
"""Controllers whose permissions include Events."""

NAMESPACE: Final = "fairway-system"
LEASE: Final = "fairway-controllers"
"""Of the controllers that run by default, except placement, whose shards have their own."""


def lease_of(controller: str) -> str:
    """Return the Lease of a controller other than placement.

    Controllers that are enabled explicitly have their own, so that a process that runs only one of them neither waits
    for the process that runs the others, nor stops them when it leads.
    """
    return LEASE if controller in DEFAULT else f"fairway-{controller}"


EVENT_UPDATE_SECONDS: Final = 60.0
"""A repeated event is updated on the hub at most so often. A placement that follows scores may change every few
seconds, and each update costs the hub as much as a decision."""


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
    auto_approve_users: frozenset[str] = frozenset()
    """Bootstrap users whose clusters are accepted without an administrator."""
    bridge: BridgeOptions = field(default_factory=BridgeOptions)
    recovery: RecoveryPolicy = field(default_factory=RecoveryPolicy)
    scores: ScoresPolicy = field(default_factory=ScoresPolicy)
    history: DecisionHistory | None = None
    """Records decisions; None for no history."""
    scheduling: tuple[Scheduling, ...] = ()
    """Profiles and plugins by kind of work; kinds without have their default profile, without third-party plugins."""

    def scheduling_of(self, kind: WorkKind) -> Scheduling | None:
        return next((scheduling for scheduling in self.scheduling if scheduling.kind is kind), None)

    @property
    def profile(self) -> Profile:
        """The profile that decides Placements."""
        scheduling = self.scheduling_of(PLACEMENT_KIND)
        return default_profile() if scheduling is None else scheduling.profile
