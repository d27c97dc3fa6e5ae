"""CEL expressions: those that do not compile, that decide nothing, and that a label selector could replace."""

from collections import Counter
from collections.abc import Iterator
from typing import Final

import numpy as np

from fairway.api.cluster import cluster_as_json
from fairway.api.placement import ClusterPredicate, Placement
from fairway.hosts import bitmap, selection
from fairway.hosts.bitmap import Bits, Rows
from fairway.hosts.clusters import cells
from fairway.lint.finding import Finding, error, info, warning
from fairway.lint.scene import Scene
from fairway.lint.words import count, guess
from fairway.workloads.placement.plugins.expressions import (
    COST_LIMIT,
    VARIABLE,
    ExpressionError,
    Expressions,
    Scores,
    compiled,
)
from fairway.workloads.placement.plugins.work_budget import EXPRESSION_WORK, TooCostly, WorkBudget
from kubecel import CompileError, Program
from kubecel.parser import parse
from kubecel.source import Source
from kubecel.syntax import Call, CreateList, Expr, Ident, Literal, Select
from kubewire.api import naming
from kubewire.api.selector import SelectorError, compile_requirements, compile_selector, quote

BROKEN: Final = error(
    "expression-broken", "A CEL expression does not compile, or is too much work to be evaluated."
)
NOT_BOOLEAN: Final = error("expression-not-boolean", "The result is not true or false, so it never matches.")
CONSTANT: Final = warning("expression-constant", "The expression reads nothing of managedCluster.")
ALWAYS_TRUE: Final = info("expression-always-true", "The expression is true for every candidate.")
ALWAYS_FALSE: Final = warning("expression-always-false", "The expression is true for no candidate.")
ALWAYS_FAILS: Final = warning("expression-always-fails", "The expression fails for every candidate.")
SCORES_UNPUBLISHED: Final = warning(
    "expression-scores-unpublished", "The expression reads scores that no provider publishes."
)
COULD_SELECT: Final = info("expression-could-be-selector", "A label selector is equivalent.")

RULES: Final = (
    BROKEN,
    NOT_BOOLEAN,
    CONSTANT,
    ALWAYS_TRUE,
    ALWAYS_FALSE,
    ALWAYS_FAILS,
    SCORES_UNPUBLISHED,
    COULD_SELECT,
)

_BOOLEAN: Final = ("bool", "dyn")
_LABELS: Final = ("metadata", "labels")


def check(scene: Scene) -> Iterator[Finding]:
    for placement in scene.placements:
        for at, source in enumerate(placement.spec.predicates):
            evaluated: Bits | None = None
            for index, text in enumerate(source.requiredClusterSelector.celSelector.celExpressions):
                if evaluated is None and scene.populated:
                    evaluated = _asked(scene, placement, source)
                path = f"spec.predicates[{at}].requiredClusterSelector.celSelector.celExpressions[{index}]"
                yield from _expression(scene, placement, text, path, evaluated)


def _expression(
    scene: Scene, placement: Placement, text: str, path: str, evaluated: Bits | None
) -> Iterator[Finding]:
    try:
        program = compiled(text)
    except ExpressionError as refused:
        yield BROKEN.at(
            placement, path, _position(refused), "correct the expression; until then no cluster is selected"
        )
        return
    if program.result_type not in _BOOLEAN:
        yield NOT_BOOLEAN.at(
            placement,
            path,
            f"the result is of the type {program.result_type}; only true matches, so no cluster ever does",
            "compare the result with something",
        )
        return
    if program.reads == frozenset() and program.score_reads == frozenset():
        yield _constant(placement, program, path)
        return
    if not scene.populated:
        return
    unpublished = sorted((program.score_reads or frozenset()) - scene.snapshot.scores.keys())
    for name in unpublished:
        yield SCORES_UNPUBLISHED.at(
            placement,
            path,
            f"no cluster has an AddOnPlacementScore {quote(name)}: reading it is an error, so no cluster matches",
            guess(name, scene.snapshot.scores.keys(), otherwise="check that its provider runs"),
        )
    replacement = as_selector(text)
    if replacement is not None:
        yield COULD_SELECT.at(
            placement, path, "a label selector is equivalent, and easier to read and to evaluate", replacement
        )
    if evaluated is not None and bitmap.any_of(evaluated):
        yield from _on_fleet(scene, placement, program, path, evaluated)


def _position(refused: ExpressionError) -> str:
    cause = refused.__cause__
    if not isinstance(cause, CompileError):
        return str(refused)
    where = f"line {cause.line}, column {cause.column}: " if cause.line > 0 else ""
    return f"does not compile: {where}{cause.message}"


def _constant(placement: Placement, program: Program, path: str) -> Finding:
    outcome = program.evaluate({VARIABLE: {}}, cost_limit=COST_LIMIT, work_limit=EXPRESSION_WORK)
    result = "true" if outcome.value is True else "not true"
    return CONSTANT.at(
        placement,
        path,
        f"reads nothing of {VARIABLE}, so it is {result} for every cluster there can be",
        f"compare something of {VARIABLE}, or remove the expression",
    )


def _asked(scene: Scene, placement: Placement, source: ClusterPredicate) -> Bits | None:
    """Return the candidates that match the labels and claims of the predicate."""
    selector = source.requiredClusterSelector
    try:
        labels = compile_selector(selector.labelSelector)
        claims = compile_requirements(selector.claimSelector.matchExpressions)
    except SelectorError:
        return None
    among = selection.select(scene.snapshot, labels, kind=cells.LABEL, among=scene.pool(placement).eligible)
    return selection.select(scene.snapshot, claims, kind=cells.CLAIM, among=among)


