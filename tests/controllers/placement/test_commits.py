"""Third-party plugins from Reserve on in the placement controller."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from controllers.clocks import NOON, Stopped
from controllers.conftest import ALONE, Start
from controllers.hub_fleet import HubFleet
from fairway.api.placement import PlacementSpec
from fairway.api.resources import PLACEMENT_DECISIONS, PLACEMENTS
from fairway.controllers.manager import Manager
from fairway.controllers.placement import PlacementController
from fairway.engine.profile import plugins_of
from fairway.scheduling import Scheduling, Supervisor, Watchdog, load
from fairway.workloads.placement.events import (
    COMMIT_FAILED,
    COMMIT_REJECTED,
    KEPT,
    PLUGIN_FAULT,
    SKIPPED,
    WAITING_FOR_PERMIT,
    WRITTEN,
)
from fairway.workloads.placement.profile import PLACEMENT_KIND
from fairway.workloads.placement.reconcile_plan import decision_of
from fairway.workloads.placement.selection import PAGES
from kubewire.client import Client, Clock, Patch
from metric_values import values

pytestmark = pytest.mark.embedded

ROOT = Path(__file__).parents[3]

PLUGINS = """
import asyncio
from datetime import timedelta

from fairway.engine.status import OK, SKIPPED, Code, Status, failed, unschedulable

APPROVED = "example.com/approved"


class Recorder:
    def __init__(self):
        self.log = []

    def note(self, sign, context):
        names = ",".join(sorted(host.name.partition("-")[2] for host in context.hosts))
        self.log.append(f"{sign}{names}")


class Books(Recorder):
    name = "Books"

    def reserve(self, context):
        self.note("+", context)
        full = context.workload.spec.metadata.annotations.get("full") == "yes"
        return unschedulable("no room", plugin=self.name) if full else OK

    def unreserve(self, context):
        self.note("-", context)


class Approval:
    name = "Approval"

    def permit(self, context):
        word = context.workload.spec.metadata.annotations.get(APPROVED)
        if word == "yes":
            return OK, None
        if word == "no":
            return unschedulable("was denied", plugin=self.name), None
        return Status(Code.WAIT, (f"set the annotation {APPROVED}",)), timedelta(minutes=10)


class Prepare:
    name = "Prepare"

    async def pre_bind(self, context):
        await asyncio.sleep(0)
        word = context.workload.spec.metadata.annotations.get("prepare")
        if word == "raises":
            raise ValueError("no volume")
        if word == "nonsense":
            return "yes"
        if word == "stalls":
            await asyncio.Event().wait()
        if word == "fails":
            return unschedulable("volume is busy", plugin=self.name)
        return OK


class Notify(Recorder):
    name = "Notify"

    async def post_bind(self, context):
        self.note(f"{context.workload.name} ", context)
        if context.workload.spec.metadata.annotations.get("notify") == "raises":
            raise ConnectionError("no mail server")


class Writes:
    name = "Writes"
    write = None

    async def bind(self, context):
        if self.write is None:
            return SKIPPED
        await self.write(context)
        return OK
