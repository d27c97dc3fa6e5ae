"""The profile ``hosting``: the plugins that place HostedClusterRequests."""

from collections.abc import Sequence
from typing import Any, Final

from fairway.engine.ledger import Ledger
from fairway.engine.points import Bind, PreBind, Weighted
from fairway.engine.profile import Profile, assemble
from fairway.hosting.plugins.add_on_healthy import AddOnHealthy
from fairway.hosting.plugins.approved_move import ApprovedMove
from fairway.hosting.plugins.available import HostAvailable
from fairway.hosting.plugins.capacity_known import CapacityKnown
from fairway.hosting.plugins.claim_values import architecture, platform, region
from fairway.hosting.plugins.hosting_claim import HostingCluster
from fairway.hosting.plugins.load import Balance, Headroom, HostedClusters
from fairway.hosting.plugins.names_free import NamesFree
from fairway.hosting.plugins.not_full import NotFull
from fairway.hosting.plugins.policy_member import PolicyMember
from fairway.hosting.plugins.quiet_hours import QuietHours
from fairway.hosting.plugins.room import Room
from fairway.hosting.plugins.selection import Selection
from fairway.hosting.plugins.spare_hosts import SpareHosts
from fairway.hosting.plugins.tenant_anti_affinity import TenantAntiAffinity
from fairway.hosting.plugins.valid_request import ValidRequest
from fairway.hosting.plugins.version import Version
from fairway.hosting.plugins.zones import Zones
from fairway.hosting.state import HostingState
from fairway.plugins.reserve_capacity import ReserveCapacity

NAME: Final = "hosting"

HEADROOM_WEIGHT: Final = 10
"""The fullest dimension decides; the other scores break ties."""
TENANT_WEIGHT: Final = 20
"""Preferred anti-affinity counts more than headroom."""


def hosting_profile(
    state: HostingState,
    *,
    pre_binds: Sequence[PreBind] = (),
    binds: Sequence[Bind] = (),
    quiet: bool = True,
    spare: bool = True,
) -> Profile:
    """``quiet=False`` places in quiet hours, too. ``spare=False`` uses the room that is kept for a failing host."""
    tenants = TenantAntiAffinity(state=state)
    reserves: list[Any] = []
    if isinstance(state.ledger, Ledger):
        reserves.append(ReserveCapacity(ledger=state.ledger, amounts=state.amounts_on))
    return assemble(
        name=NAME,
        pre_filters=(ValidRequest(), QuietHours()) if quiet else (ValidRequest(),),
        filters=(
            HostingCluster(),
            ApprovedMove(),
            HostAvailable(),
            PolicyMember(state=state),
            Selection(),
            AddOnHealthy(),
            NotFull(),
            platform(),
            region(),
            architecture(),
            Version(),
            Zones(),
            CapacityKnown(state=state),
            tenants,
            NamesFree(state=state),
            Room(state=state),
        ),
        scores=(
            Weighted(Headroom(state=state), HEADROOM_WEIGHT),
            Weighted(Balance(state=state)),
            Weighted(HostedClusters(state=state)),
            Weighted(tenants, TENANT_WEIGHT),
        ),
        choosers=(SpareHosts(state=state),) if spare else (),
        reserves=reserves,
        pre_binds=pre_binds,
        binds=binds,
    )
