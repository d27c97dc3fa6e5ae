"""Requests that are refused together: what one cycle decides holds for all of them."""

from itertools import product
from typing import Any

from fairway.api.hosted_request import HostedClusterRequest
from fairway.engine.scheduler import Scheduler
from fairway.workloads.hosting import (
    HostingState,
    changes_that_fit,
    decision_of,
    host_key,
    place,
)
from fairway.workloads.hosting.profile import NAME
from fairway.workloads.hosting.requests.refusal_groups import ALIKE, content_of, group_of
from fairway.workloads.hosting.rules.schema import SCHEMA_CLAIM
from workloads.hosting.hosts import NOW, binding_profile, host, load, placed, policy, request, state_of


def scheduler_of(state: HostingState, *requests: HostedClusterRequest) -> Scheduler:
    scheduler = Scheduler(
        profiles=[binding_profile(state)],
        profile_name=lambda _: NAME,
        host_key=host_key,
        alike=ALIKE,
    )
    for wanted in requests:
        scheduler.put(state.workload_of(wanted), now=NOW)
    return scheduler


def decide_all(scheduler: Scheduler, state: HostingState, *, now: int = NOW) -> dict[str, str]:
    """Return the message of each decision; empty for a host."""
    messages: dict[str, str] = {}
    while (step := scheduler.schedule_one(state.snapshot(), now=now)) is not None and step[0] is not None:
        workload: Any = step[0].context.workload
        if workload.name in messages:
            break  # retried before the end of its back-off
        messages[workload.name] = decision_of(step[0], workload.key).message
    return messages


def test_equal_requests_are_refused_by_one_cycle_until_an_event_helps() -> None:
    state = state_of(policy(maxPerHost=1), host("h1"), load("h1", count=1))
    names = [f"r{number}" for number in range(20)]
    scheduler = scheduler_of(state, *map(request, names))
    messages = decide_all(scheduler, state)
    assert set(messages) == set(names)
    assert len(set(messages.values())) == 1
    assert scheduler.refused.shared == 19
    for event in state.upsert(load("h1", count=0), now=NOW + 1):
        scheduler.on_event(event, now=NOW + 1)
    late = state.workload_of(request("late"))
    scheduler.put(late, now=NOW + 1)
    assert decide_all(scheduler, state, now=NOW + 1)["late"] == ""


def test_request_that_lost_its_host_is_not_refused_with_those_that_must_leave_room_for_it() -> None:
    hosts = [thing for name in ("h1", "h2") for thing in (host(name), load(name, count=1))]
    state = state_of(policy(maxPerHost=2, spareHosts=1), *hosts)
    loss = {"type": "HostAvailable", "status": "False", "reason": "HostingClusterLost"}
    displaced = request("displaced", status={"phase": "Pending", "conditions": [loss]})
    messages = decide_all(scheduler_of(state, request("new"), displaced), state)
    assert "would not fit elsewhere" in messages["new"]
    assert messages["displaced"] == ""


def test_requests_of_one_group_have_equal_decisions() -> None:
    """Whatever a group leaves out of a request does not change its decision."""
    fleets = [
        [host("h1"), load("h1", count=1), host("h2", available=False), load("h2", count=0)],
        [host("h1", claims={"region.open-cluster-management.io": "eu"}), load("h1", count=0)],
    ]
    specs: list[dict[str, Any]] = [
        {},
        {"size": "large"},
        {"demand": {"cpu": "5", "memory": "17Gi", "pods": 78}},
        {"availability": "SingleReplica"},
        {"constraints": {"regions": ["us"]}},
        {"constraints": {"minZones": 3}},
        {"hostedCluster": {"name": "x", "spec": {"dns": {"baseDomain": "a"}}}},
        {"nodePools": [{"name": "pool", "spec": {}}], "secrets": [{"name": "s"}]},
        {"policy": "missing"},
        {"tenant": "foreign"},
    ]
    for fleet in fleets:
        state = state_of(policy(maxPerHost=1, quota={"cpu": "20"}), *fleet)
        requests = [
            request(f"r{number}", namespace=namespace, **spec)
            for (number, spec), namespace in product(enumerate(specs), ("team-a", "team-b"))
        ]
        decided: dict[Any, tuple[Any, ...]] = {}
        for wanted in requests:
            workload = state.workload_of(wanted)
            (decision,) = place(state, [wanted], now=NOW)
            answer = (decision.host, decision.reason, decision.message, decision.rejections)
            assert decided.setdefault(group_of(workload), answer) == answer
            fits = changes_that_fit(state, workload, now=NOW)
            assert decided.setdefault((group_of(workload), content_of(workload)), fits) == fits
        assert len(decided) < 2 * len(requests)


def test_name_that_is_taken_refuses_no_request_with_another_name() -> None:
    taken = placed("shop", on="h1")
    state = state_of(policy(), host("h1"), load("h1", count=0), taken)
    again = request("again", hostedCluster={"name": "shop", "spec": {}})
    messages = decide_all(scheduler_of(state, again, request("free")), state)
    assert "belongs to request team-a/shop" in messages["again"]
    assert messages["free"] == ""


def test_missing_field_refuses_no_request_that_has_it() -> None:
    claim = {SCHEMA_CLAIM: "v1 1 hostedclusters=pullSecret"}
    state = state_of(policy(), host("h1", claims=claim), load("h1", count=0))
    complete = request("complete", hostedCluster={"spec": {"pullSecret": {"name": "p"}}})
    messages = decide_all(scheduler_of(state, request("lacks"), complete), state)
    assert "spec.hostedCluster.spec.pullSecret" in messages["lacks"]
    assert messages["complete"] == ""
