"""What the hub shows and what is reserved are one collection for every rule, in the controller and in what-ifs."""

from fairway.api.hosted_request import HostedClusterRequest
from fairway.engine.workload import HostKey
from fairway.workloads.hosting import place
from fairway.workloads.hosting.workload import key_of
from workloads.hosting.hosts import NOW, host, load, placed, policy, request, state_of

HOST = HostKey("h1", "uid-h1")


def named(name: str, *, hosted: str = "shop", namespace: str = "team-a") -> HostedClusterRequest:
    return request(name, namespace=namespace, hostedCluster={"name": hosted, "spec": {}})


def test_reserved_place_counts_for_names_tenants_and_room_until_it_is_given_back() -> None:
    state = state_of(policy(maxPerHost=2, tenantAntiAffinity="Required"), host("h1"), load("h1", count=0))
    first = named("first")
    state.reserve(state.workload_of(first), HOST)
    same_tenant, other_tenant = named("second", hosted="bank"), named("third", namespace="team-b", hosted="x")
    refused, accepted = place(state, [same_tenant, other_tenant], now=NOW)
    assert (refused.host, refused.rejections[0].plugin) == (None, "TenantAntiAffinity")
    assert accepted.host == HOST
    state.unreserve(key_of(first))
    assert place(state, [same_tenant], now=NOW)[0].host == HOST
    assert list(state.on(HOST)) == []


def test_observed_place_replaces_the_reserved_one_and_keeps_its_name() -> None:
    state = state_of(policy(), host("h1"), load("h1", count=0))
    asked = named("first")
    state.reserve(state.workload_of(asked), HOST)
    state.upsert(placed("first", "h1", hostedCluster={"name": "shop", "spec": {}}), now=NOW)
    assert [resident.key for resident in state.on(HOST)] == [key_of(asked)]
    state.unreserve(key_of(asked))  # the commit ends after the watch has shown its result
    (refused,) = place(state, [named("second")], now=NOW)
    assert refused.rejections[0].reason.endswith("belongs to request team-a/first")


def test_deleted_request_gives_back_a_place_that_the_hub_never_showed() -> None:
    state = state_of(policy(maxPerHost=1), host("h1"), load("h1", count=0))
    asked = named("first")
    state.reserve(state.workload_of(asked), HOST)
    assert place(state, [named("second", hosted="bank")], now=NOW)[0].host is None
    assert state.delete(asked, now=NOW), "requests that wait for room are woken"
    assert place(state, [named("second", hosted="bank")], now=NOW)[0].host == HOST


def test_place_whose_commit_ended_unseen_expires() -> None:
    state = state_of(policy(maxPerHost=1), host("h1"), load("h1", count=0))
    asked = named("first")
    state.reserve(state.workload_of(asked), HOST)
    assert state.expire(key_of(asked), now=NOW), "requests that wait for room are woken"
    assert (list(state.on(HOST)), state.residents.reserved()) == ([], ())


def test_second_decision_about_a_request_ends_the_first() -> None:
    state = state_of(
        policy(), *(thing for name in ("h1", "h2") for thing in (host(name), load(name, count=0)))
    )
    asked = state.workload_of(named("first"))
    other = HostKey("h2", "uid-h2")
    state.reserve(asked, HOST)
    state.reserve(asked, other)
    assert (list(state.on(HOST)), [resident.host for resident in state.on(other)]) == ([], [other])
    assert state.account(HOST).used.get("hostedclusters", 0) == 0


def test_what_if_about_reserved_places_leaves_the_state_alone() -> None:
    state = state_of(policy(), host("h1"), load("h1", count=0), placed("first", "h1"))
    trial = state.fork()
    trial.reserve(trial.workload_of(named("second", hosted="bank")), HOST)
    trial.vacate(next(iter(state.on(HOST))).key)
    assert [resident.key.name for resident in state.on(HOST)] == ["first"]
    assert [resident.key.name for resident in trial.on(HOST)] == ["second"]
    state.reserve(state.workload_of(named("third", hosted="bar")), HOST)
    assert [resident.key.name for resident in trial.on(HOST)] == ["second"]
