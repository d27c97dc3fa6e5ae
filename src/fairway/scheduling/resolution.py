"""Resolve a configured profile: which plugins answer which extension point, in which order, with which weight.

The rules are kube-scheduler's. A set of the file is merged into the default set of the same field: the file's entry
replaces the default of the same name in place, ``disabled`` removes defaults, other entries are appended. Then
``multiPoint`` is expanded at each point: first the plugins that both the point and ``multiPoint`` name, in the point's
order, then the other plugins of ``multiPoint`` that implement the point, then those that only the point names, or that
it both disables and enables. A weight at the point, 1 if it gives none, beats the weight of ``multiPoint``.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from types import MappingProxyType
from typing import Any, Final

from fairway.engine.kind import WorkKind
from fairway.scheduling.configuration import (
    ALL,
    LARGEST_SCORE,
    LARGEST_TOTAL,
    MULTI_POINT,
    NEAR,
    POINT_FIELDS,
    SMALLER_WEIGHTS,
    TOTAL_TOO_LARGE,
    Enabled,
    PluginSet,
    Problem,
    ProfileConfiguration,
    Steps,
)

SCORE: Final = "Score"
DEFAULT_WEIGHT: Final = 1
SINGLE_POINTS: Final = ("queueSort", "prioritize")
"""Fields of points that one plugin answers."""

UNKNOWN_PLUGIN: Final = "unknown plugin {name!r}"
LIST_PLUGINS: Final = "`fairway scheduler plugins` lists the plugins"
NOT_AT_POINT: Final = "plugin {name!r} does not implement {point}"
ITS_POINTS: Final = "it implements {points}"
NO_POINT: Final = "plugin {name!r} implements no extension point"
NO_POINT_REMEDY: Final = "give its class a method such as filter or score"
DOES_NOT_SCORE: Final = "plugin {name!r} has a weight, but does not implement Score"
REMOVE_WEIGHT: Final = "remove the weight"
SEVERAL: Final = "only one {point} plugin may be enabled; got {names}"
DISABLE_OTHERS: Final = "list the others under {field}.disabled"
NONE_AT_POINT: Final = "no {point} plugin is enabled"
ESSENTIAL: Final = "plugin {name!r} is disabled at {point}, and other plugins rely on it"
KEEP_ENABLED: Final = "do not disable it"
ENABLE_ONE: Final = "enable one under {field}.enabled"

Points = Mapping[str, frozenset[str]]
"""The extension points of each registered plugin, by its name."""


@dataclass(frozen=True, slots=True)
class Resolved:
    """A plugin at a point; ``weight`` counts at Score only."""

    name: str
    weight: int = DEFAULT_WEIGHT


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolvedProfile:
    name: str
    on_plugin_fault: str
    points: Mapping[str, tuple[Resolved, ...]]
    """The plugins of each extension point, in the order of their calls."""
    args: Mapping[str, Mapping[str, Any]]

    def plugins(self) -> tuple[str, ...]:
        """Return the names of all enabled plugins."""
        return tuple(dict.fromkeys(plugin.name for plugins in self.points.values() for plugin in plugins))


def default_sets(kind: WorkKind) -> Mapping[str, PluginSet]:
    """Return the default profile of a kind of work, in the form of a configuration."""
    enabled = tuple(Enabled(name=name, weight=weight or None) for name, weight in kind.enabled)
    return {MULTI_POINT: PluginSet(enabled=enabled)}


def resolve(
    profile: ProfileConfiguration,
    *,
    defaults: Mapping[str, PluginSet],
    points: Points,
    required: Sequence[str] = (),
    essential: Sequence[str] = (),
) -> tuple[ResolvedProfile, tuple[Problem, ...]]:
    """``required`` are the points at which some plugin must be enabled, ``essential`` the plugins that must be."""
    problems = list(_check_names(profile, points))
    sets = {
        field: merge(defaults.get(field, PluginSet()), profile.at(field))
        for field in (*POINT_FIELDS, MULTI_POINT)
    }
    resolved: dict[str, tuple[Resolved, ...]] = {}
    for field, point in POINT_FIELDS.items():
        plugins = expand(point, own=sets[field], multi_point=sets[MULTI_POINT], points=points)
        resolved[point] = plugins
        path = nearest_set(profile, field)
        if field in SINGLE_POINTS and len(plugins) > 1:
            several = " and ".join(repr(plugin.name) for plugin in plugins)
            problems.append(
                Problem(
                    path=path,
                    message=SEVERAL.format(point=point, names=several),
                    remedy=DISABLE_OTHERS.format(field=field),
                )
            )
        if point in required and not plugins:
            remedy = ENABLE_ONE.format(field=field)
            problems.append(Problem(path=path, message=NONE_AT_POINT.format(point=point), remedy=remedy))
        names = {plugin.name for plugin in plugins}
        for name in essential:
            if point in points[name] and name not in names:
                message = ESSENTIAL.format(name=name, point=point)
                problems.append(Problem(path=path, message=message, remedy=KEEP_ENABLED))
    total = sum(plugin.weight for plugin in resolved[SCORE])
    if total * LARGEST_SCORE > LARGEST_TOTAL:
        message = TOTAL_TOO_LARGE.format(total=total)
        problems.append(Problem(path=nearest_set(profile, "score"), message=message, remedy=SMALLER_WEIGHTS))
    return ResolvedProfile(
        name=profile.name,
        on_plugin_fault=profile.on_plugin_fault,
        points=MappingProxyType(resolved),
        args=MappingProxyType({entry.name: entry.args for entry in profile.plugin_config}),
    ), tuple(problems)


def merge(default: PluginSet, custom: PluginSet) -> PluginSet:
    """Merge a set of the file into the default one."""
    given = {plugin.name: plugin for plugin in custom.enabled}
    kept = [given.pop(plugin.name, plugin) for plugin in default.enabled if not custom.disables(plugin.name)]
    disabled = {plugin.name: plugin for plugin in (*default.disabled, *custom.disabled)}
    return PluginSet(enabled=(*kept, *given.values()), disabled=tuple(disabled.values()))


def expand(point: str, *, own: PluginSet, multi_point: PluginSet, points: Points) -> tuple[Resolved, ...]:
    """Return the plugins of one point after the expansion of ``multiPoint``."""

    def implements(plugin: Enabled) -> bool:
        return point in points.get(plugin.name, frozenset())

    inherited = {
        plugin.name: plugin
        for plugin in multi_point.enabled
        if implements(plugin) and not own.disables(plugin.name)
    }
    named_here = [plugin for plugin in own.enabled if implements(plugin)]
    here = {plugin.name for plugin in named_here}
    both = [plugin for plugin in named_here if plugin.name in inherited]
    rest = [plugin for name, plugin in inherited.items() if name not in here]
    only = [plugin for plugin in named_here if plugin.name not in inherited]
    return tuple(Resolved(plugin.name, plugin.weight or DEFAULT_WEIGHT) for plugin in (*both, *rest, *only))


def _check_names(profile: ProfileConfiguration, points: Points) -> Iterator[Problem]:
    for field, plugin_set in profile.sets.items():
        for plugin in plugin_set.enabled:
            if not plugin.name:
                continue
            if plugin.name not in points:
                yield _unknown(plugin.name, (*plugin.path, "name"), points)
                continue
            own = points[plugin.name]
            point = POINT_FIELDS.get(field, "")
            known = ITS_POINTS.format(points=", ".join(name for name in POINT_FIELDS.values() if name in own))
            if not own:
                yield Problem(
                    path=plugin.path, message=NO_POINT.format(name=plugin.name), remedy=NO_POINT_REMEDY
                )
            elif point and point not in own:
                message = NOT_AT_POINT.format(name=plugin.name, point=point)
                yield Problem(path=(*plugin.path, "name"), message=message, remedy=known)
            elif plugin.weight is not None and SCORE not in own:
                message = DOES_NOT_SCORE.format(name=plugin.name)
                yield Problem(path=(*plugin.path, "weight"), message=message, remedy=REMOVE_WEIGHT)
        for disabled in plugin_set.disabled:
            if disabled.name and disabled.name != ALL and disabled.name not in points:
                yield _unknown(disabled.name, disabled.path, points)
    for args in profile.plugin_config:
        if args.name and args.name not in points:
            yield _unknown(args.name, (*args.path, "name"), points)


def _unknown(name: str, path: Steps, points: Points) -> Problem:
    by_case = {point.lower(): point for point in points}
    near = get_close_matches(name.lower(), by_case, n=1)
    remedy = NEAR.format(near=by_case[near[0]]) if near else LIST_PLUGINS
    return Problem(path=path, message=UNKNOWN_PLUGIN.format(name=name), remedy=remedy)


def nearest_set(profile: ProfileConfiguration, field: str) -> Steps:
    """Return the path of the field if the file has it, otherwise that of ``multiPoint``, or of the profile."""
    for name in (field, MULTI_POINT):
        if name in profile.sets:
            return (*profile.path, "plugins", name)
    return profile.path
