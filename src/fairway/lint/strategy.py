"""Number of clusters, decision groups, and metadata of a placement."""

import math
import re
from collections.abc import Iterator
from fractions import Fraction
from typing import Final

from fairway.api.placement import (
    SCHEDULING_DISABLED_ANNOTATION,
    SORT_BY_NAME,
    SORT_BY_SCORE,
    DecisionGroup,
    Placement,
)
from fairway.engine.status import Status
from fairway.hosts import bitmap, selection
from fairway.hosts.bitmap import Bits
from fairway.hosts.clusters import cells
from fairway.lint.finding import Finding, error, info, warning
from fairway.lint.scene import Scene
from fairway.lint.words import count, guess
from fairway.workloads.placement.groups import divide, group_length
from fairway.workloads.placement.plugins.score_debits import SCORE_DEBITS
from fairway.workloads.placement.plugins.trust import EXPIRED_SCORES, MISSING_SCORE, trust_of
from fairway.workloads.placement.verdict import LABEL_LENGTH, NAME_TOO_LONG
from kubewire.api.selector import SelectorError, compile_requirements, compile_selector, quote

TOO_MANY: Final = warning("too-many-wanted", "More clusters are wanted than can be selected.")
NONE_WANTED: Final = warning("none-wanted", "numberOfClusters is 0, so no cluster is ever selected.")
NEGATIVE: Final = error("number-negative", "numberOfClusters is negative.")
NAME_LONG: Final = error("name-too-long", "The name is too long for the label of its decisions.")
NOT_A_PERCENTAGE: Final = error(
    "group-length-not-a-percentage", "clustersPerDecisionGroup is text without a percent sign."
)
LENGTH_INEFFECTIVE: Final = warning(
    "group-length-ineffective", "clustersPerDecisionGroup is not positive, so nothing is divided."
)
ROUNDING: Final = info("group-length-rounding", "The percentage rounds up to another number of groups.")
GROUP_BROKEN: Final = error("group-selector-broken", "The selector of a decision group does not compile.")
GROUP_EMPTY: Final = warning("group-matches-nothing", "A decision group's selector matches no candidate.")
GROUP_TWICE: Final = warning("group-name-twice", "Two decision groups have the same name.")
GROUP_SHADOWED: Final = warning("group-shadowed", "Earlier groups take every cluster of this one.")
SORT_UNKNOWN: Final = error("sort-by-unknown", "sortBy is neither ClusterName nor Score.")
RATE_MALFORMED: Final = error("score-rate-limit-malformed", "scoreRateLimit is not a number with h, m or s.")
NOT_DISABLED: Final = warning("disable-annotation-ineffective", 'Only the value "true" disables scheduling.')
ANNOTATION_VALUE: Final = warning(
    "annotation-value", "A fairway.dev/ annotation has a value that has no effect."
)
ANNOTATION_UNKNOWN: Final = warning("annotation-unknown", "There is no such fairway.dev/ annotation.")

RULES: Final = (
    TOO_MANY,
    NONE_WANTED,
    NEGATIVE,
    NAME_LONG,
    NOT_A_PERCENTAGE,
    LENGTH_INEFFECTIVE,
    ROUNDING,
    GROUP_BROKEN,
    GROUP_EMPTY,
    GROUP_TWICE,
    GROUP_SHADOWED,
    SORT_UNKNOWN,
    RATE_MALFORMED,
    NOT_DISABLED,
    ANNOTATION_UNKNOWN,
    ANNOTATION_VALUE,
)

ANNOTATION_PREFIX: Final = "fairway.dev/"
ON_MISCONFIGURATION: Final = "fairway.dev/on-misconfiguration"
VALUES: Final = {
    MISSING_SCORE: "zero, worst or exclude",
    EXPIRED_SCORES: "absent",
    SCORE_DEBITS: "resource/score=-5, with a sign, or none",
}
"""Valid values of the annotations about scores."""
ANNOTATIONS: Final = frozenset({ON_MISCONFIGURATION, *VALUES})
"""Annotations that Fairway reads on a Placement."""

ON_MISCONFIGURED: Final = ("keep", "evict")

_RATE: Final = re.compile(r"[0-9]+[hms]")
_GROUPS: Final = "spec.decisionStrategy.groupStrategy"


