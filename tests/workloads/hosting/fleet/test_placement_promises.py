"""Decisions of Placements as reservations on hosting clusters."""

from datetime import datetime, timedelta
from typing import Any

import pytest
from msgspec import structs

from fairway.api.decision import PlacementDecision
from fairway.api.hosting_policy import COUNT_SCORE, SCORE_RESOURCE, HostingPolicy
from fairway.api.placement import Placement, PlacementSpec
from fairway.api.score import AddOnPlacementScore
from fairway.engine.workload import WorkloadKey
from fairway.hosts.clusters.debits import DebitRules
from fairway.hosts.steps import finish
from fairway.testing import builders
from fairway.workloads.hosting import HostingState, drain, place, reports
from fairway.workloads.hosting.fleet.placement_promises import describe_promises
from fairway.workloads.hosting.planning.evacuation import Evacuation
from fairway.workloads.hosting.requests.request_status import policy_status
from fairway.workloads.hosting.resources import HOSTED, MILLI, SLOTS
from fairway.workloads.placement.plugins.score_debits import SCORE_DEBITS
from workloads.hosting.hosts import MINUTE, NOW, START, host, load, policy, request

BY_COUNT = "hosted-clusters-score/hostedClustersCount=+1"
LEAST = PlacementSpec(
    prioritizerPolicy=builders.policy(builders.addon(COUNT_SCORE, -1, resource=SCORE_RESOURCE))
)


def trusting(**spec: Any) -> HostingPolicy:
    """A policy for which the decisions of the Placements below take room."""
    return policy(placementNamespaces=("clusters",), **spec)


def placement(name: str = "web", *, debits: str = BY_COUNT) -> Placement:
    return builders.placement(
        name, namespace="clusters", spec=LEAST, annotations={SCORE_DEBITS: debits} if debits else {}
    )


def decided(
    *clusters: str, by: str = "web", version: int = 20, created: datetime = START, page: int = 1
) -> PlacementDecision:
    made = builders.decision(f"{by}-decision-{page}", list(clusters), namespace="clusters", placement=by)
    meta = structs.replace(made.metadata, resourceVersion=str(version), creationTimestamp=created)
    return structs.replace(made, metadata=meta)


def published(
    name: str, *, count: int = 0, version: int = 10, slots: int | None = None
) -> AddOnPlacementScore:
    made = load(
        name, count=count, valid=timedelta(hours=1), scores={} if slots is None else {"hcpSlotsSmall": slots}
    )
    return structs.replace(made, metadata=structs.replace(made.metadata, resourceVersion=str(version)))


def state_of(*objects: object) -> HostingState:
    """A host that takes three hosted clusters."""
    state = HostingState()
    state.load([host("a"), published("a"), trusting(maxPerHost=3), *objects], now=NOW)
    return state


def held(state: HostingState) -> int:
    """Return the number of hosted clusters that the ledger has on the host."""
    return state.account(state.facts["a"].key).used.get(HOSTED, 0) // MILLI


def names(state: HostingState) -> list[str]:
    return [str(promised) for promised in state.facts["a"].promised]


def test_debits_of_the_profile_reserve_for_placements_that_rank_by_the_score() -> None:
    ranks = placement(debits="")
    plain = structs.replace(ranks, spec=PlacementSpec())
    for made, reserved in ((ranks, 1), (plain, 0)):
        state = HostingState(debits=DebitRules(defaults={(SCORE_RESOURCE, COUNT_SCORE): 1}))
        state.load([host("a"), published("a"), trusting(maxPerHost=3), decided("a"), made], now=NOW)
        assert held(state) == reserved


@pytest.mark.parametrize("live", [False, True])
def test_decision_of_a_placement_with_debits_reserves_one_hosted_cluster(live: bool) -> None:
    if live:
        state = state_of()
        state.upsert(decided("a"), now=NOW)
        assert held(state) == 0, "the Placement is not known yet"
        state.upsert(placement(), now=NOW)
    else:
        state = state_of(decided("a"), placement())
    assert (held(state), names(state)) == (1, ["clusters/web"])