"""

Run = Callable[..., AbstractAsyncContextManager[Manager]]


def configured(folder: Path, *points: str, on_fault: str, limit: float) -> Scheduling:
    (folder / "plugins.py").write_text(PLUGINS)
    lines = [
        *("apiVersion: fairway.dev/v1alpha1", "kind: SchedulerConfiguration", "pluginFiles: [plugins.py]"),
        *("profiles:", f"- onPluginFault: {on_fault}", "  plugins:"),
        *(f"    {point}: {{enabled: [{{name: {name}}}]}}" for point, name in map(str.split, points)),
    ]
    (folder / "scheduler.yaml").write_text("\n".join(lines))
    supervisor = Supervisor(clock=lambda: 0.0, watch=Watchdog(limit=30, coroutine_limit=limit))
    return load(folder / "scheduler.yaml", kind=PLACEMENT_KIND, supervisor=supervisor)


@pytest.fixture
def scheduling() -> list[Scheduling]:
    return []


@pytest.fixture
async def run(start: Start, tmp_path: Path, scheduling: list[Scheduling]) -> AsyncIterator[Run]:
    """Run the placement controller with plugins, such as ``"permit Approval"``."""

    def running(*points: str, on_fault: str = "Fail", limit: float = 30, **options: Clock) -> Any:
        scheduling[:] = [configured(tmp_path, *points, on_fault=on_fault, limit=limit)]
        return start(replace(ALONE, scheduling=(scheduling[0],)), **options)

    yield running
    for name in [name for name in sys.modules if name.startswith("fairway_plugin")]:
        del sys.modules[name]


@pytest.fixture
def plugin(scheduling: list[Scheduling]) -> Callable[[str], Any]:
    """Return the plugin of a name, without its guard."""

    def find(name: str) -> Any:
        guarded: Any = next(plugin for plugin in plugins_of(scheduling[0].profile) if plugin.name == name)
        return guarded._guard.plugin

    return find


Plugin = Callable[[str], Any]


async def annotate(fleet: HubFleet, name: str = "p", **annotations: str | None) -> None:
    values = {f"example.com/{key}" if key == "approved" else key: text for key, text in annotations.items()}
    await fleet.edit(PLACEMENTS, name, {"metadata": {"annotations": values}}, namespace=fleet.namespace)


def queue_of(manager: Manager, fleet: HubFleet) -> dict[str, Any]:
    controller = manager.placement
    assert isinstance(controller, PlacementController)
    state = controller.describe_queue(fleet.namespace, "p")
    assert state is not None
    return state


async def test_reserve_follows_the_clusters_of_the_decision(
    run: Run, plugin: Plugin, fleet: HubFleet
) -> None:
    async with run("reserve Books", "postBind Notify") as manager:
        await fleet.clusters("a")
        await fleet.place()
        await fleet.chooses("p", "a")
        await fleet.clusters("b")
        await fleet.chooses("p", "a", "b")
        await fleet.change_cluster("a", member_of="")
        await fleet.chooses("p", "b")
        await manager.quiet()
        assert plugin("Books").log == ["+a", "+b", "-a"]
        assert plugin("Notify").log == ["p a", "p b", "p "]
        await fleet.delete(PLACEMENTS, "p")
        assert plugin("Books").log[3:] == ["-b"]


async def test_new_leader_reserves_what_the_hub_has_and_gives_it_back_when_it_stops(
    run: Run, plugin: Plugin, fleet: HubFleet
) -> None:
    async with run("reserve Books"):
        await fleet.clusters("a", "b")
        await fleet.place()
        await fleet.chooses("p", "a", "b")
    async with run("reserve Books", "permit Approval", "postBind Notify") as manager:
        await manager.quiet()
        assert (plugin("Books").log, plugin("Notify").log) == (["+a,b"], [])
        assert fleet.reason("p") == "AllDecisionsScheduled"
    assert plugin("Books").log == ["+a,b", "-a,b"]


async def test_placement_keeps_its_decision_while_a_permit_waits(
    run: Run, plugin: Plugin, fleet: HubFleet
) -> None:
    clock = Stopped(NOON)
    async with run("reserve Books", "permit Approval", "postBind Notify", clock=clock) as manager:
        await fleet.clusters("a")
        await fleet.place(annotations={"example.com/approved": "yes"})
        await fleet.chooses("p", "a")
        await annotate(fleet, approved=None)
        await fleet.clusters("b")
        message = (
            "waiting until 2031-05-05T12:10:00Z for the permit of plugin Approval for "
            f"{fleet.name('b')}: set the annotation example.com/approved"
        )
        await fleet.eventually(lambda: fleet.condition("p") == ("False", "NotAllDecisionsScheduled", message))
        await fleet.eventually(lambda: bool(fleet.events(WAITING_FOR_PERMIT)))
        await manager.quiet()
        (event,) = fleet.events(WAITING_FOR_PERMIT)
        assert (event.type, event.note) == ("Normal", message)
        assert (fleet.chosen("p"), fleet.status("p").numberOfSelectedClusters) == (["a"], 1)
        queue = queue_of(manager, fleet)
        assert (queue["state"], queue["reasons"]) == ("waiting for permits", [message])
        await annotate(fleet, approved="yes")
        await fleet.chooses("p", "a", "b")
        await fleet.eventually(lambda: fleet.reason("p") == "AllDecisionsScheduled")
        await manager.quiet()
        assert queue_of(manager, fleet)["state"] == "settled"
        assert plugin("Books").log == ["+a", "+b", "-b", "+b"]
        assert plugin("Notify").log == ["p a", "p b"]


async def test_plugins_of_the_template_wait_for_an_approval_and_notify(
    start: Start, tmp_path: Path, fleet: HubFleet
) -> None:
    news: list[Any] = []

    async def receive(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        length = next(line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
        news.append(json.loads(await reader.readexactly(int(length.split(b":")[1]))))
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
        writer.close()
        fleet.news.set()

    server = await asyncio.start_server(receive, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
    file = tmp_path / "scheduler.yaml"
    file.write_text(TEMPLATE.format(file=ROOT / "examples" / "plugin" / "approval.py", url=url))
    supervisor = Supervisor(clock=lambda: 0.0, watch=Watchdog(limit=30))
    scheduling = load(file, kind=PLACEMENT_KIND, supervisor=supervisor)
    async with server, start(replace(ALONE, scheduling=(scheduling,))):
        await fleet.clusters("a")
        await fleet.place()
        await fleet.eventually(lambda: "set the annotation example.com/approved" in fleet.condition("p")[2])
        assert not news
        await annotate(fleet, approved="yes")
        await fleet.chooses("p", "a")
        await fleet.eventually(lambda: bool(news))
    assert news == [{"placement": f"{fleet.namespace}/p", "added": [fleet.name("a")], "removed": []}]


TEMPLATE = """\
apiVersion: fairway.dev/v1alpha1
kind: SchedulerConfiguration
pluginFiles: ["{file}"]
profiles:
- plugins:
    permit: {{enabled: [{{name: Approval}}]}}
    postBind: {{enabled: [{{name: Notify}}]}}
  pluginConfig:
  - name: Notify
    args: {{url: "{url}"}}
