"""docs/install.md, command by command, on a real hub: as somebody does it who reads it for the first time."""

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from deploy import stand_in
from deploy.documents import Shell, sections
from deploy.kubelet import Kubelet, kubelet
from fairway.controllers.placement.ocm import NAMESPACE
from fairway.kube import Client, Connection, Forbidden, Invalid
from fairway.kube.kubeconfig import load
from fairway.testing.kubernetes import CONTROLLERS, KUBECTL, Tools, real_hub
from fairway.testing.processes import POLL, Port
from fairway.whatif import moving

PAGE = sections("docs/install.md")
MACHINERY = (
    *CONTROLLERS,
    "clusterrole-aggregation-controller",
    "deployment-controller",
    "disruption-controller",
    "replicaset-controller",
)
FLEET = moving.Motion(clusters=6, seed=1, period=600)
NOT_RUN = {"docker build -f deploy/Containerfile -t fairway:0.1.0 .\n"}
"""It takes a container runtime and a base image; tests/deploy/test_container.py has what can be said without."""
EVERYTHING = "crds,clusterroles,clusterrolebindings,namespaces"
OWN = ("A hub without OCM", "Upgrade", "Uninstall")
BESIDE, INSTEAD, BACK = (
    "A hub that runs OCM: first beside its placement controller",
    "A hub that runs OCM: then instead",
    "And back",
)

pytestmark = pytest.mark.kube


class Reader:
    """Who follows the page on a hub of their own."""

    def __init__(self, shell: Shell, node: Kubelet, connection: Connection) -> None:
        self.shell, self.node, self.connection = shell, node, connection

    async def follow(self, section: str) -> list[str]:
        """What each block printed."""
        return [await self.shell.run(block) for block in PAGE[section]]

    async def kubectl(self, arguments: str) -> str:
        return await self.shell.run(f"kubectl {arguments}")


@asynccontextmanager
async def reader(tools: Tools, folder: Path) -> AsyncIterator[Reader]:
    async with real_hub(tools, folder=folder / "hub", controllers=MACHINERY) as hub:
        connection = load(hub.kubeconfig).context()
        shell = Shell.create(folder / "shell", kubectl=tools.path(KUBECTL), kubeconfig=hub.kubeconfig)
        async with kubelet(
            connection, folder=folder / "node", authority=hub.authority, elsewhere=stand_in.is_ocm
        ) as node:
            yield Reader(shell, node, connection)


@asynccontextmanager
async def fleet(connection: Connection) -> AsyncIterator[None]:
    """Clusters whose agents live."""
    async with Client(connection) as client:
        await moving.create(client, FLEET)
        async with moving.moving(client, FLEET):
            yield


def test_no_command_is_left_out() -> None:
    followed = [*(block for title in (*OWN, BESIDE, INSTEAD, BACK) for block in PAGE[title]), *PAGE[""]]
    assert sorted(followed) == sorted(block for blocks in PAGE.values() for block in blocks)
    assert NOT_RUN.issubset(PAGE[""])


async def test_a_hub_of_its_own(kube_tools: Tools, tmp_path: Path) -> None:
    async with reader(kube_tools, tmp_path) as me:
        for block in PAGE[""]:
            if block not in NOT_RUN:
                assert "image: your-registry/fairway:0.1.0" in await me.shell.run(block)
        apply, leases, first = PAGE[OWN[0]]
        assert "successfully rolled out" in await me.shell.run(apply)
        assert len(me.node.pods) == 2
        async with fleet(me.connection):
            holders = await me.shell.run(leases)
            assert re.search(r"^fairway-placement +fairway-\w+-\w+", holders, re.MULTILINE)
            assert re.search(r"^fairway-controllers +fairway-\w+-\w+", holders, re.MULTILINE)
            printed = await me.shell.run(first)
        assert "most-free-cpu-decision-1" in printed
        assert re.search(r"DecisionCreate .* placement-controller", printed)
        assert "default/most-free-cpu: 3 of 3 clusters, AllDecisionsScheduled" in printed
        assert "unchanged" in (await me.follow("Upgrade"))[0]
        remove, forget = PAGE["Uninstall"]
        before = await me.kubectl("get managedclusters,placements,placementdecisions -A -o name")
        await me.shell.run(remove)
        assert not me.node.pods
        assert await me.kubectl("get managedclusters,placements,placementdecisions -A -o name") == before
        await me.shell.run(forget)
        # What a cluster owns goes with it once the garbage collector has heard of the kind, which takes half a minute.
        left = await me.kubectl(f"get {EVERYTHING} -o name")
        assert "fairway" not in left
        assert "customresourcedefinition" not in left
        assert not re.search(r"managedcluster:(registration|work)$", left, re.MULTILINE)


