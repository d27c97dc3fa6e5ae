"""The plugins and weights that place one kind of workload, built once and used for every workload.

``ProfileSpec`` is what a configuration says: names by extension point. ``build_profile`` checks it, creates one
instance of each plugin for all its points, and finds the forms of each plugin, so that a cycle calls plain tuples.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Final, NamedTuple

from fairway.engine.choice import BestHosts
from fairway.engine.errors import PluginArgsError, ProfileError
from fairway.engine.forms import (
    ChooseCalls,
    FilterCalls,
    PreFilterCalls,
    ScoreCalls,
    choose_calls,
    filter_calls,
    pre_filter_calls,
    score_calls,
)
from fairway.engine.points import (
    EXTENSION_POINTS,
    Bind,
    Choose,
    Context,
    Filter,
    Permit,
    Plugin,
    PostBind,
    PostFilter,
    PreBind,
    PreEnqueue,
    PreFilter,
    PreScore,
    Prioritize,
    QueueSort,
    Reserve,
    Score,
    Scorers,
    Weighted,
)
from fairway.engine.registry import COMMIT_POINTS, Registry
from fairway.engine.status import Status

UNKNOWN_POINT: Final = "profile {profile}: there is no extension point {point}; write one of {points}"
NOT_IMPLEMENTED: Final = (
    "profile {profile}: plugin {plugin} does not implement {point}, only {implemented}: remove it there"
)
NO_POINT: Final = (
    "profile {profile}: plugin {plugin} does not implement {point}, nor any other extension point"
)
ENABLED_TWICE: Final = "profile {profile}: plugin {plugin} is enabled twice at {point}: remove one of the two"
SEVERAL_SORTS: Final = (
    "profile {profile}: {plugins} are enabled at QueueSort, and a queue has one order: keep one of them"
)
SEVERAL_PRIORITIZERS: Final = (
    "profile {profile}: {plugins} are enabled at Prioritize, and one plugin selects the scores: "
    "keep one of them"
)
COMES_WITH_SCORE: Final = (
    "profile {profile}: plugin {plugin} cannot be enabled at NormalizeScore, which comes with Score"
)
NEGATIVE_WEIGHT: Final = (
    "profile {profile}: the weight of plugin {plugin} at Score must be at least 1, or 0 for the default of 1; "
    "got {weight}"
)
TOO_HEAVY: Final = (
    "profile {profile}: the weights of its Score plugins add up to {sum}, so that totals may exceed 64 bits; "
    "the largest sum is {most}"
)
DEFAULT_WEIGHT: Final = 1
HIGHEST_SCORE: Final = 100
LARGEST_WEIGHT_SUM: Final = ((1 << 63) - 1) // HIGHEST_SCORE

_POINTS: Final = tuple(name for name in EXTENSION_POINTS if name != "NormalizeScore")
"""The points that a profile can name; normalisation is a part of Score."""


class OnFault(StrEnum):
    """What becomes of a cycle when a plugin raises or returns nonsense."""

    FAIL = "Fail"
    """The cycle ends with an error."""
    SKIP = "Skip"
    """The cycle continues without the plugin."""


class Enabled(NamedTuple):
    """A plugin at an extension point. The weight counts at Score only; 0 means the default of 1."""

    plugin: str
    weight: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileSpec:
    """A profile as data."""

    name: str
    points: Mapping[str, tuple[Enabled, ...]] = field(default_factory=dict)
    """The plugins by extension point, such as ``Filter``, in the order of their calls."""
    args: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Keyword arguments by plugin."""
    on_fault: OnFault = OnFault.FAIL

    def extended(
        self,
        points: Mapping[str, Sequence[Enabled]],
        *,
        first: Collection[str] = (),
        args: Mapping[str, Mapping[str, Any]] | None = None,
    ) -> "ProfileSpec":
        """Return the profile with more plugins: at the start of the points ``first``, at the end of others.

        A plugin that the profile has at the point keeps its place and weight. ``args`` replace those of their plugins.
        """
        merged = dict(self.points)
        for point, more in points.items():
            own = self.points.get(point, ())
            names = {plugin for plugin, _ in own}
            new = tuple(enabled for enabled in more if enabled.plugin not in names)
            merged[point] = (*new, *own) if point in first else (*own, *new)
        return replace(self, points=merged, args={**self.args, **(args or {})})

    def without(self, *plugins: str) -> "ProfileSpec":
        """Return the profile without some plugins and their arguments."""
        return replace(
            self,
            points={
                point: tuple(entry for entry in enabled if entry.plugin not in plugins)
                for point, enabled in self.points.items()
            },
            args={plugin: args for plugin, args in self.args.items() if plugin not in plugins},
        )

    def deciding(self) -> "ProfileSpec":
        """Return the profile without the extension points after the decision, as a what-if needs it."""
        points = {point: enabled for point, enabled in self.points.items() if point not in COMMIT_POINTS}
        return replace(self, points=points)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Profile:
    """Compared by identity, because memos refer to this object. ``build_profile`` and ``assemble`` create it."""

    name: str
    on_fault: OnFault
    pre_enqueues: tuple[PreEnqueue, ...]
    queue_sort: QueueSort | None
    """None for the default order of the queue."""
    prioritizer: Prioritize | None
    """None if ``scores`` score every workload."""
    scorers: Scorers
    pre_filters: tuple[PreFilterCalls, ...]
    filters: tuple[FilterCalls, ...]
    post_filters: tuple[PostFilter, ...]
    """Called in this order when the filters leave no host."""
    pre_scores: tuple[PreScore, ...]
    """Those without a Score; the others are called just before their Score."""
    scores: tuple[ScoreCalls, ...]
    """The Score plugins that the profile enables."""
    choosers: tuple[ChooseCalls, ...]
    """The first that does not leave the choice to the next one decides; the last one is BestHosts."""
    reserves: tuple[Reserve, ...]
    permits: tuple[Permit, ...]
    pre_binds: tuple[PreBind, ...]
    binds: tuple[Bind, ...]
    post_binds: tuple[PostBind, ...]
    skipped: frozenset[str] = frozenset()
    """Plugins that ``without`` removed."""

    def prioritize(self, context: Context) -> tuple[tuple[ScoreCalls, ...], Status | None]:
        """Return the calls that score a workload, and why it cannot be scored."""
        if self.prioritizer is None:
            return self.scores, None
        prioritization = self.prioritizer.prioritize(context, self.scorers)
        calls: tuple[ScoreCalls, ...] | None = prioritization.calls
        if calls is None:
            calls = tuple([score_calls(weighted) for weighted in prioritization.scores])
            object.__setattr__(prioritization, "calls", calls)  # frozen for all other code
        if self.skipped:
            calls = tuple(scorer for scorer in calls if scorer.plugin.name not in self.skipped)
        return calls, prioritization.refusal


