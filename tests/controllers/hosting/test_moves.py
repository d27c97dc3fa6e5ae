"""Approved moves: a hosted cluster that does not exist yet moves, one that exists keeps its place."""

import pytest

from controllers.hosting.hosting_hub import NAMESPACE, HostingHub, controlling, living
from fairway.api.hosted_request import CONFIRMED
from fairway.api.resources import HOSTED_CLUSTER_REQUESTS
from fairway.workloads.hosting.plugins.approved_move import OTHER_HOST
from fairway.workloads.hosting.requests.request_status import MOVE, NOT_MOVED
from fairway.workloads.hosting.workload import MOVE_TO

pytestmark = [pytest.mark.looptime, pytest.mark.usefixtures("no_error_logs")]


def busy_second_host() -> HostingHub:
    """Both hosts have room; h1 is preferred."""
    hub = HostingHub()
    hub.host("h1")
    hub.host("h2")
    hub.others = {"h2": 5}
    hub.policy(capacity={"maxAge": "1h"})
    for name in ("h1", "h2"):
        hub.publish(name, lasts=3600)
    return hub


def approve(hub: HostingHub, name: str, target: str) -> None:
    key = (HOSTED_CLUSTER_REQUESTS.plural, NAMESPACE, name)
    old = hub.documents[key]
    annotations = {MOVE_TO: target} if target else {}
    hub.write(key, {**old, "metadata": {**old["metadata"], "annotations": annotations}})


async def test_hosted_cluster_that_is_not_reported_yet_moves_to_the_approved_host() -> None:
    hub = busy_second_host()
    hub.ask("web")
    async with controlling(hub) as events:
        await hub.until(lambda: hub.phase("web") == "Bound")
        assert hub.place("web") == "h1"
        approve(hub, "web", "h2")
        await hub.until(lambda: hub.place("web") == "h2" and hub.phase("web") == "Bound")
        assert [host for host, _ in hub.works()] == ["h2"]
        assert ("Moved", MOVE.format(host="h1", target="h2")) in events.told


async def test_hosted_cluster_that_exists_keeps_its_place_and_names_what_to_do() -> None:
    hub = busy_second_host()
    hub.ask("web")
    async with living(hub), controlling(hub):
        await hub.until(lambda: hub.phase("web") == CONFIRMED)
        approve(hub, "web", "h2")
        await hub.until(lambda: hub.reason("web", "Moved") == "DataOnHost")
        assert hub.message("web", "Moved") == NOT_MOVED.format(host="h1", target="h2")
        assert hub.place("web") == "h1"
        assert [host for host, _ in hub.works()] == ["h1"]
        approve(hub, "web", "")
        await hub.until(lambda: hub.reason("web", "Moved") == "")


async def test_new_request_with_an_approved_host_goes_there_or_waits() -> None:
    hub = busy_second_host()
    hub.ask("web")
    approve(hub, "web", "h3")
    async with controlling(hub):
        await hub.until(lambda: hub.phase("web") == "Unschedulable")
        assert OTHER_HOST.format(target="h3") in hub.message("web")
        approve(hub, "web", "h2")
        await hub.until(lambda: hub.place("web") == "h2")
