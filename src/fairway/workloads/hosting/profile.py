"""The plugins for HostedClusterRequests, and the profile that decides them unless a configuration has another."""

from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from fairway.engine.choice import BestHosts
from fairway.engine.kind import WorkKind
from fairway.engine.profile import Enabled, Profile, build_profile, plugins_of, without
from fairway.engine.registry import Registry
from fairway.workloads.hosting.plugins.add_on_healthy import AddOnHealthy
from fairway.workloads.hosting.plugins.approved_move import ApprovedMove
from fairway.workloads.hosting.plugins.available import HostAvailable
from fairway.workloads.hosting.plugins.capacity_known import CapacityKnown
from fairway.workloads.hosting.plugins.claim_values import (
    ARCHITECTURE,
    PLATFORM,
    REGION,
    ClaimValues,
    architecture,
    platform,
    region,
)
from fairway.workloads.hosting.plugins.hosting_claim import HostingCluster
from fairway.workloads.hosting.plugins.largest_host import LargestHost
from fairway.workloads.hosting.plugins.load import Balance, Headroom, HostedClusters
from fairway.workloads.hosting.plugins.names_free import NamesFree
from fairway.workloads.hosting.plugins.not_full import NotFull
from fairway.workloads.hosting.plugins.not_refused import NotRefused
from fairway.workloads.hosting.plugins.policy_member import PolicyMember
from fairway.workloads.hosting.plugins.quiet_hours import QuietHours
from fairway.workloads.hosting.plugins.required_fields import RequiredFields
from fairway.workloads.hosting.plugins.reserve_place import ReservePlace
from fairway.workloads.hosting.plugins.room import Room
from fairway.workloads.hosting.plugins.selection import Selection
from fairway.workloads.hosting.plugins.spare_hosts import SpareHosts
from fairway.workloads.hosting.plugins.tenant_anti_affinity import TenantAntiAffinity
from fairway.workloads.hosting.plugins.tenant_quota import TenantQuota
from fairway.workloads.hosting.plugins.valid_request import ValidRequest
from fairway.workloads.hosting.plugins.version import Version
from fairway.workloads.hosting.plugins.zones import Zones

if TYPE_CHECKING:
    from fairway.workloads.hosting.state import HostingState

NAME: Final = "hosting"

HEADROOM_WEIGHT: Final = 10
"""The fullest dimension decides; the other scores break ties."""
TENANT_WEIGHT: Final = 20
"""Preferred anti-affinity counts more than headroom."""

SECRETS_EXIST: Final = "SecretsExist"
RESERVE_IN_STATUS: Final = "ReserveInStatus"
_PLUGINS: Final[tuple[type[Any], ...]] = (
    *(ValidRequest, LargestHost, TenantQuota, QuietHours),
    *(
        HostingCluster,
        ApprovedMove,
        NotRefused,
        HostAvailable,
        PolicyMember,
        Selection,
        AddOnHealthy,
        NotFull,
    ),
    *(Version, Zones, RequiredFields, CapacityKnown),
    *(Headroom, Balance, HostedClusters, TenantAntiAffinity, NamesFree, Room, SpareHosts),
)
_OF_CLAIMS: Final = {PLATFORM: platform, REGION: region, ARCHITECTURE: architecture}


def hosting_registry(state: "HostingState | None" = None) -> Registry:
    """Return a new registry of the built-in plugins. ``state`` is where decisions reserve; what-ifs need none."""
    registry = Registry()
    for kind in _PLUGINS:
        registry.register(kind.name, kind)
    for name, factory in _OF_CLAIMS.items():
        registry.register(name, factory, kind=ClaimValues)
    if state is None:
        registry.declare(ReservePlace.name, {"Reserve"})
    else:
        registry.register(ReservePlace.name, lambda: ReservePlace(state=state), kind=ReservePlace)
    registry.declare(SECRETS_EXIST, {"PreBind"})
    registry.declare(RESERVE_IN_STATUS, {"Bind"})
    return registry


HOSTING_KIND: Final = WorkKind(
    name="hosted clusters",
    profile=NAME,
    registry=hosting_registry,
    enabled=(
        Enabled(ValidRequest.name),
        Enabled(LargestHost.name),
        Enabled(TenantQuota.name),
        Enabled(QuietHours.name),
        # First of the filters: what a request costs must not depend on the number of clusters that host nothing.
        Enabled(HostingCluster.name),
        Enabled(ApprovedMove.name),
        Enabled(NotRefused.name),
        Enabled(HostAvailable.name),
        Enabled(PolicyMember.name),
        Enabled(Selection.name),
        Enabled(AddOnHealthy.name),
        Enabled(NotFull.name),
        Enabled(PLATFORM),
        Enabled(REGION),
        Enabled(ARCHITECTURE),
        Enabled(Version.name),
        Enabled(Zones.name),
        Enabled(RequiredFields.name),
        Enabled(CapacityKnown.name),
        Enabled(Headroom.name, HEADROOM_WEIGHT),
        Enabled(Balance.name),
        Enabled(HostedClusters.name),
        # Last of the filters are those whose answer other hosted clusters change.
        Enabled(TenantAntiAffinity.name, TENANT_WEIGHT),
        Enabled(NamesFree.name),
        Enabled(Room.name),
        Enabled(SpareHosts.name),
        Enabled(ReservePlace.name),
        Enabled(SECRETS_EXIST),
        Enabled(RESERVE_IN_STATUS),
    ),
    # The others rely on a request with a demand, and on a place that counts before the hub shows it.
    essential=(ValidRequest.name, ReservePlace.name, RESERVE_IN_STATUS),
)
_BUILT_IN: Final = frozenset(enabled.plugin for enabled in HOSTING_KIND.enabled) | {BestHosts.name}
_OF_OTHERS: Final = frozenset({TenantAntiAffinity.name, NamesFree.name, Room.name})
"""Filters whose answer other hosted clusters change."""


@cache
def default_profile() -> Profile:
    """Return the profile without a configuration, and without plugins after the decision."""
    return build_profile(HOSTING_KIND.spec(), hosting_registry())


def without_quiet_hours(profile: Profile) -> Profile:
    """Return a profile that places in quiet hours, too."""
    return without(profile, QuietHours.name)


def without_spare(profile: Profile) -> Profile:
    """Return a profile that uses the room that is kept for a failing host."""
    return without(profile, SpareHosts.name)


def eligibility(profile: Profile) -> Profile:
    """Return a profile that tells which hosts admit a request, apart from room and other hosted clusters."""
    return replace(
        profile,
        pre_filters=tuple(calls for calls in profile.pre_filters if calls.plugin.name == ValidRequest.name),
        filters=tuple(calls for calls in profile.filters if calls.plugin.name not in _OF_OTHERS),
        pre_scores=(),
        scores=(),
        choosers=profile.choosers[-1:],
    )


def is_built_in(profile: Profile) -> bool:
    """Return whether all plugins are built in. Of others, it is unknown what they read of a request."""
    return all(plugin.name in _BUILT_IN for plugin in plugins_of(profile))
