"""Pages of a small placement, as hypothesis makes them up, and a hub that carries steps out."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from hypothesis import strategies as st
from msgspec import structs

from fairway.api.decision import ClusterDecision, PlacementDecision, PlacementDecisionStatus
from fairway.api.placement import GROUP_INDEX_LABEL, GROUP_NAME_LABEL, PLACEMENT_LABEL
from fairway.workloads.placement.pages import Page
from fairway.workloads.placement.steps import Create, Delete, Fill, Relabel, Step, plan
from kubewire.api.meta import ObjectMeta, OwnerReference

PLACEMENT: Final = "p"
OWNER: Final = OwnerReference(
    apiVersion="cluster.open-cluster-management.io/v1beta1",
    kind="Placement",
    name=PLACEMENT,
    uid="uid-p",
    controller=True,
    blockOwnerDeletion=True,
)
FORMER: Final = structs.replace(OWNER, uid="uid-of-a-placement-before")
CLUSTERS: Final = "abcdefgh"
PAGE_SIZE: Final = 2
"""Instead of a hundred."""

Decisions = Mapping[str, PlacementDecision]
Situation = tuple[Decisions, tuple[Page, ...]]
"""What there is, and what there should be."""


def labels_of(index: int, group: str, *, placement: str = PLACEMENT) -> dict[str, str]:
    return {PLACEMENT_LABEL: placement, GROUP_INDEX_LABEL: str(index), GROUP_NAME_LABEL: group}


def page_name(number: int) -> str:
    return f"{PLACEMENT}-decision-{number}"


def paged(groups: Sequence[tuple[str, Sequence[ClusterDecision]]]) -> tuple[Page, ...]:
    """As decisions are divided into pages; a decision without clusters has one that is empty."""
    pages: list[Page] = []
    for index, (name, members) in enumerate(groups):
        for start in range(0, max(1, len(members)), PAGE_SIZE):
            part = tuple(members[start : start + PAGE_SIZE])
            pages.append(Page(page_name(len(pages) + 1), labels_of(index, name), part))
    return tuple(pages)


def decision_of(page: Page, *, owner: OwnerReference = OWNER) -> PlacementDecision:
    return PlacementDecision(
        metadata=ObjectMeta(
            name=page.name, namespace="ns1", labels=dict(page.labels), ownerReferences=(owner,)
        ),
        status=PlacementDecisionStatus(decisions=page.decisions),
    )


# What there may be

scores = st.integers(0, 2)


@st.composite
def wanted_pages(draw: st.DrawFn) -> tuple[Page, ...]:
    chosen = draw(st.permutations(CLUSTERS))[: draw(st.integers(0, len(CLUSTERS)))]
    told = [ClusterDecision(clusterName=cluster, score=draw(scores)) for cluster in chosen]
    groups: list[tuple[str, Sequence[ClusterDecision]]] = []
    while told or not groups:
        size = draw(st.integers(1, len(told))) if told else 0
        groups.append((draw(st.sampled_from(["", "canary", "rest"])), told[:size]))
        told = told[size:]
    return paged(groups)


odd_labels = st.one_of(
    st.builds(
        labels_of,
        st.integers(0, 2),
        st.sampled_from(["", "canary", "rest"]),
        placement=st.sampled_from([PLACEMENT, PLACEMENT, "other"]),
    ),
    st.sampled_from([{}, {PLACEMENT_LABEL: PLACEMENT}, {"of": "nobody"}]),
)
odd_owners = st.sampled_from([(OWNER,), (FORMER,), ()])


@st.composite
def odd_decisions(draw: st.DrawFn) -> PlacementDecision:
    """Decisions that another client or a crashed controller may have left."""
    number = draw(st.integers(1, 5))
    named = draw(st.lists(st.sampled_from(CLUSTERS), max_size=4))
    return PlacementDecision(
        metadata=ObjectMeta(
            name=draw(st.sampled_from([page_name(number), f"odd-{number}"])),
            namespace="ns1",
            labels=draw(odd_labels),
            ownerReferences=draw(odd_owners),
        ),
        status=PlacementDecisionStatus(
            decisions=tuple(ClusterDecision(clusterName=cluster, score=draw(scores)) for cluster in named)
        ),
    )


def by_name(decisions: Iterable[PlacementDecision]) -> dict[str, PlacementDecision]:
    return {decision.metadata.name: decision for decision in decisions}


honest = wanted_pages().map(lambda pages: by_name(decision_of(page) for page in pages))
"""Decisions as this controller leaves them."""
anything = st.lists(odd_decisions(), max_size=5).map(by_name)


@st.composite
def almost(draw: st.DrawFn, pages: tuple[Page, ...]) -> dict[str, PlacementDecision]:
    """The pages with a few edits by a crashed controller or another client."""
    there = by_name(decision_of(page) for page in pages)
    for _ in range(draw(st.integers(0, 4))):
        name = draw(st.sampled_from(sorted(there)))
        old = there[name]
        named = list(old.status.decisions)
        edit = draw(st.sampled_from(["more", "less", "scores", "labels", "owner", "name", "copy", "none"]))
        match edit:
            case "more":
                more = ClusterDecision(clusterName=draw(st.sampled_from(CLUSTERS)), score=draw(scores))
                named.insert(draw(st.integers(0, len(named))), more)
            case "less" if named:
                named.pop(draw(st.integers(0, len(named) - 1)))
            case "scores":
                named = [structs.replace(decision, score=draw(scores)) for decision in named]
            case "labels":
                meta = structs.replace(old.metadata, labels=draw(odd_labels))
                there[name] = old = structs.replace(old, metadata=meta)
            case "owner":
                meta = structs.replace(old.metadata, ownerReferences=draw(odd_owners))
                there[name] = old = structs.replace(old, metadata=meta)
            case "name" | "copy":
                other = draw(st.sampled_from([f"odd-{len(there)}", page_name(5)]))
                there[other] = structs.replace(old, metadata=structs.replace(old.metadata, name=other))
                if edit == "name" and other != name:
                    del there[name]
                continue
        there[name] = structs.replace(old, status=PlacementDecisionStatus(decisions=tuple(named)))
    return there


situations = wanted_pages().flatmap(
    lambda pages: st.tuples(st.one_of(honest, anything, almost(pages), almost(pages)), st.just(pages))
)


# What is done


def planned(
    pages: Sequence[Page], there: Decisions, *, refresh: bool, ranked: bool = True
) -> tuple[Step, ...]:
    return plan(
        pages, placement=PLACEMENT, owner=OWNER, named=there, own=own(there), refresh=refresh, ranked=ranked
    )


def own(there: Decisions) -> dict[str, PlacementDecision]:
    """What a consumer takes for the decision of the placement."""
    return {
        name: decision
        for name, decision in there.items()
        if decision.metadata.labels.get(PLACEMENT_LABEL) == PLACEMENT
    }


def union(there: Decisions) -> set[str]:
    """The clusters a consumer sees."""
    return {cluster.clusterName for page in own(there).values() for cluster in page.status.decisions}


def carried_out(step: Step, there: Decisions) -> dict[str, PlacementDecision]:
    """The hub after it. A step that no hub would accept fails here."""
    after = dict(there)
    match step:
        case Create(page):
            assert page.name not in after
            after[page.name] = structs.replace(decision_of(page), status=PlacementDecisionStatus())
        case Fill(name, decisions):
            after[name] = structs.replace(after[name], status=PlacementDecisionStatus(decisions=decisions))
        case Relabel(page):
            meta = structs.replace(
                after[page.name].metadata, labels=dict(page.labels), ownerReferences=(OWNER,)
            )
            after[page.name] = structs.replace(after[page.name], metadata=meta)
        case Delete(name):
            del after[name]
    return after


def states(steps: Iterable[Step], there: Decisions) -> list[dict[str, PlacementDecision]]:
    """The hub before the first step and after each."""
    reached = [dict(there)]
    for step in steps:
        reached.append(carried_out(step, reached[-1]))
    return reached


def assigned(there: Decisions) -> Counter[tuple[str, str, str]]:
    """Group and cluster of everything a consumer sees."""
    return Counter(
        (
            page.metadata.labels.get(GROUP_INDEX_LABEL, ""),
            page.metadata.labels.get(GROUP_NAME_LABEL, ""),
            cluster.clusterName,
        )
        for page in own(there).values()
        for cluster in page.status.decisions
    )


def without_scores(there: Decisions) -> dict[str, tuple[dict[str, str], tuple[str, ...]]]:
    return {
        name: (
            dict(decision.metadata.labels),
            tuple(cluster.clusterName for cluster in decision.status.decisions),
        )
        for name, decision in there.items()
    }
