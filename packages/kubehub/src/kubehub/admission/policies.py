"""A compiled policy and its evaluation."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from kubecel import DEFAULT_COST_LIMIT, Outcome
from kubecel.errors import Failure
from kubehub.admission.cel_environment import (
    ASKER,
    REQUEST_RESOURCE,
    TEXT,
    TEXT_OR_NOTHING,
    TRUTH,
    VARIABLES,
    Compiler,
    Expression,
)
from kubehub.admission.matching import Match
from kubehub.resource import Document

BUDGET: Final = 10_000_000
"""CEL cost of all expressions of a policy, per binding."""
CONDITIONS_BUDGET: Final = 2_500_000
WORK_BUDGET: Final = 100_000
"""Units of work of all expressions of a policy, per binding (see ``kubecel.frame``): about 25 milliseconds,
during which all other requests wait."""
REQUEST_WORK: Final = 200_000
"""Units of work of all policies, per request."""
CALL_WORK: Final = 12
"""Units of work around an evaluation."""


class WorkBudget:
    """The units of work that the policies may still use for one request."""

    __slots__ = ("left",)

    def __init__(self) -> None:
        self.left = REQUEST_WORK


LONGEST_MESSAGE: Final = 5 * 1024
LONGEST_ANNOTATION: Final = 10 * 1024
IGNORE: Final = "Ignore"
INVALID: Final = "Invalid"

OUT_OF_BUDGET: Final = (
    "validation failed due to running out of cost budget, no further validation rules will be run"
)
OUT_OF_WORK: Final = (
    "validation failed due to work of more than {} units in expression '{}', "
    "no further validation rules will be run"
)
NOT_COMPILED: Final = "compilation error: {}"
FAILED: Final = "expression '{}' resulted in error: {}"
FALSE: Final = "failed expression: {}"
VARIABLE_NOT_COMPILED: Final = 'composited variable "{}" fails to compile: {}'
VARIABLE_FAILED: Final = 'composited variable "{}" fails to evaluate: {}'
MESSAGE_FAILED: Final = "failed messageExpression: {}"


class _OutOfBudget(Exception):
    pass


class _Fault(Exception):
    """An expression has no value; ``str()`` is the reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Denial:
    """``index`` is that of the validation, ``reason`` is empty unless it was false."""

    message: str
    reason: str = ""
    index: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    denials: tuple[Denial, ...] = ()
    annotations: tuple[tuple[str, str], ...] = ()
    """For the audit log."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Validation:
    expression: Expression
    message: str
    message_expression: Expression | None
    reason: str


class Policy:
    """Built from a valid document; expressions that don't compile fail whenever they are evaluated."""

    def __init__(self, document: Document) -> None:
        spec = document["spec"]
        self.name: str = document["metadata"]["name"]
        self.match = Match(spec.get("matchConstraints") or {})
        self.ignores = spec.get("failurePolicy") == IGNORE
        self.params: Mapping[str, str] | None = spec.get("paramKind")
        compiler = Compiler(params=self.params is not None)
        self._variables = {
            variable["name"]: compiler.variable(variable["name"], variable["expression"])
            for variable in spec.get("variables") or ()
        }
        self._conditions = tuple(
            compiler.compile(condition["expression"], TRUTH)
            for condition in spec.get("matchConditions") or ()
        )
        self._validations = tuple(
            _validation(compiler, validation) for validation in spec.get("validations") or ()
        )
        self._annotations = tuple(
            (annotation["key"], compiler.compile(annotation["valueExpression"].strip(), TEXT_OR_NOTHING))
            for annotation in spec.get("auditAnnotations") or ()
        )

    def evaluate(self, inputs: Mapping[str, object], budget: WorkBudget | None = None) -> Verdict:
        """Evaluate the policy. ``inputs`` are all variables except the policy's own."""
        budget = budget or WorkBudget()
        try:
            if not self._applies(inputs, budget):
                return Verdict()
        except (_Fault, _OutOfBudget) as fault:
            return self._failed(str(fault))
        run = _Run(self._variables, inputs, BUDGET, budget)
        denials: list[Denial] = []
        try:
            for index, validation in enumerate(self._validations):
                denial = self._denial(run, index, validation)
                if denial is not None:
                    denials.append(denial)
            annotations = tuple(self._audit_annotations(inputs, denials, budget)) if self._annotations else ()
        except _OutOfBudget as fault:
            return self._failed(str(fault))
        return Verdict(denials=tuple(denials), annotations=annotations)

    def _failed(self, message: str) -> Verdict:
        return Verdict() if self.ignores else Verdict(denials=(Denial(message=message),))

    def _applies(self, inputs: Mapping[str, object], budget: WorkBudget) -> bool:
        """Return whether no match condition is false; raises if one has no value."""
        if not self._conditions:
            return True
        run = _Run(self._variables, inputs, CONDITIONS_BUDGET, budget)
        faults: list[str] = []
        for condition in self._conditions:
            try:
                if run.value(condition) is False:
                    return False
            except _Fault as fault:
                faults.append(str(fault))
        if faults:
            raise _Fault(faults[0] if len(faults) == 1 else f"[{', '.join(dict.fromkeys(faults))}]")
        return True

    def _denial(self, run: "_Run", index: int, validation: _Validation) -> Denial | None:
        try:
            if run.value(validation.expression) is True:
                return None
        except _Fault as fault:
            return None if self.ignores else Denial(message=str(fault), index=index)
        try:
            message = _message_of(run, validation)
        except _OutOfBudget as fault:
            return None if self.ignores else Denial(message=MESSAGE_FAILED.format(fault), index=index)
        return Denial(
            message=message or validation.message or FALSE.format(validation.expression.text.strip()),
            reason=validation.reason,
            index=index,
        )

    def _audit_annotations(
        self, inputs: Mapping[str, object], denials: list[Denial], budget: WorkBudget
    ) -> Iterator[tuple[str, str]]:
        run = _Run(self._variables, inputs, BUDGET, budget)
        for key, expression in self._annotations:
            try:
                value = run.value(expression)
            except _Fault as fault:
                if not self.ignores:
                    denials.append(Denial(message=str(fault)))
                continue
            if isinstance(value, str) and value.strip():
                yield key, value.strip()[:LONGEST_ANNOTATION]


