"""Order the writes from the current pages to the desired pages, so that no selected cluster is missing in between.

Consumers read a decision as the union of its pages, and remove workloads from a cluster that is on none of them. So a
page may drop a cluster that stays selected only after another page has it (make before break). Mostly the pages can be
ordered that way: when one cluster is inserted at the front of a thousand, the last page is written first. Where pages
swap clusters there is no such order, and one of them temporarily has both.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from fairway.api.decision import ClusterDecision, PlacementDecision
from fairway.api.placement import GROUP_INDEX_LABEL, GROUP_NAME_LABEL, PLACEMENT_LABEL
from fairway.workloads.placement.pages import Page
from kubewire.api.meta import OwnerReference

NOTHING: Final[tuple[ClusterDecision, ...]] = ()


@dataclass(frozen=True, slots=True)
class Create:
    """A page without clusters; they follow in a Fill of their own, as status is written separately."""

    page: Page


@dataclass(frozen=True, slots=True)
class Fill:
    """Replaces the clusters of a page."""

    page: str
    decisions: tuple[ClusterDecision, ...]
    changed: bool
    """Whether it names other clusters than before. Otherwise only scores or reasons change."""
    rescored: bool = False
    """Whether this page reports, for all pages, that recorded scores changed while the clusters stayed."""
    temporary: bool = False
    """Whether the page keeps clusters only until other pages name them."""


@dataclass(frozen=True, slots=True)
class Relabel:
    """Restores the labels of the page and its owner, the placement."""

    page: Page


@dataclass(frozen=True, slots=True)
class Delete:
    page: str


Step = Create | Fill | Relabel | Delete


def plan(
    pages: Sequence[Page],
    *,
    placement: str,
    owner: OwnerReference,
    named: Mapping[str, PlacementDecision],
    own: Mapping[str, PlacementDecision],
    refresh: bool,
    ranked: bool = False,
) -> tuple[Step, ...]:
    """``named``: existing objects with the pages' names. ``own``: all objects with the placement's label.

    With ``refresh`` pages are also written if only scores and reasons have changed. ``ranked``: they are in order of
    score, and that order alone is no decision.

    Ranks and totals of different cycles cannot be compared. So if the clusters of any page change, all pages that
    differ are written.
    """
    wanted = {page.name for page in pages}
    creates: list[Step] = []
    strangers: list[Step] = []
    fills: list[Fill] = []
    relabels: list[Step] = []
    current = {name: decision.status.decisions for name, decision in own.items()}
    # Of pages that are about to be deleted nothing stays, whatever is on them.
    moved = (
        refresh
        or not ranked
        or assigned_pages(pages) != assigned(decision for name, decision in own.items() if name in wanted)
    )
    before_of = {
        page.name: NOTHING if (old := named.get(page.name)) is None else old.status.decisions
        for page in pages
    }
    changed_of = {
        page.name: tuple(cluster_decision.clusterName for cluster_decision in before_of[page.name])
        != page.clusters
        for page in pages
    }
    removed = [name for name in sorted(own) if name not in wanted]
    shrunk = any(own[name].status.decisions for name in removed)
    adopted = any(
        labelled(old) != placement and before_of[page.name] != page.decisions
        for page in pages
        if (old := named.get(page.name)) is not None
    )
    # Scores alone are recorded at the placement's rate limit (``refresh``). A changed selection is written at once,
    # with all pages, so that all ranks on them are those of one cycle.
    rewritten = refresh or adopted or (moved and (shrunk or any(changed_of.values())))
    reported = any(changed_of.values())
    for page in pages:
        old, before, changed = named.get(page.name), before_of[page.name], changed_of[page.name]
        due = rewritten and before != page.decisions
        # One page reports for all pages, so that changed scores are one event.
        rescored = due and not reported and _is_rescored(before, page.decisions)
        reported = reported or rescored
        fill = Fill(page.name, page.decisions, changed=changed, rescored=rescored)
        if old is None:
            creates.append(Create(page))
        elif old.metadata.labels != page.labels or not owned(old, owner):
            if labelled(old) != placement:
                # Consumers ignore it until it is labelled, so the order does not matter.
                strangers += [Relabel(page)] if before == page.decisions else [fill, Relabel(page)]
                current[page.name] = page.decisions
                continue
            relabels.append(Relabel(page))
        current[page.name] = before
        if due:
            fills.append(fill)
    deletes: list[Step] = [Delete(name) for name in removed]
    ordered: Sequence[Step] = fills
    if len(pages) > 1:
        kept = {cluster for page in pages for cluster in page.clusters}
        ordered = _ordered(fills, current=current, kept=kept)
    # Created pages are empty, so they can be first. Deleted ones are last: until the others are written, a page may
    # be the only one with a cluster that stays selected.
    return (*creates, *strangers, *ordered, *relabels, *deletes)


def _is_rescored(before: Sequence[ClusterDecision], after: Sequence[ClusterDecision]) -> bool:
    """Whether a recorded score changed; the first recording is no change."""
    recorded = {decision.clusterName: decision.score for decision in before if decision.score is not None}
    return any(recorded.get(decision.clusterName, decision.score) != decision.score for decision in after)


def assigned(own: Iterable[PlacementDecision]) -> Counter[tuple[str, str, str]]:
    """Group index, group name and cluster of all decisions, on any page.

    A cluster on two pages counts twice: an earlier process may have died while it moved.
    """
    return Counter(
        (labels.get(GROUP_INDEX_LABEL, ""), labels.get(GROUP_NAME_LABEL, ""), cluster_decision.clusterName)
        for decision in own
        for labels in (decision.metadata.labels,)
        for cluster_decision in decision.status.decisions
    )


def assigned_pages(pages: Sequence[Page]) -> Counter[tuple[str, str, str]]:
    return Counter(
        (page.labels[GROUP_INDEX_LABEL], page.labels[GROUP_NAME_LABEL], cluster)
        for page in pages
        for cluster in page.clusters
    )


def owned(decision: PlacementDecision, owner: OwnerReference) -> bool:
    return any(
        owner_reference.uid == owner.uid and owner_reference.controller
        for owner_reference in decision.metadata.ownerReferences
    )


def owners_of(decision: PlacementDecision, owner: OwnerReference) -> tuple[OwnerReference, ...]:
    """Other owners stay, unless they claim to be the controller as well."""
    others = (
        reference
        for reference in decision.metadata.ownerReferences
        if reference.uid != owner.uid and not reference.controller
    )
    return (*others, owner)


def labelled(decision: PlacementDecision) -> str:
    """The placement that its label names."""
    return decision.metadata.labels.get(PLACEMENT_LABEL, "")


def _ordered(
    fills: list[Fill], *, current: dict[str, tuple[ClusterDecision, ...]], kept: set[str]
) -> list[Step]:
    """``current``: what is on each page before. ``kept``: clusters that must be on some page all the time."""
    holders = Counter(cluster for decisions in current.values() for cluster in _names(decisions))
    steps: list[Step] = []

    def write(fill: Fill) -> None:
        before, after = _names(current[fill.page]), _names(fill.decisions)
        holders.update(after - before)
        holders.subtract(before - after)
        current[fill.page] = fill.decisions
        steps.append(fill)

    def held(fill: Fill) -> set[str]:
        """Clusters that stay chosen and are on no other page yet."""
        leaving = _names(current[fill.page]) - _names(fill.decisions)
        return {cluster for cluster in leaving if cluster in kept and holders[cluster] < 2}

    waiting = fills
    # It ends: a pass in which no page can be written writes one of a cycle temporarily, and then another page of the
    # cycle holds fewer clusters.
    while waiting:
        left: list[Fill] = []
        for fill in waiting:
            if held(fill):
                left.append(fill)
            else:
                write(fill)
        # No page could be written, so some wait for each other in a cycle. One of them gets the new clusters and
        # keeps the old ones, and is written again when the others have those.
        if left and len(left) == len(waiting):
            first = _page_of_cycle({fill.page: held(fill) for fill in left}, left)
            coming = _names(first.decisions)
            staying = [
                decision
                for decision in current[first.page]
                if decision.clusterName in kept and decision.clusterName not in coming
            ]
            write(replace(first, decisions=(*first.decisions, *staying), temporary=True))
        # A shift to the front is settled from the first page on, one to the back from the last.
        left.reverse()
        waiting = left
    return steps


def _page_of_cycle(held: Mapping[str, set[str]], stuck: Sequence[Fill]) -> Fill:
    """Return a page of a cycle of pages that wait for each other; writing one outside it would not break the cycle."""
    takers = {cluster: fill for fill in stuck for cluster in _names(fill.decisions)}
    fill, seen = stuck[0], set[str]()
    while fill.page not in seen:
        seen.add(fill.page)
        fill = takers[min(held[fill.page])]
    return fill


def _names(decisions: tuple[ClusterDecision, ...]) -> set[str]:
    return {decision.clusterName for decision in decisions}
