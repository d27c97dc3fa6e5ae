"""Prioritizer policies: entries that are rejected, have no effect, or the opposite effect."""

import re
from collections.abc import Iterator
from typing import Final

from fairway.api.cluster import PREFER_NO_SELECT
from fairway.api.placement import (
    ADD_ON,
    ADDITIVE,
    BUILT_IN,
    EXACT,
    Placement,
    PrioritizerConfig,
    PrioritizerPolicy,
    ScoreCoordinate,
)
from fairway.hosts import bitmap
from fairway.hosts.clusters import cells
from fairway.lint.finding import Finding, error, info, warning
from fairway.lint.scene import Scene
from fairway.lint.words import count, guess, nearest, some
from fairway.workloads.placement.plugins.balance import NAME as BALANCE
from fairway.workloads.placement.plugins.calculator import RATIOS, UNKNOWN
from fairway.workloads.placement.plugins.prioritizer_policy import (
    ADDON_NEEDED,
    BUILT_INS,
    COORDINATE_NEEDED,
    WRONG_MODE,
)
from fairway.workloads.placement.plugins.spread import NAME as SPREAD
from fairway.workloads.placement.plugins.steady import NAME as STEADY
from fairway.workloads.placement.plugins.taint_preference import NAME as TAINT_PREFERENCE
from kubewire.api.selector import quote

MODE_UNKNOWN: Final = error("prioritizer-mode-unknown", "The mode is neither Additive nor Exact.")
COORDINATE_MISSING: Final = error("score-coordinate-missing", "A configuration names no score.")
ADDON_MISSING: Final = error("score-addon-missing", "The type is AddOn and the add-on score is not named.")
TYPE_UNKNOWN: Final = error("score-type-unknown", "The type is neither BuiltIn nor AddOn.")
ADDON_IGNORED: Final = warning("score-addon-ignored", "The type is BuiltIn, so the add-on score is ignored.")
UNKNOWN_BUILTIN: Final = error("prioritizer-unknown", "There is no such built-in prioritizer or calculator.")
WEIGHT_RANGE: Final = error("weight-out-of-range", "The weight is outside -10 to 10.")
WEIGHT_ZERO: Final = warning("weight-zero", "A weight of 0 disables the prioritizer.")
ADDON_TWICE: Final = warning("score-listed-twice", "An add-on score is listed twice, and the weights add up.")
BUILTIN_TWICE: Final = warning(
    "prioritizer-listed-twice", "A built-in is listed twice; the last weight counts."
)
NO_PRIORITIZERS: Final = warning(
    "exact-without-prioritizers", "Mode Exact without prioritizers: the first clusters by name are selected."
)
DIRECTION: Final = warning("weight-direction", "The sign of the weight contradicts the score's name.")
TAINTS_UNHEARD: Final = info(
    "taint-preference-unused", "PreferNoSelect taints have no effect unless TaintPreference is named."
)

RULES: Final = (
    MODE_UNKNOWN,
    COORDINATE_MISSING,
    ADDON_MISSING,
    TYPE_UNKNOWN,
    ADDON_IGNORED,
    UNKNOWN_BUILTIN,
    WEIGHT_RANGE,
    WEIGHT_ZERO,
    ADDON_TWICE,
    BUILTIN_TWICE,
    NO_PRIORITIZERS,
    DIRECTION,
    TAINTS_UNHEARD,
)

LOWEST_WEIGHT, HIGHEST_WEIGHT = -10, 10
BUILTINS: Final = (*BUILT_INS, *RATIOS)

_MORE_IS_BETTER: Final = frozenset(
    {"available", "avail", "free", "headroom", "allocatable", "ratio", "remaining", "idle", "spare"}
)
_LESS_IS_BETTER: Final = frozenset(
    {
        "count",
        "cost",
        "price",
        "latency",
        "usage",
        "used",
        "utilization",
        "load",
        "carbon",
        "errors",
        "pending",
    }
)
WORD: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
"""A word in the name of a score, such as the two of ``cpuAvailable``."""
_AGAINST: Final = {
    BALANCE: "prefers the clusters that most other decisions already name",
    STEADY: "moves away from the selected clusters every time",
    TAINT_PREFERENCE: "prefers the clusters with the most PreferNoSelect taints",
}


def check(scene: Scene) -> Iterator[Finding]:
    for placement in scene.placements:
        policy = placement.spec.prioritizerPolicy
        if policy is not None:
            yield from _policy(scene, placement, policy)
        yield from _taints(scene, placement)


