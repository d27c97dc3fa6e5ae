"""How soon does a machine that waits grow, on a hub?

    python -m benchmarks.machines.grants                                  the embedded hub, 100 nodes
    python -m benchmarks.machines.grants --hub real --nodes 1000          a kube-apiserver with etcd (needs Go)

Hub and `fairway run --controllers machines` are processes on the same machine; this one plays NeonVM and the agents.
Each node has a machine and a pod that fill it. Columns:

- *reply*: from sending a request for a permit over TLS, each on a new connection, to the reply; the permit is written
  by then. It is denied: the node is full
- *grant*: from the hub's reply to the deletion of the pod until a watch shows the permit of the machine
"""

import argparse
import asyncio
import json
import re
import ssl
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

from benchmarks.controllers.stage import EMBEDDED, NAMES, REAL, running_hub
from benchmarks.measure import machine, percentile, table
from fairway.api.crd import machine_crds
from fairway.api.resources import NODES, PODS, VIRTUAL_MACHINES
from fairway.api.virtual_machine import APPROVED, AUTOSCALING_LABEL, NEON_VERSION, VirtualMachine
from fairway.workloads.machines.permit_protocol import PROTOCOL_V5, decode_size
from kubewire.client import Batch, Client, Deleted, Informer, KubeError, Patch, load

NAMESPACE: Final = "bench"
ACCOUNT: Final = "agent"
USER: Final = f"system:serviceaccount:{NAMESPACE}:{ACCOUNT}"
AUDIENCE: Final = "fairway.dev/permits"
SMALL, LARGE, NODE = 4, 6, 10
"""CPUs of a machine before and after, and of a node."""
GIB: Final = 1 << 30
LISTENING: Final = re.compile(rb"permits at [^:]*:(\d+)")


async def measure(hub: str, nodes: int) -> dict[str, list[float]]:
    """Return milliseconds by column."""
    with tempfile.TemporaryDirectory(prefix="fairway-") as folder:
        async with (
            running_hub(hub, Path(folder)) as (kubeconfig, _),
            Client(load(kubeconfig).context(), field_manager="bench") as client,
        ):
            token = await prepare(client, nodes)
            async with scheduler(kubeconfig) as port, Informer(client, VIRTUAL_MACHINES) as machines:
                await machines.synced.wait()
                return await run(client, machines, nodes=nodes, port=port, token=token)


async def prepare(client: Client, nodes: int) -> str:
    """Fill the hub; return the token of an agent for all nodes."""
    for crd in machine_crds():
        await client.request("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", body=crd)
    await client.request("POST", "/api/v1/namespaces", body={"metadata": {"name": NAMESPACE}})
    await _until_served(client)
    accounts = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts"
    await client.request("POST", accounts, body={"metadata": {"name": ACCOUNT}})
    rbac = "/apis/rbac.authorization.k8s.io/v1"
    rules = [{"nonResourceURLs": ["/permit"], "verbs": ["post"]}]
    await client.request("POST", f"{rbac}/clusterroles", body={"metadata": {"name": "a"}, "rules": rules})
    binding = {
        "metadata": {"name": "a"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "a"},
        "subjects": [{"kind": "ServiceAccount", "name": ACCOUNT, "namespace": NAMESPACE}],
    }
    await client.request("POST", f"{rbac}/clusterrolebindings", body=binding)
    for at in range(nodes):
        await fill(client, at)
    spec = {"audiences": [AUDIENCE], "expirationSeconds": 3600}
    reply = await client.request("POST", f"{accounts}/{ACCOUNT}/token", body={"spec": spec})
    return str(json.loads(reply.body)["status"]["token"])


async def _until_served(client: Client) -> None:
    while True:
        try:
            await client.newest(VIRTUAL_MACHINES)
            return
        except KubeError:
            await asyncio.sleep(0.1)


async def fill(client: Client, at: int) -> None:
    """Create a node with a machine and a pod that leave no room."""
    name = f"n{at}"
    allocatable = {"cpu": str(NODE), "memory": f"{NODE}Gi", "pods": "110"}
    await client.create(NODES, {"metadata": {"name": name}})
    status = {"allocatable": allocatable, "conditions": [{"type": "Ready", "status": "True"}]}
    await client.patch(NODES, name, {"status": status}, kind=Patch.STRATEGIC, subresource="status")
    guest = {
        "cpus": {"min": 1, "use": SMALL, "max": 64},
        "memorySlots": {"min": 1, "use": SMALL, "max": 64},
        "memorySlotSize": "1Gi",
    }
    metadata = {"name": f"vm{at}", "labels": {AUTOSCALING_LABEL: "true"}}
    vm = await client.create(
        VIRTUAL_MACHINES, {"metadata": metadata, "spec": {"guest": guest}}, namespace=NAMESPACE
    )
    owner = {"apiVersion": NEON_VERSION, "kind": vm.kind, "name": vm.metadata.name, "uid": vm.metadata.uid}
    await client.create(PODS, pod(f"runner{at}", name, ownerReferences=[owner]), namespace=NAMESPACE)
    rest = {"cpu": str(NODE - SMALL), "memory": f"{NODE - SMALL}Gi"}
    await client.create(PODS, pod(f"filler{at}", name, requests=rest), namespace=NAMESPACE)


