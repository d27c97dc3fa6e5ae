"""PlacementDecisions: the pages of a decision, and the writes that create them.

Pages have at most 100 clusters. The clusters and the labels of a changed page are written in
separate steps, clusters first, as OCM does.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fairway.api.decision import ClusterDecision, PlacementDecision
from fairway.api.placement import (
    GROUP_INDEX_LABEL,
    GROUP_NAME_LABEL,
    PLACEMENT_LABEL,
    DecisionGroupStatus,
)
from fairway.engine.status import Code, Status
from fairway.placement.groups import Group

PAGE_SIZE = 100
SCORE_TEXT_LIMIT = 1000

NORMAL = "Normal"
WARNING = "Warning"


@dataclass(frozen=True, slots=True)
class Page:
    """The desired state of a PlacementDecision."""

    name: str
    labels: Mapping[str, str]
    decisions: tuple[ClusterDecision, ...]

    @property
    def clusters(self) -> tuple[str, ...]:
        return tuple(each.clusterName for each in self.decisions)


@dataclass(frozen=True, slots=True)
class PaginatedDecision:
    """All pages of a decision, and its groups."""

    pages: tuple[Page, ...]
    groups: tuple[DecisionGroupStatus, ...]


@dataclass(frozen=True, slots=True)
class Event:
    type: str
    reason: str
    action: str
    message: str


@dataclass(frozen=True, slots=True)
class Writes:
    """Writes in their order. ``rewrite`` replaces a page's clusters, ``relabel`` its labels."""

    create: tuple[Page, ...] = ()
    rewrite: tuple[Page, ...] = ()
    relabel: tuple[Page, ...] = ()
    delete: tuple[str, ...] = ()
    events: tuple[Event, ...] = ()


def paginate(
    placement: str, groups: Sequence[Group], details: Mapping[str, ClusterDecision]
) -> PaginatedDecision:
    """``details`` has the score and reason to record for each cluster."""
    pages: list[Page] = []
    statuses: list[DecisionGroupStatus] = []
    for index, group in enumerate(groups):
        labels = {
            PLACEMENT_LABEL: placement,
            GROUP_INDEX_LABEL: str(index),
            GROUP_NAME_LABEL: group.name,
        }
        names: list[str] = []
        for start in range(0, max(1, len(group.clusters)), PAGE_SIZE):
            name = f"{placement}-decision-{len(pages) + 1}"
            clusters = group.clusters[start : start + PAGE_SIZE]
            pages.append(Page(name, labels, tuple(details[cluster] for cluster in clusters)))
            names.append(name)
        statuses.append(
            DecisionGroupStatus(
                decisionGroupIndex=index,
                decisionGroupName=group.name,
                decisions=tuple(names),
                clusterCount=len(group.clusters),
            )
        )
    return PaginatedDecision(pages=tuple(pages), groups=tuple(statuses))


def plan(
    *,
    namespace: str,
    placement: str,
    existing: Mapping[str, PlacementDecision],
    paper: PaginatedDecision,
    status: Status,
    scores: Mapping[str, int],
) -> Writes:
    """``existing``: the namespace's decisions by name. ``scores``: totals of all clusters that passed the filters."""
    create: list[Page] = []
    rewrite: list[Page] = []
    relabel: list[Page] = []
    events: list[Event] = []

    told: str | None = None
    for page in paper.pages:
        old = existing.get(page.name)
        if old is None:
            create.append(page)
            events.append(created(namespace=namespace, placement=placement, page=page.name))
        elif tuple(each.clusterName for each in old.status.decisions) != page.clusters:
            rewrite.append(page)
            events.append(updated(namespace=namespace, placement=placement, page=page.name, status=status))
            if scores:
                told = score_text(scores) if told is None else told
                events.append(scored(told))
        elif old.metadata.labels != page.labels:
            relabel.append(page)
    wanted = {page.name for page in paper.pages}
    surplus = sorted(
        name
        for name, decision in existing.items()
        if name not in wanted and decision.metadata.labels.get(PLACEMENT_LABEL) == placement
    )
    events += [deleted(namespace=namespace, placement=placement, page=name) for name in surplus]
    return Writes(tuple(create), tuple(rewrite), tuple(relabel), tuple(surplus), tuple(events))


def created(*, namespace: str, placement: str, page: str) -> Event:
    return _told("Create", namespace, placement, page)


def updated(*, namespace: str, placement: str, page: str, status: Status) -> Event:
    """``status`` is the status of the cycle; a warning becomes part of the event."""
    if status.code is not Code.WARNING:
        return _told("Update", namespace, placement, page)
    more = f": {status.message} in plugin {status.plugin}"
    return _told("Update", namespace, placement, page, kind=WARNING, more=more)


def scored(text: str) -> Event:
    return Event(NORMAL, "ScoreUpdate", "ScoreUpdated", text)


def deleted(*, namespace: str, placement: str, page: str) -> Event:
    return _told("Delete", namespace, placement, page)


def _told(
    verb: str, namespace: str, placement: str, page: str, *, kind: str = NORMAL, more: str = ""
) -> Event:
    text = f"Decision {page} is {verb.lower()}d with placement {placement} in namespace {namespace}{more}"
    return Event(kind, f"Decision{verb}", f"Decision{verb}d", text)


def score_text(scores: Mapping[str, int]) -> str:
    """Return ``name:score `` for each, by name, truncated."""
    text = ""
    for name in sorted(scores):
        part = f"{name}:{scores[name]} "
        if len((text + part).encode()) > SCORE_TEXT_LIMIT:
            return text + "......"
        text += part
    return text