def _on_fleet(
    scene: Scene, placement: Placement, program: Program, path: str, evaluated: Bits
) -> Iterator[Finding]:
    total = bitmap.count(evaluated)
    try:
        expressions = Expressions((program.text,))
        holding = expressions.holds(scene.snapshot, evaluated, WorkBudget(total), now=scene.hiding(placement))
        true = bitmap.count(holding)
    except TooCostly as costly:
        yield BROKEN.at(placement, path, str(costly), "make it cheaper; until then no cluster is selected")
        return
    candidates = count(total, "candidate")
    if true == total:
        yield ALWAYS_TRUE.at(
            placement,
            path,
            f"true for all {candidates} it is evaluated for, so it has no effect today",
            "remove it unless it is a guard for later",
        )
    if true:
        return
    false, odd, errors = _answers(scene, placement, program, evaluated)
    usual = errors.most_common(1)[0][0] if errors else ""
    if odd == total:
        yield NOT_BOOLEAN.at(
            placement,
            path,
            f"the result is not true or false for any of the {candidates}",
            "compare the result with something",
        )
    elif errors and not false and not odd:
        yield ALWAYS_FAILS.at(
            placement,
            path,
            f"fails for all {candidates} it is evaluated for, so none of them matches; most often: {usual}",
            "correct the path, or guard it with has()",
        )
    else:
        also = f"; it fails for {errors.total()}, most often: {usual}" if errors else ""
        yield ALWAYS_FALSE.at(
            placement,
            path,
            f"true for none of the {candidates} it is evaluated for{also}",
            "relax the expression",
        )


def _answers(
    scene: Scene, placement: Placement, program: Program, evaluated: Bits
) -> tuple[int, int, Counter[str]]:
    """Count false and non-boolean results, and collect errors."""
    snapshot = scene.snapshot
    source = Scores(snapshot, now=scene.hiding(placement))
    rows = bitmap.rows_of(evaluated)
    firsts, sizes = _distinct(scene, program, rows)
    false = odd = 0
    errors: Counter[str] = Counter()
    for row, size in zip(firsts.tolist(), sizes.tolist(), strict=True):
        variables = {VARIABLE: cluster_as_json(snapshot.cluster(row))}
        outcome = program.evaluate(
            variables, context=source, cost_limit=COST_LIMIT, work_limit=EXPRESSION_WORK
        )
        if outcome.error is not None:
            errors[str(outcome.error)] += size
        elif outcome.value is False:
            false += size
        else:
            odd += size
    return false, odd, errors


def _distinct(scene: Scene, program: Program, rows: Rows) -> tuple[Rows, Rows]:
    """Return one row of each combination of values that the expression reads, and their number."""
    if program.reads is None or program.score_reads != frozenset():
        return rows, np.ones(len(rows), dtype=np.int64)
    columns = [scene.snapshot.codes((cells.PATH, *path[1:])).codes[rows] for path in sorted(program.reads)]
    _, first, sizes = np.unique(np.stack(columns), axis=1, return_index=True, return_counts=True)
    return rows[first], sizes


def as_selector(text: str) -> str | None:
    """Return the label selector that is equivalent to a simple expression, if any."""
    terms = _terms(parse(Source(text)))
    return None if terms is None else f"write labelSelector: {{matchExpressions: [{', '.join(terms)}]}}"


def _terms(node: Expr) -> list[str] | None:
    if isinstance(node, Call) and node.function == "_&&_":
        parts = [_terms(arg) for arg in node.args]
        return None if None in parts else [term for part in parts if part is not None for term in part]
    term = _term(node)
    return None if term is None else [term]


def _term(node: Expr) -> str | None:
    # Only operators that require the label. A missing label is an error in CEL, which does not match, while
    # NotIn and DoesNotExist would match.
    if isinstance(node, Select) and node.test and _path(node.operand) == _LABELS:
        return _written(node.field, "Exists")
    if not isinstance(node, Call) or len(node.args) != 2 or node.target is not None:
        return None
    left, right = node.args
    if node.function == "@in" and isinstance(left, Literal) and _path(right) == _LABELS:
        return _written(str(left.value), "Exists")
    key = _label(left)
    if key is None:
        return None
    if node.function == "_==_" and isinstance(right, Literal):
        return _written(key, "In", right)
    if node.function == "@in" and isinstance(right, CreateList):
        return _written(key, "In", *right.elements)
    return None


def _written(key: str, operator: str, *values: Expr) -> str | None:
    texts = [
        literal.value for literal in values if isinstance(literal, Literal) and isinstance(literal.value, str)
    ]
    if len(texts) != len(values) or any(naming.label_value(text) for text in texts):
        return None
    listed = f", values: [{', '.join(quote(text) for text in texts)}]" if operator == "In" else ""
    return f"{{key: {quote(key)}, operator: {operator}{listed}}}"


def _label(node: Expr) -> str | None:
    path = _path(node)
    return path[2] if path is not None and len(path) == 3 and path[:2] == _LABELS else None


def _path(node: Expr) -> tuple[str, ...] | None:
    """Names from the cluster down, for plain access by constant names."""
    names: list[str] = []
    while True:
        if isinstance(node, Ident):
            return tuple(reversed(names)) if node.name == VARIABLE else None
        if isinstance(node, Select) and not node.test:
            names.append(node.field)
            node = node.operand
        elif isinstance(node, Call) and node.function == "_[_]" and isinstance(node.args[1], Literal):
            names.append(str(node.args[1].value))
            node = node.args[0]
        else:
            return None
