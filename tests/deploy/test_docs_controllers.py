"""docs/how-to/hosting.md, pod-scheduler.md and machines.md: their commands and objects work on a real hub.

One hub serves all three, because a start takes longer than the commands. Other tests cover the consoles of the pages,
which show output.
"""

import asyncio
import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from cli.live_hub import put
from deploy.conftest import DEFINITIONS
from deploy.documents import ROOT, sections
from deploy.reader import Reader, reader
from fairway.api.resources import HOSTED_CLUSTER_REQUESTS, MANAGED_CLUSTERS
from fairway.cli.files.loader import load
from fairway.klusterlet.works import WorkAgent
from fairway.testing.builders import score
from kubewire.api.lease import format_micro_time
from kubewire.client import Client, Patch
from rigs import hypershift
from rigs.certificates import Authority
from rigs.fake_hub import reported_condition
from rigs.kubernetes import Tools
from rigs.processes import POLL, Port
from rigs.waiting import until

HOSTING, PODS, MACHINES = (f"docs/how-to/{page}.md" for page in ("hosting", "pod-scheduler", "machines"))
CONTENT_RULES = "hosted-cluster-content"
HOSTED = {"host-1": 0, "host-2": 2, "host-3": 4}
"""The load of the hosts; the first one has the most room."""
READY = {"type": "Ready", "status": "True"}
NODE = "node-7"
ALONE = re.compile(r"`(fairway run --controllers \w+)`")


def commands_of(page: str) -> list[str]:
    return [block for blocks in sections(page).values() for block in blocks]