@pytest.mark.parametrize(
    "debits", ["", "usage/cpu=-5", "hosted-clusters-score/hostedClustersCount=0", "nonsense"]
)
def test_placement_that_makes_no_debits_on_hosting_scores_reserves_nothing(debits: str) -> None:
    assert held(state_of(placement(debits=debits), decided("a"))) == 0


def test_reservation_is_that_of_the_placement_and_of_the_recreated_one() -> None:
    first = placement()
    again = structs.replace(first, metadata=structs.replace(first.metadata, uid="again"))
    state = state_of(first, decided("a"))
    assert state.facts["a"].promised == (WorkloadKey("clusters", "web", first.metadata.uid),)
    state.upsert(again, now=NOW)
    assert state.facts["a"].promised == (WorkloadKey("clusters", "web", "again"),)
    assert held(state) == 1


def test_reservation_ends_with_a_newer_score() -> None:
    state = state_of(placement(), decided("a"))
    state.upsert(published("a", count=0, version=15), now=NOW)
    assert held(state) == 1, "that score is older than the decision"
    state.upsert(published("a", count=1, version=25), now=NOW)
    assert held(state) == 1
    assert names(state) == [], "the published number includes it"


def test_reservation_ends_after_ten_minutes() -> None:
    state = state_of(placement(), decided("a"))
    deadline = state.next_deadline()
    assert deadline == NOW + 10 * MINUTE + 1
    assert not state.advance(now=deadline - 1)
    assert held(state) == 1
    (event,) = state.advance(now=deadline)
    assert event.hosts == {"a"}
    assert held(state) == 0


@pytest.mark.parametrize("gone", [placement(), decided("a")])
def test_reservation_ends_with_its_placement_or_decision(gone: object) -> None:
    state = state_of(placement(), decided("a"))
    (event,) = state.delete(gone, now=NOW)
    assert event.hosts == {"a"}, "requests that wait for room are tried again"
    assert held(state) == 0


def test_reservation_ends_when_the_placement_moves_or_opts_out() -> None:
    state = state_of(placement(), decided("a"))
    state.upsert(decided("b", version=30), now=NOW)
    assert held(state) == 0
    state.upsert(decided("a", version=40), now=NOW)
    assert held(state) == 1
    state.upsert(placement(debits=""), now=NOW)
    assert held(state) == 0


def test_cluster_that_joins_an_old_decision_is_reserved_from_then_on() -> None:
    old = START - timedelta(hours=1)
    state = state_of(placement(), decided("b", created=old, version=5))
    later = NOW + 5 * MINUTE
    state.upsert(decided("b", "a", created=old, version=30), now=later)
    assert held(state) == 1
    assert state.next_deadline() == later + 10 * MINUTE + 1


def test_cluster_that_moves_to_another_page_is_not_promised_again() -> None:
    state = state_of(placement(), decided("a", version=5))
    assert held(state) == 0
    state.upsert(decided("a", version=30, page=2), now=NOW)
    state.upsert(decided(version=31, page=1), now=NOW)
    assert held(state) == 0
    state.upsert(decided("a", version=40, page=2), now=NOW)
    assert held(state) == 0, "written again with another score"


def test_relabelled_decision_reserves_for_its_new_placement() -> None:
    state = state_of(placement("web"), placement("shop"), decided("a"))
    moved = decided("a", by="shop", version=30)
    moved = structs.replace(moved, metadata=structs.replace(moved.metadata, name="web-decision-1"))
    state.upsert(moved, now=NOW)
    assert names(state) == ["clusters/shop"]


def test_decision_is_rebuilt_as_it_was_observed() -> None:
    objects = [placement(), decided("a"), placement("shop"), decided("a", by="shop", version=5)]
    observed = state_of()
    for thing in objects:
        observed.upsert(thing, now=NOW)
    assert observed.facts == state_of(*objects).facts
    assert names(observed) == ["clusters/web"]


