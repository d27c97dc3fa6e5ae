"""Hosted clusters: neither many clusters that host nothing nor many hosting clusters stop the event loop."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from fairway.api.hosted_request import HostedClusterRequest
from fairway.controllers.hosting.offers import offer_again
from fairway.controllers.runtime.slicing import in_slices
from fairway.engine.scheduler import Scheduler
from fairway.hosts.instant import SECOND, from_micros
from fairway.workloads.hosting import HostingState, decision_of, host_key, place
from fairway.workloads.hosting.planning.fit import changes_in_steps
from fairway.workloads.hosting.profile import NAME
from fairway.workloads.hosting.requests.refusal_groups import ALIKE
from fairway.workloads.hosting.requests.request_status import policy_status
from loop.clocks import SlowClock
from loop.steps import CLUSTERS, Longest, check_bounded, longest_call, longest_callback
from workloads.hosting.hosts import NOW, binding_profile, host, load, placed, policy, request, state_of

HOSTS = 300
"""Hosting clusters of the largest fleet: they carry 24,000 hosted clusters."""
SOME = 20
REQUESTS = 5_000
"""Refused at the same time."""


def hosting_clusters(count: int) -> Iterator[object]:
    for number in range(count):
        yield host(f"h{number}", allocatable={"cpu": "400", "memory": "1600Gi"})
        yield load(f"h{number}", count=number % 7)


def others(count: int) -> Iterator[object]:
    for number in range(count):
        yield host(f"o{number}", claims={"hostingcluster.hypershift.openshift.io": "false"})


def state_with(*objects: object) -> HostingState:
    state = state_of(policy(), *objects)
    place(state, [request("first")], now=NOW)  # creates the columns that decisions read
    return state


def test_decision_does_not_depend_on_the_number_of_clusters_that_host_nothing() -> None:
    # Not without any: a refusal names the first of them, which takes about 100 steps, however many there are.
    few, many = (state_with(*hosting_clusters(SOME), *others(count)) for count in (5, 500))
    for asked in (request("small"), request("huge", demand={"cpu": "5000", "memory": "9Ti"})):
        alone = longest_call(partial(place, few, [asked], now=NOW))
        beside = longest_call(partial(place, many, [asked], now=NOW))
        assert beside.steps <= alone.steps + 100, f"{alone.steps:,} alone, {beside.steps:,}: {beside.burden}"


def test_deadline_does_not_depend_on_the_number_of_hosting_clusters() -> None:
    few, many = (longest_call(state_with(*hosting_clusters(count)).next_deadline) for count in (SOME, HOSTS))
    assert many.steps <= few.steps + 20, f"{few.steps:,} with few, {many.steps:,}: {many.burden}"


def test_queueing_a_request_does_not_depend_on_the_number_of_hosting_clusters() -> None:
    states = [state_with(*hosting_clusters(count)) for count in (SOME, HOSTS)]
    few, many = (longest_call(partial(state.workload_of, request("small"))) for state in states)
    assert many.steps <= few.steps + 20, f"{few.steps:,} with few, {many.steps:,}: {many.burden}"


def test_decision_and_its_what_ifs_are_short_with_many_hosting_clusters() -> None:
    def decision(hosts: int) -> Longest:
        state = state_with(*hosting_clusters(hosts))
        return longest_call(lambda: place(state, [request("small")], now=NOW))

    def what_ifs(hosts: int) -> Longest:
        state = state_with(*hosting_clusters(hosts))
        constraints = {"platforms": ["AWS"], "regions": ["us-1"], "architectures": ["arm64"], "minZones": 3}
        refused = state.workload_of(request("huge", size="large", constraints=constraints))
        return longest_callback(in_slices(changes_in_steps(state, refused, now=NOW), clock=SlowClock()))

    check_bounded(decision, sizes=(20, 80), limit=HOSTS)
    check_bounded(what_ifs, sizes=(20, 80), limit=HOSTS)


def test_fleet_of_the_largest_size_is_named_without_a_visit_to_each_cluster() -> None:
    def refusal(clusters: int) -> Longest:
        state = state_with(*hosting_clusters(1), *others(clusters))
        return longest_call(
            lambda: place(state, [request("huge", demand={"cpu": "5000", "memory": "9Ti"})], now=NOW)
        )

    check_bounded(refusal, sizes=(100, 400), limit=CLUSTERS)


def full_state(hosts: int) -> HostingState:
    """A fleet without room for another hosted cluster."""
    loads = [load(f"h{number}", count=80) for number in range(hosts)]
    return state_with(*hosting_clusters(hosts), *loads)


def scheduler_of(state: HostingState) -> Scheduler:
    profile = binding_profile(state)
    return Scheduler(
        profiles=[profile],
        profile_name=lambda _: NAME,
        host_key=host_key,
        owner_of=lambda workload: workload.spec.tenant,
        alike=ALIKE,
    )


def place_on(state: HostingState, wanted: HostedClusterRequest, name: str) -> None:
    state.reserve(state.workload_of(wanted), state.facts[name].key)


def refuse(state: HostingState, wanted: HostedClusterRequest) -> None:
    (decision,) = place(state, [wanted], now=NOW)
    assert "hosted clusters of" in decision.message, decision


def refuse_next(scheduler: Scheduler, state: HostingState) -> None:
    """What the controller does with a request in one callback."""
    step = scheduler.schedule_one(state.snapshot(), now=NOW)
    assert step is not None
    outcome: Any = step[0]
    assert decision_of(outcome, outcome.context.workload.key).message


def test_refusal_is_short_with_many_hosting_clusters_and_the_next_ones_take_no_cycle() -> None:
    def refusals(hosts: int) -> tuple[Scheduler, Callable[[], None]]:
        state = full_state(hosts)
        scheduler = scheduler_of(state)
        for number in range(10):
            scheduler.put(state.workload_of(request(f"r{number}")), now=NOW)
        return scheduler, partial(refuse_next, scheduler, state)

    check_bounded(lambda hosts: longest_call(refusals(hosts)[1]), sizes=(20, 80), limit=HOSTS)
    scheduler, refuse = refusals(80)
    refuse()
    assert longest_call(*[refuse] * 9).steps < 1_000
    assert scheduler.refused.shared == 9


def test_refusal_for_a_spare_host_is_short_with_many_hosting_clusters() -> None:
    def refusal(hosts: int) -> Longest:
        carried = [placed(f"r{host}-{at}", on=f"h{host}") for host in range(hosts) for at in range(10)]
        loads = [load(f"h{number}", count=0) for number in range(hosts)]
        rules = policy(spareHosts=1, maxPerHost=11)
        state = state_of(rules, *hosting_clusters(hosts), *loads, *carried)
        # The last host needs all the room that the others have.
        for at in range(hosts - 11):
            place_on(state, request(f"fills-{at}"), f"h{at}")
        return longest_call(lambda: refuse(state, request("one-more")))

    check_bounded(refusal, sizes=(20, 80), limit=HOSTS)


def test_events_and_back_offs_of_thousands_of_refused_requests_are_short() -> None:
    def refused(requests: int) -> tuple[HostingState, Scheduler]:
        state = full_state(2)
        scheduler = scheduler_of(state)
        for number in range(requests):
            scheduler.put(state.workload_of(request(f"r{number}")), now=NOW)
        for _ in range(requests):
            refuse_next(scheduler, state)
        return state, scheduler

    def event(requests: int) -> Longest:
        state, scheduler = refused(requests)
        (freed,) = state.upsert(load("h0", count=79), now=NOW)[1:]
        return longest_call(lambda: scheduler.on_event(freed, now=NOW))

    def end_of_back_off(requests: int) -> Longest:
        state, scheduler = refused(requests)
        for freed in state.upsert(load("h0", count=79), now=NOW):
            scheduler.on_event(freed, now=NOW)
        return longest_call(lambda: scheduler.advance(now=NOW + 60 * SECOND))

    check_bounded(event, sizes=(100, 400), limit=REQUESTS)
    check_bounded(end_of_back_off, sizes=(100, 400), limit=REQUESTS)


def test_requests_are_offered_again_in_slices() -> None:
    def offers(requests: int) -> Longest:
        state = full_state(SOME)
        store = {("team-a", f"r{number}"): request(f"r{number}") for number in range(requests)}
        steps = offer_again(store, state, lambda _: None)
        return longest_callback(in_slices(steps, clock=SlowClock()))

    check_bounded(offers, sizes=(100, 400), limit=REQUESTS)


def test_status_of_a_policy_is_computed_in_slices() -> None:
    def status(hosts: int) -> Longest:
        steps = policy_status(policy(), state_with(*hosting_clusters(hosts)), now=from_micros(NOW))
        return longest_callback(in_slices(steps, clock=SlowClock()))

    check_bounded(status, sizes=(100, 400), limit=HOSTS)
    assert status(400).steps <= 2 * status(100).steps
