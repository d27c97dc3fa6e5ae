"""A burst of requests between two publications of load, by this controller and by plain OCM semantics."""

import math

import pytest

from controllers.hosting.hosting_hub import HostingHub, controlling, living
from fairway.api.hosted_request import CONFIRMED

pytestmark = [pytest.mark.looptime, pytest.mark.usefixtures("no_error_logs")]

HOSTS = [f"h{number:02}" for number in range(20)]
REQUESTS = 500


def crowded() -> HostingHub:
    """Twenty hosts of different load."""
    hub = HostingHub()
    for number, name in enumerate(HOSTS):
        hub.host(name)
        hub.others[name] = number % 7
    hub.policy(maxPerHost=40)
    return hub


def optimum(loads: list[int], extra: int) -> int:
    """The lowest highest load after ``extra`` more are added: fill the emptiest first."""
    loads = sorted(loads)
    for _ in range(extra):
        loads[0] += 1
        loads.sort()
    return loads[-1]


async def test_burst_between_two_publications_is_spread_and_plain_ocm_herds() -> None:
    hub = crowded()
    best = optimum([hub.load(name) for name in HOSTS], REQUESTS)
    async with living(hub), controlling(hub):
        for number in range(REQUESTS):
            hub.ask(f"r{number:03}", namespace=f"team-{number % 50}")
        keys = [
            ("hostedclusterrequests", f"team-{number % 50}", f"r{number:03}") for number in range(REQUESTS)
        ]
        await hub.until(lambda: all(hub.documents[key]["status"].get("phase") == CONFIRMED for key in keys))
        loads = [hub.load(name) for name in HOSTS]
        assert sum(len(hosted) for hosted in hub.hosted.values()) == REQUESTS
        assert max(loads) <= min(40, math.ceil(1.05 * best))
        assert max(loads) - min(loads) <= math.ceil(0.05 * best)
    herd = crowded()
    # Plain OCM: the lowest published count wins, and nothing is reserved until the next publication.
    chosen = min(HOSTS, key=lambda name: (herd.load(name), name))
    herd.others[chosen] += REQUESTS
    assert herd.load(chosen) > 10 * best
