"""Third-party plugins in the placement controller: their decisions and faults."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, contextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec import structs

from controllers.clocks import NOON
from controllers.conftest import ALONE, Start
from controllers.hub_fleet import HubFleet
from fairway.api.placement import PlacementSpec
from fairway.api.resources import PLACEMENTS
from fairway.controllers.manager import Manager
from fairway.controllers.placement.queue import PlacementQueue
from fairway.observe import traces
from fairway.observe.traces import Span, Value
from fairway.scheduling import Scheduling, Supervisor, Watchdog, load
from fairway.testing.builders import builtin, placement, policy
from fairway.workloads.placement.events import KEPT, PLUGIN_FAULT, SKIPPED
from fairway.workloads.placement.profile import PLACEMENT_KIND
from kubewire.client import SYSTEM_CLOCK
from metric_values import values

pytestmark = pytest.mark.embedded

PLUGINS = """
from fairway.engine.status import OK, unschedulable

PRICE = ("label", "price")
FAULT = ("label", "fault")


class Cheapest:
    name = "Cheapest"

    def score(self, context, row):
        price = context.snapshot.codes(PRICE).value(row)
        if context.workload.name == "broken":
            raise ValueError("no price list")
        return 0 if price is None else -int(price)


class Released:
    name = "Released"

    def pre_enqueue(self, workload):
        if workload.spec.metadata.annotations.get("hold") == "yes":
            return unschedulable("is held back", plugin=self.name)
        return OK


class NewestFirst:
    name = "NewestFirst"

    def sort_key(self, workload, queued):
        return (-workload.created,)


class Approved:
    name = "Approved"

    def filter(self, context, row):
        fault = context.snapshot.codes(FAULT).value(row)
        if fault == "raises":
            raise ValueError("no list of approved clusters")
        if fault == "nonsense":
            return "yes"
        if fault == "modifies":
            context.workload.spec.metadata.labels["approved"] = "yes"
        if fault == "stalls":
            while True:
                pass
        if context.snapshot.codes(("label", "approved")).value(row) == "no":
            return unschedulable("is not approved", plugin=self.name)
        return OK
"""

Run = Callable[[str], AbstractAsyncContextManager[Manager]]


def configured(folder: Path, profile: str, watchdog: Watchdog) -> Scheduling:
    (folder / "plugins.py").write_text(PLUGINS)
    head = "apiVersion: fairway.dev/v1alpha1\nkind: SchedulerConfiguration\npluginFiles: [plugins.py]\n"
    (folder / "scheduler.yaml").write_text(f"{head}profiles:\n{profile}")
    supervisor = Supervisor(clock=lambda: 0.0, watch=watchdog)
    return load(folder / "scheduler.yaml", kind=PLACEMENT_KIND, supervisor=supervisor)


@pytest.fixture
def watchdog() -> Watchdog:
    """A watchdog with a limit that healthy calls keep on a busy machine."""
    return Watchdog(limit=30)


@pytest.fixture
def run(start: Start, tmp_path: Path, watchdog: Watchdog) -> Run:
    """Run the placement controller with a profile."""
    return lambda profile: start(replace(ALONE, scheduling=(configured(tmp_path, profile, watchdog),)))


Spans = list[tuple[str, str, Any]]


@pytest.fixture
def recorded_spans() -> Iterator[Spans]:
    """Name, attribute and value of attributes that are set within spans."""
    spans: Spans = []

    class Tracer:
        @contextmanager
        def start_as_current_span(self, name: str, *, attributes: Mapping[str, Value]) -> Iterator[Span]:
            span: Any = SimpleNamespace(set_attribute=lambda key, value: spans.append((name, key, value)))
            yield span

    before = traces.use(Tracer())
    yield spans
    traces.use(before)


FILTERING = """\
- onPluginFault: {on_fault}
  plugins:
    filter: {{enabled: [{{name: Approved}}]}}
