"""A node without containers: pods of a real hub are processes with the command line of their container.

A process gets command, arguments and environment of its pod, and a token of its service account. The pod is ready when
the probe of its process succeeds. The image is a virtual environment, and ports are free ports of the loopback
interface, given as further arguments. Pods of other schedulers, and of other nodes, are left to those.
"""

import asyncio
import os
import ssl
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import ExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
from aiohttp import web

from kubewire.client import Client, Connection, KubeError, NotFound, Patch
from rigs.certificates import Authority
from rigs.kubernetes import write_kubeconfig
from rigs.processes import LOOPBACK, POLL, Port, Process

NODE = "this"
PORTS = {
    "health": "--health-address",
    "metrics": "--metrics-address",
    "debug": "--debug-address",
    "permits": "--insecure-permit-address",
}
SCHEDULER = "default-scheduler"
NOW_READY = [{"type": kind, "status": "True"} for kind in ("Initialized", "ContainersReady", "Ready")]
NOT_READY = [{"type": "Initialized", "status": "True"}, {"type": "Ready", "status": "False"}]

Pod = Mapping[str, Any]


@dataclass(slots=True, kw_only=True)
class Running:
    process: Process
    ports: Mapping[str, Port]
    ready: bool = False
    restarts: int = 0

    def url(self, port: str, path: str) -> str:
        return f"http://{LOOPBACK}:{self.ports[port]}{path}"


@dataclass(slots=True, kw_only=True)
class Kubelet:
    """Created by ``kubelet()``. Pods for which ``elsewhere`` is true are only reported ready; they run elsewhere."""

    client: Client
    folder: Path
    authority: Path
    elsewhere: Callable[[Pod], bool]
    programs: Path
    """The image: the folder of the environment's programs."""
    pods: dict[str, Running] = field(default_factory=dict)
    """By name."""
    strangers: set[str] = field(default_factory=set)
    """Pods that run elsewhere."""

    async def run(self) -> None:
        patience = aiohttp.ClientTimeout(total=60)
        async with aiohttp.ClientSession(trust_env=False, timeout=patience) as session:
            while True:
                with suppress(KubeError):  # one that is refused now is tried again
                    for pod in await self._assigned():
                        await self._look(pod, session)
                await asyncio.sleep(POLL)

    async def stop(self) -> None:
        await asyncio.gather(*(self._end(name) for name in tuple(self.pods)))

    async def runs(self, count: int) -> None:
        """Wait until there are so many pods: a process ends after Kubernetes deleted its pod."""
        while len(self.pods) != count:
            await asyncio.sleep(POLL)

    def log(self, name: str) -> str:
        return self.pods[name].process.log.read_text(encoding="utf-8")

    async def _assigned(self) -> list[Pod]:
        response = await self.client.request("GET", "/api/v1/pods")
        pods: list[Pod] = msgspec.json.decode(response.body)["items"]
        for pod in pods:
            if "nodeName" not in pod["spec"] and pod["spec"]["schedulerName"] == SCHEDULER:
                target = {"apiVersion": "v1", "kind": "Node", "name": NODE}
                body = {"metadata": {"name": pod["metadata"]["name"]}, "target": target}
                await self.client.request("POST", f"{_path(pod)}/binding", body=body)
        return [pod for pod in pods if pod["spec"].get("nodeName") == NODE]

    async def _look(self, pod: Pod, session: aiohttp.ClientSession) -> None:
        name = pod["metadata"]["name"]
        if "deletionTimestamp" in pod["metadata"]:
            await self._end(name)
            self.strangers.discard(name)
            with suppress(NotFound):
                await self.client.request("DELETE", _path(pod), body={"gracePeriodSeconds": 0})
        elif self.elsewhere(pod):
            if name not in self.strangers:
                self.strangers.add(name)
                await self._report(pod, ready=True)
        elif name not in self.pods:
            self.pods[name] = await self._start(pod)
        else:
            await self._probe(pod, self.pods[name], session)

    async def _start(self, pod: Pod) -> Running:
        name, namespace = pod["metadata"]["name"], pod["metadata"]["namespace"]
        (container,) = pod["spec"]["containers"]
        account = f"/api/v1/namespaces/{namespace}/serviceaccounts/{pod['spec']['serviceAccountName']}"
        answer = await self.client.request("POST", f"{account}/token", body={"spec": {}})
        kubeconfig = self.folder / f"{name}.kubeconfig"
        write_kubeconfig(
            kubeconfig,
            url=self.client.connection.server,
            ca_file=self.authority,
            user=name,
            token=msgspec.json.decode(answer.body)["status"]["token"],
        )
        ports = {port["name"]: Port() for port in container["ports"]}
        environment = {variable["name"]: _value(variable, pod) for variable in container["env"]}
        command = [_expanded(word, environment) for word in (*container["command"], *container["args"])]
        command += [f"{PORTS[port_name]}={LOOPBACK}:{port}" for port_name, port in ports.items()]
        process = Process(
            [self.programs / command[0], *command[1:]],
            log=self.folder / f"{name}.log",
            env={
                "PATH": os.environ["PATH"],
                "HOME": str(self.folder),
                "KUBECONFIG": str(kubeconfig),
                **environment,
            },
        )
        return Running(process=process, ports=ports)

    async def _probe(self, pod: Pod, running: Running, session: aiohttp.ClientSession) -> None:
        if not running.process.alive:
            running.restarts += 1
            await running.process.restart()
        (container,) = pod["spec"]["containers"]
        ready = await _answers(session, running, container["readinessProbe"]["httpGet"])
        if ready != running.ready:
            if ready:
                assert await _answers(session, running, container["livenessProbe"]["httpGet"])
            await self._report(pod, ready=ready)
            running.ready = ready

    async def _report(self, pod: Pod, *, ready: bool) -> None:
        status = {"phase": "Running", "conditions": NOW_READY if ready else NOT_READY}
        await self.client.request(
            "PATCH", f"{_path(pod)}/status", body={"status": status}, content_type=Patch.MERGE.value
        )

    async def _end(self, name: str) -> None:
        running = self.pods.pop(name, None)
        if running is not None:
            with ExitStack() as stack:
                for port in running.ports.values():
                    stack.enter_context(port)
                await running.process.stop()

    async def _logs(self, request: web.Request) -> web.Response:
        return web.Response(text=self.log(request.match_info["pod"]))


