"""Who an agent without credentials is: the pod that has its address.

The agents of NeonVM send no credentials. In the network of a cluster, a pod keeps its address when it connects to
another one, and the kubelet of its node reports the address. So the address leads to the pod, and the pod to its node.
A pod on the network of its node has the node's address, which all such pods of the node share.
"""

import ipaddress
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from aiohttp import web

from fairway.api.pod import Pod
from fairway.controllers.machines.agent_access import Agent, AgentRefused
from kubewire.api.resource import Key, key_of

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

    def selects(self, pod: Pod) -> bool:
        meta = pod.metadata
        return meta.namespace == self.namespace and self.labels.items() <= meta.labels.items()


class AgentAddresses:
    def __init__(self, selector: AgentSelector) -> None:
        self.selector = selector
        self._addresses: dict[Key, frozenset[str]] = {}
        self._nodes: dict[str, dict[Key, str]] = {}
        """The nodes of the pods that have an address: one pod, except while the address passes to another one."""

    def upsert(self, pod: Pod) -> None:
        self.delete(pod)
        if not self.selector.selects(pod):
            return
        status = pod.status
        # The address of a pod that has finished may belong to another one by now.
        if pod.spec.nodeName and not pod.finished:
            known = frozenset(
                filter(None, map(_plain, (status.podIP, *(address.ip for address in status.podIPs))))
            )
            self._addresses[key_of(pod)] = known
            for address in known:
                self._nodes.setdefault(address, {})[key_of(pod)] = pod.spec.nodeName

    def delete(self, pod: Pod) -> None:
        key = key_of(pod)
        for address in self._addresses.pop(key, ()):
            nodes = self._nodes[address]
            del nodes[key]
            if not nodes:
                del self._nodes[address]

    async def identify(self, request: web.BaseRequest) -> Agent:
        """Raises AgentRefused."""
        peer = None if request.transport is None else request.transport.get_extra_info("peername")
        return self.agent_at(_plain(str(peer[0])) if peer else "")

    def agent_at(self, address: str) -> Agent:
        """Return the agent that has an address. Raises AgentRefused."""
        nodes = set(self._nodes.get(address, {}).values())
        if not nodes:
            raise AgentRefused(403, NO_AGENT.format(address=address, selector=self.selector))
        if len(nodes) > 1:
            raise AgentRefused(403, SEVERAL_NODES.format(address=address))
        return Agent(address, nodes.pop())


def _plain(text: str) -> str:
    """Return an address in its canonical form, an IPv4 address in IPv6 as IPv4; empty for anything else."""
    try:
        address = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return ""
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(address)
