"""A kopf operator in its own process: its handlers, its state and its finalizers."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from clients import boat_crd
from clients.conftest import Suite
from clients.exchanges import MERGE
from clients.streams import Collection, until, until_deleted
from clients.talk import Talk, established

from kubehub.testing.background import background
from rigs.processes import LOOPBACK, Port, Process, ready

HARBOUR = Path(__file__).parent / "operators" / "kopf_operator.py"
FINALIZER = "suite.fairway.dev/harbour"
PREFIX = "harbour"
"""Namespaces that begin so are the operator's; they may come later."""


@asynccontextmanager
async def operator(*arguments: str, kubeconfig: Path, folder: Path) -> AsyncIterator[Process]:
    with Port() as port:
        command = [
            str(Path(sys.executable).parent / "kopf"),
            "run",
            str(HARBOUR),
            "--standalone",
            f"--liveness=http://{LOOPBACK}:{port}/healthz",
            *arguments,
        ]
        env = {**os.environ, "KUBECONFIG": str(kubeconfig)}
        process = Process(command, log=folder / "kopf.log", env=env)
        try:
            await ready(f"http://{LOOPBACK}:{port}/healthz", process)
            yield process
        finally:
            await process.stop(grace=60)  # its exit status is checked, so wait for it


@pytest.fixture(scope="module")
def harbour(hub: Suite, boats: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    folder = tmp_path_factory.mktemp(f"kopf-{hub.kind}")
    running = operator(f"--namespace={PREFIX}-*", kubeconfig=hub.kubeconfig, folder=folder)
    with background(running) as process:
        yield process
    assert process.status == 0, process.tail()
    complaints = [line for line in process.log.read_text().splitlines() if "Traceback" in line]
    assert complaints == [], process.tail(200)


@pytest.fixture
def namespace(namespace: str) -> str:
    return f"{PREFIX}-{namespace}"


@pytest.fixture
def fleet(harbour: Process, talk: Talk, room: str) -> Collection:
    return Collection(talk, boat_crd.path(room), boat_crd.boat(""))


async def status(fleet: Collection, name: str, *keys: str) -> dict[str, Any]:
    """Once it has all of them."""
    document = await until(
        fleet.talk, fleet.path, name, lambda boat: set(keys) <= boat.get("status", {}).keys()
    )
    state: dict[str, Any] = document["status"]
    return state


async def test_kopf_create_handlers_run(fleet: Collection, room: str) -> None:
    made = await fleet.create("kon-tiki")
    told = await status(fleet, "kon-tiki", "aboard", "launch")
    assert (told["launch"], told["aboard"]) == ({"papers": "papers-of-kon-tiki"}, 1)
    code, papers = await fleet.talk.call("GET", f"/api/v1/namespaces/{room}/configmaps/papers-of-kon-tiki")
    assert (code, papers["data"]) == (200, {"port": "home"})
    (owner,) = papers["metadata"]["ownerReferences"]
    assert (owner["uid"], owner["controller"]) == (made["metadata"]["uid"], True)
    boat = await fleet.get("kon-tiki")
    assert boat["metadata"]["finalizers"] == [FINALIZER]
    assert boat["metadata"]["generation"] == 1
    assert "kopf.zalando.org/last-handled-configuration" in boat["metadata"]["annotations"]


async def test_kopf_retries_failed_handlers(fleet: Collection) -> None:
    await fleet.create("raft")
    assert (await status(fleet, "raft", "attempts"))["attempts"] == 3


async def test_kopf_events_are_posted(fleet: Collection, room: str) -> None:
    await fleet.create("kon-tiki")
    await status(fleet, "kon-tiki", "launch")
    events = f"/api/v1/namespaces/{room}/events"
    async with asyncio.timeout(120):
        while True:
            query = "fieldSelector=involvedObject.name%3Dkon-tiki,reason%3DLaunched"
            _, listing = await fleet.talk.call("GET", f"{events}?{query}")
            if listing["items"]:
                break
    (event,) = listing["items"]
    assert (event["message"], event["involvedObject"]["kind"]) == ("Fair winds!", "Boat")


async def test_kopf_changes_are_handled(fleet: Collection) -> None:
    await fleet.create("kon-tiki")
    await status(fleet, "kon-tiki", "aboard", "launch")
    await fleet.merge("kon-tiki", {"spec": {"crew": 6, "port": "callao"}})
    told = await status(fleet, "kon-tiki", "mustered", "sailed")
    assert told["mustered"] == [1, 6]
    assert told["sailed"] == [["change", "home", "callao"]]


async def test_kopf_delete_handlers_run_before_the_deletion(fleet: Collection, room: str) -> None:
    await fleet.create("kon-tiki")
    await status(fleet, "kon-tiki", "aboard", "launch")
    marked = await fleet.delete("kon-tiki")
    assert marked["metadata"]["deletionTimestamp"]
    await until_deleted(fleet.talk, fleet.path, "kon-tiki")
    maps = f"/api/v1/namespaces/{room}/configmaps"
    await until(fleet.talk, maps, "scrap-of-kon-tiki", lambda _: True)


async def test_kopf_timers(fleet: Collection) -> None:
    await fleet.create("ticking", clock="yes")
    await until(fleet.talk, fleet.path, "ticking", lambda boat: boat.get("status", {}).get("ticks") == 3)


async def test_kopf_events_and_indices(fleet: Collection, room: str) -> None:
    maps = Collection(fleet.talk, f"/api/v1/namespaces/{room}/configmaps", {})
    for name in ("ra", "tigris"):
        await fleet.create(name)
        await status(fleet, name, "aboard", "launch")
        await fleet.merge(name, {"spec": {"port": room}})
        await status(fleet, name, "sailed")
    await maps.create("asked", question=room)

    def answered(document: dict[str, Any]) -> bool:
        return bool(document["metadata"].get("annotations", {}).get("answer") == "ra,tigris")

    await until(fleet.talk, maps.path, "asked", answered)


async def test_kopf_finds_crds_created_later(hub: Suite, harbour: Process, talk: Talk, room: str) -> None:
    group = "operators.suite.fairway.dev"
    definition = {
        **boat_crd.DEFINITION,
        "metadata": {"name": f"barges.{group}"},
        "spec": {
            **boat_crd.DEFINITION["spec"],
            "group": group,
            "names": {"plural": "barges", "singular": "barge", "kind": "Barge"},
        },
    }
    definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    code, answer = await talk.call("POST", definitions, body=definition)
    assert code == 201, answer
    await established(talk, f"barges.{group}")
    if hub.kind == "real":
        # kube-apiserver lists a CRD a moment after the event that kopf waits for: the change is one more event.
        change = {"metadata": {"labels": {"listed": "true"}}}
        code, answer = await talk.call("PATCH", f"{definitions}/barges.{group}", body=change, type_=MERGE)
        assert code == 200, answer
    path = f"/apis/{group}/v1/namespaces/{room}/barges"
    barge = {"apiVersion": f"{group}/v1", "kind": "Barge", "metadata": {"name": "b"}, "spec": {"port": "x"}}
    code, answer = await talk.call("POST", path, body=barge)
    assert code == 201, answer
    await until(talk, path, "b", lambda boat: boat.get("status", {}).get("moored"))