def manifests(page: str) -> list[str]:
    text = (ROOT / page).read_text(encoding="utf-8")
    return re.findall(r"^```yaml\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


async def apply(me: Reader, manifest: str) -> str:
    return await me.shell.run(f"kubectl apply -f - <<'EOF'\n{manifest}EOF")


@pytest.mark.timeout(900)  # a minute or two, and a busy machine takes several times as long
@pytest.mark.kube
async def test_pages_of_the_controllers_work_on_a_real_hub(kube_tools: Tools, tmp_path: Path) -> None:
    async with reader(kube_tools, tmp_path) as me, Client(me.connection) as client:
        await hosting(me, client)
        await pods(me, client)
        await machines(me, tmp_path)


async def hosting(me: Reader, client: Client) -> None:
    install, first, secrets, drain, adopt, adopt_read, recover = commands_of(HOSTING)
    smallest, template, content, tenants, profile, loss = manifests(HOSTING)
    (me.shell.folder / "orders.yaml").write_text(smallest, encoding="utf-8")
    await me.shell.run(install)
    await me.shell.run("kubectl -n fairway-system rollout status deployment/fairway")
    async with hosts(me, client):
        await me.shell.run(first)
        await me.shell.run(secrets)
        assert "hostingpolicy.placement.fairway.dev/default created" in await apply(me, template)
        await me.kubectl("create secret generic pull-secret -n team-a --from-literal=key=value")
        await apply(me, smallest.replace("orders", "returns"))
        await confirmed(client, "returns")
        await apply(me, content)
        await denied(me, smallest.replace("orders", "other"))
        await me.kubectl(f"delete validatingadmissionpolicy,validatingadmissionpolicybinding {CONTENT_RULES}")
        await apply(me, tenants)
        (me.shell.folder / "profile.yaml").write_text(profile, encoding="utf-8")
        await me.shell.run("fairway scheduler check profile.yaml")
        await waits_for_its_lease(me, HOSTING)
        await me.shell.run(drain)
        for command in adopt.splitlines():
            await incomplete(me, command)  # the example's hosted clusters are visible on their hosts alone
        assert "team-a/legacy" in await me.shell.run(adopt_read)
        await apply(me, loss)
        await mark(client, "host-1", "False")
        await me.shows("fairway hosting explain team-a/returns", "HostingClusterLost|counts as lost")
        plan, approve = recover.splitlines()
        printed = await incomplete(me, plan)  # what is adopted keeps its place
        (hash_,) = re.findall(r"--apply (\w+)", printed)
        await incomplete(me, re.sub(r"(--apply) \w+", rf"\1 {hash_}", approve))
    assert not [name for name in me.node.pods if "Forbidden" in me.node.log(name)]


async def incomplete(me: Reader, command: str) -> str:
    """Run a command whose exit status may say that its answer leaves something open."""
    return await me.shell.run(f"({command}\n) || test $? = 1")


@asynccontextmanager
async def hosts(me: Reader, client: Client) -> AsyncIterator[None]:
    """Run the hosting clusters of the example; the hub serves what their agents create."""
    for plural in hypershift.KINDS:
        await client.request("POST", DEFINITIONS, body=hypershift.definition(plural))
    await me.served()
    hosts = load([str(ROOT / "examples/hosting/hosts.yaml")])
    clusters = [origin.object for origin in hosts if origin.object.kind == "ManagedCluster"]
    for name in HOSTED:
        await me.kubectl(f"create namespace {name}")
        await lease(client, name)
    later = datetime.now(UTC) + timedelta(hours=1)
    loads = [
        score(name, {"hostedClustersCount": count}, name="hosted-clusters-score", valid_until=later)
        for name, count in HOSTED.items()
    ]
    await put(client, [*clusters, *loads])
    await legacy(me)
    async with asyncio.TaskGroup() as tasks:
        running = [tasks.create_task(WorkAgent(client, client, name).run()) for name in HOSTED]
        yield
        for task in running:
            task.cancel()


async def lease(client: Client, cluster: str) -> None:
    """Renew the Lease of an agent, which is fresh for five minutes."""
    body = {
        "metadata": {"name": "managed-cluster-lease"},
        "spec": {"leaseDurationSeconds": 60, "renewTime": format_micro_time(datetime.now(UTC))},
    }
    await client.request("POST", f"/apis/coordination.k8s.io/v1/namespaces/{cluster}/leases", body=body)


async def legacy(me: Reader) -> None:
    """Create a hosted cluster beside Fairway, on the host whose context the page names."""
    context = json.loads(await me.kubectl("config view -o json"))["contexts"][0]["context"]
    await me.kubectl(f"config set-context host-1 --cluster={context['cluster']} --user={context['user']}")
    await me.kubectl("create namespace clusters")
    hosted = {
        "apiVersion": "hypershift.openshift.io/v1beta1",
        "kind": "HostedCluster",
        "metadata": {"name": "legacy", "namespace": "clusters"},
        "spec": hypershift.SMALLEST,
    }
    await me.shell.run(f"kubectl create -f - <<'EOF'\n{json.dumps(hosted)}\nEOF")


async def confirmed(client: Client, name: str) -> None:
    await until(
        client,
        HOSTED_CLUSTER_REQUESTS,
        name,
        lambda request: request.status.phase == "Confirmed",
        namespace="team-a",
    )


async def denied(me: Reader, request: str) -> None:
    """Wait until the API server enforces the policy, which only a refusal shows."""
    while True:
        shown = await me.shell.run(f"kubectl apply --dry-run=server -f - <<'EOF' 2>&1 || true\n{request}EOF")
        if "platform: remove it from hostedCluster.spec" in shown:
            return
        await asyncio.sleep(POLL)


async def mark(client: Client, name: str, available: str) -> None:
    status = {"conditions": [reported_condition("ManagedClusterConditionAvailable", available)]}
    await client.patch(MANAGED_CLUSTERS, name, {"status": status}, kind=Patch.MERGE, subresource="status")


async def waits_for_its_lease(me: Reader, page: str) -> None:
    """A process of its own waits beside a Deployment that runs the controller, and stops when told to."""
    (command,) = set(ALONE.findall((ROOT / page).read_text(encoding="utf-8")))
    await stops(me, command)


async def stops(me: Reader, command: str, until_: str = "held by") -> str:
    """Run a command that does not end until it prints that, and stop it as Kubernetes does."""
    addresses = "--health-address 127.0.0.1:0 --metrics-address 127.0.0.1:0"
    printed = await me.shell.run(
        f"{command.strip()} {addresses} > log 2>&1 & "
        f"until grep -q '{until_}' log; do kill -0 $!; sleep 0.1; done; kill -TERM $!; wait $!; cat log"
    )
    assert "Traceback" not in printed
    assert "Forbidden" not in printed
    return printed


async def pods(me: Reader, client: Client) -> None:
    (install,) = commands_of(PODS)
    web, gang = manifests(PODS)
    room = {"cpu": "4", "memory": "8Gi", "pods": "110"}
    await client.request("POST", "/api/v1/nodes", body={"metadata": {"name": NODE}})
    await client.request(
        "PATCH",
        f"/api/v1/nodes/{NODE}/status",
        body={"status": {"allocatable": room, "capacity": room, "conditions": [READY]}},
        content_type=Patch.MERGE.value,
    )
    await me.kubectl(f"taint node {NODE} node.kubernetes.io/not-ready-")
    assert "successfully rolled out" in await me.shell.run(install)
    await apply(me, web)
    await me.shows(
        "kubectl describe pod web", rf"Scheduled .* fairway +Successfully assigned default/web to {NODE}"
    )
    (me.shell.folder / "gang.yaml").write_text(gang, encoding="utf-8")
    assert "Coscheduling" in await me.shell.run("fairway scheduler check gang.yaml")
    await waits_for_its_lease(me, PODS)
    assert not [name for name in me.node.pods if "Forbidden" in me.node.log(name)]


async def machines(me: Reader, folder: Path) -> None:
    alone, in_kube_system = commands_of(MACHINES)
    pair = Authority.create(folder).issue("permits", hosts=("127.0.0.1",))
    (me.shell.folder / "tls.crt").symlink_to(pair.certificate)
    (me.shell.folder / "tls.key").symlink_to(pair.key)
    with Port() as port:
        await stops(me, alone.replace(":10299", f"127.0.0.1:{port}"))
    await me.shell.run("fairway uninstall --yes")
    await me.node.runs(0)
    before: Any = yaml.safe_load(await me.kubectl("get namespace kube-system -o yaml"))
    assert "successfully rolled out" in await me.shell.run(in_kube_system)
    after: Any = yaml.safe_load(await me.kubectl("get namespace kube-system -o yaml"))
    assert after["metadata"]["labels"] == before["metadata"]["labels"]
    ((name, running),) = me.node.pods.items()
    assert "Forbidden" not in me.node.log(name)
    posted = await me.shell.run(
        f"curl -s -o /dev/null -w '%{{http_code}}' -X POST http://127.0.0.1:{running.ports['permits']}/"
    )
    assert posted in ("403", "404", "400")
