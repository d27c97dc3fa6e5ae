"""What the loss of hosts would strand."""

from fairway.engine.workload import HostKey
from fairway.workloads.hosting import lose
from workloads.hosting.hosts import NOW, host, load, placed, policy, state_of


def key(name: str) -> HostKey:
    return HostKey(name, f"uid-{name}")


def test_loss_counts_requests_and_hosted_clusters_without_one() -> None:
    """Each host takes 6. h1 has 2 requests and 3 others, h2 and h3 have 2 others each."""
    requests = [placed(name, "h1", phase="Confirmed", counted=True) for name in ("a", "b")]
    hosts = [thing for name in ("h1", "h2", "h3") for thing in (host(name), load(name, count=2))]
    state = state_of(policy(maxPerHost=6), *hosts, *requests)
    state.upsert(load("h1", count=5), now=NOW)
    single = lose(state, requests, [key("h1")], now=NOW)
    assert (single.hosted, single.others, single.stranded) == (5, 3, 0)
    assert {move.target.name for move in single.plan.moves} <= {"h2", "h3"}
    both = lose(state, requests, [key("h1"), key("h2")], now=NOW)
    assert (both.hosted, both.stranded, both.stranded_others) == (7, 3, 3), "h3 has room for 4"
    assert lose(state, requests, [key(name) for name in ("h1", "h2", "h3")], now=NOW).stranded == 9
    assert state.free(key("h1"))["hostedclusters"] == 1000, "a what-if changes nothing"


def test_lost_host_without_load_is_named() -> None:
    state = state_of(policy(), host("h1"), host("h2"), load("h2", count=0))
    assert lose(state, [], [key("h1")], now=NOW).unknown == ("h1",)
