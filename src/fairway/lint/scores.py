"""Scores that placements rank by: whether they are published, for which clusters, and whether they have expired.

A cluster without a valid score counts 0. That is better than any negative score, and with a negative weight
better than any positive one, so a cluster without a score may win. An annotation of the placement can
make it count as the worst, or exclude it.
"""

from collections.abc import Iterator
from typing import Final

import numpy as np

from fairway.api.placement import BUILT_IN, AddOnScore, Placement, ScoreCoordinate
from fairway.engine.points import Scores
from fairway.hosts import bitmap
from fairway.hosts.bitmap import Rows
from fairway.hosts.clusters import cells
from fairway.hosts.column import Key
from fairway.lint.finding import Finding, info, warning
from fairway.lint.scene import Scene
from fairway.lint.words import count, guess, some
from fairway.workloads.placement.plugins.calculator import HIGHEST, LOWEST, RATIOS
from fairway.workloads.placement.plugins.trust import MISSING_SCORE, Missing
from kubewire.api.selector import quote

RESOURCE_UNPUBLISHED: Final = warning(
    "score-resource-unpublished", "No cluster has an AddOnPlacementScore of this name."
)
NAME_UNPUBLISHED: Final = warning(
    "score-name-unpublished", "The AddOnPlacementScore exists, but no cluster has this score in it."
)
CALCULATOR_UNPUBLISHED: Final = warning(
    "score-calculator-unpublished", "No ManagedClusterScore of this calculator exists."
)
PARTLY_PUBLISHED: Final = info("score-partly-published", "Some candidates lack the score and count 0.")
MISSING_WINS: Final = warning(
    "score-missing-wins", "Candidates without the score count 0, which beats candidates that have it."
)
USED_EXPIRED: Final = warning(
    "score-used-expired", "Scores that the placement ranks by have expired for some candidates."
)
EXPIRED_EVERYWHERE: Final = warning(
    "score-expired-everywhere", "A score that the placement ranks by has expired for every candidate."
)
SILENCE_WINS: Final = warning(
    "score-silence-wins", "A candidate whose score expires would count 0 and beat others that have it."
)

RULES: Final = (
    RESOURCE_UNPUBLISHED,
    NAME_UNPUBLISHED,
    CALCULATOR_UNPUBLISHED,
    PARTLY_PUBLISHED,
    MISSING_WINS,
    USED_EXPIRED,
    EXPIRED_EVERYWHERE,
    SILENCE_WINS,
)

ANNOTATE: Final = f"annotate the placement {MISSING_SCORE}: exclude (or worst)"
_COUNTS: Final = {
    Missing.ZERO: "count 0",
    Missing.WORST: "count as the worst, by annotation",
    Missing.EXCLUDE: "are excluded, by annotation",
}
_COUNTS_THEN: Final = {
    Missing.ZERO: "it counts 0 there",
    Missing.WORST: "it counts as the worst there, by annotation",
    Missing.EXCLUDE: "clusters without it are excluded, by annotation",
}


def check(scene: Scene) -> Iterator[Finding]:
    for placement in scene.placements:
        policy = placement.spec.prioritizerPolicy
        for at, configuration in enumerate(() if policy is None else policy.configurations):
            coordinate = configuration.scoreCoordinate
            if coordinate is None or not configuration.weight:
                continue
            path = f"spec.prioritizerPolicy.configurations[{at}].scoreCoordinate"
            if not scene.populated:
                yield from _without_fleet(scene, placement, coordinate, configuration.weight, path)
            elif coordinate.type == BUILT_IN:
                yield from _calculator(scene, placement, coordinate.builtIn, configuration.weight, path)
            elif coordinate.addOn is not None:
                yield from _addon(scene, placement, coordinate.addOn, configuration.weight, f"{path}.addOn")


def _addon(
    scene: Scene, placement: Placement, addon: AddOnScore, weight: int, path: str
) -> Iterator[Finding]:
    resource, score = addon.resourceName, addon.scoreName
    known = scene.score_names.get(resource)
    if known is None:
        elsewhere = sorted(name for name, scores in scene.score_names.items() if score in scores)
        remedy = "check that its provider runs; until then every cluster counts 0"
        if elsewhere:
            remedy = f"{quote(score)} is published by {some(elsewhere)}; otherwise {remedy}"
        yield RESOURCE_UNPUBLISHED.at(
            placement,
            f"{path}.resourceName",
            f"no cluster has an AddOnPlacementScore {quote(resource)}",
            guess(resource, scene.score_names.keys(), otherwise=remedy),
        )
    elif score not in known:
        yield NAME_UNPUBLISHED.at(
            placement,
            f"{path}.scoreName",
            f"AddOnPlacementScore {quote(resource)} exists, but on no cluster with a score {quote(score)}; "
            f"it has {some(sorted(known), shown=5)}",
            guess(score, known, otherwise="correct the name; until then every cluster counts 0"),
        )
    else:
        key = (cells.SCORE, resource, score)
        yield from _coverage(scene, placement, key, weight, path=path, named=f"score {resource}/{score}")


