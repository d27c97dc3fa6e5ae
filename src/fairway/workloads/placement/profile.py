"""The plugins for Placements, and the profile that decides them unless a configuration names another."""

from functools import cache, partial
from typing import Final

from fairway.engine.kind import WorkKind
from fairway.engine.profile import Enabled, Profile, build_profile
from fairway.engine.registry import Registry
from fairway.workloads.placement.plugins.allocatable import RESOURCES, Allocatable
from fairway.workloads.placement.plugins.balance import Balance
from fairway.workloads.placement.plugins.clustersets import ClusterSets
from fairway.workloads.placement.plugins.missing_score import MissingScore
from fairway.workloads.placement.plugins.predicate import Predicate
from fairway.workloads.placement.plugins.prioritizer_policy import PrioritizerPolicy
from fairway.workloads.placement.plugins.spread import Spread
from fairway.workloads.placement.plugins.stability import Stability
from fairway.workloads.placement.plugins.steady import Steady
from fairway.workloads.placement.plugins.taint_preference import TaintPreference
from fairway.workloads.placement.plugins.taints import TaintToleration

PROFILE_NAME: Final = "placement"


def placement_registry() -> Registry:
    """Return a new registry of the built-in plugins for Placements."""
    registry = Registry()
    for kind in (
        *(PrioritizerPolicy, ClusterSets, Predicate, TaintToleration, Spread, MissingScore),
        *(Stability, Balance, Steady, TaintPreference),
    ):
        registry.register(kind.name, kind)
    for name in RESOURCES:
        registry.register(name, partial(Allocatable, name=name), kind=Allocatable)
    return registry


PLACEMENT_KIND: Final = WorkKind(
    name="Placements",
    profile=PROFILE_NAME,
    registry=placement_registry,
    enabled=(
        Enabled(PrioritizerPolicy.name),
        Enabled(ClusterSets.name),
        Enabled(Predicate.name),
        Enabled(TaintToleration.name),
        Enabled(Stability.name),  # before Spread, whose choice it makes within the contract
        Enabled(Spread.name),
        Enabled(MissingScore.name),
        Enabled(Balance.name),
        Enabled(Steady.name),
    ),
    isolates=True,
    selects_plugins=True,
)


@cache
def default_profile() -> Profile:
    """Return the profile without a configuration. It keeps nothing about placements, so that all uses share it."""
    return build_profile(PLACEMENT_KIND.spec(), placement_registry())
