"""New hubs for a measurement, as separate processes.

etcd does not sync to disk, as in the environment of OCM's own benchmark, unless ``fsync`` is set. The embedded hub
always syncs.
"""

import asyncio
import sys
import tempfile
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.controllers import objects
from benchmarks.controllers.objects import Fleet
from benchmarks.controllers.process import Child, child, cpu_seconds, memory
from benchmarks.measure import Note
from kubewire.client import Client
from rigs.kubernetes import HUB, Tools, real_hub

REAL, EMBEDDED = "real", "embedded"
NAMES = {REAL: "kube-apiserver + etcd", EMBEDDED: "embedded hub"}


@dataclass(kw_only=True)
class Stage:
    """A hub with a fleet. ``client`` is for the load generator, ``scores`` are the initial scores."""

    kind: str
    kubeconfig: Path
    pids: Mapping[str, int]
    client: Client
    scores: dict[str, int]
    profile: str = ""
    """Folder for profiles of controllers; empty for none."""
    tree: str = ""
    """Folder of the sources of the controller to measure; empty for this version."""

    @property
    def name(self) -> str:
        return NAMES[self.kind]

    def cpu(self) -> float:
        """Return the CPU time of all processes of the hub."""
        return sum(cpu_seconds(pid) for pid in self.pids.values())

    def resident(self) -> int:
        return sum(memory(pid)[0] for pid in self.pids.values())

    @asynccontextmanager
    async def controller(self) -> AsyncIterator[Child]:
        profile = ("--profile", self.profile) if self.profile else ()
        module = "benchmarks.controllers.child"
        arguments = ("--kubeconfig", str(self.kubeconfig), *profile)
        async with child(module, *arguments, tree=self.tree) as controller:
            yield controller


@asynccontextmanager
async def staged(
    kind: str, fleet: Fleet, *, note: Note, fsync: bool = False, profile: str = ""
) -> AsyncIterator[Stage]:
    """Run a hub and create the fleet."""
    with tempfile.TemporaryDirectory(prefix="fairway-bench-") as folder:
        note(f"{NAMES[kind]} starts")
        hub = running_hub(kind, Path(folder), fsync=fsync)
        async with hub as (kubeconfig, pids), Client.from_kubeconfig(kubeconfig) as client:
            await objects.prepare(client)
            note(f"loading {fleet.clusters:,} clusters")
            scores = await objects.load(client, fleet, note)
            yield Stage(
                kind=kind, kubeconfig=kubeconfig, pids=pids, client=client, scores=scores, profile=profile
            )


@asynccontextmanager
async def running_hub(
    kind: str, folder: Path, *, fsync: bool = False
) -> AsyncIterator[tuple[Path, Mapping[str, int]]]:
    """Run an empty hub. Yields its kubeconfig and the ids of its processes by name."""
    async with _real(folder, fsync=fsync) if kind == REAL else _embedded(folder) as hub:
        yield hub


@asynccontextmanager
async def _real(folder: Path, *, fsync: bool) -> AsyncIterator[tuple[Path, Mapping[str, int]]]:
    async with real_hub(Tools.find(*HUB), folder=folder, fsync=fsync) as hub:
        yield hub.kubeconfig, hub.pids


@asynccontextmanager
async def _embedded(folder: Path) -> AsyncIterator[tuple[Path, Mapping[str, int]]]:
    kubeconfig = folder / "kubeconfig"
    options = (*("--port", "0"), *("--data", str(folder / "data")), *("--kubeconfig-out", str(kubeconfig)))
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "fairway", "hub", "--no-crds", *options), stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    try:
        while b"ready" not in (line := await process.stdout.readline()):
            if not line:
                raise RuntimeError("the embedded hub ended before it was ready")
        yield kubeconfig, {"hub": process.pid}
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()