def _policy(scene: Scene, placement: Placement, policy: PrioritizerPolicy) -> Iterator[Finding]:
    if policy.mode not in ("", ADDITIVE, EXACT):
        near = nearest(policy.mode, (ADDITIVE, EXACT))
        yield MODE_UNKNOWN.at(
            placement,
            "spec.prioritizerPolicy.mode",
            f"the placement is rejected: {WRONG_MODE.format(mode=policy.mode)}",
            f"write {near}" if near else "write Additive or Exact",
        )
    if policy.mode == EXACT and not any(configuration.weight for configuration in policy.configurations):
        yield NO_PRIORITIZERS.at(
            placement,
            "spec.prioritizerPolicy",
            "mode Exact and no prioritizer with a weight: all clusters tie, and the first by name are selected",
            "list prioritizers, or use mode Additive for Balance and Steady",
        )
    for at, configuration in enumerate(policy.configurations):
        path = f"spec.prioritizerPolicy.configurations[{at}]"
        yield from _weight(scene, placement, policy, configuration, path)
        coordinate = configuration.scoreCoordinate
        if coordinate is None:
            yield COORDINATE_MISSING.at(
                placement,
                path,
                f"the placement is rejected: {COORDINATE_NEEDED}",
                "add scoreCoordinate with builtIn, or with type AddOn and addOn",
            )
        elif configuration.weight:
            yield from _coordinate(scene, placement, coordinate, path)
            yield from _direction(placement, coordinate, configuration.weight, path)
    yield from _duplicates(placement, policy)


def _weight(
    scene: Scene, placement: Placement, policy: PrioritizerPolicy, configuration: PrioritizerConfig, path: str
) -> Iterator[Finding]:
    weight = configuration.weight
    if not LOWEST_WEIGHT <= weight <= HIGHEST_WEIGHT:
        yield WEIGHT_RANGE.at(
            placement,
            f"{path}.weight",
            f"the weight {weight} is outside {LOWEST_WEIGHT} to {HIGHEST_WEIGHT}",
            "only the proportions between weights count: scale them down",
        )
    coordinate = configuration.scoreCoordinate
    # Weight 0 is how one of the defaults is switched off.
    default = (
        coordinate is not None
        and coordinate.addOn is None
        and coordinate.builtIn in scene.default_prioritizers
    )
    if weight == 0 and not (default and policy.mode != EXACT):
        yield WEIGHT_ZERO.at(
            placement,
            f"{path}.weight",
            f"{_named(coordinate)} has the weight 0, so it has no effect",
            "give it a weight, or remove the entry",
        )


def _coordinate(
    scene: Scene, placement: Placement, coordinate: ScoreCoordinate, path: str
) -> Iterator[Finding]:
    path = f"{path}.scoreCoordinate"
    if coordinate.type == BUILT_IN:
        if coordinate.addOn is not None:
            yield ADDON_IGNORED.at(
                placement,
                f"{path}.addOn",
                f"the type is BuiltIn, so {coordinate.builtIn or 'nothing'} is used and the add-on score is ignored",
                "write type: AddOn, or remove addOn",
            )
        yield from _builtin(scene, placement, coordinate.builtIn, path)
        return
    if coordinate.type != ADD_ON:
        yield TYPE_UNKNOWN.at(
            placement,
            f"{path}.type",
            f"{quote(coordinate.type)} is not a score type and is read as AddOn",
            guess(coordinate.type, (BUILT_IN, ADD_ON), otherwise="write BuiltIn or AddOn"),
        )
    if coordinate.addOn is None:
        yield ADDON_MISSING.at(
            placement,
            path,
            f"the placement is rejected: {ADDON_NEEDED}",
            "add addOn with resourceName and scoreName",
        )


def _builtin(scene: Scene, placement: Placement, name: str, path: str) -> Iterator[Finding]:
    calculators = scene.snapshot.calculators
    if name in BUILTINS or name in scene.prioritizers or name.lower() in calculators:
        return
    known = (*BUILTINS, *sorted(scene.prioritizers - set(BUILTINS)))
    remedy = guess(name, {*known, *calculators}, otherwise=f"use one of {', '.join(known)}")
    if name == SPREAD:
        remedy = "spreading is asked for in spec.spreadPolicy.spreadConstraints"
    yield UNKNOWN_BUILTIN.at(
        placement, f"{path}.builtIn", f"the placement is rejected: {UNKNOWN.format(name=name)}", remedy
    )