def assemble(
    *,
    name: str,
    on_fault: OnFault = OnFault.FAIL,
    pre_enqueues: Sequence[PreEnqueue] = (),
    queue_sort: QueueSort | None = None,
    prioritizer: Prioritize | None = None,
    pre_filters: Sequence[PreFilter] = (),
    filters: Sequence[Filter] = (),
    post_filters: Sequence[PostFilter] = (),
    pre_scores: Sequence[PreScore] | None = None,
    scores: Sequence[Weighted] = (),
    registered: Mapping[str, Score] | None = None,
    unusable: Mapping[str, str] | None = None,
    choosers: Sequence[Choose] = (),
    reserves: Sequence[Reserve] = (),
    permits: Sequence[Permit] = (),
    pre_binds: Sequence[PreBind] = (),
    binds: Sequence[Bind] = (),
    post_binds: Sequence[PostBind] = (),
) -> Profile:
    """Create a profile of these plugins. ``pre_scores`` None enables the PreScore of each Score plugin.

    ``registered`` are the Score plugins among which ``prioritizer`` may select, ``unusable`` those that could not be
    created, with the reason.
    """
    scoring = {id(weighted.plugin) for weighted in scores}
    prepared = None if pre_scores is None else {id(plugin) for plugin in pre_scores}
    return Profile(
        name=name,
        on_fault=on_fault,
        pre_enqueues=tuple(pre_enqueues),
        queue_sort=queue_sort,
        prioritizer=prioritizer,
        scorers=Scorers(defaults=tuple(scores), registered=registered or {}, unusable=unusable or {}),
        pre_filters=tuple(map(pre_filter_calls, pre_filters)),
        filters=tuple(map(filter_calls, filters)),
        post_filters=tuple(post_filters),
        pre_scores=tuple(plugin for plugin in pre_scores or () if id(plugin) not in scoring),
        scores=tuple(
            score_calls(weighted, prepares=prepared is None or id(weighted.plugin) in prepared)
            for weighted in scores
        ),
        choosers=tuple(map(choose_calls, (*choosers, BestHosts()))),
        reserves=tuple(reserves),
        permits=tuple(permits),
        pre_binds=tuple(pre_binds),
        binds=tuple(binds),
        post_binds=tuple(post_binds),
    )


def build_profile(
    spec: ProfileSpec, registry: Registry, *, broken: Mapping[str, str] | None = None
) -> Profile:
    """Create the plugins of a profile, without those that are only declared. Raise ProfileError.

    ``broken`` are plugins that could not be registered, with the reason, for workloads that name them.
    """
    _check(spec, registry)
    spec = spec.without(*filter(registry.is_declared, registry.names()))
    instances: dict[str, Any] = {}
    for enabled in spec.points.values():
        for name, _ in enabled:
            if name not in instances:
                instances[name] = registry.build(name, spec.args.get(name))

    def at(point: str) -> list[Any]:
        return [instances[name] for name, _ in spec.points.get(point, ())]

    registered: dict[str, Any] = {}
    unusable: dict[str, str] = dict(broken or {})
    if at("Prioritize"):
        for name in registry.names():
            if "Score" not in registry.points(name):
                continue
            try:
                registered[name] = instances.get(name) or registry.build(name, spec.args.get(name))
            except PluginArgsError as error:
                unusable[name] = str(error)
    return assemble(
        name=spec.name,
        on_fault=spec.on_fault,
        pre_enqueues=at("PreEnqueue"),
        queue_sort=next(iter(at("QueueSort")), None),
        prioritizer=next(iter(at("Prioritize")), None),
        pre_filters=at("PreFilter"),
        filters=at("Filter"),
        post_filters=at("PostFilter"),
        pre_scores=at("PreScore"),
        scores=[
            Weighted(instances[name], weight or DEFAULT_WEIGHT)
            for name, weight in spec.points.get("Score", ())
        ],
        registered=registered,
        unusable=unusable,
        choosers=at("Choose"),
        reserves=at("Reserve"),
        permits=at("Permit"),
        pre_binds=at("PreBind"),
        binds=at("Bind"),
        post_binds=at("PostBind"),
    )


