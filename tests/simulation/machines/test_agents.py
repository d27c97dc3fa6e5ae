"""Synthetic agents: they ask before a machine grows, and shrink it before they tell."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field

import msgspec
import pytest

from fairway.api.virtual_machine import APPROVED
from fairway.controllers.machines.permit_server import PermitServer, serving_permits
from fairway.controllers.serving.address import Address
from fairway.simulation.machines.agents import DEMAND, ScalingAgents, encode_permit_request, scaled
from fairway.simulation.machines.creation import MachineOptions, machines, nodes
from fairway.simulation.machines.neonvm import Step
from fairway.simulation.machines.permit_client import agent_user, permit_client
from fairway.workloads.machines.permit_protocol import (
    Permit,
    PermitError,
    PermitRequest,
    decode_reply,
    decode_request,
    encode_reply,
    encode_size_text,
)
from simulation.machines.machine_hub import MachineHub


@dataclass
class Scheduler:
    """Permits at most so many compute units."""

    most: int = 100
    asked: list[PermitRequest] = field(default_factory=list)
    heard: asyncio.Event = field(default_factory=asyncio.Event)

    async def ask(self, request: PermitRequest) -> Permit:
        self.asked.append(request)
        self.heard.set()
        limit = scaled(self.most)
        return Permit(
            resources={name: min(amount, limit[name]) for name, amount in request.resources.items()}
        )


@asynccontextmanager
async def agents(hub: MachineHub, scheduler: Scheduler) -> AsyncIterator[None]:
    async with ScalingAgents(hub.client, scheduler.ask).running():
        yield


async def test_machine_grows_to_what_is_permitted(hub: MachineHub) -> None:
    scheduler = Scheduler(most=6)
    async with agents(hub, scheduler):
        await hub.run_vm("grow", "n1")
        await hub.annotate("grow", **{DEMAND: "2"})
        await hub.until(lambda: hub.vm("grow").status.memorySize == "6Gi")
    assert hub.vm("grow").status.cpus == "1500m"
    assert scheduler.asked[-1].resources == scaled(8)


async def test_agent_asks_again_when_its_permit_grew(hub: MachineHub) -> None:
    scheduler = Scheduler(most=4)
    async with agents(hub, scheduler):
        await hub.run_vm("wait", "n1")
        await hub.annotate("wait", **{DEMAND: "2"})
        while not any(request.resources == scaled(8) for request in scheduler.asked):
            scheduler.heard.clear()
            await scheduler.heard.wait()
        scheduler.most = 8
        await hub.annotate("wait", **{APPROVED: encode_size_text(scaled(8))})
        await hub.until(lambda: hub.vm("wait").status.memorySize == "8Gi")


async def test_agent_shrinks_the_machine_before_it_reports(hub: MachineHub) -> None:
    scheduler = Scheduler()
    async with agents(hub, scheduler):
        await hub.run_vm("less", "n1")
        await hub.annotate("less", **{DEMAND: "0.5"})
        await hub.until(lambda: hub.vm("less").status.memorySize == "2Gi")
        while not any(request.resources == scaled(2) for request in scheduler.asked):
            scheduler.heard.clear()
            await scheduler.heard.wait()


async def test_agent_leaves_a_migrating_machine_alone(hub: MachineHub) -> None:
    scheduler = Scheduler()
    hub.neonvm.hold(Step.COMPLETE)
    await hub.run_vm("busy", "n1")
    await hub.migrate("busy-1", "busy")
    await hub.until(lambda: hub.migration("busy-1").status.info.status == "setup")
    target = hub.migration("busy-1").status.targetPodName
    await hub.bind(target, "n2")
    await hub.until(lambda: hub.vm("busy").status.phase == "Migrating")
    await hub.annotate("busy", **{DEMAND: "2"})
    async with agents(hub, scheduler):
        assert all(request.name != hub.vm("busy").status.podName for request in scheduler.asked)
        hub.neonvm.release()
        await hub.until(lambda: hub.vm("busy").status.memorySize == "8Gi")
    assert {request.name for request in scheduler.asked if request.name.startswith("busy")} == {target}


def test_request_is_encoded_as_the_server_decodes_it() -> None:
    request = PermitRequest(
        namespace="ns", name="a", unit=scaled(1), resources=scaled(7), last_permit=scaled(3), load=0.5
    )
    assert decode_request(msgspec.json.encode(encode_permit_request(request))) == request


@pytest.mark.parametrize(
    "permit",
    [
        Permit(resources=scaled(7)),
        Permit(resources=scaled(6), migrate=True, migrations=("a-1", "b-2")),
    ],
)
def test_reply_is_decoded_as_the_server_encodes_it(permit: Permit) -> None:
    assert decode_reply(encode_reply(permit)) == permit


@pytest.mark.parametrize("body", [b"", b"{}", b'{"permit": {"vCPUs": "x", "mem": 1}}'])
def test_unreadable_reply_is_refused(body: bytes) -> None:
    with pytest.raises(PermitError):
        decode_reply(body)


async def test_agent_reports_why_its_request_was_refused(hub: MachineHub) -> None:
    async def refuse(request: PermitRequest, _node: str) -> Permit:
        raise PermitError(404, f"no pod {request.name}")

    server = PermitServer(
        address=Address(host="127.0.0.1"),
        client=hub.client,
        cluster_wide=frozenset({agent_user("default")}),
    )
    request = PermitRequest(namespace="ns", name="a", unit=scaled(1), resources=scaled(7))
    async with AsyncExitStack() as serving:
        address = await serving.enter_async_context(serving_permits(server, refuse))
        async with permit_client(hub.client, address, namespace="default") as permits:
            with pytest.raises(PermitError, match="no pod a"):
                await permits.ask(request)
            await serving.aclose()
            with pytest.raises(PermitError, match="is unreachable"):
                await permits.ask(request)


@pytest.mark.parametrize("count", [0, 1, 7])
def test_same_seed_creates_the_same_machines(count: int) -> None:
    options = MachineOptions(nodes=3, machines=count, seed=5)
    created = list(machines(options))
    assert created == list(machines(options))
    assert [permit["metadata"]["name"] for permit in created] == [f"vm-{at}" for at in range(1, count + 1)]


def test_four_machines_for_each_node_leave_room_to_grow() -> None:
    options = MachineOptions(nodes=5)
    units = [machine["spec"]["guest"]["memorySlots"]["use"] for machine in machines(options)]
    assert len(units) == 20
    assert 0.5 < sum(units) / (5 * 40) < 0.95


def test_synthetic_nodes_are_ready_and_spread_over_zones() -> None:
    created = list(nodes(4, now="2026-01-01T00:00:00Z"))
    assert [body["metadata"]["name"] for body, _ in created] == ["node-1", "node-2", "node-3", "node-4"]
    assert len({body["metadata"]["labels"]["topology.kubernetes.io/zone"] for body, _ in created}) == 3
    assert all(status["conditions"][0]["status"] == "True" for _, status in created)
