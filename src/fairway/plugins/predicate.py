"""Predicate: label, claim and CEL selectors. A cluster passes when all parts of one predicate match it."""

from collections.abc import Sequence
from dataclasses import dataclass

from fairway.api.placement import ClusterPredicate
from fairway.api.selector import Selector, SelectorError, compile_requirements, compile_selector
from fairway.engine.points import NEVER_CHANGES, Context, Reads, Timeless
from fairway.engine.status import OK, Status, misconfigured, unschedulable
from fairway.fleet import bitmap, cells, selection
from fairway.fleet.bitmap import Bits, Rows
from fairway.fleet.column import Key
from fairway.fleet.instant import Micros
from fairway.fleet.snapshot import Snapshot
from fairway.plugins import trust
from fairway.plugins.expressions import ExpressionError, Expressions, Purse, TooCostly

NAME = "Predicate"

MOST = 1000
TOO_MANY = "spec.{path} has {count} entries, of which each is asked about every cluster; write at most {most}"
_EXPRESSIONS = "predicates[*].requiredClusterSelector.celSelector.celExpressions"


@dataclass(frozen=True, slots=True)
class Compiled:
    """One predicate, ready to be asked. With ``now``, expressions do not see scores that have run out by then."""

    labels: Selector
    claims: Selector
    expressions: Expressions

    def objection(self, snapshot: Snapshot, row: int, *, now: Micros | None = None) -> str | None:
        """The first thing that does not match, in words."""
        cluster = snapshot.cluster(row)
        return (
            self.labels.explain(cluster.metadata.labels, noun="label")
            or self.claims.explain(cells.claims_of(cluster), noun="claim")
            or self.expressions.objection(snapshot, row, now=now)
        )

    def matches(self, snapshot: Snapshot, row: int, *, now: Micros | None = None) -> bool:
        cluster = snapshot.cluster(row)
        return (
            self.labels.matches(cluster.metadata.labels)
            and (not self.claims.requirements or self.claims.matches(cells.claims_of(cluster)))
            and self.expressions.matches(snapshot, row, now=now)
        )

    def select(self, snapshot: Snapshot, among: Bits, purse: Purse, *, now: Micros | None = None) -> Bits:
        bits = selection.select(snapshot, self.labels, kind=cells.LABEL, among=among)
        bits = selection.select(snapshot, self.claims, kind=cells.CLAIM, among=bits)
        return self.expressions.holds(snapshot, bits, purse, now=now)


class Predicate(Timeless):
    name = NAME

    def __init__(self, *, predicates: Sequence[ClusterPredicate], hides_expired: bool = False) -> None:
        self._hides_expired = hides_expired
        self.refusal: Status | None = None
        self.compiled: tuple[Compiled, ...] = ()
        expressions = sum(len(each.requiredClusterSelector.celSelector.celExpressions) for each in predicates)
        for path, count in (("predicates", len(predicates)), (_EXPRESSIONS, expressions)):
            if count > MOST:
                self.refusal = misconfigured(TOO_MANY.format(path=path, count=count, most=MOST), plugin=NAME)
                return
        try:
            self.compiled = tuple(compile_predicate(each) for each in predicates)
        except (SelectorError, ExpressionError) as error:
            self.refusal = misconfigured(str(error), plugin=NAME)

    def filter(self, context: Context, row: int, /) -> Status:
        if self.refusal is not None:
            return self.refusal
        now = self.hiding(context.now)
        if not self.compiled or any(each.matches(context.snapshot, row, now=now) for each in self.compiled):
            return OK
        objections = [each.objection(context.snapshot, row, now=now) or "" for each in self.compiled]
        if len(objections) > 1:
            objections = [f"predicate {at}: {text}" for at, text in enumerate(objections, 1)]
        return unschedulable("; ".join(objections), plugin=NAME)

    def filter_fleet(self, context: Context, candidates: Bits, /) -> tuple[Status, Bits]:
        if self.refusal is not None:
            return (self.refusal if candidates.any() else OK), candidates
        if not self.compiled:
            return OK, candidates
        purse = Purse(bitmap.count(candidates))
        now = self.hiding(context.now)
        try:
            passed = self.compiled[0].select(context.snapshot, candidates, purse, now=now)
            for each in self.compiled[1:]:
                passed = passed | each.select(context.snapshot, candidates & ~passed, purse, now=now)
        except TooCostly as error:
            # Once and for all: trying it again with every change would cost as much again.
            self.refusal = misconfigured(str(error), plugin=NAME)
            return self.refusal, candidates
        return OK, passed

    def hiding(self, now: Micros) -> Micros | None:
        """What expressions are to be told of the time."""
        return now if self._hides_expired else None

    def until(self, context: Context, rows: Rows, /) -> Micros:
        if not self._hides_expired:
            return NEVER_CHANGES
        # Who is turned away is not let in by what an expression cannot see any more: that is an error, which is no
        # match, and where the rest of the expression makes up for an error it would do so for any answer.
        names = {name for each in self.compiled for name in each.expressions.resources(context.snapshot)}
        moments = (trust.lapses(context.snapshot, name, rows, now=context.now) for name in names)
        return min(moments, default=NEVER_CHANGES)

    def reads(self, _context: Context, /) -> Reads:
        keys: set[Key] = {cells.MEMBERSHIP}
        for each in self.compiled:
            keys.update(cells.label(requirement.key) for requirement in each.labels.requirements)
            keys.update(cells.claim(requirement.key) for requirement in each.claims.requirements)
            keys.update(each.expressions.reads or ())
        return Reads(
            cells=frozenset(keys), anything=any(each.expressions.reads is None for each in self.compiled)
        )


def compile_predicate(source: ClusterPredicate) -> Compiled:
    """Raises SelectorError or ExpressionError, for the label selector first, then claims, then CEL."""
    selector = source.requiredClusterSelector
    return Compiled(
        labels=compile_selector(selector.labelSelector),
        claims=compile_requirements(selector.claimSelector.matchExpressions),
        expressions=Expressions(selector.celSelector.celExpressions),
    )
