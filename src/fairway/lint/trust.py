"""Score annotations without effect, and expressions that trust expired or missing scores."""

from collections.abc import Iterable, Iterator
from typing import Final

from fairway.api.placement import Placement
from fairway.engine.forms import ScoreCalls
from fairway.hosts import bitmap
from fairway.lint.finding import Finding, info, warning
from fairway.lint.scene import Scene
from fairway.lint.words import count, guess, some
from fairway.workloads.placement.plugins import trust
from fairway.workloads.placement.plugins.addon_score import AddOnScore
from fairway.workloads.placement.plugins.calculator import Calculator
from fairway.workloads.placement.plugins.expressions import ExpressionError, compiled
from fairway.workloads.placement.plugins.score_debits import SCORE_DEBITS
from fairway.workloads.placement.plugins.trust import EXPIRED_SCORES, MISSING_SCORE, Missing, trust_of
from kubecel import CompileError
from kubecel.parser import parse
from kubecel.source import Source
from kubecel.syntax import Call, Comprehension, Expr, Literal, Select, children
from kubewire.api.selector import quote

MISSING_UNUSED: Final = warning(
    "missing-score-unused", "The annotation names a score that the placement does not rank by."
)
DEBIT_INEFFECTIVE: Final = warning(
    "score-debit-ineffective",
    "A debit makes a cluster more attractive, or the scheduler configuration ignores it, so it has no effect.",
)
DEBIT_UNUSED: Final = info(
    "score-debit-unused", "The annotation debits a score that the placement does not rank by."
)
EXPIRED_UNUSED: Final = info(
    "expired-scores-unused",
    "The annotation affects expressions that read scores, and the placement has none.",
)
SEES_EXPIRED: Final = warning(
    "expression-expired-scores", "The expression reads expired scores, with their last values."
)
VACUOUS: Final = warning(
    "expression-all-vacuous", "all() over some scores of a cluster is true if it has none of them."
)

RULES: Final = (MISSING_UNUSED, DEBIT_INEFFECTIVE, DEBIT_UNUSED, EXPIRED_UNUSED, SEES_EXPIRED, VACUOUS)


def check(scene: Scene) -> Iterator[Finding]:
    for placement in scene.placements:
        yield from _missing(scene, placement)
        yield from _debits(scene, placement)
        texts = list(_expressions(placement))
        yield from _expired(scene, placement, texts)
        for path, text in texts:
            yield from _vacuous(placement, path, text)
            if scene.populated:
                yield from _reads_expired(scene, placement, path, text)


def _expressions(placement: Placement) -> Iterator[tuple[str, str]]:
    for at, source in enumerate(placement.spec.predicates):
        for index, text in enumerate(source.requiredClusterSelector.celSelector.celExpressions):
            path = f"spec.predicates[{at}].requiredClusterSelector.celSelector.celExpressions[{index}]"
            yield path, text


def _missing(scene: Scene, placement: Placement) -> Iterator[Finding]:
    workload = scene.workload(placement)
    trust, path = workload.trust, f"metadata.annotations[{MISSING_SCORE}]"
    scores, refusal = scene.world.profile.prioritize(scene.context(placement))
    if refusal is not None:
        return
    weighed = set(_weighed(scores))
    for name in sorted(set(trust.by_score) - {score if "/" in score else score.lower() for score in weighed}):
        yield MISSING_UNUSED.at(
            placement,
            path,
            f"the placement does not rank by {quote(name)}, so its setting has no effect",
            guess(name, weighed, otherwise="remove it, or name a score of spec.prioritizerPolicy"),
        )
    if trust.default is not Missing.ZERO and not weighed:
        yield MISSING_UNUSED.at(
            placement,
            path,
            "the placement ranks by no published score, so the annotation has no effect",
            "remove it, or rank by a score",
        )