"""


async def test_registered_prioritizer_ranks_the_placement_that_names_it(run: Run, fleet: HubFleet) -> None:
    async with run("- {}\n"):
        await fleet.cluster("a", labels={"price": "9"})
        await fleet.cluster("b", labels={"price": "3"})
        by_price = policy(builtin("Cheapest"), mode="Exact")
        await fleet.place("p", PlacementSpec(numberOfClusters=1, prioritizerPolicy=by_price))
        await fleet.place("q", PlacementSpec(numberOfClusters=1))
        await fleet.chooses("p", "b")
        await fleet.chooses("q", "a")
        await fleet.change_cluster("a", labels={"price": "1"})
        await fleet.chooses("p", "a")


async def test_filter_rejects_clusters_once_the_profile_enables_it(run: Run, fleet: HubFleet) -> None:
    async with run(FILTERING.format(on_fault="Fail")):
        await fleet.cluster("a", labels={"approved": "no"})
        await fleet.clusters("b")
        await fleet.place()
        await fleet.chooses("p", "b")
        await fleet.change_cluster("a", labels={"approved": "yes"})
        await fleet.chooses("p", "a", "b")


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("raises", "raised ValueError: no list of approved clusters (plugins.py:40)"),
        ("nonsense", "returned 'yes', not a Status (plugins.py:37)"),
        ("modifies", "modified its input: the spec of the workload"),
        ("stalls", "did not return within 0.05 seconds and was interrupted"),
    ],
)
async def test_faulty_plugin_keeps_the_decision_and_is_reported(
    run: Run, fleet: HubFleet, watchdog: Watchdog, fault: str, words: str
) -> None:
    reason = f"plugin Approved at Filter {words}"
    async with run(FILTERING.format(on_fault="Fail")) as manager:
        await fleet.clusters("a")
        await fleet.place()
        await fleet.chooses("p", "a")
        if fault == "stalls":
            watchdog.limit = 0.05
        await fleet.cluster("b", labels={"fault": fault})
        await fleet.eventually(lambda: bool(fleet.events(PLUGIN_FAULT)))
        (event,) = fleet.events(PLUGIN_FAULT)
        assert (event.type, event.note) == ("Warning", KEPT.format(fault=reason))
        await fleet.eventually(lambda: fleet.condition("p")[2] == reason)
        assert fleet.chosen("p") == ["a"]
        assert fleet.reason("p") == "NotAllDecisionsScheduled"
        counted = values(manager.meters.expose())
        assert counted['fairway_plugin_faults_total{plugin="Approved",point="Filter"}'] >= 1


async def test_fault_is_an_attribute_of_the_span(run: Run, fleet: HubFleet, recorded_spans: Spans) -> None:
    async with run(FILTERING.format(on_fault="Fail")):
        await fleet.cluster("b", labels={"fault": "raises"})
        await fleet.place()
        await fleet.eventually(lambda: bool(fleet.events(PLUGIN_FAULT)))
        reason = "plugin Approved at Filter raised ValueError: no list of approved clusters (plugins.py:40)"
        assert ("placement", "fairway.plugin_faults", [reason]) in recorded_spans


async def test_profile_can_skip_a_faulty_plugin(run: Run, fleet: HubFleet) -> None:
    async with run(FILTERING.format(on_fault="Skip")):
        await fleet.cluster("a", labels={"approved": "no"})
        await fleet.cluster("b", labels={"fault": "raises"})
        await fleet.place()
        await fleet.chooses("p", "a", "b")
        await fleet.eventually(lambda: bool(fleet.events(PLUGIN_FAULT)))
        fault = "plugin Approved at Filter raised ValueError: no list of approved clusters (plugins.py:40)"
        assert fleet.events(PLUGIN_FAULT)[0].note == SKIPPED.format(fault=fault)


async def test_fault_concerns_only_the_placement_that_uses_the_plugin(run: Run, fleet: HubFleet) -> None:
    async with run("- {}\n"):
        await fleet.clusters("a")
        by_price = PlacementSpec(prioritizerPolicy=policy(builtin("Cheapest"), mode="Exact"))
        await fleet.place("broken", by_price)
        await fleet.place("good", by_price)
        await fleet.place("other")
        await fleet.chooses("good", "a")
        await fleet.chooses("other", "a")
        await fleet.eventually(lambda: bool(fleet.events(PLUGIN_FAULT, about="broken")))
        reason = "plugin Cheapest at Score raised ValueError: no price list (plugins.py:14)"
        await fleet.eventually(lambda: fleet.condition("broken")[2] == reason)
        assert not fleet.decisions("broken")


async def test_pre_enqueue_plugin_holds_a_placement_back(run: Run, fleet: HubFleet) -> None:
    async with run("- plugins: {preEnqueue: {enabled: [{name: Released}]}}\n") as manager:
        await fleet.clusters("a")
        await fleet.place("held", annotations={"hold": "yes"})
        await fleet.place("p")
        await fleet.chooses("p", "a")
        await manager.quiet()
        assert not fleet.decisions("held")
        await fleet.edit(
            PLACEMENTS, "held", {"metadata": {"annotations": {"hold": None}}}, namespace=fleet.namespace
        )
        await fleet.chooses("held", "a")


async def test_queue_sort_plugin_orders_placements(tmp_path: Path) -> None:
    profile = configured(
        tmp_path, "- plugins: {queueSort: {enabled: [{name: NewestFirst}]}}\n", Watchdog()
    ).profile
    queue = PlacementQueue(SYSTEM_CLOCK, profile=profile)
    for name, age in (("old", 9), ("new", 1), ("older", 99)):
        source = placement(name)
        created = structs.replace(source.metadata, creationTimestamp=NOON - timedelta(hours=age))
        queue.put(structs.replace(source, metadata=created))
    assert [queue.pop(), queue.pop(), queue.pop()] == [("ns1", name) for name in ("new", "old", "older")]
