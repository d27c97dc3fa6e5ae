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
        return tuple(dict.fromkeys(each.name for found in self.points.values() for each in found))


def resolve(
    profile: ProfileConfiguration,
    *,
    defaults: Mapping[str, PluginSet],
    points: Points,
    required: Sequence[str] = (),
) -> tuple[ResolvedProfile, tuple[Problem, ...]]:
    """``required`` are the fields of the points at which some plugin must be enabled."""
    problems = list(_check_names(profile, points))
    sets = {
        field: merge(defaults.get(field, PluginSet()), profile.at(field))
        for field in (*POINT_FIELDS, MULTI_POINT)
    }
    resolved: dict[str, tuple[Resolved, ...]] = {}
    for field, point in POINT_FIELDS.items():
        found = expand(point, own=sets[field], multi_point=sets[MULTI_POINT], points=points)
        resolved[point] = found
        path = nearest_set(profile, field)
        if field in SINGLE_POINTS and len(found) > 1:
            names = " and ".join(repr(each.name) for each in found)
            problems.append(
                Problem(
                    path=path,
                    message=SEVERAL.format(point=point, names=names),
                    remedy=DISABLE_OTHERS.format(field=field),
                )
            )
        if field in required and not found:
            remedy = ENABLE_ONE.format(field=field)
            problems.append(Problem(path=path, message=NONE_AT_POINT.format(point=point), remedy=remedy))
    total = sum(each.weight for each in resolved[SCORE])
    if total * LARGEST_SCORE > LARGEST_TOTAL:
        message = TOTAL_TOO_LARGE.format(total=total)
        problems.append(Problem(path=nearest_set(profile, "score"), message=message, remedy=SMALLER_WEIGHTS))
    return ResolvedProfile(
        name=profile.name,
        on_plugin_fault=profile.on_plugin_fault,
        points=MappingProxyType(resolved),
        args=MappingProxyType({each.name: each.args for each in profile.plugin_config}),
    ), tuple(problems)


def merge(default: PluginSet, custom: PluginSet) -> PluginSet:
    """Merge a set of the file into the default one."""
    given = {each.name: each for each in custom.enabled}
    kept = [given.pop(each.name, each) for each in default.enabled if not custom.disables(each.name)]
    disabled = {each.name: each for each in (*default.disabled, *custom.disabled)}
    return PluginSet(enabled=(*kept, *given.values()), disabled=tuple(disabled.values()))


def expand(point: str, *, own: PluginSet, multi_point: PluginSet, points: Points) -> tuple[Resolved, ...]:
    """Return the plugins of one point after the expansion of ``multiPoint``."""

    def implements(each: Enabled) -> bool:
        return point in points.get(each.name, frozenset())

    inherited = {
        each.name: each for each in multi_point.enabled if implements(each) and not own.disables(each.name)
    }
    named_here = [each for each in own.enabled if implements(each)]
    here = {each.name for each in named_here}
    both = [each for each in named_here if each.name in inherited]
    rest = [each for name, each in inherited.items() if name not in here]
    only = [each for each in named_here if each.name not in inherited]
    return tuple(Resolved(each.name, each.weight or DEFAULT_WEIGHT) for each in (*both, *rest, *only))


def _check_names(profile: ProfileConfiguration, points: Points) -> Iterator[Problem]:
    for field, given in profile.sets.items():
        for each in given.enabled:
            if not each.name:
                continue
            if each.name not in points:
                yield _unknown(each.name, (*each.path, "name"), points)
                continue
            own = points[each.name]
            point = POINT_FIELDS.get(field, "")
            known = ITS_POINTS.format(points=", ".join(name for name in POINT_FIELDS.values() if name in own))
            if not own:
                yield Problem(path=each.path, message=NO_POINT.format(name=each.name), remedy=NO_POINT_REMEDY)
            elif point and point not in own:
                message = NOT_AT_POINT.format(name=each.name, point=point)
                yield Problem(path=(*each.path, "name"), message=message, remedy=known)
            elif each.weight is not None and SCORE not in own:
                message = DOES_NOT_SCORE.format(name=each.name)
                yield Problem(path=(*each.path, "weight"), message=message, remedy=REMOVE_WEIGHT)
        for gone in given.disabled:
            if gone.name and gone.name != ALL and gone.name not in points:
                yield _unknown(gone.name, gone.path, points)
    for args in profile.plugin_config:
        if args.name and args.name not in points:
            yield _unknown(args.name, (*args.path, "name"), points)


def _unknown(name: str, path: Steps, points: Points) -> Problem:
    by_case = {each.lower(): each for each in points}
    near = get_close_matches(name.lower(), by_case, n=1)
    remedy = NEAR.format(near=by_case[near[0]]) if near else LIST_PLUGINS
    return Problem(path=path, message=UNKNOWN_PLUGIN.format(name=name), remedy=remedy)


def nearest_set(profile: ProfileConfiguration, field: str) -> Steps:
    """Return the path of the field if the file has it, otherwise that of ``multiPoint``, or of the profile."""
    for each in (field, MULTI_POINT):
        if each in profile.sets:
            return (*profile.path, "plugins", each)
    return profile.path
