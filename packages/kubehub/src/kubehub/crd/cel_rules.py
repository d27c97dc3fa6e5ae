"""CEL rules of a CRD: they must compile, and their cost must be within limits.

A rule on list items runs once per item, so its estimate is multiplied by the maximum number of items.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from kubecel.extent import MOST, capped
from kubehub import status
from kubehub.go_format import json_text
from kubehub.schema import Node
from kubehub.schemas.cel_rules import Rule, compile_lazily
from kubehub.schemas.cel_types import declare
from kubehub.status import Cause

RULE_COST_LIMIT: Final = 10_000_000
TOTAL_COST_LIMIT: Final = 100_000_000
TOTAL_COMPILE_WORK: Final = 2_000_000
"""Units of work to compile all rules of a CRD, about half a second (see ``kubecel.frame``): some 300 rules of
100 parts each."""

TOO_COSTLY: Final = (
    "{} exceeds budget by factor of {} (try simplifying the rule, or adding maxItems, maxProperties, and maxLength "
    "where arrays, maps, and strings are declared)"
)
RULE: Final = "estimated rule cost"
MESSAGE: Final = "estimated messageExpression cost"
TOTAL: Final = "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema"
CONTRIBUTED: Final = (
    "contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema"
)
TOO_LONG: Final = (
    "rules take more than {} units of work to compile; write fewer or shorter ones "
    "(neither this rule nor those after it were compiled)"
)
NO_TYPE: Final = (
    "internal error: failed to construct type information for x-kubernetes-validations rules: "
    "unable to convert structural schema to CEL declarations"
)
UNLINKED: Final = "oldSelf cannot be used on the uncorrelatable portion of the schema within {}"
NO_OLD: Final = "may not be set if oldSelf is not used in rule"

_RULE_FIELDS: Final = (
    ("Rule", "rule", ""),
    ("Message", "message", ""),
    ("MessageExpression", "messageExpression", ""),
    ("Reason", "reason", None),
    ("FieldPath", "fieldPath", ""),
    ("OptionalOldSelf", "optionalOldSelf", None),
)


@dataclass(slots=True)
class Total:
    """The total cost of a schema's rules, and the most expensive ones."""

    cost: int = 0
    largest: list[tuple[int, str]] = field(default_factory=list)
    compile_work: int = 0

    def add(self, path: str, cost: int) -> None:
        self.cost = capped(self.cost + cost)
        if cost >= TOTAL_COST_LIMIT // 100:
            self.largest = sorted([*self.largest, (cost, path)], key=lambda pair: -pair[0])[:4]

    def faults(self, path: str) -> Iterator[Cause]:
        if self.cost > TOTAL_COST_LIMIT:
            for _, place in self.largest:
                yield status.forbidden_field(place, CONTRIBUTED)
            yield status.forbidden_field(path, _excess(TOTAL, self.cost, TOTAL_COST_LIMIT))


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleChecker:
    """Check the rules of one node. ``count`` is the maximum number of its values, None without a limit."""

    node: Node
    total: Total
    count: int | None = 1
    root: bool = False

    def field(self, name: str) -> "RuleChecker":
        return self._inner(self.node.properties[name])

    def entry(self) -> "RuleChecker | None":
        return None if self.node.additional is None else self._inner(self.node.additional)

    def item(self) -> "RuleChecker | None":
        return None if self.node.items is None else self._inner(self.node.items)

    def _inner(self, node: Node) -> "RuleChecker":
        most = _most(self.node)
        count = None if most is None or self.count is None else capped(self.count * most)
        return RuleChecker(node=node, count=count, total=self.total)

    def check(self, path: str, unlinked: str) -> Iterator[Cause]:
        declared = declare(self.node, root=self.root)
        if declared is None:
            words = f"Internal error: {NO_TYPE}"
            yield Cause(field=f"{path}.x-kubernetes-validations", reason="InternalError", message=words)
            return
        times = declared.occurrences if self.count is None else self.count
        for index, rule in enumerate(compile_lazily(self.node, declared)):
            if self.total.compile_work > TOTAL_COMPILE_WORK:
                words = TOO_LONG.format(TOTAL_COMPILE_WORK)
                yield status.forbidden_field(f"{path}.x-kubernetes-validations[{index}].rule", words)
                return
            yield from self._check_rule(rule, times, f"{path}.x-kubernetes-validations[{index}]", unlinked)

    def _check_rule(self, rule: Rule, times: int, path: str, unlinked: str) -> Iterator[Cause]:
        self.total.compile_work += rule.compile_work
        cost = capped(rule.cost * times)
        if cost > RULE_COST_LIMIT:
            yield status.forbidden_field(f"{path}.rule", _excess(RULE, cost, RULE_COST_LIMIT))
        self.total.add(f"{path}.rule", cost)
        if rule.error:
            yield _rule_cause(f"{path}.rule", rule.raw, rule.error)
        if rule.message_error:
            yield _rule_cause(f"{path}.messageExpression", rule.raw, rule.message_error)
        elif rule.message is not None:
            if rule.message_cost > RULE_COST_LIMIT:
                words = _excess(MESSAGE, rule.message_cost, RULE_COST_LIMIT)
                yield status.forbidden_field(f"{path}.messageExpression", words)
            self.total.add(f"{path}.messageExpression", rule.message_cost)
        if rule.uses_old:
            if unlinked:
                yield status.invalid_value(f"{path}.rule", rule.raw.get("rule"), UNLINKED.format(unlinked))
        elif rule.raw.get("optionalOldSelf") is not None:
            yield status.invalid_value(f"{path}.optionalOldSelf", rule.raw["optionalOldSelf"], NO_OLD)


def _most(node: Node) -> int | None:
    """Return the maximum number of child values per value."""
    limit: float | None = 1
    if node.type == "object" and (
        node.additional is not None or node.raw.get("additionalProperties") is not None
    ):
        limit = node.raw.get("maxProperties")
    elif node.type == "array":
        limit = node.raw.get("maxItems")
    return None if limit is None else max(int(limit), 0)


def _excess(what: str, cost: int, limit: int) -> str:
    factor = min(cost, MOST) / limit
    if factor > 100:
        return TOO_COSTLY.format(what, "more than 100x")
    return TOO_COSTLY.format(what, f"{factor:f}x" if factor < 1.5 else f"{factor:.1f}x")


def _rule_cause(path: str, rule: Mapping[str, Any], detail: str) -> Cause:
    """Kubernetes prints the whole rule, with its internal field names."""
    shown = ",".join(f'"{name}":{json_text(rule.get(key, nothing))}' for name, key, nothing in _RULE_FIELDS)
    return Cause(field=path, reason=status.INVALID, message=f"Invalid value: {{{shown}}}: {detail}")