@asynccontextmanager
async def kubelet(
    connection: Connection,
    *,
    folder: Path,
    authority: Authority,
    elsewhere: Callable[[Pod], bool],
    programs: Path,
) -> AsyncIterator[Kubelet]:
    """A node of the hub, with the address from which ``kubectl logs`` reads."""
    folder.mkdir(parents=True, exist_ok=True)
    async with Client(connection) as client:
        made = Kubelet(
            client=client,
            folder=folder,
            authority=authority.pair.certificate,
            elsewhere=elsewhere,
            programs=programs,
        )
        app = web.Application()
        app.router.add_get("/containerLogs/{namespace}/{pod}/{container}", made._logs)
        runner = web.AppRunner(app)
        await runner.setup()
        pair = authority.issue("kubelet", hosts=(LOOPBACK,))
        tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        tls.load_cert_chain(pair.certificate, pair.key)
        site = web.TCPSite(runner, LOOPBACK, 0, ssl_context=tls)
        await site.start()
        status = {
            "addresses": [{"type": "InternalIP", "address": LOOPBACK}],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": runner.addresses[0][1]}},
        }
        await client.request("POST", "/api/v1/nodes", body={"metadata": {"name": NODE}})
        await client.request(
            "PATCH", f"/api/v1/nodes/{NODE}/status", body={"status": status}, content_type=Patch.MERGE.value
        )
        try:
            async with asyncio.TaskGroup() as tasks:  # which ends the block if the node fails
                work = tasks.create_task(made.run())
                yield made
                work.cancel()
        finally:
            await made.stop()
            await runner.cleanup()


def _path(pod: Pod) -> str:
    return f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods/{pod['metadata']['name']}"


def _value(variable: Mapping[str, Any], pod: Pod) -> str:
    if "value" in variable:
        return str(variable["value"])
    value: Any = {**pod, "status": {"podIP": LOOPBACK}}
    for part in variable["valueFrom"]["fieldRef"]["fieldPath"].split("."):
        value = value[part]
    return str(value)


def _expanded(word: str, environment: Mapping[str, str]) -> str:
    for name, value in environment.items():
        word = word.replace(f"$({name})", value)
    return word


async def _answers(session: aiohttp.ClientSession, running: Running, probe: Mapping[str, Any]) -> bool:
    try:
        async with session.get(running.url(probe["port"], probe["path"])) as response:
            return response.status == 200
    except (aiohttp.ClientError, TimeoutError):
        return False