def without(profile: Profile, name: str) -> Profile:
    """Return the profile without one plugin at the points of the scheduling cycle."""
    prioritizer = profile.prioritizer
    return replace(
        profile,
        skipped=profile.skipped | {name},
        prioritizer=None if prioritizer is not None and prioritizer.name == name else prioritizer,
        pre_filters=tuple(calls for calls in profile.pre_filters if calls.plugin.name != name),
        filters=tuple(calls for calls in profile.filters if calls.plugin.name != name),
        post_filters=tuple(plugin for plugin in profile.post_filters if plugin.name != name),
        pre_scores=tuple(plugin for plugin in profile.pre_scores if plugin.name != name),
        scores=tuple(scorer for scorer in profile.scores if scorer.plugin.name != name),
        choosers=tuple(chooser for chooser in profile.choosers if chooser.plugin.name != name),
    )


def plugins_of(profile: Profile) -> tuple[Plugin, ...]:
    """Return the plugins of a profile, each once, in the order in which they are first called."""
    single = (profile.queue_sort, profile.prioritizer)
    plugins: Iterable[Plugin] = (
        *profile.pre_enqueues,
        *(plugin for plugin in single if plugin is not None),
        *(calls.plugin for calls in profile.pre_filters),
        *(calls.plugin for calls in profile.filters),
        *profile.post_filters,
        *profile.pre_scores,
        *(scorer.plugin for scorer in profile.scores),
        *(chooser.plugin for chooser in profile.choosers),
        *profile.reserves,
        *profile.permits,
        *profile.pre_binds,
        *profile.binds,
        *profile.post_binds,
    )
    return tuple({id(plugin): plugin for plugin in plugins}.values())


def _check(spec: ProfileSpec, registry: Registry) -> None:
    for point, enabled in spec.points.items():
        if point == "NormalizeScore" and enabled:
            name = enabled[0].plugin
            raise ProfileError(
                COMES_WITH_SCORE.format(profile=spec.name, plugin=name), plugin=name, point=point
            )
        if point not in EXTENSION_POINTS:
            points = ", ".join(_POINTS)
            raise ProfileError(
                UNKNOWN_POINT.format(profile=spec.name, point=point, points=points), point=point
            )
        seen: set[str] = set()
        for name, _ in enabled:
            _check_plugin(spec, registry, point=point, name=name, seen=seen)
    for name in spec.args:
        registry.points(name)
    _check_single(spec, "QueueSort", SEVERAL_SORTS)
    _check_single(spec, "Prioritize", SEVERAL_PRIORITIZERS)
    _check_weights(spec)


def _check_plugin(spec: ProfileSpec, registry: Registry, *, point: str, name: str, seen: set[str]) -> None:
    if name in seen:
        raise ProfileError(
            ENABLED_TWICE.format(profile=spec.name, plugin=name, point=point), plugin=name, point=point
        )
    seen.add(name)
    implemented = registry.points(name)
    if point not in implemented:
        known = ", ".join(point for point in EXTENSION_POINTS if point in implemented)
        words = NOT_IMPLEMENTED if known else NO_POINT
        raise ProfileError(
            words.format(profile=spec.name, plugin=name, point=point, implemented=known),
            plugin=name,
            point=point,
        )


def _check_single(spec: ProfileSpec, point: str, words: str) -> None:
    names = [name for name, _ in spec.points.get(point, ())]
    if len(names) > 1:
        message = words.format(profile=spec.name, plugins=" and ".join(names))
        raise ProfileError(message, plugin=names[1], point=point)


def _check_weights(spec: ProfileSpec) -> None:
    weights = spec.points.get("Score", ())
    for name, weight in weights:
        if weight < 0:
            words = NEGATIVE_WEIGHT.format(profile=spec.name, plugin=name, weight=weight)
            raise ProfileError(words, plugin=name, point="Score")
    total = sum(weight or DEFAULT_WEIGHT for _, weight in weights)
    if total > LARGEST_WEIGHT_SUM:
        words = TOO_HEAVY.format(profile=spec.name, sum=total, most=LARGEST_WEIGHT_SUM)
        raise ProfileError(words, point="Score")
