"""The plugins for Placements, and the profile that decides them unless a configuration names another."""

from functools import cache, partial
from typing import Final

from fairway.engine.forms import points_of
from fairway.engine.points import EXTENSION_POINTS
from fairway.engine.profile import Enabled, Profile, ProfileSpec, build_profile
from fairway.engine.registry import Registry
from fairway.plugins.allocatable import RESOURCES, Allocatable
from fairway.plugins.balance import Balance
from fairway.plugins.clustersets import ClusterSets
from fairway.plugins.missing_score import MissingScore
from fairway.plugins.predicate import Predicate
from fairway.plugins.prioritizer_policy import PrioritizerPolicy
from fairway.plugins.spread import Spread
from fairway.plugins.steady import Steady
from fairway.plugins.taint_preference import TaintPreference
from fairway.plugins.taints import TaintToleration

PROFILE_NAME: Final = "placement"
ENABLED: Final = (
    PrioritizerPolicy.name,
    ClusterSets.name,
    Predicate.name,
    TaintToleration.name,
    Spread.name,
    MissingScore.name,
    Balance.name,
    Steady.name,
)
"""The plugins of the default profile, at every extension point that they implement."""


def placement_registry() -> Registry:
    """Return a new registry of the built-in plugins for Placements."""
    registry = Registry()
    for kind in (
        *(PrioritizerPolicy, ClusterSets, Predicate, TaintToleration, Spread, MissingScore),
        *(Balance, Steady, TaintPreference),
    ):
        registry.register(kind.name, kind)
    for name in RESOURCES:
        registry.register(name, partial(Allocatable, name=name), kind=Allocatable)
    return registry


@cache
def default_profile() -> Profile:
    """Return the profile without a configuration. It keeps nothing about placements, so that all uses share it."""
    registry = placement_registry()
    points = {
        point: tuple(Enabled(name) for name in ENABLED if point in points_of(registry.kind(name)))
        for point in EXTENSION_POINTS
        if point != "NormalizeScore"
    }
    return build_profile(ProfileSpec(name=PROFILE_NAME, points=points), registry)