def _calculator(scene: Scene, placement: Placement, name: str, weight: int, path: str) -> Iterator[Finding]:
    if name.lower() in scene.snapshot.calculators:
        key = (cells.CALCULATOR, name.lower())
        yield from _coverage(scene, placement, key, weight, path=path, named=f"ManagedClusterScore {name}")
    elif name in RATIOS:
        yield CALCULATOR_UNPUBLISHED.at(
            placement,
            f"{path}.builtIn",
            f"there is no ManagedClusterScore named <cluster>-{name.lower()}, so every cluster counts 0",
            "run the provider that publishes it, or rank by ResourceAllocatableCPU, ResourceAllocatableMemory "
            "or an add-on score",
        )


def _coverage(
    scene: Scene, placement: Placement, key: Key, weight: int, *, path: str, named: str
) -> Iterator[Finding]:
    rows = bitmap.rows_of(scene.pool(placement).candidates)
    missing_counts = _policy(scene, placement, key)
    column = scene.snapshot.score_column(key)
    present = column.present[rows]
    expired = present & (column.expires[rows] < scene.now)
    usable = present & ~expired
    if expired.any():
        clusters = _names(scene, rows[expired])
        everywhere = bool(expired.all()) and len(rows) > 1
        subject = f"all {len(clusters)} candidates" if everywhere else count(len(clusters), "candidate")
        ranks = "; nothing is left to rank by" if everywhere else ""
        yield (EXPIRED_EVERYWHERE if everywhere else USED_EXPIRED).at(
            placement,
            path,
            f"{named} has expired for {subject}: {some(clusters)}; {_COUNTS_THEN[missing_counts]}{ranks}",
            "check why its provider stopped publishing: fairway get providers",
        )
    missing = _names(scene, rows[~usable])
    if not missing:
        yield from _expiry(
            placement, column.values[rows], weight, key=key, policy=missing_counts, path=path, named=named
        )
        return
    usable_scores = f"{len(rows) - len(missing)} of {count(len(rows), 'candidate')} with a usable {named}"
    values = column.values[rows][usable]
    published = key[0] == cells.SCORE
    # Amounts of a calculator are scaled over the candidates first; the effect of 0 then depends on them.
    as_is = published or bool(((values >= LOWEST) & (values <= HIGHEST)).all())
    beaten = np.count_nonzero(values * weight < 0) if as_is else 0
    if beaten and missing_counts is Missing.ZERO:
        better = "negative" if weight > 0 else "positive"
        yield MISSING_WINS.at(
            placement,
            path,
            f"only {usable_scores}; the others ({some(missing)}) count 0"
            + (", which with a negative weight is best" if weight < 0 else "")
            + f" and beat the {beaten} with a {better} score",
            _exclusion(key, lacking=not present.all(), expired=bool(expired.any())),
        )
    else:
        yield PARTLY_PUBLISHED.at(
            placement,
            path,
            f"only {usable_scores}; the others ({some(missing)}) {_COUNTS[missing_counts]}",
            "have the provider publish it for these clusters, or exclude them with a predicate",
        )


def _without_fleet(
    scene: Scene, placement: Placement, coordinate: ScoreCoordinate, weight: int, path: str
) -> Iterator[Finding]:
    """Without a fleet, only the sign of the weight shows that a missing score is the best one."""
    addon = coordinate.addOn
    if coordinate.type == BUILT_IN or addon is None or weight >= 0:
        return
    trust = scene.workload(placement).trust
    if trust.addon(addon.resourceName, addon.scoreName) is Missing.ZERO:
        yield SILENCE_WINS.at(
            placement,
            f"{path}.addOn",
            f"a cluster whose score {addon.resourceName}/{addon.scoreName} expires would count 0, which with a "
            "negative weight beats every positive score",
            ANNOTATE,
        )


def _policy(scene: Scene, placement: Placement, key: Key) -> Missing:
    trust = scene.workload(placement).trust
    return trust.addon(key[1], key[2]) if key[0] == cells.SCORE else trust.calculator(key[1])


def _expiry(
    placement: Placement, values: Scores, weight: int, *, key: Key, policy: Missing, path: str, named: str
) -> Iterator[Finding]:
    """Check what happens if one of the scores expires."""
    as_is = key[0] == cells.SCORE or bool(((values >= LOWEST) & (values <= HIGHEST)).all())
    beaten = int(np.count_nonzero(values * weight < 0)) if as_is else 0
    if policy is not Missing.ZERO or not beaten or len(values) < 2:
        return
    best = ", which with a negative weight is best" if weight < 0 else ""
    yield SILENCE_WINS.at(
        placement,
        path,
        f"a candidate whose {named} expires would count 0{best}, and beat {beaten} of {len(values)} that have it",
        ANNOTATE,
    )


def _exclusion(key: Key, *, lacking: bool, expired: bool) -> str:
    if key[0] != cells.SCORE:
        return f"{ANNOTATE}, or have it published for these clusters, or exclude them with a predicate"
    if not lacking:
        again = "make its provider publish it again"
        return f"{ANNOTATE}, and {again}; no predicate can detect an expired score"
    remedy = (
        f"{ANNOTATE}, or require the score in a CEL predicate: managedCluster.scores({quote(key[1])})"
        f".exists(s, s.name == {quote(key[2])})"
    )
    return f"{remedy}; that does not exclude clusters whose score has expired" if expired else remedy


def _names(scene: Scene, rows: Rows) -> list[str]:
    names = scene.snapshot.hosts.names
    return sorted(names[row] for row in rows.tolist())
