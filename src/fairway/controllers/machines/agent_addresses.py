"""Who an agent without credentials is: the pod that has its address.

The agents of NeonVM send no credentials. In the network of a cluster, a pod keeps its address when it connects to
another one, and the kubelet of its node reports the address. So the address leads to the pod, and the pod to its node.
A pod on the network of its node has the node's address, which all such pods of the node share.
"""

import ipaddress
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from aiohttp import web

from fairway.api.pod import Pod
from fairway.controllers.machines.agent_access import Agent, AgentRefused
from kubewire.client import Index

NO_AGENT: Final = "{address} is not the address of a running pod of the agents ({selector})"
SEVERAL_NODES: Final = "pods of the agents on several nodes have the address {address}"
WRONG_SELECTOR: Final = (
    "{given!r} does not select pods: write NAMESPACE/LABEL=VALUE, with commas between labels"
)

_LABEL: Final = re.compile(r"[A-Za-z0-9]([-./\w]*[A-Za-z0-9])?")


@dataclass(frozen=True, slots=True)
class AgentSelector:
    namespace: str
    labels: Mapping[str, str]

    @classmethod
    def parse(cls, text: str) -> "AgentSelector":
        """Raises ValueError."""
        namespace, _, labels = text.partition("/")
        pairs = [label.partition("=") for label in labels.split(",")]
        if not namespace or not all(_LABEL.fullmatch(name) and value for name, _, value in pairs):
            raise ValueError(WRONG_SELECTOR.format(given=text))
        return cls(namespace, {name: value for name, _, value in pairs})

    def __str__(self) -> str:
        return f"{self.namespace}/" + ",".join(f"{name}={value}" for name, value in self.labels.items())

    def addresses_of(self, pod: Pod) -> Sequence[str]:
        """Return the addresses of a pod, if it is an agent that runs."""
        meta, status = pod.metadata, pod.status
        if meta.namespace != self.namespace or not self.labels.items() <= meta.labels.items():
            return ()
        # The address of a pod that has finished may belong to another one by now.
        if not pod.spec.nodeName or pod.finished:
            return ()
        addresses = (status.podIP, *(address.ip for address in status.podIPs))
        return [plain for address in addresses if (plain := _plain(address))]


class AgentAddresses:
    """``pods`` has the pods by ``AgentSelector.addresses_of``."""

    def __init__(self, selector: AgentSelector, pods: Index[Pod]) -> None:
        self.selector, self._pods = selector, pods

    async def identify(self, request: web.BaseRequest) -> Agent:
        """Raises AgentRefused."""
        peer = None if request.transport is None else request.transport.get_extra_info("peername")
        return self.agent_at(_plain(str(peer[0])) if peer else "")

    def agent_at(self, address: str) -> Agent:
        """Return the agent that has an address. Raises AgentRefused."""
        # One pod, except while the address passes to another one.
        nodes = {pod.spec.nodeName for pod in self._pods.find(address)}
        if not nodes:
            raise AgentRefused(403, NO_AGENT.format(address=address, selector=self.selector))
        if len(nodes) > 1:
            raise AgentRefused(403, SEVERAL_NODES.format(address=address))
        return Agent(nodes.pop())


def _plain(text: str) -> str:
    """Return an address in its canonical form, an IPv4 address in IPv6 as IPv4; empty for anything else."""
    try:
        address = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return ""
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(address)
