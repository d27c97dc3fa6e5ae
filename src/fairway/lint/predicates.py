"""Predicates: label and claim selectors that do not compile, match nothing, or add nothing."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from fairway.api.placement import ClusterPredicate, Placement
from fairway.hosts import bitmap
from fairway.hosts.bitmap import Bits
from fairway.hosts.clusters import cells
from fairway.lint.finding import Finding, error, info, warning
from fairway.lint.scene import Scene
from fairway.lint.words import count, guess, quoted, some
from fairway.workloads.placement.plugins.expressions import ExpressionError
from fairway.workloads.placement.plugins.predicate import compile_predicate
from fairway.workloads.placement.plugins.work_budget import TooCostly, WorkBudget
from kubewire.api import naming
from kubewire.api.selector import (
    DOES_NOT_EXIST,
    EXISTS,
    IN,
    NOT_IN,
    LabelSelector,
    LabelSelectorRequirement,
    Selector,
    SelectorError,
    compile_requirements,
    compile_selector,
    quote,
)

SELECTOR_BROKEN: Final = error("selector-broken", "A label or claim selector does not compile.")
CLAIM_VALUE_NOT_A_LABEL: Final = error(
    "claim-value-not-a-label",
    "A claim selector holds a value that no label may have, so the placement is rejected.",
)
CLAIM_NOT_SELECTABLE: Final = info(
    "claim-not-selectable", "A selected claim has values on the fleet that no claim selector can name."
)
CONTRADICTION: Final = error("selector-contradiction", "The requirements on one key can never all be met.")
KEY_UNKNOWN: Final = warning("selector-key-unknown", "A required label or claim is on no cluster.")
VALUE_UNKNOWN: Final = warning("selector-value-unknown", "No cluster has the required value.")
EXCLUDES_NOTHING: Final = info("exclusion-without-effect", "NotIn or DoesNotExist excludes no cluster.")
MATCHES_NOTHING: Final = warning(
    "predicate-matches-nothing", "One predicate matches no candidate; others do."
)
NO_CLUSTER_MATCHES: Final = error("no-cluster-matches", "All predicates together match no candidate.")
DUPLICATE: Final = warning("predicate-duplicate", "The same predicate is written twice.")
SUBSUMED: Final = info(
    "predicate-subsumed", "Every candidate the predicate matches is matched by another one, too."
)

RULES: Final = (
    SELECTOR_BROKEN,
    CLAIM_VALUE_NOT_A_LABEL,
    CLAIM_NOT_SELECTABLE,
    CONTRADICTION,
    KEY_UNKNOWN,
    VALUE_UNKNOWN,
    EXCLUDES_NOTHING,
    MATCHES_NOTHING,
    NO_CLUSTER_MATCHES,
    DUPLICATE,
    SUBSUMED,
)


@dataclass(frozen=True, slots=True)
class Written:
    """One requirement of a selector in the document."""

    kind: str
    """``label`` or ``claim``."""
    path: str
    requirement: LabelSelectorRequirement


def check(scene: Scene) -> Iterator[Finding]:
    for placement in scene.placements:
        for at, source in enumerate(placement.spec.predicates):
            yield from _selectors(
                scene,
                placement,
                path=f"spec.predicates[{at}].requiredClusterSelector",
                labels=source.requiredClusterSelector.labelSelector,
                claims=source.requiredClusterSelector.claimSelector.matchExpressions,
            )
        if scene.populated:
            yield from _together(scene, placement)


def _selectors(
    scene: Scene,
    placement: Placement,
    *,
    path: str,
    labels: LabelSelector,
    claims: tuple[LabelSelectorRequirement, ...],
) -> Iterator[Finding]:
    broken = False
    for part, compiled in (
        ("labelSelector", _refusal(lambda: compile_selector(labels))),
        ("claimSelector", _refusal(lambda: compile_requirements(claims))),
    ):
        if compiled is not None:
            broken = True
            yield from _broken(placement, f"{path}.{part}", compiled, claims if part[0] == "c" else ())
    written = [*_written_labels(labels, path), *_written_claims(claims, path)]
    for kind in (cells.LABEL, cells.CLAIM):
        of_kind = [entry for entry in written if entry.kind == kind]
        yield from _contradictions(placement, of_kind)
    if scene.populated and not broken:
        for entry in written:
            yield from _against_fleet(scene, placement, entry)


def _refusal(compile_it: Callable[[], Selector]) -> str | None:
    try:
        compile_it()
    except SelectorError as refused:
        return str(refused)
    return None


def _broken(
    placement: Placement, path: str, refusal: str, claims: tuple[LabelSelectorRequirement, ...]
) -> Iterator[Finding]:
    bad = [
        (at, value)
        for at, requirement in enumerate(claims)
        for value in requirement.values
        if naming.label_value(value)
    ]
    for at, value in bad:
        yield CLAIM_VALUE_NOT_A_LABEL.at(
            placement,
            f"{path}.matchExpressions[{at}].values",
            f"{quote(value)} may be the value of a claim but not of a label, and claim selectors follow the "
            "rules for labels: the placement is rejected",
            'compare the claim in CEL: managedCluster.status.clusterClaims.exists(c, c.name == "…" && c.value == "…")',
        )
    if not bad:
        yield SELECTOR_BROKEN.at(
            placement, path, refusal, "correct the selector; until then no cluster is selected"
        )


def _written_labels(labels: LabelSelector, path: str) -> Iterator[Written]:
    for key, value in sorted(labels.matchLabels.items()):
        requirement = LabelSelectorRequirement(key=key, operator=IN, values=(value,))
        yield Written(cells.LABEL, f"{path}.labelSelector.matchLabels[{key}]", requirement)
    for at, expression in enumerate(labels.matchExpressions):
        yield Written(cells.LABEL, f"{path}.labelSelector.matchExpressions[{at}]", expression)


def _written_claims(claims: tuple[LabelSelectorRequirement, ...], path: str) -> Iterator[Written]:
    for at, requirement in enumerate(claims):
        yield Written(cells.CLAIM, f"{path}.claimSelector.matchExpressions[{at}]", requirement)


def _contradictions(placement: Placement, written: Iterable[Written]) -> Iterator[Finding]:
    by_key: dict[str, list[Written]] = {}
    for entry in written:
        by_key.setdefault(entry.requirement.key, []).append(entry)
    for key, group in by_key.items():
        reason = _contradiction([entry.requirement for entry in group])
        if reason is not None:
            last = group[-1]
            yield CONTRADICTION.at(
                placement,
                last.path,
                f"the requirements on {last.kind} {quote(key)} can never all be met: {reason}",
                "drop one of them; to accept either, write two predicates",
            )


def _contradiction(requirements: list[LabelSelectorRequirement]) -> str | None:
    absent = any(requirement.operator == DOES_NOT_EXIST for requirement in requirements)
    if absent and any(requirement.operator in (IN, EXISTS) for requirement in requirements):
        return "it must exist and must not exist"
    allowed = [set(requirement.values) for requirement in requirements if requirement.operator == IN]
    if not allowed:
        return None
    common = set.intersection(*allowed)
    if not common:
        return f"no value is in all of {' and '.join(_listed(values) for values in allowed)}"
    refused = {
        value
        for requirement in requirements
        if requirement.operator == NOT_IN
        for value in requirement.values
    }
    return f"{_listed(common)} is both required and excluded" if common <= refused else None


def _listed(values: set[str]) -> str:
    return "{" + quoted(sorted(values)) + "}"


def _against_fleet(scene: Scene, placement: Placement, written: Written) -> Iterator[Finding]:
    kind, asked = written.kind, written.requirement
    values = scene.values(kind, asked.key)
    if asked.operator in (NOT_IN, DOES_NOT_EXIST):
        if not values or (asked.operator == NOT_IN and not set(values) & set(asked.values)):
            missing = (
                f"{kind} {quote(asked.key)}" if not values else f"{kind} {quote(asked.key)} with such a value"
            )
            yield EXCLUDES_NOTHING.at(
                placement,
                written.path,
                f"no cluster has a {missing}, so this excludes nothing",
                guess(asked.key, scene.keys(kind), otherwise="keep it only as a guard for later")
                if not values
                else "correct the values, or keep it as a guard for later",
            )
        return
    if not values:
        yield KEY_UNKNOWN.at(
            placement,
            written.path,
            f"no cluster has a {kind} {quote(asked.key)}, so this is never met",
            _other_kind(scene, kind, asked.key)
            or guess(asked.key, scene.keys(kind), otherwise=f"put the {kind} on clusters"),
        )
        return
    for value in asked.values:
        if value not in values:
            yield VALUE_UNKNOWN.at(
                placement,
                written.path,
                f"no cluster has {quote(value)} for {kind} {quote(asked.key)}; "
                f"there is {some(sorted(values), shown=5)}",
                guess(value, values, otherwise="correct the value"),
            )
    if kind == cells.CLAIM and asked.operator == IN:
        unnameable = sorted(value for value in values if naming.label_value(value))
        if unnameable:
            yield CLAIM_NOT_SELECTABLE.at(
                placement,
                written.path,
                f"claim {quote(asked.key)} also has values that no claim selector can name: "
                f"{some([quote(value) for value in unnameable])}",
                "compare the claim in CEL if these are meant, too",
            )


def _other_kind(scene: Scene, kind: str, key: str) -> str | None:
    other = cells.LABEL if kind == cells.CLAIM else cells.CLAIM
    if key in scene.keys(other):
        return f"it is a {other} of some clusters: ask in the {other}Selector"
    return None


def _together(scene: Scene, placement: Placement) -> Iterator[Finding]:
    predicates = placement.spec.predicates
    eligible = scene.pool(placement).eligible
    matches = [_matches(scene, placement, predicate, among=eligible) for predicate in predicates]
    if not predicates or not bitmap.any_of(eligible) or any(match is None for match in matches):
        return
    rows = [match for match in matches if match is not None]
    candidates = count(bitmap.count(eligible), "candidate")
    if not any(bitmap.any_of(bits) for bits in rows):
        yield NO_CLUSTER_MATCHES.at(
            placement,
            "spec.predicates",
            f"none of the {candidates} ({some(scene.names(eligible))}) meets any predicate: "
            "the decision will be empty",
            "relax the predicates; the findings beside this one say which part fails",
        )
        return
    for at, bits in enumerate(rows):
        path = f"spec.predicates[{at}]"
        earlier = next((before for before in range(at) if predicates[before] == predicates[at]), None)
        if earlier is not None:
            yield DUPLICATE.at(
                placement, path, f"is the same as spec.predicates[{earlier}]", "remove one of the two"
            )
        elif not bitmap.any_of(bits):
            yield MATCHES_NOTHING.at(
                placement,
                path,
                f"matches none of the {candidates}; another predicate does",
                "correct or remove this one",
            )
        else:
            yield from _subsumed(placement, at, rows)


def _subsumed(placement: Placement, at: int, rows: list[Bits]) -> Iterator[Finding]:
    predicates = placement.spec.predicates
    matched = rows[at]
    for other, bits in enumerate(rows):
        same = np.array_equal(bits, matched)
        # Of two equal ones only the later is reported.
        if other == at or (same and other > at) or predicates[other] == predicates[at]:
            continue
        if same or not bitmap.any_of(matched & ~bits):
            clusters = count(bitmap.count(matched), "candidate")
            how = "the same" if same else "all of its"
            yield SUBSUMED.at(
                placement,
                f"spec.predicates[{at}]",
                f"spec.predicates[{other}] matches {how} {clusters}, so this one adds none today",
                "remove it, or put both requirements into one predicate if both are meant to hold",
            )
            return


def _matches(scene: Scene, placement: Placement, source: ClusterPredicate, *, among: Bits) -> Bits | None:
    """Return the matching rows; None for a predicate that does not compile, or costs too much."""
    try:
        budget = WorkBudget(bitmap.count(among))
        return compile_predicate(source).select(scene.snapshot, among, budget, now=scene.hiding(placement))
    except (SelectorError, ExpressionError, TooCostly):
        return None
