"""Predicate: label, claim and CEL selectors. A cluster passes when all parts of one predicate match it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from fairway.api.placement import ClusterPredicate
from fairway.engine.points import NEVER_CHANGES, Context, Reads, Timeless
from fairway.engine.remedies import Remedy
from fairway.engine.status import OK, Code, Status, misconfigured
from fairway.hosts import bitmap, selection
from fairway.hosts.bitmap import Bits, Rows
from fairway.hosts.clusters import cells
from fairway.hosts.clusters.snapshot import ClusterSnapshot, clusters_of
from fairway.hosts.column import MEMBERSHIP, Key
from fairway.hosts.instant import Micros
from fairway.workloads.placement.plugins import trust
from fairway.workloads.placement.plugins.expression_remedies import satisfy_expressions
from fairway.workloads.placement.plugins.expressions import (
    NO_ANSWERS,
    NO_EXPRESSIONS,
    NO_ROWS,
    ExpressionError,
    Expressions,
    compiled,
    is_compiled,
)
from fairway.workloads.placement.plugins.selector_remedies import meet_selector
from fairway.workloads.placement.plugins.work_budget import (
    ALL_TOO_COSTLY,
    COMPILE_ESTIMATE,
    Paused,
    TooCostly,
    WorkBudget,
    shortened,
)
from fairway.workloads.placement.workload import PlacementWorkload, placement_of
from kubewire.api.selector import Selector, SelectorError, compile_requirements, compile_selector

NAME = "Predicate"
FIELD = "spec.predicates"

MOST_ENTRIES = 1000
TOO_MANY = (
    "spec.{path} has {count} entries, each of which is evaluated for every cluster; write at most {most}"
)
_EXPRESSIONS = "predicates[*].requiredClusterSelector.celSelector.celExpressions"


@dataclass(frozen=True, slots=True)
class Compiled:
    """A compiled predicate. With ``now``, expressions do not see scores that are expired then."""

    labels: Selector
    claims: Selector
    expressions: Expressions

    def objection(self, snapshot: ClusterSnapshot, row: int, *, now: Micros | None = None) -> str | None:
        """Return the first part that does not match."""
        cluster = snapshot.cluster(row)
        return (
            self.labels.explain(cluster.metadata.labels, noun="label")
            or self.claims.explain(cells.claims_of(cluster), noun="claim")
            or self.expressions.objection(snapshot, row, now=now)
        )

    def matches(
        self, snapshot: ClusterSnapshot, row: int, budget: WorkBudget, *, now: Micros | None = None
    ) -> bool:
        cluster = snapshot.cluster(row)
        if not self.labels.matches(cluster.metadata.labels) or (
            self.claims.requirements and not self.claims.matches(cells.claims_of(cluster))
        ):
            return False
        if not self.expressions:
            return True
        return self.expressions.holds_for(snapshot, row, budget, now=now)

    def select(
        self, snapshot: ClusterSnapshot, among: Bits, budget: WorkBudget, *, now: Micros | None = None
    ) -> Bits:
        bits = selection.select(snapshot, self.labels, kind=cells.LABEL, among=among)
        bits = selection.select(snapshot, self.claims, kind=cells.CLAIM, among=bits)
        return self.expressions.holds(snapshot, bits, budget, now=now)


class PlacementPredicates:
    """The predicates of one placement, compiled on demand.

    With a limited ``pace`` the work of expressions is done in slices: compiling and evaluating raise Paused, and the
    next attempt continues.
    """

    def __init__(self, workload: PlacementWorkload) -> None:
        predicates = workload.placement.spec.predicates
        self.hides_expired = workload.trust.hides_expired
        self.pace, self.limits = workload.pace, workload.limits
        self.budget: WorkBudget | None = None
        """State of a paused cycle."""
        self._pending = list(reversed(predicates))
        self._compiled: list[Compiled] = []
        self._compile_work = 0
        self._refusal: Status | None = None
        self.expressions = sum(
            len(predicate.requiredClusterSelector.celSelector.celExpressions) for predicate in predicates
        )
        for path, count in (("predicates", len(predicates)), (_EXPRESSIONS, self.expressions)):
            if count > MOST_ENTRIES:
                self.refuse(TOO_MANY.format(path=path, count=count, most=MOST_ENTRIES))
                return

    @property
    def compiled(self) -> Sequence[Compiled]:
        """Return all predicates; none if one of them is invalid. Raise Paused."""
        if self._pending:
            self._compile()
        return self._compiled

    @property
    def refusal(self) -> Status | None:
        if self._pending:
            self._compile()
        return self._refusal

    def refuse(self, reason: str) -> Status:
        """Cache an error: evaluating again with every change would cost the same again."""
        self._refusal = misconfigured(reason, plugin=NAME, field=FIELD)
        self._compiled.clear()
        self._pending.clear()
        return self._refusal

    def hiding(self, now: Micros) -> Micros | None:
        """Return the time that expressions use to hide scores."""
        return now if self.hides_expired else None

    def _compile(self) -> None:
        while self._pending:
            try:
                self._compiled.append(self._compile_one(self._pending[-1]))
            except (SelectorError, ExpressionError, TooCostly) as error:
                self.refuse(str(error))
                return
            self._pending.pop()

    def _compile_one(self, source: ClusterPredicate) -> Compiled:
        """Compile label selectors first, then claims, then CEL, and report the first error.

        Expressions that were compiled before a pause are cached.
        """
        selector = source.requiredClusterSelector
        labels = compile_selector(selector.labelSelector)
        claims = compile_requirements(selector.claimSelector.matchExpressions)
        texts = selector.celSelector.celExpressions
        work = self._compile_work
        for text in texts:
            known = is_compiled(text)
            if not known and not self.pace.affords(COMPILE_ESTIMATE * len(text)):
                raise Paused(NO_ROWS, NO_ANSWERS)
            try:
                taken = compiled(text).compile_work
            except ExpressionError as error:
                if not known:
                    self.pace.spend(error.work)
                raise
            work += taken
            if not known:
                self.pace.spend(taken)
            if work > (limit := self.limits.compile):
                raise TooCostly(ALL_TOO_COSTLY.format(limit=limit, text=shortened(text)))
        self._compile_work = work
        return Compiled(
            labels=labels, claims=claims, expressions=Expressions(texts) if texts else NO_EXPRESSIONS
        )


def has_expressions(workload: PlacementWorkload) -> bool:
    return bool(workload.derive(PlacementPredicates).expressions)


class Predicate(Timeless):
    name = NAME

    def filter(self, context: Context, row: int, /) -> Status:
        derived = placement_of(context).derive(PlacementPredicates)
        if derived.refusal is not None:
            return derived.refusal
        predicates = derived.compiled
        if not predicates:
            return OK
        now, snapshot = derived.hiding(context.now), clusters_of(context.snapshot)
        budget = WorkBudget(1, derived.pace, fleet=derived.limits.fleet)
        try:
            for predicate in predicates:
                if predicate.matches(snapshot, row, budget, now=now):
                    return OK
        except TooCostly as error:
            return derived.refuse(str(error))
        return Status(
            code=Code.UNSCHEDULABLE,
            reasons=lambda: (_objections(predicates, snapshot, row, now),),
            plugin=NAME,
        )

    def filter_fleet(self, context: Context, candidates: Bits, /) -> tuple[Status, Bits]:
        derived = placement_of(context).derive(PlacementPredicates)
        if derived.refusal is not None:
            return (derived.refusal if candidates.any() else OK), candidates
        predicates = derived.compiled
        if not predicates:
            return OK, candidates
        budget = derived.budget
        if budget is None:
            clusters = bitmap.count(candidates) if derived.expressions else 0
            budget = WorkBudget(clusters, derived.pace, fleet=derived.limits.fleet)
        now, snapshot = derived.hiding(context.now), clusters_of(context.snapshot)
        try:
            passed = predicates[0].select(snapshot, candidates, budget, now=now)
            for predicate in predicates[1:]:
                passed = passed | predicate.select(snapshot, candidates & ~passed, budget, now=now)
        except Paused:
            derived.budget = budget
            raise
        except TooCostly as error:
            return derived.refuse(str(error)), candidates
        derived.budget = None
        return OK, passed

    def filter_remedies(self, context: Context, row: int, /) -> Iterator[Remedy]:
        """Propose changes for the first mismatch of each predicate."""
        workload, snapshot = placement_of(context), clusters_of(context.snapshot)
        derived = workload.derive(PlacementPredicates)
        labels, claims = snapshot.cluster(row).metadata.labels, cells.claims_of(snapshot.cluster(row))
        for source, predicate in zip(workload.placement.spec.predicates, derived.compiled, strict=True):
            if not predicate.labels.matches(labels):
                yield from meet_selector(snapshot, predicate.labels, labels, kind=cells.LABEL)
            elif not predicate.claims.matches(claims):
                yield from meet_selector(snapshot, predicate.claims, claims, kind=cells.CLAIM)
            else:
                texts = source.requiredClusterSelector.celSelector.celExpressions
                yield from satisfy_expressions(snapshot, texts, row, now=derived.hiding(context.now))

    def until(self, context: Context, rows: Rows, /) -> Micros:
        derived = placement_of(context).derive(PlacementPredicates)
        if not derived.hides_expired:
            return NEVER_CHANGES
        # A rejected cluster cannot start to match because a score expires: reading it is an error, which does not
        # match, and where the rest of the expression absorbs an error it would absorb any value.
        snapshot = clusters_of(context.snapshot)
        names = {name for predicate in derived.compiled for name in predicate.expressions.resources(snapshot)}
        moments = (trust.lapses(snapshot, name, rows, now=context.now) for name in names)
        return min(moments, default=NEVER_CHANGES)

    def reads(self, context: Context, /) -> Reads:
        keys: set[Key] = {MEMBERSHIP}
        anything = False
        for predicate in placement_of(context).derive(PlacementPredicates).compiled:
            keys.update(cells.label(requirement.key) for requirement in predicate.labels.requirements)
            keys.update(cells.claim(requirement.key) for requirement in predicate.claims.requirements)
            keys.update(predicate.expressions.reads or ())
            anything = anything or not predicate.expressions.can_follow(context.snapshot)
        return Reads(cells=frozenset(keys), anything=anything)


def _objections(
    predicates: Sequence[Compiled], snapshot: ClusterSnapshot, row: int, now: Micros | None
) -> str:
    words: list[str] = []
    for predicate in predicates:
        try:
            words.append(predicate.objection(snapshot, row, now=now) or "")
        except TooCostly as error:
            words.append(str(error))
    if len(words) > 1:
        words = [f"predicate {at}: {text}" for at, text in enumerate(words, 1)]
    return "; ".join(words)


def compile_predicate(source: ClusterPredicate) -> Compiled:
    """Compile a predicate.

    Raise SelectorError or ExpressionError, for the label selector first, then claims, then CEL.
    """
    selector = source.requiredClusterSelector
    return Compiled(
        labels=compile_selector(selector.labelSelector),
        claims=compile_requirements(selector.claimSelector.matchExpressions),
        expressions=Expressions(selector.celSelector.celExpressions),
    )