def check(scene: Scene) -> Iterator[Finding]:
    for placement in scene.placements:
        yield from _number(scene, placement)
        yield from _metadata(placement)
        yield from _values(placement)
        yield from _writing(placement)
        yield from _length(scene, placement)
        yield from _groups(scene, placement)


def _number(scene: Scene, placement: Placement) -> Iterator[Finding]:
    wanted = placement.spec.numberOfClusters
    path = "spec.numberOfClusters"
    if wanted is None:
        return
    if wanted < 0:
        yield NEGATIVE.at(
            placement,
            path,
            f"{wanted} is read as 0, so no cluster is ever selected",
            "write a positive number, or leave it out for all",
        )
    elif wanted == 0:
        yield NONE_WANTED.at(
            placement,
            path,
            "0 clusters are wanted, so the decision stays empty",
            "leave it out for all clusters",
        )
    elif scene.populated:
        pool = scene.pool(placement)
        eligible, matching, surviving = (
            bitmap.count(bits) for bits in (pool.eligible, pool.matching, pool.surviving)
        )
        if eligible and wanted > surviving:
            yield TOO_MANY.at(
                placement,
                path,
                f"{wanted} wanted and {surviving} possible: {eligible} in the placement's sets, {matching} of "
                f"them meet the predicates, {surviving} also pass taints and spread",
                "lower the number, or relax what keeps clusters out",
            )


def _metadata(placement: Placement) -> Iterator[Finding]:
    meta = placement.metadata
    if len(meta.name) > LABEL_LENGTH:
        yield NAME_LONG.at(
            placement,
            "metadata.name",
            NAME_TOO_LONG.format(name=meta.name, length=len(meta.name)).partition(";")[0],
            f"use at most {LABEL_LENGTH} characters",
        )
    disabled = meta.annotations.get(SCHEDULING_DISABLED_ANNOTATION)
    if disabled is not None and disabled != "true":
        yield NOT_DISABLED.at(
            placement,
            f"metadata.annotations[{SCHEDULING_DISABLED_ANNOTATION}]",
            f"the value {quote(disabled)} has no effect: the placement is scheduled",
            'write "true" to disable scheduling, or remove the annotation',
        )
    for key in sorted(meta.annotations):
        if key.startswith(ANNOTATION_PREFIX) and key not in ANNOTATIONS:
            yield ANNOTATION_UNKNOWN.at(
                placement,
                f"metadata.annotations[{key}]",
                f"no annotation {quote(key)} is known, so it has no effect",
                guess(key, ANNOTATIONS, otherwise="remove it or correct its name"),
            )


def _values(placement: Placement) -> Iterator[Finding]:
    annotations = placement.metadata.annotations
    for fault in trust_of(annotations).faults:
        yield ANNOTATION_VALUE.at(
            placement,
            f"metadata.annotations[{fault.annotation}]",
            f"{fault.words}, so it has no effect",
            f"write {VALUES[fault.annotation]}, or remove the annotation",
        )
    kept = annotations.get(ON_MISCONFIGURATION)
    if kept is not None and kept not in ON_MISCONFIGURED:
        yield ANNOTATION_VALUE.at(
            placement,
            f"metadata.annotations[{ON_MISCONFIGURATION}]",
            f"{quote(kept)} is neither keep nor evict, so it has no effect",
            "write keep, or remove the annotation",
        )


def _writing(placement: Placement) -> Iterator[Finding]:
    spec = placement.spec
    if spec.sortBy not in ("", SORT_BY_NAME, SORT_BY_SCORE):
        yield SORT_UNKNOWN.at(
            placement,
            "spec.sortBy",
            f"{quote(spec.sortBy)} is not an order, so clusters are sorted by name",
            guess(spec.sortBy, (SORT_BY_NAME, SORT_BY_SCORE), otherwise="write ClusterName or Score"),
        )
    if spec.scoreRateLimit and not _RATE.fullmatch(spec.scoreRateLimit):
        yield RATE_MALFORMED.at(
            placement,
            "spec.scoreRateLimit",
            f"{quote(spec.scoreRateLimit)} is not a whole number followed by h, m or s",
            'write it like "1m"',
        )