"""


async def test_waiting_placement_takes_another_cluster_if_the_first_is_no_longer_selected(
    run: Run, plugin: Plugin, fleet: HubFleet
) -> None:
    async with run("reserve Books", "permit Approval") as manager:
        await fleet.clusters("a", "b")
        await fleet.place(spec=PlacementSpec(numberOfClusters=1))
        await fleet.eventually(lambda: fleet.name("a") in fleet.condition("p")[2])
        await fleet.change_cluster("a", member_of="")
        await fleet.eventually(lambda: fleet.name("b") in fleet.condition("p")[2])
        await manager.quiet()
        assert (plugin("Books").log, fleet.decisions("p")) == (["+a", "-a", "+b"], [])


@pytest.mark.parametrize(
    ("point", "denied", "words"),
    [
        ("permit Approval", {"example.com/approved": "no"}, "Approval rejects {a}: was denied"),
        ("reserve Books", {"full": "yes"}, "Books rejects {a}: no room"),
    ],
    ids=["Permit", "Reserve"],
)
async def test_rejected_placement_names_the_rejecting_plugin(
    run: Run, fleet: HubFleet, point: str, denied: dict[str, str], words: str
) -> None:
    async with run(point) as manager:
        await fleet.clusters("a")
        await fleet.place(annotations=denied)
        message = f"plugin {words.format(a=fleet.name('a'))}; the last decision is kept"
        await fleet.eventually(lambda: fleet.condition("p") == ("False", "NotAllDecisionsScheduled", message))
        await fleet.eventually(lambda: bool(fleet.events(COMMIT_REJECTED)))
        await manager.quiet()
        assert fleet.events(COMMIT_REJECTED)[0].note == message
        queue = queue_of(manager, fleet)
        assert queue["state"] == "unschedulable"
        assert [reason.partition(" ")[0] for reason in queue["reasons"]] == [f"{point.split()[1]}:"]
        assert not fleet.decisions("p")
        await annotate(fleet, approved="yes", full="no")
        await fleet.chooses("p", "a")


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("raises", "raised ValueError: no volume (plugins.py:50)"),
        ("nonsense", "returned 'yes', not a Status (plugins.py:46)"),
        ("stalls", "did not return within 0.05 seconds and was interrupted"),
    ],
)
async def test_faulty_coroutine_keeps_the_decision_and_is_reported(
    run: Run, plugin: Plugin, fleet: HubFleet, fault: str, words: str
) -> None:
    async with run("reserve Books", "preBind Prepare", limit=0.05 if fault == "stalls" else 30) as manager:
        await fleet.clusters("a")
        await fleet.place(annotations={"prepare": fault})
        await fleet.eventually(lambda: bool(fleet.events(PLUGIN_FAULT)))
        reason = f"plugin Prepare at PreBind {words}"
        assert fleet.events(PLUGIN_FAULT)[0].note == KEPT.format(fault=reason)
        await fleet.eventually(lambda: "; the last decision is kept" in fleet.condition("p")[2])
        assert (fleet.decisions("p"), plugin("Books").log[:2]) == ([], ["+a", "-a"])
        assert values(manager.meters.expose())[
            'fairway_plugin_faults_total{plugin="Prepare",point="PreBind"}'
        ]


async def test_pre_bind_that_fails_keeps_the_decision_and_is_retried(run: Run, fleet: HubFleet) -> None:
    async with run("preBind Prepare"):
        await fleet.clusters("a")
        await fleet.place(annotations={"prepare": "fails"})
        await fleet.eventually(lambda: bool(fleet.events(COMMIT_FAILED)))
        message = "Prepare: volume is busy; the last decision is kept"
        assert fleet.events(COMMIT_FAILED)[0].note == message
        await fleet.eventually(lambda: fleet.condition("p")[2] == message)
        await annotate(fleet, prepare=None)
        await fleet.chooses("p", "a")


async def test_profile_that_skips_faults_writes_the_decision_without_the_plugin(
    run: Run, fleet: HubFleet
) -> None:
    async with run("preBind Prepare", on_fault="Skip"):
        await fleet.clusters("a")
        await fleet.place(annotations={"prepare": "raises"})
        await fleet.chooses("p", "a")
        await fleet.eventually(lambda: bool(fleet.events(PLUGIN_FAULT)))
        fault = "plugin Prepare at PreBind raised ValueError: no volume (plugins.py:50)"
        assert fleet.events(PLUGIN_FAULT)[0].note == SKIPPED.format(fault=fault)
        await fleet.eventually(lambda: fleet.reason("p") == "AllDecisionsScheduled")


async def test_faulty_post_bind_changes_nothing(run: Run, fleet: HubFleet) -> None:
    async with run("postBind Notify"):
        await fleet.clusters("a")
        await fleet.place(annotations={"notify": "raises"})
        await fleet.chooses("p", "a")
        await fleet.eventually(lambda: bool(fleet.events(PLUGIN_FAULT)))
        fault = "plugin Notify at PostBind raised ConnectionError: no mail server (plugins.py:66)"
        assert fleet.events(PLUGIN_FAULT)[0].note == WRITTEN.format(fault=fault)
        await fleet.eventually(lambda: fleet.reason("p") == "AllDecisionsScheduled")


async def test_bind_plugin_writes_the_decisions_itself(
    run: Run, plugin: Plugin, fleet: HubFleet, client: Client
) -> None:
    async def write(context: Any) -> None:
        for page in context.state.read(PAGES, tuple):
            made = decision_of(page, context.workload.spec)
            await client.create(PLACEMENT_DECISIONS, made, namespace=fleet.namespace)
            decisions = [
                {"clusterName": decision.clusterName, "reason": "by hand"} for decision in page.decisions
            ]
            await client.patch(
                PLACEMENT_DECISIONS,
                page.name,
                {"status": {"decisions": decisions}},
                kind=Patch.MERGE,
                namespace=fleet.namespace,
                subresource="status",
            )

    async with run("bind Writes", "postBind Notify") as manager:
        plugin("Writes").write = write
        await fleet.clusters("a")
        await fleet.place()
        await fleet.eventually(lambda: fleet.reason("p") == "AllDecisionsScheduled")
        await manager.quiet()
        assert fleet.chosen("p") == ["a"]
        assert [decision.reason for page in fleet.decisions("p") for decision in page.status.decisions] == [
            "by hand"
        ]
        assert plugin("Notify").log == ["p a"]
        assert not fleet.events(PLUGIN_FAULT)


@pytest.mark.parametrize("on_fault", ["Fail", "Skip"])
async def test_bind_plugin_that_writes_nothing_has_a_fault(
    run: Run, plugin: Plugin, fleet: HubFleet, on_fault: str
) -> None:
    async def write(_context: Any) -> None:
        return None

    async with run("reserve Books", "bind Writes", on_fault=on_fault) as manager:
        plugin("Writes").write = write
        await fleet.clusters("a")
        await fleet.place()
        fault = (
            "plugin Writes at Bind returned Success, but the PlacementDecisions on the hub lack "
            f"{fleet.name('a')}"
        )
        await fleet.eventually(lambda: bool(fleet.events(PLUGIN_FAULT)))
        note = {"Fail": KEPT, "Skip": SKIPPED}[on_fault].format(fault=fault)
        assert fleet.events(PLUGIN_FAULT)[0].note == note
        if on_fault == "Skip":
            await fleet.chooses("p", "a")
            await manager.quiet()
            assert plugin("Books").log == ["+a"]
        else:
            await fleet.eventually(lambda: fleet.condition("p")[2] == f"{fault}; the last decision is kept")
            assert plugin("Books").log[:2] == ["+a", "-a"]
        counted = values(manager.meters.expose())
        assert counted['fairway_plugin_faults_total{plugin="Writes",point="Bind"}'] >= 1


async def test_bind_plugin_that_skips_leaves_the_decision_to_fairway(run: Run, fleet: HubFleet) -> None:
    async with run("bind Writes"):
        await fleet.clusters("a")
        await fleet.place()
        await fleet.chooses("p", "a")
