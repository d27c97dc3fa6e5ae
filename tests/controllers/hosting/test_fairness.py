"""Tenants take turns: a hub that takes 10 ms for each call, and a tenant that keeps it busy for minutes."""

import asyncio
from typing import Any

import pytest

from controllers.hosting.hosting_hub import HostingHub, controlling
from fairway.api.hosted_request import BOUND, RELEASING, UNSCHEDULABLE

pytestmark = [pytest.mark.looptime, pytest.mark.usefixtures("no_error_logs")]

CALL_SECONDS = 0.01
SECONDS = 3.0
"""Within which a tenant with two requests is served. All calls for the busy tenant take much longer."""
BUSY = 300


class BusyHub(HostingHub):
    async def _send(self, call: Any) -> Any:
        await asyncio.sleep(CALL_SECONDS)
        return await super()._send(call)


def hub_with(*, room: int) -> BusyHub:
    """A hub on which the busy tenant has a host of its own, with this room, and the other one, too."""
    hub = BusyHub()
    for tenant in ("busy", "other"):
        hub.host(f"of-{tenant}", claims={"pool.example.com": tenant})
        hub.publish(f"of-{tenant}", lasts=3600)
    hub.policy(maxPerHost=room)
    return hub


def ask(hub: HostingHub, name: str, tenant: str, **spec: Any) -> None:
    pool = {"key": "pool.example.com", "operator": "In", "values": [tenant]}
    constraints = {"selector": {"claimSelector": {"matchExpressions": [pool]}}}
    hub.ask(name, namespace=tenant, constraints=constraints, **spec)


def count(hub: HostingHub, tenant: str, phase: str) -> int:
    plural = "hostedclusterrequests"
    documents = [document for key, document in hub.documents.items() if key[:2] == (plural, tenant)]
    return sum(document["status"].get("phase") == phase for document in documents)


async def serve_other(hub: HostingHub, *, suffix: str = "") -> None:
    """Wait until the other tenant has a place for one request, and a reason for another one."""
    ask(hub, f"fits{suffix}", "other")
    ask(hub, f"too-large{suffix}", "other", demand={"cpu": "90000"})
    wanted = {f"fits{suffix}": BOUND, f"too-large{suffix}": UNSCHEDULABLE}
    await hub.until(
        lambda: all(
            hub.request(name, namespace="other").status.phase == phase for name, phase in wanted.items()
        ),
        seconds=SECONDS,
    )


async def test_tenant_is_served_while_requests_of_another_one_are_refused_and_changed() -> None:
    hub = hub_with(room=5)
    async with controlling(hub):
        for number in range(BUSY):
            ask(hub, f"r{number}", "busy")
        await hub.until(lambda: count(hub, "busy", UNSCHEDULABLE) > 20)
        await serve_other(hub)
        assert count(hub, "busy", UNSCHEDULABLE) < BUSY // 2
        for number in range(BUSY):
            hub.edit(f"r{number}", namespace="busy", size="medium")
        await serve_other(hub, suffix="-2")
        await hub.until(lambda: count(hub, "busy", UNSCHEDULABLE) == BUSY - 5)
        assert count(hub, "busy", BOUND) == 5


async def test_tenant_is_served_while_requests_of_another_one_are_bound_and_deleted() -> None:
    hub = hub_with(room=2 * BUSY)
    async with controlling(hub):
        for number in range(BUSY):
            ask(hub, f"r{number}", "busy")
        await hub.until(lambda: count(hub, "busy", BOUND) > 5)
        await serve_other(hub)
        assert count(hub, "busy", BOUND) < BUSY // 2
        await hub.until(lambda: count(hub, "busy", BOUND) == BUSY)
        for number in range(BUSY):
            hub.withdraw(f"r{number}", namespace="busy")
        await hub.until(lambda: count(hub, "busy", RELEASING) > 5)
        for name in ("fits", "too-large"):
            hub.withdraw(name, namespace="other")
        await hub.until(lambda: not [key for key in hub.documents if key[1] == "other"], seconds=SECONDS)
        await serve_other(hub)
        assert count(hub, "busy", BOUND) > 0