def _validation(compiler: Compiler, document: Document) -> _Validation:
    message_expression = document.get("messageExpression")
    return _Validation(
        expression=compiler.compile(document["expression"], TRUTH),
        message=(document.get("message") or "").strip(),
        message_expression=compiler.compile(message_expression, TEXT, authorizer=False)
        if message_expression
        else None,
        reason=document.get("reason") or INVALID,
    )


def _message_of(run: "_Run", validation: _Validation) -> str:
    """Return the message; empty if there is no message expression, or it has no usable value."""
    if validation.message_expression is None:
        return ""
    try:
        value = run.value(validation.message_expression, authorizer=False)
    except _Fault:
        return ""
    text = value.strip() if isinstance(value, str) else ""
    return "" if "\n" in text or len(text.encode("utf-8", "replace")) > LONGEST_MESSAGE else text


class _Run:
    """Evaluations that share a budget and the policy's variables, each evaluated at most once."""

    def __init__(
        self, variables: Mapping[str, Expression], inputs: Mapping[str, object], cost: int, budget: WorkBudget
    ) -> None:
        self._cost = cost
        self._budget = budget
        self._work = min(WORK_BUDGET, budget.left)
        self._inputs: dict[str, object] = {**inputs, VARIABLES: _Composed(self, variables)}

    def value(self, expression: Expression, *, authorizer: bool = True) -> object:
        """Evaluate an expression. Raises `_Fault`, or `_OutOfBudget`."""
        if expression.program is None:
            raise _Fault(NOT_COMPILED.format(expression.fault))
        inputs: Mapping[str, object] = self._inputs
        if not authorizer:
            inputs = {k: v for k, v in inputs.items() if k not in (ASKER, REQUEST_RESOURCE)}
        outcome = expression.program.evaluate(
            inputs, cost_limit=DEFAULT_COST_LIMIT, work_limit=max(self._work, 0)
        )
        self.spend(outcome)
        if self._cost < 0:
            raise _OutOfBudget(OUT_OF_BUDGET)
        if self._work < 0:
            raise _OutOfBudget(OUT_OF_WORK.format(WORK_BUDGET, expression.text.strip()))
        if outcome.error is not None:
            raise _Fault(FAILED.format(expression.text, outcome.error))
        return outcome.value

    def variable(self, name: str, expression: Expression) -> object:
        if expression.program is None:
            raise Failure(VARIABLE_NOT_COMPILED.format(name, expression.fault))
        limit = min(DEFAULT_COST_LIMIT, max(self._cost, 0))
        outcome = expression.program.evaluate(self._inputs, cost_limit=limit, work_limit=max(self._work, 0))
        self.spend(outcome)
        if outcome.error is not None:
            raise Failure(VARIABLE_FAILED.format(name, outcome.error))
        return outcome.value

    def spend(self, outcome: Outcome) -> None:
        self._cost -= outcome.cost
        self._work -= CALL_WORK + outcome.work
        self._budget.left -= CALL_WORK + outcome.work


class _Composed(dict[str, Any]):
    """The policy's variables as a map that evaluates them on access."""

    def __init__(self, run: _Run, variables: Mapping[str, Expression]) -> None:
        super().__init__()
        self._run, self._variables = run, variables
        self._failed: dict[str, Failure] = {}

    def __missing__(self, name: str) -> Any:
        if name in self._failed:
            raise self._failed[name]
        try:
            value = self[name] = self._run.variable(name, self._variables[name])
        except Failure as failure:
            self._failed[name] = failure
            raise
        return value

    def get(self, name: str, default: Any = None) -> Any:
        return self[name] if name in self._variables else default
