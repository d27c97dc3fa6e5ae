"""Defaults of a schema must be valid themselves."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final

from kubehub import status
from kubehub.budget import Exhausted
from kubehub.schema import Node
from kubehub.schemas import embedded_resources
from kubehub.schemas.cel_validation import Rules, has_rules
from kubehub.schemas.constraints import TOO_MUCH_TO_CHECK, Constraints
from kubehub.schemas.correlation import ABSENT
from kubehub.schemas.embedded_resources import embedded_faults
from kubehub.schemas.fault import ROOT
from kubehub.schemas.pruning import Pruning, copy_default
from kubehub.schemas.reachability import reaching
from kubehub.status import Cause

UNKNOWN_FIELDS: Final = "must not have unknown fields"


def default_faults(node: Node, path: str) -> list[Cause]:
    return list(_Defaults(node).faults(node, path))


class _Defaults:
    """Share what is compiled between nested defaults; otherwise each would cost as much as all."""

    def __init__(self, root: Node) -> None:
        self._pruning, self._constraints = Pruning(), Constraints()
        self._embedded = reaching(root, embedded_resources.wanted)
        self._ruled = reaching(root, has_rules)

    def faults(self, node: Node, path: str) -> Iterator[Cause]:
        if node.default is not None:
            yield from self._check(node, node.default, f"{path}.default")
        if node.items is not None:
            yield from self.faults(node.items, f"{path}.items")
        for name, child in node.properties.items():
            yield from self.faults(child, f"{path}.properties[{name}]")

    def _check(self, node: Node, value: Any, path: str) -> Iterator[Cause]:
        # A default is validated with the schema below it; its own default doesn't matter.
        bare = replace(node, has_default=False, default=None)
        dropped: list[str] = []
        self._pruning.prune(bare)(copy_default(value), "", dropped)
        if dropped:
            yield status.invalid_value(path, value, UNKNOWN_FIELDS)
        embedded = list(embedded_faults(bare, value, path, self._embedded))
        if embedded:
            yield from embedded
            return
        faults: list[Cause] = []
        self._constraints.effort.renew()
        try:
            self._constraints.check(bare)(value, "", faults, ABSENT)
        except Exhausted:
            faults.append(status.invalid_value(ROOT, "", TOO_MUCH_TO_CHECK))
        if faults:
            for fault in dict.fromkeys(faults):
                place = path if fault.field == ROOT else f"{path}.{fault.field}"
                yield Cause(field=place, reason=fault.reason, message=fault.message)
            return
        if id(node) in self._ruled:
            rules = Rules(bare)
            yield from rules.check(value, value, path=path) or rules.check(value, None, path=path)
