"""The controller keeps requests of a tenant within its quota, and wakes them when a place is given back."""

from typing import Any

import pytest

from controllers.hosting.hosting_hub import HostingHub, controlling, living
from fairway.api.hosted_request import CONFIRMED
from fairway.workloads.hosting.requests.conditions import DEMAND_TOO_LARGE, MISCONFIGURED, QUOTA_EXCEEDED

pytestmark = [pytest.mark.looptime, pytest.mark.usefixtures("no_error_logs")]


def hub_with(**spec: Any) -> HostingHub:
    hub = HostingHub()
    hub.host("h1")
    hub.policy(**spec)
    return hub


async def test_request_over_the_quota_is_placed_when_the_tenant_gives_a_place_back() -> None:
    hub = hub_with(quota={"hostedClusters": 1})
    async with living(hub), controlling(hub):
        hub.ask("first")
        await hub.until(lambda: hub.phase("first") == CONFIRMED)
        hub.ask("second")
        hub.ask("other", namespace="team-b")
        await hub.until(lambda: hub.reason("second") == QUOTA_EXCEEDED)
        await hub.until(lambda: hub.request("other", namespace="team-b").status.phase == CONFIRMED)
        assert hub.message("second").endswith("hosted clusters: 1 of 1 used, and the request needs 1")
        hub.withdraw("other", namespace="team-b")
        await hub.until(lambda: ("hostedclusterrequests", "team-b", "other") not in hub.documents)
        assert hub.reason("second") == QUOTA_EXCEEDED
        hub.withdraw("first")
        await hub.until(lambda: hub.phase("second") == CONFIRMED)


async def test_raised_quota_wakes_what_waits_and_a_lowered_one_keeps_what_is_placed() -> None:
    hub = hub_with(quota={"hostedClusters": 1})
    async with living(hub), controlling(hub):
        hub.ask("first")
        await hub.until(lambda: hub.phase("first") == CONFIRMED)
        hub.ask("second")
        await hub.until(lambda: hub.reason("second") == QUOTA_EXCEEDED)
        hub.policy(quota={"hostedClusters": 2})
        await hub.until(lambda: hub.phase("second") == CONFIRMED)
        hub.policy(quota={"hostedClusters": 0})
        hub.ask("third")
        await hub.until(lambda: hub.reason("third") == QUOTA_EXCEEDED)
        assert (hub.phase("first"), hub.phase("second")) == (CONFIRMED, CONFIRMED)


async def test_foreign_tenant_is_refused_until_the_policy_grants_it() -> None:
    hub = hub_with()
    async with living(hub), controlling(hub):
        hub.ask("web", tenant="bank")
        await hub.until(lambda: hub.reason("web") == MISCONFIGURED)
        assert "remove the field, and the tenant is team-a" in hub.message("web")
        hub.policy(tenants=[{"name": "bank", "namespaces": ["team-*"]}])
        await hub.until(lambda: hub.phase("web") == CONFIRMED)


async def test_demand_beyond_the_largest_host_is_refused_until_a_larger_one_joins() -> None:
    hub = hub_with(maxPerHost=1)
    async with living(hub), controlling(hub):
        hub.ask("web", size="large")
        await hub.until(lambda: hub.reason("web") == DEMAND_TOO_LARGE)
        hub.policy(maxPerHost=50)
        await hub.until(lambda: hub.phase("web") == CONFIRMED)
