"""All rules over all objects."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Final, cast

from fairway.fleet.instant import Micros
from fairway.whatif.lint import (
    expressions,
    predicates,
    prioritizers,
    published,
    quantities,
    scores,
    sets,
    spreads,
    strategy,
    tolerations,
    trust,
)
from fairway.whatif.lint.finding import Finding, Identity, Rule, Thing, identity_of
from fairway.whatif.lint.scene import Scene

Family = Callable[[Scene], Iterator[Finding]]

_FAMILIES: Final[tuple[tuple[Family, tuple[Rule, ...]], ...]] = tuple(
    (module.check, module.RULES)
    for module in (
        sets,
        predicates,
        expressions,
        tolerations,
        prioritizers,
        scores,
        published,
        trust,
        strategy,
        spreads,
        quantities,
    )
)

RULES: Final[Mapping[str, Rule]] = {rule.id: rule for _, rules in _FAMILIES for rule in rules}
"""Every rule by its id, families together."""


def lint(objects: Iterable[object], *, now: Micros, only: Collection[str] = ()) -> tuple[Finding, ...]:
    """Findings in the order of the objects. ``only``: ids of the rules to apply, all when empty."""
    scene = Scene(objects, now=now)
    order: dict[Identity, int] = {}
    for at, each in enumerate(scene.objects):
        order.setdefault(identity_of(cast("Thing", each)), at)
    found = [
        finding
        for check, rules in _FAMILIES
        if not only or any(rule.id in only for rule in rules)
        for finding in check(scene)
        if not only or finding.rule in only
    ]
    return tuple(sorted(found, key=lambda each: (order[each.identity], each.path, each.rule)))
