"""The real kube-apiserver of the tests starts, serves, and stops."""

import json
import os
import select
import signal
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from fairway.api.crd import crds
from kube.definitions import known
from rigs.kubernetes import (
    API_SERVER,
    CONTROLLER_MANAGER,
    ETCD,
    KWOK,
    Ran,
    RealHub,
    StartFailed,
    Tools,
    kubectl,
)
from rigs.kubernetes import real_hub as start

HOLDS_ONE = """\
import asyncio, json, sys
from pathlib import Path
from rigs.kubernetes import CONTROLLERS, Tools, real_hub

async def main():
    tools, folder = Tools(Path(sys.argv[1])), Path(sys.argv[2])
    async with real_hub(tools, folder=folder, controllers=CONTROLLERS, with_kwok=True) as hub:
        print(json.dumps(hub.pids), flush=True)
        await asyncio.Event().wait()

asyncio.run(main())
"""


async def run(tools: Tools, kubeconfig: Path, *arguments: str, given: str = "") -> Ran:
    ran = await kubectl(tools, *arguments, kubeconfig=kubeconfig, given=given)
    assert ran.status == 0, ran.errors
    return ran


async def test_real_hub_is_of_the_release_of_the_tools(kube_tools: Tools, real_hub: RealHub) -> None:
    ran = await run(kube_tools, real_hub.kubeconfig, "version", "--output=json")
    versions = json.loads(ran.output)
    assert versions["serverVersion"]["gitVersion"] == versions["clientVersion"]["gitVersion"]


async def test_real_hub_accepts_every_fairway_kind(kube_tools: Tools, real_hub: RealHub) -> None:
    documents = [dict(crd) for crd in crds()]
    given = json.dumps({"apiVersion": "v1", "kind": "List", "items": documents})
    admin = real_hub.kubeconfig
    await run(kube_tools, admin, "apply", "--server-side", "-f", "-", given=given)
    await known(kube_tools, documents, kubeconfig=admin)
    names = [f"crd/{document['metadata']['name']}" for document in documents]
    await run(kube_tools, admin, "wait", "--timeout=120s", "--for=condition=Established", *names)


async def test_real_hub_keeps_its_data_after_a_crash(kube_tools: Tools, tmp_path: Path) -> None:
    async with start(kube_tools, folder=tmp_path / "hub") as hub:
        await run(kube_tools, hub.kubeconfig, "create", "namespace", "kept")
        before = hub.pids
        await hub.restart(grace=0)
        assert hub.pids[API_SERVER] != before[API_SERVER]
        assert hub.pids[ETCD] == before[ETCD]
        await run(kube_tools, hub.kubeconfig, "get", "namespace", "kept")


async def test_real_hub_that_cannot_start_shows_its_log(kube_tools: Tools, tmp_path: Path) -> None:
    with pytest.raises(
        StartFailed, match=r"(?s)kube-apiserver ended with status 1 .*unknown flag: --nonsense"
    ):
        async with start(kube_tools, folder=tmp_path / "hub", extra_args=["--nonsense"]):
            raise AssertionError("started")


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the kernel doesn't kill orphans")
def test_real_hub_processes_end_with_a_killed_test(kube_tools: Tools, tmp_path: Path) -> None:
    kube_tools.require(CONTROLLER_MANAGER, KWOK)
    command = [sys.executable, "-c", HOLDS_ONE, str(kube_tools.folder), str(tmp_path / "hub")]
    tests = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}
    with (
        subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=tests) as holder,
        ExitStack() as stack,
    ):
        assert holder.stdout is not None
        pids = json.loads(holder.stdout.readline())
        assert list(pids) == [ETCD, API_SERVER, CONTROLLER_MANAGER, KWOK]
        children = {name: os.pidfd_open(pid) for name, pid in pids.items()}
        for child in children.values():
            stack.callback(os.close, child)
        holder.send_signal(signal.SIGKILL)
        for name, child in children.items():
            ended, _, _ = select.select([child], [], [], 120)
            assert ended, f"{name} lives on"
