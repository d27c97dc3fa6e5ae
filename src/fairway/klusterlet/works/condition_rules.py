"""Conditions computed by a work's condition rules: CEL expressions, or well-known rules of a kind."""

from collections.abc import Iterable, Iterator, Mapping
from functools import cache, lru_cache
from typing import Any, Final

from msgspec import structs

from fairway.api.work import CEL, WELL_KNOWN_CONDITIONS, WORK_COMPLETE, ConditionRule
from fairway.klusterlet.works.messages import truncate
from kubecel import DEFAULT_LIBRARIES, CelError, Environment, Function, Library, Overload, Program
from kubecel.containers import LISTS, MAPS, find
from kubecel.types import BOOL, DYN
from kubewire.api.meta import FALSE, TRUE, UNKNOWN, Condition

PREFIX: Final = "ConditionRule"
"""Prefix of the reasons of conditions that rules set."""
EVALUATED: Final = "ConditionRuleEvaluated"
INVALID: Final = "ConditionRuleInvalid"
EXPRESSION_ERROR: Final = "ConditionRuleExpressionError"
AGGREGATED: Final = "ConditionRulesAggregated"

CONDITIONS: Final = {
    ("ManifestWork", WORK_COMPLETE): {
        EVALUATED: "A condition rule computed the status (condition of a manifest).",
        INVALID: "The type of a condition rule is unsupported (condition of a manifest).",
        EXPRESSION_ERROR: "An expression of a condition rule failed (condition of a manifest).",
        AGGREGATED: "Aggregated from the manifests with condition rules.",
    }
}

RULE_WORK: Final = 200_000
"""Units of work of compiling or evaluating one expression, about 50 milliseconds (see ``kubecel.frame``)."""

NOT_A_RULE: Final = "unrecognized condition rule type {type}"
NOT_BOOLEAN: Final = "expected bool result, got {type}"

_JOB: Final = ConditionRule(
    condition=WORK_COMPLETE,
    type=CEL,
    celExpressions=(
        "has(object.status) && hasConditions(object.status) && object.status.conditions"
        ".exists(each, each.type in ['Complete', 'Failed'] && each.status == 'True')",
    ),
    messageExpression='result ? "Job is finished" : "Job is not finished"',
)
_POD: Final = ConditionRule(
    condition=WORK_COMPLETE,
    type=CEL,
    celExpressions=(
        "has(object.status) && has(object.status.phase) && object.status.phase in ['Succeeded', 'Failed']",
    ),
    messageExpression='has(object.status) && has(object.status.phase) ? "Pod is in phase " + object.status.phase : ""',
)
_WELL_KNOWN: Final = {("batch/v1", "Job", WORK_COMPLETE): _JOB, ("v1", "Pod", WORK_COMPLETE): _POD}


def _has_conditions(status: object) -> object:
    if not isinstance(status, MAPS):
        return False
    conditions, present = find(status, "conditions")
    return present and isinstance(conditions, LISTS) and len(conditions) > 0


_CONDITIONS: Final = Library(
    "open-cluster-management.conditions",
    (Function("hasConditions", (Overload("has_conditions_dyn", (DYN,), BOOL, _has_conditions),)),),
)


@cache
def _environment() -> Environment:
    variables = {"object": DYN, "result": BOOL}
    return Environment(variables=variables, libraries=(*DEFAULT_LIBRARIES, _CONDITIONS))


@lru_cache(maxsize=1024)
def _compile(text: str) -> Program:
    return _environment().compile(text, work_limit=RULE_WORK)


def conditions(
    live: Mapping[str, Any], rules: Iterable[ConditionRule], *, generation: int
) -> Iterator[Condition]:
    """Yield a condition for each rule, except well-known rules of unknown kinds."""
    for rule in rules:
        effective: ConditionRule | None = rule
        if rule.type == WELL_KNOWN_CONDITIONS:
            kind = (str(live.get("apiVersion")), str(live.get("kind")), rule.condition)
            known = _WELL_KNOWN.get(kind)
            effective = known and structs.replace(
                known,
                message=rule.message,
                messageExpression=rule.messageExpression or known.messageExpression,
            )
        if effective is not None:
            yield structs.replace(_evaluate(effective, live), observedGeneration=generation)


def _evaluate(rule: ConditionRule, live: Mapping[str, Any]) -> Condition:
    def condition(status: str, reason: str, message: str) -> Condition:
        return Condition(type=rule.condition, status=status, reason=reason, message=truncate(message))

    if rule.type != CEL:
        return condition(UNKNOWN, INVALID, NOT_A_RULE.format(type=rule.type))
    result = True
    for text in rule.celExpressions:
        try:
            outcome = _compile(text).evaluate({"object": live, "result": False}, work_limit=RULE_WORK)
        except CelError as error:
            return condition(FALSE, EXPRESSION_ERROR, str(error))
        if outcome.error is not None:
            return condition(FALSE, EXPRESSION_ERROR, str(outcome.error))
        if not isinstance(outcome.value, bool):
            message = NOT_BOOLEAN.format(type=type(outcome.value).__name__)
            return condition(FALSE, EXPRESSION_ERROR, message)
        result = outcome.value
        if not result:
            break
    return condition(TRUE if result else FALSE, EVALUATED, _message(rule, live, result=result))


def _message(rule: ConditionRule, live: Mapping[str, Any], *, result: bool) -> str:
    if rule.messageExpression:
        try:
            outcome = _compile(rule.messageExpression).evaluate(
                {"object": live, "result": result}, work_limit=RULE_WORK
            )
        except CelError as error:
            return str(error)
        if outcome.error is not None:
            return rule.message or str(outcome.error)
        if isinstance(outcome.value, str) and outcome.value:
            return outcome.value
    return rule.message
