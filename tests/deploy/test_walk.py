"""From an empty virtual environment, with only pip and kubectl, to a hosted cluster, and back to an empty hub.

The wheels are installed into a new environment without this checkout. Its programs are the user's commands and, with
the arguments and the rights of the rendered manifests, the pods.

    python -m pytest -s -m kube tests/deploy/test_walk.py      prints the time of each step
"""

import asyncio
import re
import subprocess
import tarfile
import time
import venv
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hatchling.builders.sdist import SdistBuilder
from hatchling.builders.wheel import WheelBuilder

from deploy.documents import ROOT
from deploy.reader import Reader, reader
from fairway.cli.install.process import SAME
from fairway.simulation.creation import SimulationOptions
from fairway.simulation.objects import simulated_clusters
from rigs.kubernetes import Tools

FLEET = SimulationOptions(clusters=12, seed=0, period=36_000)
"""Two of them are hosting clusters."""
INSTALLED = (
    "crds,clusterroles,clusterrolebindings,validatingadmissionpolicies,validatingadmissionpolicybindings,namespaces,"
    "deployments,services,serviceaccounts,configmaps,leases,networkpolicies,poddisruptionbudgets,roles,rolebindings"
)
INSTALL = "fairway install --controllers=+hosting"


@dataclass(slots=True)
class Timings:
    steps: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        began = time.monotonic()
        yield
        self.steps[name] = time.monotonic() - began

    def __str__(self) -> str:
        return "\n".join(f"{seconds:6.1f} s  {name}" for name, seconds in self.steps.items())


def build_wheels(folder: Path) -> Path:
    """Build the wheels that are published: from the sdists, so that they depend on released neighbours."""
    target = folder / "dist"
    for source in (*(ROOT / "packages").iterdir(), ROOT):
        unpacked = folder / "sources" / source.name
        (archive,) = SdistBuilder(str(source)).build(directory=str(unpacked), versions=["standard"])
        with tarfile.open(archive) as sdist:
            sdist.extractall(unpacked, filter="data")
        (top,) = (path for path in unpacked.iterdir() if path.is_dir())
        list(WheelBuilder(str(top)).build(directory=str(target), versions=["standard"]))
    return target


def installed_environment(folder: Path, wheels: Path) -> Path:
    """Install fairway from the wheels, and what it needs from the index in the versions of the image."""
    lock = (ROOT / "deploy/requirements.lock").read_text(encoding="utf-8")
    versions = folder / "versions.txt"
    versions.write_text("\n".join(re.findall(r"^(\S+==.*) \\$", lock, re.MULTILINE)), encoding="utf-8")
    venv.create(folder / "venv", with_pip=True, symlinks=True)
    programs = folder / "venv" / "bin"
    options = ("--quiet", "--disable-pip-version-check", "--only-binary=:all:", f"--constraint={versions}")
    command = [str(programs / "pip"), "install", *options, f"--find-links={wheels}", "fairway"]
    subprocess.run(command, cwd=folder, check=True)
    return programs


@pytest.mark.timeout(900)  # a busy machine takes several times as long
@pytest.mark.kube
async def test_walk_from_an_empty_environment_to_a_hosted_cluster_and_back(
    kube_tools: Tools, tmp_path: Path
) -> None:
    timings = Timings()
    with timings.step("build the wheels"):
        wheels = await asyncio.to_thread(build_wheels, tmp_path)
    with timings.step("pip install fairway"):
        programs = await asyncio.to_thread(installed_environment, tmp_path, wheels)
    async with reader(kube_tools, tmp_path / "hub", programs=programs, links=()) as me:
        assert str(ROOT) not in await me.shell.run("python -c 'import fairway; print(fairway.__file__)'")
        before = await objects(me)
        with timings.step("fairway install | kubectl apply, until two replicas are ready"):
            await me.shell.run(f"{INSTALL} | kubectl apply -f -")
            await me.shell.run("kubectl -n fairway-system rollout status deployment/fairway")
        assert SAME in await me.shell.run(f"{INSTALL} --diff")
        async with me.fleet(FLEET):
            with timings.step("a decision"):
                await decided(me)
            with timings.step("a hosted cluster"):
                await hosted(me)
            assert not [name for name in me.node.pods if "Forbidden" in me.node.log(name)]
            with timings.step("fairway uninstall --delete-data"):
                await me.shell.run("fairway uninstall --delete-data --yes")
        await me.node.runs(0)
        assert await left_over(me, before) == []
    print(f"\n{timings}")


async def objects(me: Reader) -> set[str]:
    return set((await me.kubectl(f"get {INSTALLED} --all-namespaces -o name")).split())


async def left_over(me: Reader, before: set[str]) -> list[str]:
    """Return what is left, except what the agents of clusters made: their namespaces and leases."""
    clusters = simulated_clusters(clusters=FLEET.clusters, seed=FLEET.seed, now=datetime.now(UTC))
    of_agents = {f"namespace/{cluster.name}" for cluster in clusters}
    of_agents.add("lease.coordination.k8s.io/managed-cluster-lease")
    return sorted(await objects(me) - before - of_agents)


async def decided(me: Reader) -> None:
    await me.shell.run(f"kubectl apply -f - <<'EOF'\n{example('most-free-cpu')}EOF")
    wait = "kubectl wait --timeout=120s --for=condition=PlacementSatisfied placement/most-free-cpu"
    await me.shell.run(wait)
    explained = await me.shell.run("fairway explain placement default/most-free-cpu")
    assert "3 of 3 clusters" in explained


async def hosted(me: Reader) -> None:
    await me.shell.run(f"kubectl apply -f - <<'EOF'\n{example('hosted-cluster')}EOF")
    wait = "kubectl wait --timeout=120s --for=jsonpath='{.status.phase}'=Confirmed hostedclusterrequest/shop"
    await me.shell.run(wait)
    host = (await me.kubectl("get hcr shop -o jsonpath='{.status.hostingCluster.name}'")).strip()
    assert f"is hosted on {host}" in await me.shell.run("fairway hosting explain default/shop")


def example(name: str) -> str:
    return (ROOT / f"examples/{name}.yaml").read_text(encoding="utf-8")