def pod(name: str, node: str, *, requests: dict[str, str] | None = None, **metadata: Any) -> dict[str, Any]:
    container = {"name": "c", "image": "c", "resources": {"requests": requests or {}}}
    spec = {"nodeName": node, "schedulerName": "fairway", "containers": [container]}
    return {"metadata": {"name": name, **metadata}, "spec": spec}


@asynccontextmanager
async def scheduler(kubeconfig: Path) -> AsyncIterator[int]:
    """Run the controller; yield the port of its permit server."""
    options = ("--controllers", "machines", "--no-leader-elect", "--permit-address", "127.0.0.1:0")
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "fairway", "run", "--kubeconfig", str(kubeconfig), *options),
        *("--permit-agent", USER, "--log-level", "info"),
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stderr is not None
    draining = None
    try:
        while (match := LISTENING.search(line := await process.stderr.readline())) is None:
            if not line:
                raise RuntimeError("fairway run ended before it served permits")
        draining = asyncio.create_task(process.stderr.read())
        yield int(match[1])
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()
        if draining is not None:
            await draining


async def run(
    client: Client, machines: Informer[VirtualMachine], *, nodes: int, port: int, token: str
) -> dict[str, list[float]]:
    seen: dict[str, float] = {}
    grown = asyncio.Event()

    def watch(batch: Batch[VirtualMachine]) -> None:
        for change in batch.changes:
            if isinstance(change, Deleted):
                continue
            vm = change.object
            text = vm.metadata.annotations.get(APPROVED)
            if text is not None and decode_size(text, path=APPROVED)["cpu"] == LARGE * 1000:
                seen.setdefault(vm.metadata.name, time.perf_counter())
                grown.set()

    machines.subscribe(watch)
    replies, grants = [], []
    for at in range(nodes):
        began = time.perf_counter()
        while (permit := await ask(port, token, f"runner{at}"))[0] == 503:  # not everything is loaded yet
            await asyncio.sleep(0.05)
            began = time.perf_counter()
        replies.append(time.perf_counter() - began)
        assert permit == (200, {"vCPUs": SMALL, "mem": SMALL * GIB}), permit
    for at in range(nodes):
        await client.delete(PODS, f"filler{at}", namespace=NAMESPACE, grace_period=0)
        began = time.perf_counter()
        while f"vm{at}" not in seen:
            grown.clear()
            await grown.wait()
        grants.append(seen[f"vm{at}"] - began)
    return {"reply": [reply * 1000 for reply in replies], "grant": [grant * 1000 for grant in grants]}


async def ask(port: int, token: str, name: str) -> tuple[int, Any]:
    """Request a permit; return the status and the permit."""
    body = json.dumps(
        {
            "protoVersion": PROTOCOL_V5,
            "pod": {"namespace": NAMESPACE, "name": name},
            "computeUnit": {"vCPUs": 1, "mem": GIB},
            "resources": {"vCPUs": LARGE, "mem": LARGE * GIB},
        }
    ).encode()
    head = (
        f"POST /permit HTTP/1.1\r\nHost: fairway\r\nAuthorization: Bearer {token}\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
    try:
        writer.write(head.encode() + body)
        first, _, rest = (await reader.read()).partition(b"\r\n\r\n")
    finally:
        writer.transport.abort()
    return int(first.split()[1]), json.loads(rest).get("permit")


def summarise(samples_by_name: dict[str, list[float]], *, hub: str, nodes: int) -> str:
    rows = [[f"{NAMES[hub]}, {nodes:,} nodes", "p50 ms", "p99 ms", "max ms"]]
    rows += [[name, *map(_milliseconds, _figures(samples))] for name, samples in samples_by_name.items()]
    return table(rows)


def _figures(samples: Sequence[float]) -> tuple[float, float, float]:
    return percentile(samples, 0.5), percentile(samples, 0.99), max(samples)


def _milliseconds(value: float) -> str:
    return f"{value:.1f}"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--hub", choices=(EMBEDDED, REAL), default=EMBEDDED)
    parser.add_argument("--nodes", type=int, default=100)
    options = parser.parse_args()
    print(machine(), file=sys.stderr)
    measured = asyncio.run(measure(options.hub, options.nodes))
    print(summarise(measured, hub=options.hub, nodes=options.nodes))


if __name__ == "__main__":
    main()
