"""What configurations of Placements start from: the built-in plugins, and the default profile."""

from dataclasses import replace
from typing import Final

from fairway.placement.profile import ENABLED, placement_registry
from fairway.scheduling.configuration import MULTI_POINT, PLACEMENT_PROFILE, Enabled, PluginSet
from fairway.scheduling.loading import Base

PLACEMENT_DEFAULTS: Final = Base(
    registry=placement_registry,
    sets={MULTI_POINT: PluginSet(enabled=tuple(Enabled(name=name) for name in ENABLED))},
    profiles=(PLACEMENT_PROFILE,),
)

PLACEMENT_BESIDE_PODS: Final = replace(PLACEMENT_DEFAULTS, skips=lambda name: name != PLACEMENT_PROFILE)
"""For files that also have profiles of pods."""
