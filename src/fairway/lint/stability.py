"""Decisions that noise moves: scores that are measured again and again, and nothing that holds on to a cluster.

A published load varies by a few points from one measurement to the next. Where it alone ranks the clusters, the
selected one is replaced as soon as another publishes one point more, and each of these moves may restart workloads.
Steady adds 100 points times its weight to the clusters that are selected already; a stability contract limits moves
with any weights.
"""

from collections.abc import Iterator
from typing import Final

from fairway.api.placement import BUILT_IN, EXACT, Placement, ScoreCoordinate
from fairway.hosts import bitmap
from fairway.lint.finding import Finding, warning
from fairway.lint.prioritizers import WORD
from fairway.lint.scene import Scene
from fairway.lint.words import some
from fairway.workloads.placement.plugins.contract import DEFAULT, SANE, STABILITY, contract_faults
from fairway.workloads.placement.plugins.prioritizer_policy import BUILT_INS
from fairway.workloads.placement.plugins.stability import stability_of
from fairway.workloads.placement.plugins.steady import INCUMBENT
from fairway.workloads.placement.plugins.steady import NAME as STEADY
from kubewire.api.selector import quote

UNSTEADY: Final = warning(
    "decision-unsteady",
    "Noise of a score moves the decision: Steady has too little weight, or none, and there is no stability contract.",
)
INEFFECTIVE: Final = warning(
    "stability-ineffective", "An annotation of the stability contract cannot be read, so it has no effect."
)

RULES: Final = (UNSTEADY, INEFFECTIVE)

STEADY_MARGIN: Final = 5.0
"""Points of the scores below which a margin does not outlast the noise of a measured load."""
RARELY_CHANGED: Final = frozenset(
    {"allocatable", "capacity", "cost", "hosted", "limit", "max", "maximum", "price", "priority", "tier"}
)
"""Words in names of scores that are set or counted, and not measured."""
CONTRACT: Final = (
    f'annotate the placement "{STABILITY}: {DEFAULT}", with which it moves only for {SANE.min_gain} points, and at '
    "most once in two hours"
)
PASTE: Final = "- {weight: 1, scoreCoordinate: {type: BuiltIn, builtIn: Steady}}"
GOOD_WEIGHT: Final = 10
"""Of one score beside Steady with the weight 1: a margin of 10 points."""


def check(scene: Scene) -> Iterator[Finding]:
    for placement in scene.placements:
        workload = scene.workload(placement)
        for fault in contract_faults(workload):
            yield INEFFECTIVE.at(
                placement,
                f"metadata.annotations[{fault.annotation}]",
                f"{fault.words}, so the annotation has no effect",
                "correct the value, or remove the annotation",
            )
        wanted = placement.spec.numberOfClusters
        if wanted is None or wanted <= 0:
            continue  # all feasible clusters are selected, or none; the ranking has no effect
        if scene.populated and bitmap.count(scene.pool(placement).candidates) <= wanted:
            continue
        contract = stability_of(scene.world.profile, workload)
        if contract.quiet is None and not (contract.min_gain or contract.dwell or contract.moves):
            yield from _steadiness(scene, placement)


def _steadiness(scene: Scene, placement: Placement) -> Iterator[Finding]:
    policy = placement.spec.prioritizerPolicy
    if policy is None:
        return
    moving: dict[str, int] = {}
    steady = 0 if policy.mode == EXACT else scene.default_weights.get(STEADY, 0)
    for configuration in policy.configurations:
        coordinate, weight = configuration.scoreCoordinate, configuration.weight
        if coordinate is None:
            return  # the placement is rejected, and decides nothing
        name = _moving_score(scene, coordinate)
        if name is None:
            return  # a plugin of the user, which may hold on to clusters itself
        if name:
            moving[name] = moving.get(name, 0) + abs(weight)
        elif coordinate.builtIn == STEADY:
            steady = weight
    total = sum(moving.values())
    if not total:
        return
    margin = max(steady, 0) * INCUMBENT / total
    if margin >= STEADY_MARGIN:
        return
    scores = some(sorted(name for name, weight in moving.items() if weight))
    if steady <= 0:
        message = (
            f"nothing keeps the selected clusters: as soon as another cluster has one point more by {scores}, it "
            "replaces one of them, so that noise of the score moves the decision"
        )
    else:
        message = (
            f"Steady keeps a selected cluster only while no other is {margin:.2g} points better by {scores}"
        )
    yield UNSTEADY.at(
        placement, "spec.prioritizerPolicy.configurations", message, f"{CONTRACT}; or {_remedy(total)}"
    )


def _remedy(total: int) -> str:
    if total >= GOOD_WEIGHT:
        weight = -(-total // GOOD_WEIGHT)
        paste = PASTE.replace("1", str(weight), 1)
        return f"add {quote(paste)}, which keeps a cluster until another is {weight * INCUMBENT // total} points better"
    return (
        f"add {quote(PASTE)}, which keeps a cluster until another is {INCUMBENT // total} points better; with the "
        f"weight {GOOD_WEIGHT} for the score, {INCUMBENT // GOOD_WEIGHT} points"
    )


def _moving_score(scene: Scene, coordinate: ScoreCoordinate) -> str | None:
    """Return the name of a score that is published again and again; empty for one that moves only with the fleet."""
    if coordinate.type != BUILT_IN:
        if coordinate.addOn is None:
            return ""
        name = coordinate.addOn.scoreName
        return "" if _is_set(name) else f"{coordinate.addOn.resourceName}/{name}"
    name = coordinate.builtIn
    if name in BUILT_INS:
        return ""
    if name in scene.prioritizers:
        return None
    return "" if _is_set(name) else name


def _is_set(score: str) -> bool:
    return not RARELY_CHANGED.isdisjoint(word.lower() for word in WORD.findall(score))
