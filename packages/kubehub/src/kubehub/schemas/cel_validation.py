"""Evaluate validation rules (``x-kubernetes-validations``).

A rule sees its value as ``self``; a transition rule also sees ``oldSelf``, and is skipped where there is none. All
rules of a request share a cost budget and a work budget, so that no rule can block the server.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

from kubecel import CostLimitExceeded, Outcome, WorkLimitExceeded
from kubecel.errors import WORK_LIMIT_MESSAGE
from kubecel.values import NONE, Optional
from kubehub import status
from kubehub.schema import ARRAY, OBJECT, Node
from kubehub.schemas.cel_rules import OLD_SELF, SELF, Rule, compile_rules, rules_of
from kubehub.schemas.cel_types import declare, with_meta
from kubehub.schemas.cel_values import converter
from kubehub.schemas.correlation import ABSENT, OldItems, old_entry, same
from kubehub.schemas.fault import at
from kubehub.schemas.reachability import reaching
from kubehub.status import Cause

RULE_LIMIT: Final = 1_000_000
"""Cost of one evaluation."""
BUDGET: Final = 10_000_000
"""Cost of all rules of a request."""
WORK_BUDGET: Final = 200_000
"""Units of work of all rules of a request (see ``kubecel.frame``): about 50 milliseconds, during which all
other requests wait."""
SCOPE_WORK: Final = 8
"""Units of work around an evaluation."""
LONGEST_MESSAGE: Final = 5 * 1024

FAILED_RULE: Final = "failed rule: {}"
NOT_COMPILED: Final = "rule compile error: {}"
NOT_DECLARED: Final = (
    "rule compiler initialization error: failed to convert to declType for CEL validation rules"
)
OUT_OF_BUDGET: Final = (
    "validation failed due to running out of cost budget, no further validation rules will be run"
)
MESSAGE_OUT_OF_BUDGET: Final = (
    "messageExpression evaluation failed due to running out of cost budget, "
    "no further validation rules will be run"
)
RULE_TOO_COSTLY: Final = (
    "'{}': no further validation rules will be run due to call cost exceeds limit for rule: {}"
)
RULE_TOO_MUCH_WORK: Final = (
    "'{}': no further validation rules will be run due to work exceeds limit for rule: {}"
)
MESSAGE_TOO_COSTLY: Final = (
    'no further validation rules will be run due to call cost exceeds limit for messageExpression: "{}"'
)
NO_OVERLOAD: Final = (
    "'{}': call arguments did not match a supported operator, function or macro signature for rule: {}"
)
RULE_FAILED: Final = "{} evaluating rule: {}"


def has_rules(node: Node) -> bool:
    return bool(rules_of(node))


class Rules:
    """All rules of a schema; false if there are none. Compiled on first use."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._reach = reaching(node, has_rules)

    def __bool__(self) -> bool:
        return bool(self._reach)

    def check(self, value: Any, old: Any, *, path: str = "") -> list[Cause]:
        """Evaluate a whole document, or the value at ``path`` within one."""
        run = _Run()
        run.visit(self._root if not path else self._part, value, path, ABSENT if old is None else old, None)
        return run.causes

    @cached_property
    def _root(self) -> "_Scope":
        return _Scope(self._node, self._reach, root=True)

    @cached_property
    def _part(self) -> "_Scope":
        return _Scope(self._node, self._reach, root=False)


class _Scope:
    """A node with the scopes below it that contain rules."""

    def __init__(self, node: Node, reach: frozenset[int], *, root: bool) -> None:
        self.node = node
        self.fields = {
            name: _Scope(child, reach, root=False)
            for name, child in node.properties.items()
            if id(child) in reach
        }
        additional, items = node.additional, node.items
        self.entries = (
            _Scope(additional, reach, root=False)
            if additional is not None and id(additional) in reach
            else None
        )
        self.items = _Scope(items, reach, root=False) if items is not None and id(items) in reach else None
        self.has_rules = has_rules(node)
        self._root = root

    @cached_property
    def rules(self) -> tuple[Rule, ...] | None:
        """Return None if rules can't see values of this schema."""
        declared = declare(self.node, root=self._root)
        return None if declared is None else compile_rules(self.node, declared)

    @cached_property
    def convert(self) -> Any:
        return converter(with_meta(self.node) if self._root or self.node.embedded else self.node)

    @property
    def type(self) -> str:
        return self.node.type


@dataclass(frozen=True, slots=True)
class _Pair:
    """A value and the old value it replaces."""

    node: Node
    new: Any
    old: Any

    def same(self) -> bool:
        return same(self.node, self.new, self.old)


class _OutOfBudget(Exception):
    pass