def _length(scene: Scene, placement: Placement) -> Iterator[Finding]:
    strategy = placement.spec.decisionStrategy.groupStrategy
    given = strategy.clustersPerDecisionGroup
    path = f"{_GROUPS}.clustersPerDecisionGroup"
    if given is None:
        return
    if isinstance(given, int):
        if given <= 0:
            yield LENGTH_INEFFECTIVE.at(
                placement,
                path,
                f"{given} clusters per group is read as all clusters in one group",
                "write a positive number or a percentage",
            )
        return
    refused = _refusal(scene, placement)
    if refused is not None:
        yield NOT_A_PERCENTAGE.at(
            placement,
            path,
            f"the decision is rejected and removed: {refused.message}",
            f"write {given} without quotes, or {quote(f'{given}%')}"
            if given.isdigit()
            else 'write it like "25%"',
        )
        return
    yield from _rounding(scene, placement, given, path)


def _refusal(scene: Scene, placement: Placement) -> Status | None:
    """Return the result of dividing no clusters by this length, without groups."""
    length = placement.spec.decisionStrategy.groupStrategy.clustersPerDecisionGroup
    strategy = type(placement.spec.decisionStrategy.groupStrategy)(clustersPerDecisionGroup=length)
    status = divide(scene.snapshot, (), strategy).status
    return status if status.aborts else None


def _rounding(scene: Scene, placement: Placement, given: str, path: str) -> Iterator[Finding]:
    try:
        share = Fraction(given.removesuffix("%")) / 100
    except ValueError:
        return
    wanted = placement.spec.numberOfClusters
    possible = bitmap.count(scene.pool(placement).surviving)
    selected = possible if wanted is None else min(max(0, wanted), possible)
    if not selected or not 0 < share < 1:
        return
    length = group_length(given, selected)
    exact = math.ceil(share * selected)
    groups, expected = math.ceil(selected / length), math.ceil(1 / share)
    # Fewer clusters than groups cannot be divided any finer.
    if length != exact or (groups != expected and selected >= expected):
        artefact = f" (and not to {exact}, because of how the share is computed)" if length != exact else ""
        yield ROUNDING.at(
            placement,
            path,
            f"{given} of {count(selected, 'cluster')} rounds up to {length}{artefact}: "
            f"{count(groups, 'group')}, where {given} suggests {expected}",
            "write a number if the size of a group matters",
        )


def _groups(scene: Scene, placement: Placement) -> Iterator[Finding]:
    groups = placement.spec.decisionStrategy.groupStrategy.decisionGroups
    names: dict[str, int] = {}
    pool = scene.pool(placement).matching
    left = pool
    for at, group in enumerate(groups):
        path = f"{_GROUPS}.decisionGroups[{at}]"
        first = names.setdefault(group.groupName, at)
        if first != at:
            yield GROUP_TWICE.at(
                placement,
                f"{path}.groupName",
                f"decisionGroups[{first}] is named {quote(group.groupName)} too, so the groups cannot be distinguished",
                "rename one, or merge the selectors",
            )
        try:
            members = _members(scene, group, among=pool)
        except SelectorError as refused:
            yield GROUP_BROKEN.at(
                placement,
                f"{path}.groupClusterSelector",
                f"{refused}: only the groups before it are written",
                "correct the selector",
            )
            return
        if not bitmap.any_of(pool):
            continue
        if not bitmap.any_of(members):
            yield GROUP_EMPTY.at(
                placement,
                f"{path}.groupClusterSelector",
                f"no candidate is in group {quote(group.groupName)}, so it does not appear in the decision",
                "correct the selector",
            )
        elif not bitmap.any_of(members & left):
            yield GROUP_SHADOWED.at(
                placement,
                path,
                f"every candidate of group {quote(group.groupName)} already goes into an earlier group",
                "put the narrower group first",
            )
        left = left & ~members


def _members(scene: Scene, group: DecisionGroup, *, among: Bits) -> Bits:
    selector = group.groupClusterSelector
    labels = compile_selector(selector.labelSelector)
    claims = compile_requirements(selector.claimSelector.matchExpressions)
    members = selection.select(scene.snapshot, labels, kind=cells.LABEL, among=among)
    return selection.select(scene.snapshot, claims, kind=cells.CLAIM, among=members)
