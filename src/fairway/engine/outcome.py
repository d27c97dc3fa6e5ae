"""The outcome of a cycle."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, TypeVar

import numpy as np

from fairway.engine.fault import Fault
from fairway.engine.forms import ChooseCalls, CyclePlugins
from fairway.engine.points import NEVER_CHANGES, Amounts, Context, Extent, Scores
from fairway.engine.profile import Profile
from fairway.engine.status import Status
from fairway.hosts import bitmap
from fairway.hosts.bitmap import Bits, Mask, Rows
from fairway.hosts.instant import Micros
from fairway.hosts.snapshot import Snapshot

REASON_LENGTH = 1000
"""Maximum length of the terms of a reason, in characters."""
NO_ROWS: Rows = np.zeros(0, dtype=np.int64)

T = TypeVar("T")


class Stage(NamedTuple):
    """The rows that passed a filter."""

    plugin: str
    survivors: Bits


class Scored(NamedTuple):
    """Final scores of a prioritizer, in the order of the rows of the details."""

    plugin: str
    weight: int
    scores: Scores
    present: Mask | None = None
    """False where the prioritizer has no score for the host, which then counts 0 or the profile's default.
    None: it has all scores."""
    extent: Extent | None = None
    raw: Amounts | None = None
    """Raw scores of a normalised prioritizer."""
    skipped: bool = False
    """Whether PreScore left the prioritizer out."""


@dataclass(frozen=True, slots=True)
class Details:
    """All intermediate results, for all hosts."""

    eligible: Bits
    """Rows that the PreFilter plugins admitted."""
    stages: tuple[Stage, ...] = ()
    rows: Rows = field(default_factory=lambda: NO_ROWS)
    """Rows that passed every filter, ascending; empty when the cycle was aborted."""
    totals: Scores = field(default_factory=lambda: NO_ROWS)
    scored: tuple[Scored, ...] = ()
    derived: dict[Any, Any] = field(default_factory=dict, repr=False, compare=False)
    """See ``Outcome.derive``."""


class Outcome:
    """Selected rows, best first, with details. Names and details are computed on demand."""

    def __init__(
        self,
        *,
        context: Context,
        profile: Profile,
        plugins: CyclePlugins,
        status: Status,
        details: Details | Callable[[], Details],
        selected: Rows = NO_ROWS,
        chooser: ChooseCalls | None = None,
        wake: Micros | None = None,
        until: Micros = NEVER_CHANGES,
        relief: Status | None = None,
        faults: tuple[Fault, ...] = (),
    ) -> None:
        self.context = context
        self.profile = profile
        self.plugins = plugins
        """Those that apply to the workload."""
        self.status = status
        self.selected_rows = selected
        self.chooser = chooser
        """The plugin that picked the hosts; None if the cycle ended before."""
        self.wake = wake
        """When a selected host stops being feasible by time alone."""
        self.until = until
        """The first time at which another cycle may have a different outcome without a change of the fleet."""
        self.relief = relief
        """Status of the PostFilter plugins when no host was left; None if they did not run."""
        self.faults = faults
        """Faults of third-party plugins, which ended the cycle or were skipped."""
        self._details = details
        self._selected: list[str] | None = None
        self._selected_names: frozenset[str] | None = None

    def shared_with(self, workload: Any) -> "Outcome":
        """Return the outcome for another workload that is alike, without a cycle."""
        return Outcome(
            context=replace(self.context, workload=workload),
            profile=self.profile,
            plugins=self.plugins,
            status=self.status,
            details=self.details,
            selected=self.selected_rows,
            chooser=self.chooser,
            wake=self.wake,
            until=self.until,
            relief=self.relief,
            faults=self.faults,
        )

    @property
    def snapshot(self) -> Snapshot[Any]:
        return self.context.snapshot

    @property
    def details(self) -> Details:
        if not isinstance(self._details, Details):
            self._details = self._details()
        return self._details

    def derive(self, make: "Callable[[Outcome], T]") -> T:
        """Return ``make(self)``, which is computed once for all workloads that share these details. It may depend on
        the details, and on what all these workloads have in common. Its result must not be changed, and must not refer
        to the snapshot."""
        derived, key = self.details.derived, (make, self.selected_rows.tobytes())
        if key not in derived:
            derived[key] = make(self)
        result: T = derived[key]
        return result

    @property
    def eligible(self) -> bool:
        """Whether the PreFilter plugins admitted any host."""
        return bool(len(self.selected_rows)) or bool(self.details.eligible.any())

    @property
    def feasible(self) -> bool:
        """Whether any host passed every filter and was scored."""
        return bool(len(self.selected_rows)) or bool(len(self.details.rows))

    @property
    def selected(self) -> list[str]:
        """Best first."""
        if self._selected is None:
            names = self.snapshot.hosts.names
            self._selected = [names[row] for row in self.selected_rows.tolist()]
        return self._selected

    @property
    def selected_names(self) -> frozenset[str]:
        if self._selected_names is None:
            self._selected_names = frozenset(self.selected)
        return self._selected_names

    @property
    def unscheduled(self) -> int:
        """Number of requested hosts that were not selected."""
        wanted = self.context.workload.wanted
        if wanted is None or self.status.aborts:
            return 0
        return max(0, wanted - len(self.selected_rows))

    def totals_by_name(self, *, first: int | None = None) -> dict[str, int]:
        """Totals of the hosts that passed the filters: of all, or of the ``first`` ones by name."""
        hosts, details = self.snapshot.hosts, self.details
        rows, totals = details.rows, details.totals
        if first is not None and first < len(rows):
            chosen = np.argpartition(hosts.rank[rows], first)[:first]
            rows, totals = rows[chosen], totals[chosen]
        names = hosts.names
        return {names[row]: total for row, total in zip(rows.tolist(), totals.tolist(), strict=True)}

    def reasons(self) -> Iterator[tuple[str, str, int]]:
        """Return name, reason and total of each selected host, best first."""
        details = self.details
        at = np.searchsorted(details.rows, self.selected_rows)
        totals = details.totals[at].tolist()
        columns = [self._terms(number, at) for number in range(len(details.scored))]
        rows = zip(*columns, strict=True) if columns else ((),) * len(at)
        feasible = len(details.rows)
        for name, rank, total, parts in zip(self.selected, self._ranks(), totals, rows, strict=True):
            terms = _joined(parts)
            ranked = f"Rank {rank} of {feasible} with {total} points"
            yield name, f"{ranked}: {terms}" if terms else ranked, total

    def _terms(self, prioritizer: int, at: Rows) -> list[str]:
        """Describe a prioritizer's part of the total of each selected host."""
        scored = self.details.scored[prioritizer]
        plugin, weight = scored.plugin, scored.weight
        scores = scored.scores[at].tolist()
        known = self.knows(prioritizer, self.selected_rows)
        if known.all():
            return [term(plugin, weight, score) for score in scores]
        pairs = zip(scores, known.tolist(), strict=True)
        return [term(plugin, weight, score, known=is_known) for score, is_known in pairs]

    def knows(self, prioritizer: int, rows: Rows) -> Mask:
        """Return for which feasible rows a prioritizer, by its index, has a score."""
        present = self.details.scored[prioritizer].present
        known: Mask = np.ones(len(rows), dtype=np.bool_)
        if present is not None:
            known &= present[np.searchsorted(self.details.rows, rows)]
        remarks = self.plugins.scores[prioritizer].remarks
        return known if remarks is None else known & remarks.knows(self.context, rows)

    def _ranks(self) -> Sequence[int]:
        """Return the rank of each selected host. The choice may have skipped better hosts."""
        if self.chooser is None or self.chooser.by_rank:
            return range(1, len(self.selected_rows) + 1)
        details = self.details
        order = np.lexsort((self.snapshot.hosts.rank[details.rows], -details.totals))
        rank_of = np.empty(len(order), dtype=np.int64)
        rank_of[order] = np.arange(1, len(order) + 1)
        ranks: list[int] = rank_of[np.searchsorted(details.rows, self.selected_rows)].tolist()
        return ranks

    def names(self, bits: Bits) -> list[str]:
        """In name order."""
        names = self.snapshot.hosts.names
        return sorted(names[row] for row in bitmap.rows_of(bits).tolist())


def _joined(terms: Iterable[str]) -> str:
    """Join as many terms as fit: a page holds a hundred reasons, and its size must be bounded."""
    text = ""
    for term in terms:
        if len(text) + len(term) > REASON_LENGTH:
            return f"{text}, …" if text else term[:REASON_LENGTH]
        text = f"{text}, {term}" if text else term
    return text


def term(plugin: str, weight: int, score: int, *, known: bool = True) -> str:
    """Describe a prioritizer's part of a total."""
    if not known:
        return f"{plugin} missing, counts {score if weight == 1 or not score else f'{score} x {weight}'}"
    return f"{plugin} {score}" if weight == 1 else f"{plugin} {score} x {weight}"
