"""docs/how-to/install.md: every command runs on a real hub."""

import asyncio
import re
from pathlib import Path

import pytest

from deploy import stand_in
from deploy.documents import ROOT, sections
from deploy.reader import Reader, reader, until_metric
from fairway.controllers import settings
from fairway.controllers.manager import OCM_SECONDS
from fairway.controllers.placement.ocm_detection import NAMESPACE
from fairway.controllers.placement.shadow import SETTLE_SECONDS
from kubewire.client import Client, Forbidden, Invalid
from rigs.kubernetes import Tools
from rigs.processes import POLL, Port

PAGE = sections("docs/how-to/install.md")
NOT_RUN = {"docker build -f deploy/Containerfile -t fairway:0.1.0 .\n"}
"""Needs a container runtime and a base image; tests/deploy/test_container.py checks the file without them."""
OWN, MORE, UPGRADE, UNINSTALL = "A hub without OCM", "More controllers", "Upgrade", "Uninstall"
WITH_HELM = "With Helm"
BESIDE, INSTEAD, BACK = (
    "A hub that runs OCM: first beside its placement controller",
    "A hub that runs OCM: then instead",
    "Return to OCM's placement controller",
)
EVERYTHING = "crds,clusterroles,clusterrolebindings,namespaces"


def test_install_page_commands_are_all_executed() -> None:
    followed = {"", OWN, MORE, WITH_HELM, UPGRADE, UNINSTALL, BESIDE, INSTEAD, BACK}
    assert {title for title, blocks in PAGE.items() if blocks} == followed
    assert NOT_RUN.issubset(PAGE[""])


def test_install_page_has_the_values_of_the_code() -> None:
    text = (ROOT / "docs/how-to/install.md").read_text(encoding="utf-8")
    assert ("that lasts for ten seconds" in text, SETTLE_SECONDS) == (True, 10.0)
    assert ("notices within half a minute" in text, OCM_SECONDS) == (True, 30.0)
    assert f"`{settings.NAMESPACE}`" in text


@pytest.mark.timeout(900)  # a minute or two, and a busy machine takes several times as long
@pytest.mark.kube
async def test_install_page_commands_for_a_standalone_hub(kube_tools: Tools, tmp_path: Path) -> None:
    async with reader(kube_tools, tmp_path) as me:
        for block in PAGE[""]:
            if block not in NOT_RUN:
                assert "image: your-registry/fairway:0.1.0" in await me.shell.run(block)
        apply, leases, first = PAGE[OWN]
        assert "successfully rolled out" in await me.shell.run(apply)
        assert len(me.node.pods) == 2
        async with me.fleet():
            await me.shows(
                leases, r"^fairway-placement +fairway-\w+-\w+", r"^fairway-controllers +fairway-\w+-\w+"
            )
            # On a busy machine it may time out once.
            printed = await me.shell.run(first.replace("kubectl wait ", "kubectl wait --timeout=120s "))
            await me.shows(
                "kubectl describe placement most-free-cpu",
                r"DecisionCreate .* placement-controller",
                first=printed,
            )
        assert "most-free-cpu-decision-1" in printed
        assert "default/most-free-cpu: 3 of 3 clusters, AllDecisionsScheduled" in printed
        (more,) = PAGE[MORE]
        assert "successfully rolled out" in await me.shell.run(more)
        await me.node.runs(2)
        (upgrade,) = PAGE[UPGRADE]
        changes = await me.shell.run(upgrade)
        assert "clusterrole.rbac.authorization.k8s.io/fairway-hosting" in changes
        assert "left over" in changes
        assert "successfully rolled out" in changes
        assert not [name for name in me.node.pods if "Forbidden" in me.node.log(name)]
        await uninstall(me, apply)
        await with_helm(me)