async def test_beside_ocm_then_instead_and_back(kube_tools: Tools, tmp_path: Path) -> None:
    async with reader(kube_tools, tmp_path) as me:
        await me.kubectl("apply -k deploy/crds/ocm")
        await me.kubectl("wait --for=condition=Established crds --all")
        await stand_in.install(me.connection)
        kubeconfig = Path(me.shell.environment["KUBECONFIG"])
        working = stand_in.at_work(me.connection, me.node, kubeconfig=kubeconfig, folder=tmp_path)
        async with fleet(me.connection), working:
            await me.kubectl("apply -f examples/most-free-cpu.yaml")
            await me.kubectl("wait --for=condition=PlacementSatisfied placement/most-free-cpu")
            decided = await me.kubectl("get placementdecisions -o yaml")

            await beside(me)
            await instead(me)
            assert selected(await me.kubectl("get placementdecisions -o yaml")) == selected(decided)

            await me.follow(BACK)
            await me.kubectl(f"-n {NAMESPACE} rollout status deployment/{stand_in.NAME}")
            assert not me.node.pods
            assert not await me.kubectl(
                "get validatingadmissionpolicies,clusterroles -o name | grep fairway || true"
            )
            assert selected(await me.kubectl("get placementdecisions -o yaml")) == selected(decided)


def selected(decisions: str) -> list[str]:
    return re.findall(r"clusterName: (\S+)", decisions)


async def beside(me: Reader) -> None:
    in_the_hub, anywhere = PAGE[BESIDE]
    printed = await me.shell.run(in_the_hub)
    assert "shadow of placement" in printed
    ((name, running),) = me.node.pods.items()
    await metric(running.url("metrics", "/metrics"), "fairway_shadow_differences 0.0")
    assert "Forbidden" not in me.node.log(name)
    with Port() as port:
        command = anywhere.strip().replace("127.0.0.1:8080", f"127.0.0.1:{port}")
        # Until it answers, which shows that it works; then it is told to stop, as by Kubernetes.
        asked = f"curl -sf http://127.0.0.1:{port}/metrics | grep -q fairway_shadow_differences"
        probe = f"until {asked}; do kill -0 $!; sleep 0.1; done"
        await me.shell.run(f"{command} & {probe}; kill -TERM $!; wait $!")


async def instead(me: Reader) -> None:
    keep_off, stop, take_over = PAGE[INSTEAD]
    await me.shell.run(keep_off)
    await in_force(me)
    printed = await me.shell.run(stop)
    assert "No resources found" in printed
    printed = await me.shell.run(take_over)
    assert "successfully rolled out" in printed
    assert all(running.restarts == 0 for running in me.node.pods.values())
    assert len(me.node.pods) == 2


async def in_force(me: Reader) -> None:
    """Until the API server goes by the policy, for which it gives no sign but its refusals."""
    pod = {**stand_in.DEPLOYMENT["spec"]["template"], "apiVersion": "v1", "kind": "Pod"}
    pod["metadata"] = {**pod["metadata"], "name": "one-more"}
    async with Client(me.connection) as client:
        while True:
            try:
                await client.request(
                    "POST", f"/api/v1/namespaces/{NAMESPACE}/pods", query=[("dryRun", "All")], body=pod
                )
            except (Forbidden, Invalid) as refused:
                if "Fairway places on this hub" in refused.message:
                    return
                raise
            await asyncio.sleep(POLL)


async def metric(url: str, line: str) -> None:
    """Until it is told. A shadow says nothing before it has compared."""
    import aiohttp

    async with aiohttp.ClientSession(trust_env=False) as session:
        while True:
            async with session.get(url) as response:
                if line in await response.text():
                    return
            await asyncio.sleep(POLL)