def _debits(scene: Scene, placement: Placement) -> Iterator[Finding]:
    debits = trust_of(placement.metadata.annotations).debits
    if not debits:
        return
    workload = scene.workload(placement)
    scores, refusal = scene.world.profile.prioritize(scene.context(placement))
    if refusal is not None:
        return
    path = f"metadata.annotations[{SCORE_DEBITS}]"
    weights: dict[str, int] = {}
    for scorer in scores:
        if isinstance(scorer.plugin, AddOnScore):
            name = f"{scorer.plugin.resource}/{scorer.plugin.score_name}"
            weights[name] = weights.get(name, 0) + scorer.weight
    for resource, score in debits:
        name = f"{resource}/{score}"
        if name not in weights:
            yield DEBIT_UNUSED.at(
                placement,
                path,
                f"the placement does not rank by {quote(name)}, so only other placements see the debit",
                guess(name, set(weights), otherwise="remove it, or name a score of spec.prioritizerPolicy"),
            )
    for fault in workload.trust.faults[len(trust_of(placement.metadata.annotations).faults) :]:
        words, _, remedy = fault.words.partition(": ")
        yield DEBIT_INEFFECTIVE.at(
            placement, path, f"{words}, so the annotation has no effect", remedy or "remove the annotation"
        )


def _weighed(scores: Iterable[ScoreCalls]) -> Iterator[str]:
    for scorer in scores:
        if isinstance(scorer.plugin, AddOnScore):
            yield f"{scorer.plugin.resource}/{scorer.plugin.score_name}"
        elif isinstance(scorer.plugin, Calculator):
            yield scorer.plugin.name


def _reads(text: str) -> frozenset[str] | None:
    """Return the names of score objects that an expression reads; None for any, empty for none or a compile error."""
    try:
        return compiled(text).score_reads
    except ExpressionError:
        return frozenset()


def _expired(scene: Scene, placement: Placement, texts: list[tuple[str, str]]) -> Iterator[Finding]:
    if not scene.workload(placement).trust.hides_expired:
        return
    if all(_reads(text) == frozenset() for _, text in texts):
        yield EXPIRED_UNUSED.at(
            placement,
            f"metadata.annotations[{EXPIRED_SCORES}]",
            "no expression of the placement reads scores, so the annotation has no effect",
            f"remove it; {MISSING_SCORE} sets what an expired score counts in the ranking",
        )


def _reads_expired(scene: Scene, placement: Placement, path: str, text: str) -> Iterator[Finding]:
    if scene.hiding(placement) is not None:
        return
    rows = bitmap.rows_of(scene.pool(placement).eligible)
    for name in sorted(_reads(text) or ()):
        late = trust.lapsed(scene.snapshot, name, rows, now=scene.now)
        if late.any():
            names = sorted(scene.snapshot.hosts.names[row] for row in rows[late].tolist())
            yield SEES_EXPIRED.at(
                placement,
                path,
                f"AddOnPlacementScore {quote(name)} has expired for {count(len(names), 'candidate')} ({some(names)}), "
                "and expressions read its last values",
                f"annotate the placement {EXPIRED_SCORES}: absent, and check why its provider stopped publishing",
            )


def _vacuous(placement: Placement, path: str, text: str) -> Iterator[Finding]:
    try:
        tree = parse(Source(text))
    except CompileError:
        return
    for resource, names in _all_macros(tree):
        about = some([quote(name) for name in names]) if names else "any that are meant"
        name = names[0] if names else "…"
        yield VACUOUS.at(
            placement,
            path,
            f"all() over scores({quote(resource)}) is also true for clusters whose object lacks {about}",
            f"use exists(): managedCluster.scores({quote(resource)}).exists(s, s.name == {quote(name)} && …)",
        )
        return


def _all_macros(node: Expr) -> Iterator[tuple[str, list[str]]]:
    """Yield the object and the compared names of each all() over a cluster's scores."""
    if isinstance(node, Comprehension) and node.macro == "all":
        names = list(dict.fromkeys(_names(node.step)))
        source: Expr = node.range
        selected = bool(names)
        while isinstance(source, Comprehension) and source.macro == "filter":
            names = [*dict.fromkeys([*_names(source.step), *names])]
            source, selected = source.range, True
        if selected and isinstance(source, Call) and source.function == "scores":
            resource = next((arg.value for arg in source.args if isinstance(arg, Literal)), "…")
            yield str(resource), names
    for child in children(node):
        yield from _all_macros(child)


def _names(node: Expr) -> Iterator[str]:
    """Yield the values that ``.name`` is compared with."""
    if isinstance(node, Call) and node.function in ("_==_", "_!=_") and len(node.args) == 2:
        left, right = node.args
        for operand, other in ((left, right), (right, left)):
            if (
                isinstance(operand, Select)
                and operand.field == "name"
                and isinstance(other, Literal)
                and isinstance(other.value, str)
            ):
                yield other.value
    for child in children(node):
        yield from _names(child)