class _Run:
    def __init__(self) -> None:
        self.causes: list[Cause] = []
        self._budget = BUDGET
        self._work = WORK_BUDGET

    def visit(self, scope: _Scope, value: Any, path: str, old: Any, above: _Pair | None) -> None:
        """``above`` is the nearest enclosing value that replaces an old one."""
        try:
            self._visit(scope, value, path, old, above)
        except _OutOfBudget:
            return

    def _visit(self, scope: _Scope, value: Any, path: str, old: Any, above: _Pair | None) -> None:
        if value is None:
            return
        pair = above if old is ABSENT else _Pair(scope.node, value, old)
        if scope.has_rules:
            self._evaluate(scope, value, path, None if old is ABSENT else old, pair)
        if type(value) is dict:
            if scope.entries is not None:
                for key, child in value.items():
                    if key not in scope.node.properties:
                        self._visit(scope.entries, child, f"{path}[{key}]", old_entry(old, key), pair)
            for key, field in scope.fields.items():
                if key in value:
                    place = f"{path}.{key}" if path else key
                    self._visit(field, value[key], place, old_entry(old, key), pair)
        elif type(value) is list and scope.items is not None:
            olds = OldItems(scope.node, old)
            for index, item in enumerate(value):
                self._visit(scope.items, item, f"{path}[{index}]", olds.find(item), pair)

    def _evaluate(self, scope: _Scope, value: Any, path: str, old: Any, pair: _Pair | None) -> None:
        if scope.rules is None:
            self.causes.append(status.invalid_value(at(path), scope.type, NOT_DECLARED))
            return
        variables: dict[str, object] = {SELF: scope.convert(value) if scope.convert is not None else value}
        before: object = None
        if old is not None and any(rule.uses_old for rule in scope.rules):
            before = scope.convert(old) if scope.convert is not None else old
        for rule in scope.rules:
            if rule.error:
                self.causes.append(
                    status.invalid_value(at(path), scope.type, NOT_COMPILED.format(rule.error))
                )
            elif rule.program is not None and (not rule.uses_old or old is not None or rule.optional_old):
                if rule.uses_old:
                    variables[OLD_SELF] = before
                    if rule.optional_old:
                        variables[OLD_SELF] = NONE if old is None else Optional(before)
                self._evaluate_rule(scope, rule, variables, value, path, pair)

    def _evaluate_rule(
        self,
        scope: _Scope,
        rule: Rule,
        variables: dict[str, object],
        value: Any,
        path: str,
        pair: _Pair | None,
    ) -> None:
        assert rule.program is not None
        outcome = rule.program.evaluate(variables, cost_limit=RULE_LIMIT, work_limit=max(self._work, 0))
        self._work -= SCOPE_WORK + outcome.work
        message = _rule_text(rule)
        if outcome.cost > self._budget:
            self._stop(status.invalid_value(at(path), scope.type, OUT_OF_BUDGET))
        self._budget -= outcome.cost
        if isinstance(outcome.error, CostLimitExceeded):
            self._stop(
                status.invalid_value(at(path), scope.type, RULE_TOO_COSTLY.format(outcome.error, message))
            )
        if isinstance(outcome.error, WorkLimitExceeded):
            words = RULE_TOO_MUCH_WORK.format(WORK_LIMIT_MESSAGE.format(WORK_BUDGET), message)
            self._stop(status.invalid_value(at(path), scope.type, words))
        if outcome.error is not None:
            words = NO_OVERLOAD if str(outcome.error).startswith("no such overload") else RULE_FAILED
            self.causes.append(
                status.invalid_value(at(path), scope.type, words.format(outcome.error, message))
            )
            return
        if outcome.value is True:
            return
        place = path
        if rule.path:
            place = f"{path}.{rule.path}" if path else rule.path
        # Ratcheting: a fault of an unchanged value is ignored, except for transition rules.
        forgiven = not rule.uses_old and pair is not None and pair.same()
        detail = self._message(scope, rule, variables, place) or _default_message(rule)
        if not forgiven:
            self.causes.append(_cause(rule, at(place), scope.type, value, detail))

    def _message(self, scope: _Scope, rule: Rule, variables: dict[str, object], place: str) -> str:
        """Return the message; empty if there is no message expression, or it has no usable value."""
        if rule.message is None:
            return ""
        outcome: Outcome = rule.message.evaluate(
            variables, cost_limit=RULE_LIMIT, work_limit=max(self._work, 0)
        )
        self._work -= SCOPE_WORK + outcome.work
        if outcome.cost > self._budget:
            self._stop(status.invalid_value(at(place), scope.type, MESSAGE_OUT_OF_BUDGET))
        if isinstance(outcome.error, CostLimitExceeded | WorkLimitExceeded):
            words = MESSAGE_TOO_COSTLY.format(rule.raw["messageExpression"])
            self._stop(status.invalid_value(at(place), scope.type, words))
        self._budget -= outcome.cost
        text = outcome.value.strip() if isinstance(outcome.value, str) else ""
        return "" if "\n" in text or len(text.encode("utf-8", "replace")) > LONGEST_MESSAGE else text

    def _stop(self, cause: Cause) -> None:
        self.causes.append(cause)
        raise _OutOfBudget


def _rule_text(rule: Rule) -> str:
    return str(rule.raw.get("message") or rule.raw.get("rule") or "").strip()


def _default_message(rule: Rule) -> str:
    return _rule_text(rule) if rule.raw.get("message") else FAILED_RULE.format(_rule_text(rule))


def _cause(rule: Rule, place: str, kind: str, value: Any, detail: str) -> Cause:
    match rule.raw.get("reason"):
        case status.FORBIDDEN_FIELD:
            return status.forbidden_field(place, detail)
        case status.REQUIRED:
            return status.required(place, detail)
        case status.DUPLICATE:
            if kind in (OBJECT, ARRAY):
                return Cause(field=place, reason=status.DUPLICATE, message="Duplicate value")
            return status.duplicate(place, value)
    if kind in (OBJECT, ARRAY):
        return Cause(field=place, reason=status.INVALID, message=f"Invalid value: {detail}")
    return status.invalid_value(place, value, detail)
