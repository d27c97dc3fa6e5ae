"""Check the CEL expressions of Placements in files."""

from collections.abc import Iterator
from typing import Any, Final

from fairway.api.validation import Problem
from kubecel import CompileError, cluster_environment

DOES_NOT_COMPILE: Final = "{text} does not compile{place}: {message}"
REMEDY: Final = "correct the expression; the variable is managedCluster"


def broken_expressions(placement: Any) -> tuple[Problem, ...]:
    """Return the expressions of a validated Placement that do not compile."""
    environment = cluster_environment()
    problems: list[Problem] = []
    for path, text in _expressions(placement):
        try:
            environment.compile(text)
        except CompileError as error:
            place = f" at line {error.line}, column {error.column}" if error.line > 0 else ""
            message = DOES_NOT_COMPILE.format(text=repr(text), place=place, message=error.message)
            problems.append(Problem(path=path, message=message, remedy=REMEDY))
    return tuple(problems)


def _expressions(placement: Any) -> Iterator[tuple[str, str]]:
    predicates = (placement.get("spec") or {}).get("predicates") or []
    for at, predicate in enumerate(predicates):
        selector = (predicate or {}).get("requiredClusterSelector") or {}
        texts = (selector.get("celSelector") or {}).get("celExpressions") or []
        path = f"spec.predicates[{at}].requiredClusterSelector.celSelector.celExpressions"
        yield from ((f"{path}[{index}]", text) for index, text in enumerate(texts))