def _direction(
    placement: Placement, coordinate: ScoreCoordinate, weight: int, path: str
) -> Iterator[Finding]:
    builtin = coordinate.type == BUILT_IN
    name = coordinate.builtIn if builtin else "" if coordinate.addOn is None else coordinate.addOn.scoreName
    if builtin and name in _AGAINST:
        if weight < 0:
            yield DIRECTION.at(
                placement,
                f"{path}.weight",
                f"{name} with the weight {weight} {_AGAINST[name]}",
                f"write a positive weight, or 0 to switch {name} off",
            )
        return
    words = {word.lower() for word in WORD.findall(name)}
    more, less = words & _MORE_IS_BETTER, words & _LESS_IS_BETTER
    # A name with both, such as availableCount, is ambiguous.
    if bool(more) == bool(less) or (weight > 0) == bool(more):
        return
    word = min(more or less)
    reads = "more is better" if more else "less is better"
    prefers = "lowest" if more else "highest"
    yield DIRECTION.at(
        placement,
        f"{path}.weight",
        f"{quote(word)} in the name {name} reads as if {reads}, but with the weight {weight} "
        f"the clusters with the {prefers} score win",
        f"write {-weight}, unless "
        + (
            f"the clusters with the {prefers} score are wanted"
            if builtin
            else "the provider publishes an inverted score"
        ),
    )


def _duplicates(placement: Placement, policy: PrioritizerPolicy) -> Iterator[Finding]:
    addons: dict[tuple[str, str], int] = {}
    builtins: dict[str, int] = {}
    for at, configuration in enumerate(policy.configurations):
        coordinate = configuration.scoreCoordinate
        path = f"spec.prioritizerPolicy.configurations[{at}]"
        if coordinate is None or not configuration.weight:
            continue
        if coordinate.addOn is not None and coordinate.type != BUILT_IN:
            key = (coordinate.addOn.resourceName, coordinate.addOn.scoreName)
            first = addons.setdefault(key, at)
            if first != at:
                total = policy.configurations[first].weight + configuration.weight
                yield ADDON_TWICE.at(
                    placement,
                    path,
                    f"{_named(coordinate)} is also configurations[{first}]; both count, together {total}",
                    "keep one of the two",
                )
        elif coordinate.type == BUILT_IN and coordinate.addOn is None:
            first = builtins.setdefault(coordinate.builtIn, at)
            if first != at:
                yield BUILTIN_TWICE.at(
                    placement,
                    path,
                    f"{coordinate.builtIn} is also configurations[{first}]; the weight there is ignored",
                    "keep one of the two",
                )


def _taints(scene: Scene, placement: Placement) -> Iterator[Finding]:
    # Without numberOfClusters all feasible clusters are selected, so preferences have no effect.
    if placement.spec.numberOfClusters is None:
        return
    if not any(effect == PREFER_NO_SELECT for _, _, effect in scene.taints):
        return
    policy = placement.spec.prioritizerPolicy
    for configuration in () if policy is None else policy.configurations:
        if (
            configuration.scoreCoordinate is not None
            and configuration.scoreCoordinate.builtIn == TAINT_PREFERENCE
        ):
            return
    column = scene.snapshot.codes(cells.TAINTS)
    unwanted = scene.snapshot.none()
    for shape, code in column.items():
        # The column holds tuples of (key, value, effect).
        if isinstance(shape, tuple) and any(taint[2] == PREFER_NO_SELECT for taint in shape):
            unwanted = unwanted | column.bitmap(code)
    unwanted = unwanted & scene.pool(placement).matching
    if bitmap.any_of(unwanted):
        clusters = scene.names(unwanted)
        yield TAINTS_UNHEARD.at(
            placement,
            "spec.prioritizerPolicy",
            f"{count(len(clusters), 'candidate')} ({some(clusters)}) with a PreferNoSelect taint, "
            "which changes nothing for this placement",
            f"add the built-in prioritizer {TAINT_PREFERENCE} to avoid them",
        )


def _named(coordinate: ScoreCoordinate | None) -> str:
    if coordinate is None:
        return "the entry"
    if coordinate.addOn is not None and coordinate.type != BUILT_IN:
        return f"AddOn/{coordinate.addOn.resourceName}/{coordinate.addOn.scoreName}"
    return coordinate.builtIn or "the entry"
