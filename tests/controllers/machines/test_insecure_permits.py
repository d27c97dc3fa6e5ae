"""Permits over plain HTTP: the address of an agent leads to its pod, and the pod to its node."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from controllers.machines.agents import permit_request
from controllers.machines.machine_rig import NAMESPACE, MachineRig, machine_rig
from controllers.serving.asking import LOOPBACK, ask, connect
from fairway.api.pod import Pod
from fairway.api.resources import PODS
from fairway.controllers.machines.agent_access import AgentRefused
from fairway.controllers.machines.agent_addresses import AgentAddresses, AgentSelector
from fairway.controllers.machines.permit_server import serving_insecure_permits
from fairway.controllers.serving import Address
from fairway.workloads.machines.permit_protocol import Permit, PermitRequest
from kubewire.api.resource import key_of
from kubewire.client import Index, Patch

SELECTOR = AgentSelector.parse("kube-system/name=autoscaler-agent")


def agent(name: str, node: str, *addresses: str, **changes: Any) -> Pod:
    status = {
        "phase": changes.pop("phase", "Running"),
        "podIP": addresses[0],
        "podIPs": [{"ip": address} for address in addresses],
    }
    meta = {"name": name, "namespace": "kube-system", "labels": {"name": "autoscaler-agent"}, **changes}
    return msgspec.convert({"metadata": meta, "spec": {"nodeName": node}, "status": status}, Pod)


def known(*pods: Pod) -> AgentAddresses:
    return AgentAddresses(SELECTOR, Index(SELECTOR.addresses_of, {key_of(pod): pod for pod in pods}))


def refusal(agents: AgentAddresses, address: str) -> str:
    with pytest.raises(AgentRefused) as refused:
        agents.agent_at(address)
    assert refused.value.status == 403
    return str(refused.value)


def test_each_address_of_an_agent_leads_to_its_node() -> None:
    agents = known(agent("a", "n1", "10.0.0.5", "fd00::5"), agent("b", "n2", "10.0.0.6"))
    assert [agents.agent_at(address).node for address in ("10.0.0.5", "fd00::5", "10.0.0.6")] == [
        "n1",
        "n1",
        "n2",
    ]


@pytest.mark.parametrize(
    "pod",
    [
        agent("a", "n1", "10.0.0.5", phase="Succeeded"),
        agent("a", "n1", "10.0.0.5", namespace="team"),
        agent("a", "n1", "10.0.0.5", labels={"name": "web"}),
        agent("a", "", "10.0.0.5"),
    ],
)
def test_address_of_another_pod_is_refused(pod: Pod) -> None:
    assert "10.0.0.5 is not the address of a running pod of the agents" in refusal(known(pod), "10.0.0.5")


def test_address_of_agents_on_two_nodes_is_refused() -> None:
    agents = known(agent("a", "n1", "10.0.0.5"), agent("b", "n2", "10.0.0.5"))
    assert "on several nodes have the address 10.0.0.5" in refusal(agents, "10.0.0.5")


@pytest.mark.parametrize("text", ["name=agent", "kube-system", "kube-system/name", "/name=agent", "a/b=c,"])
def test_selector_that_selects_no_label_in_a_namespace_is_an_error(text: str) -> None:
    with pytest.raises(ValueError, match="write NAMESPACE/LABEL=VALUE"):
        AgentSelector.parse(text)


@pytest.mark.parametrize(
    "text", [":10299", "0.0.0.0:10299", "[::]:10299", "8.8.8.8:10299", "localhost:10299"]
)
def test_address_that_others_than_pods_may_reach_is_an_error(text: str) -> None:
    address = Address.parse(text)
    assert address is not None
    with pytest.raises(ValueError, match="write the address of the pod"):
        address.check_internal()


@pytest.mark.parametrize("text", ["10.0.0.5:1", "100.64.0.9:1", "127.0.0.1:1", "[fd00::1]:1", "[::1]:1"])
def test_address_of_a_pod_or_of_this_machine_is_allowed(text: str) -> None:
    address = Address.parse(text)
    assert address is not None
    address.check_internal()


async def test_agent_is_served_beside_connections_that_send_nothing() -> None:
    async def grant(request: PermitRequest, _node: str) -> Permit:
        return Permit(resources=request.resources)

    agents = known(agent("a", "n1", "127.0.0.1"))
    async with serving_insecure_permits(LOOPBACK, agents, grant) as address:
        held = [await connect(address) for _ in range(300)]
        for _ in range(10):
            assert (await ask(address, "POST", "/", body=permit_request("vm", 3))).code == 200
        for _, writer in held:
            writer.transport.abort()


@asynccontextmanager
async def served(rig: MachineRig) -> AsyncIterator[Address]:
    assert rig.controller is not None
    agents = rig.controller.follow_agents(AgentSelector.parse(f"{NAMESPACE}/name=autoscaler-agent"))
    async with serving_insecure_permits(LOOPBACK, agents, rig.controller.ask) as address:
        yield address


@pytest.mark.embedded
async def test_agent_without_credentials_gets_permits_for_machines_on_its_own_node(machine_hub: Path) -> None:
    async with machine_rig(machine_hub) as rig:
        for node in ("n1", "n2"):
            await rig.add_node(node, 10)
            await rig.add_vm(f"vm-{node}", 4, node)
        async with rig.controlling(), served(rig) as address:

            async def post(node: str) -> tuple[int, str]:
                pod = rig.vm(f"vm-{node}").status.podName
                body = permit_request(pod, 5, namespace=NAMESPACE)
                while (answer := await ask(address, "POST", "/", body=body)).code == 503:
                    await asyncio.sleep(0.01)
                return answer.code, answer.text

            code, text = await post("n1")
            assert (code, "is not the address of a running pod of the agents" in text) == (403, True)
            await rig.add_pod("agent", 0, node="n1")
            labels = {"metadata": {"labels": {"name": "autoscaler-agent"}}}
            await rig.client.patch(PODS, "agent", labels, kind=Patch.MERGE, namespace=NAMESPACE)
            status = {"status": {"podIP": "127.0.0.1", "podIPs": [{"ip": "127.0.0.1"}]}}
            await rig.client.patch(
                PODS, "agent", status, kind=Patch.STRATEGIC, namespace=NAMESPACE, subresource="status"
            )
            async with asyncio.timeout(20):
                while (answer := await post("n1"))[0] == 403:
                    await asyncio.sleep(0.01)
            assert answer[0] == 200
            assert rig.approved("vm-n1") == 5
            assert (await post("n2"))[0] == 403
            assert rig.approved("vm-n2") == 0
