"""A kind of work, as configurations know it: its built-in plugins, and those of its default profile.

A kind is data, declared once beside its plugins (``workloads/KIND/profile.py``). Everything that differs between kinds
when a configuration becomes a profile is a field here, so that checks and messages are the same for all of them:

    configuration -> ProfileSpec -> Profile
    (a file, or the default of the kind)   (names by extension point)   (plugins, by ``build_profile``)

The spec is checked when a process starts. A controller builds the profile from it each time it begins to lead, with a
registry whose factories have its own state.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from fairway.engine.points import EXTENSION_POINTS
from fairway.engine.profile import DEFAULT_WEIGHT, Enabled, ProfileSpec
from fairway.engine.registry import Registry

_NAMED_POINTS = tuple(point for point in EXTENSION_POINTS if point != "NormalizeScore")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class WorkKind:
    name: str
    """What the plugins place, in the plural, such as ``pods``."""
    profile: str
    """The name of the default profile."""
    registry: Callable[[], Registry]
    """Returns a new registry of the built-in plugins. Those that only a controller can create are declared in it."""
    enabled: tuple[Enabled, ...]
    """The plugins of the default profile, each at all points that it implements, in the order of their calls."""
    required: tuple[str, ...] = ()
    """The extension points at which every profile needs a plugin."""
    essential: tuple[str, ...] = ()
    """Plugins that every profile needs, at all points that they implement, because others rely on them."""
    names_profiles: bool = False
    """Whether each workload names its profile, as pods do, so that a configuration may have several of any name.
    Otherwise all workloads of the kind have the profile named above."""
    isolates: bool = False
    """Whether cycles of the kind can wait for plugins in processes of their own."""
    selects_plugins: bool = False
    """Whether workloads themselves select Score plugins, so that plugins matter that no profile enables."""

    def spec(self, *, name: str = "", args: Mapping[str, Mapping[str, Any]] | None = None) -> ProfileSpec:
        """Return the default profile as data, with another name and with arguments by plugin."""
        registry = self.registry()
        points = {
            point: tuple(
                Enabled(plugin, (weight or DEFAULT_WEIGHT) if point == "Score" else 0)
                for plugin, weight in self.enabled
                if point in registry.points(plugin)
            )
            for point in _NAMED_POINTS
        }
        return ProfileSpec(name=name or self.profile, points=points, args=args or {})