def test_hosted_cluster_of_a_decision_takes_the_slots_of_a_small_one() -> None:
    state = HostingState()
    sizes = [{"name": "small", "cpu": "10", "memory": "34Gi", "pods": 78}]
    objects = [host("a"), published("a", slots=20), placement(), decided("a")]
    state.load([*objects, trusting(sizes=sizes)], now=NOW)
    assert state.account(state.facts["a"].key).used[SLOTS] == 2 * MILLI


def test_recreated_host_has_no_reservations_of_the_old_one() -> None:
    state = state_of(placement(), decided("a"))
    old = state.facts["a"].key
    state.delete(host("a"), now=NOW)
    assert state.account(old).used == {}
    state.upsert(host("a", uid="other"), now=NOW)
    assert held(state) == 1, "the decision names the cluster that has the name now"


def test_request_does_not_take_a_slot_that_a_placement_was_given() -> None:
    placements = [placement(f"p{at}") for at in range(3)]
    decisions = [decided("a", by=f"p{at}", version=20 + at) for at in range(3)]
    state = state_of(*placements, *decisions)
    (refusal,) = place(state, [request("shop")], now=NOW)
    assert refusal.host is None
    assert refusal.rejections[0].reason == (
        "has 3 hosted clusters with reservations, and takes at most 3; "
        "3 reserved by placements clusters/p0, clusters/p1, clusters/p2"
    )
    state.delete(decisions[1], now=NOW)
    (decision,) = place(state, [request("shop")], now=NOW)
    assert decision.host is not None


def test_report_names_the_placements() -> None:
    state = state_of(placement(), decided("a"))
    (report,) = reports(state, now=NOW)
    assert (report.hosted, report.reserved, report.slots["small"]) == (0, 1, 2)
    assert describe_promises(report.promised) == "1 reserved by placement clusters/web"
    state.upsert(published("a", version=11, count=-1), now=NOW)
    (report,) = reports(state, now=NOW)
    assert (report.hosted, report.reserved) == (None, 1), "also where the load is unknown"


def test_long_list_of_placements_is_shortened() -> None:
    keys = [WorkloadKey("ns", name) for name in "abcde"]
    assert describe_promises(keys) == "5 reserved by placements ns/a, ns/b, ns/c and 2 more"
    assert describe_promises([]) == ""


def test_status_of_the_policy_counts_decisions_as_reserved() -> None:
    state = state_of(placement(), decided("a"))
    status = finish(policy_status(trusting(maxPerHost=3), state, now=START))
    assert (status.hostedClusters, status.reserved, status.freeSlots) == (1, 1, 2)


def test_spare_hosts_include_hosted_clusters_of_decisions() -> None:
    state = state_of(host("b"), published("b", count=3), placement(), decided("a"))
    assert Evacuation.of(state.snapshot(), state.policies["default"]).unplaced("a") == 1


def test_drain_names_placements_that_are_not_moved() -> None:
    state = state_of(placement(), decided("a"))
    plan = drain(state, [], [state.facts["a"].key], now=NOW)
    assert plan.notes == ("a: 1 reserved by placement clusters/web and not moved",)


def test_what_if_does_not_change_reservations() -> None:
    state = state_of(placement(), decided("a"))
    copy = state.fork()
    copy.reserve(state.workload_of(request("shop")), state.facts["a"].key)
    assert held(copy) == 2
    assert held(state) == 1


@pytest.mark.parametrize(("namespaces", "reserved"), [((), 0), (("other",), 0), (("clus*",), 55)])
def test_placements_take_room_only_if_the_policy_names_their_namespace(
    namespaces: tuple[str, ...], reserved: int
) -> None:
    made = [thing for at in range(55) for thing in (placement(f"p{at}"), decided("a", by=f"p{at}"))]
    state = HostingState()
    state.load(
        [host("a"), published("a"), policy(maxPerHost=100, placementNamespaces=namespaces), *made], now=NOW
    )
    assert held(state) == reserved
