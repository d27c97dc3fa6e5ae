"""Apply all rules to all objects.

To add a rule: declare it in the module of its family, yield its findings from ``check``, and add it to ``RULES`` there.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Final, cast

from fairway.engine.profile import Profile
from fairway.hosts.instant import Micros
from fairway.lint import (
    addons,
    expressions,
    hosting,
    predicates,
    prioritizers,
    published,
    quantities,
    scores,
    sets,
    spreads,
    stability,
    strategy,
    tolerations,
    trust,
)
from fairway.lint.finding import Finding, Identity, LintedObject, Rule, identity_of
from fairway.lint.scene import Scene

Check = Callable[[Scene], Iterator[Finding]]

_FAMILIES: Final[tuple[tuple[str, Check, tuple[Rule, ...]], ...]] = (
    ("Cluster sets and bindings", sets.check, sets.RULES),
    ("Predicates", predicates.check, predicates.RULES),
    ("CEL expressions", expressions.check, expressions.RULES),
    ("Tolerations", tolerations.check, tolerations.RULES),
    ("Prioritizers", prioritizers.check, prioritizers.RULES),
    ("Scores that placements rank by", scores.check, scores.RULES),
    ("Stability", stability.check, stability.RULES),
    ("Published scores", published.check, published.RULES),
    ("Score annotations", trust.check, trust.RULES),
    ("Number, groups and metadata", strategy.check, strategy.RULES),
    ("Spread constraints", spreads.check, spreads.RULES),
    ("Quantities", quantities.check, quantities.RULES),
    ("Add-ons", addons.check, addons.RULES),
    ("Hosting clusters", hosting.check, hosting.RULES),
)

FAMILIES: Final[Mapping[str, tuple[Rule, ...]]] = {title: rules for title, _, rules in _FAMILIES}
"""Rules by the title of their family."""

RULES: Final[Mapping[str, Rule]] = {rule.id: rule for rules in FAMILIES.values() for rule in rules}
"""Every rule by its id."""


def lint(
    objects: Iterable[object], *, now: Micros, only: Collection[str] = (), profile: Profile | None = None
) -> tuple[Finding, ...]:
    """Return findings in the order of the objects. ``only`` lists the ids of the rules to apply; empty applies all."""
    scene = Scene(objects, now=now, profile=profile)
    order: dict[Identity, int] = {}
    for at, obj in enumerate(scene.objects):
        order.setdefault(identity_of(cast("LintedObject", obj)), at)
    findings = [
        finding
        for _, check, rules in _FAMILIES
        if not only or any(rule.id in only for rule in rules)
        for finding in check(scene)
        if not only or finding.rule in only
    ]
    return tuple(sorted(findings, key=lambda finding: (order[finding.identity], finding.path, finding.rule)))