async def with_helm(me: Reader) -> None:
    """Install, upgrade and uninstall a release on the hub, which is empty again."""
    first, more, remove = PAGE[WITH_HELM]
    assert "successfully rolled out" in await me.shell.run(first)
    await me.node.runs(2)
    assert "successfully rolled out" in await me.shell.run(more)
    assert "fairway-hosting" in await me.kubectl("get clusterroles -o name")
    assert not [name for name in me.node.pods if "Forbidden" in me.node.log(name)]
    definitions = await me.kubectl("get crds -o name")
    await me.shell.run(remove)
    await me.node.runs(0)
    assert await me.kubectl("get crds -o name") == definitions
    assert "fairway" not in await me.kubectl("get clusterroles,clusterrolebindings -o name")


async def uninstall(me: Reader, apply: str) -> None:
    keep, everything = PAGE[UNINSTALL]
    before = await me.kubectl("get managedclusters,placements,placementdecisions -A -o name")
    await me.shell.run(keep)
    await me.node.runs(0)
    assert await me.kubectl("get managedclusters,placements,placementdecisions -A -o name") == before
    # Without the controller that removes their finalizers, clusters would keep the deletion waiting.
    await me.shell.run(apply)
    await me.shell.run(everything)
    await me.node.runs(0)
    left = await me.kubectl(f"get {EVERYTHING} -o name")
    assert "fairway" not in left
    assert "customresourcedefinition" not in left
    assert not re.search(r"managedcluster:(registration|work)$", left, re.MULTILINE)


@pytest.mark.timeout(900)  # a minute or two, and a busy machine takes several times as long
@pytest.mark.kube
async def test_install_page_commands_beside_and_instead_of_ocm(kube_tools: Tools, tmp_path: Path) -> None:
    async with reader(kube_tools, tmp_path) as me:
        await me.kubectl("apply -k deploy/crds/ocm")
        await me.served()
        await stand_in.install(me.connection)
        working = stand_in.at_work(me.connection, me.node, kubeconfig=me.kubeconfig, folder=tmp_path)
        async with me.fleet(), working:
            await me.kubectl("apply -f examples/most-free-cpu.yaml")
            await me.kubectl("wait --for=condition=PlacementSatisfied placement/most-free-cpu --timeout=120s")
            decided = selected(await me.kubectl("get placementdecisions -o yaml"))
            assert len(decided) == 3
            await beside(me)
            await instead(me)
            assert selected(await me.kubectl("get placementdecisions -o yaml")) == decided
            await back(me)
            assert selected(await me.kubectl("get placementdecisions -o yaml")) == decided


def selected(decisions: str) -> list[str]:
    return re.findall(r"clusterName: (\S+)", decisions)


async def beside(me: Reader) -> None:
    on_the_hub, anywhere = PAGE[BESIDE]
    assert "placement (shadow)" in await me.shell.run(on_the_hub)
    ((name, running),) = me.node.pods.items()
    await until_metric(running.url("metrics", "/metrics"), "fairway_shadow_differences 0.0")
    assert "Forbidden" not in me.node.log(name)
    with Port() as port:
        command = anywhere.strip().replace("127.0.0.1:8080", f"127.0.0.1:{port}")
        # Wait until it responds, then stop it as Kubernetes does.
        asked = f"curl -sf http://127.0.0.1:{port}/metrics | grep -q fairway_shadow_differences"
        probe = f"until {asked}; do kill -0 $!; sleep 0.1; done"
        await me.shell.run(f"{command} & {probe}; kill -TERM $!; wait $!")


async def instead(me: Reader) -> None:
    keep_off, stop, take_over = PAGE[INSTEAD]
    await me.shell.run(keep_off)
    await in_force(me)
    assert "No resources found" in await me.shell.run(stop)
    assert "successfully rolled out" in await me.shell.run(take_over)
    await me.node.runs(2)
    assert all(running.restarts == 0 for running in me.node.pods.values())


async def in_force(me: Reader) -> None:
    """Wait until the API server enforces the policy, which only a refusal shows."""
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


async def back(me: Reader) -> None:
    (commands,) = PAGE[BACK]
    await me.shell.run(commands)
    await me.kubectl(f"-n {NAMESPACE} rollout status deployment/{stand_in.NAME}")
    assert not me.node.pods
    left = await me.kubectl("get validatingadmissionpolicies,clusterroles,namespaces -o name")
    assert "fairway" not in left
