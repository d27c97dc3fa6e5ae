"""Names and values of metrics, and that recording never raises."""

import math
import re
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry
from prometheus_client.parser import text_string_to_metric_families

from fairway import __version__
from fairway.controllers.hosting.metrics import HOSTING_DEFINITIONS, HostingMetrics
from fairway.controllers.machines.permit_metrics import MACHINE_DEFINITIONS, PermitMetrics
from fairway.controllers.pods.metrics import POD_DEFINITIONS, PodMetrics
from fairway.controllers.recovery.metrics import RECOVERY_DEFINITIONS, RecoveryMetrics
from fairway.controllers.recovery.state_machine import Census
from fairway.controllers.scores.metrics import SCORE_DEFINITIONS, ScoreMetrics
from fairway.observe.meters import CHANGES, DEFINITIONS, MOST_LABELS, OTHER, Meters
from fairway.observe.provider_meters import PROVIDER_DEFINITIONS, ProviderMeters
from fairway.workloads.hosting import HostingState
from metric_values import values

ROOT = Path(__file__).parents[2]
METRICS_DOCUMENT = ROOT / "docs" / "reference" / "metrics.md"
ALL_DEFINITIONS = (
    *DEFINITIONS,
    *HOSTING_DEFINITIONS,
    *MACHINE_DEFINITIONS,
    *POD_DEFINITIONS,
    *PROVIDER_DEFINITIONS,
    *RECOVERY_DEFINITIONS,
    *SCORE_DEFINITIONS,
)


def shown(meters: Meters) -> dict[str, float]:
    return dict(values(meters.expose()))


def used() -> Meters:
    """Return meters with a value in every metric."""
    meters = Meters()
    queue = meters.queue("placement")
    queue.added(depth=1)
    queue.started(waited=0.1, depth=0)
    queue.finished(took=0.2)
    queue.retried()
    meters.cycle(seconds=1e-4, followed=True)
    meters.reaction(0.03)
    meters.decision("created")
    meters.write(controller="placement", resource="placementdecisions", verb="create", error="Conflict")
    meters.cells(kind="ManagedCluster", count=3)
    meters.leader(lease="fairway-placement", leading=True)
    meters.objects(kind="Placement", count=7)
    meters.lag(resource="placements", seconds=math.inf)
    meters.unreadable({("ManagedCluster", "status.capacity[]"): 1})
    meters.differences(2)
    meters.plugin_fault(plugin="Cheapest", point="Score")
    meters.plugin_call("Cheapest", "Score", 0.001)
    meters.plugin_quarantine(plugin="Cheapest", active=True)
    return meters


def used_by_providers() -> ProviderMeters:
    meters = ProviderMeters()
    meters.provider("usage", expiry=lambda: 90.0)
    meters.reading("usage", seconds=0.2)
    meters.reading_failed("usage", reason="InvalidValue")
    meters.write("usage")
    meters.write_failed("usage", reason="Conflict")
    meters.avoided("usage")
    meters.published("usage", "cluster1", {"cpuAvailable": -12})
    return meters


def used_by_controllers() -> Meters:
    """Return meters with a value in every metric of one controller."""
    meters = Meters()
    HostingMetrics(meters).show([], HostingState(), now=0)
    permits = PermitMetrics(meters)
    permits.follow(lambda: None)
    permits.replied(200, 0.01)
    PodMetrics(meters, profiles=("fairway",)).follow(lambda: None)
    RecoveryMetrics(meters).update(
        Census(fleet=3, known=2, low=1, tainted=1, exempt=0), held=0, suspected=False
    )
    ScoreMetrics(meters).update({"resource-usage-score": Counter()}, held=())
    return meters


def test_queue_metrics_count_adds_retries_and_durations() -> None:
    meters = Meters()
    queue = meters.queue("placement")
    queue.added(depth=1)
    queue.added(depth=2)
    queue.started(waited=0.003, depth=1)
    queue.finished(took=0.02)
    queue.retried()
    samples = shown(meters)
    assert samples['fairway_workqueue_adds_total{controller="placement"}'] == 2
    assert samples['fairway_workqueue_depth{controller="placement"}'] == 1
    assert samples['fairway_workqueue_retries_total{controller="placement"}'] == 1
    assert samples['fairway_workqueue_wait_seconds_bucket{controller="placement",le="0.0025"}'] == 0
    assert samples['fairway_workqueue_wait_seconds_bucket{controller="placement",le="0.005"}'] == 1
    assert samples['fairway_workqueue_work_seconds_sum{controller="placement"}'] == 0.02


def test_queue_returns_the_same_meter_per_controller() -> None:
    meters = Meters()
    assert meters.queue("placement") is meters.queue("placement")
    assert meters.queue("placement") is not meters.queue("clustersets")


def test_cycle_metric_distinguishes_followed_from_scratch() -> None:
    meters = Meters()
    meters.cycle(seconds=2e-5, followed=True)
    meters.cycle(seconds=3.0, followed=False)
    meters.cycle(seconds=30.0, followed=False)
    samples = shown(meters)
    assert samples['fairway_cycle_seconds_bucket{le="2.5e-05",path="followed"}'] == 1
    assert samples['fairway_cycle_seconds_bucket{le="10.0",path="scratch"}'] == 1
    assert samples['fairway_cycle_seconds_count{path="scratch"}'] == 2


def test_decision_changes_are_exported_as_zero_from_the_start() -> None:
    samples = shown(Meters())
    assert all(samples[f'fairway_decisions_changed_total{{change="{change}"}}'] == 0 for change in CHANGES)


def test_failed_write_counts_as_write_and_error() -> None:
    meters = Meters()
    meters.write(controller="placement", resource="placements/status", verb="patch")
    meters.write(controller="placement", resource="placements/status", verb="patch", error="Conflict")
    samples = shown(meters)
    where = 'controller="placement",'
    assert samples[f'fairway_writes_total{{{where}resource="placements/status",verb="patch"}}'] == 2
    errors = f'{{{where}reason="Conflict",resource="placements/status",verb="patch"}}'
    assert samples[f"fairway_write_errors_total{errors}"] == 1


def test_gauges_export_the_last_value() -> None:
    meters = used()
    meters.leader(lease="fairway-placement", leading=False)
    meters.objects(kind="Placement", count=8)
    samples = shown(meters)
    assert samples['fairway_leader{lease="fairway-placement"}'] == 0
    assert samples['fairway_objects{kind="Placement"}'] == 8
    assert samples['fairway_informer_lag_seconds{resource="placements"}'] == math.inf
    assert samples["fairway_shadow_differences"] == 2
    assert samples[f'fairway_build_info{{version="{__version__}"}}'] == 1


def test_difference_gauge_is_exported_only_by_a_shadow() -> None:
    assert "fairway_shadow_differences" not in shown(Meters())


def test_meters_of_one_process_are_separate() -> None:
    first, other = Meters(), Meters()
    first.decision("created")
    assert shown(first)['fairway_decisions_changed_total{change="created"}'] == 1
    assert shown(other)['fairway_decisions_changed_total{change="created"}'] == 0


def test_meters_use_the_given_registry() -> None:
    registry = CollectorRegistry()
    Meters(registry).decision("deleted")
    assert registry.get_sample_value("fairway_decisions_changed_total", {"change": "deleted"}) == 1


def test_process_and_gc_metrics_are_exported() -> None:
    samples = shown(Meters())
    assert samples["process_resident_memory_bytes"] > 0
    assert any(name.startswith("python_gc_collections_total") for name in samples)
    assert any(name.startswith("python_info") for name in samples)


def test_created_series_are_not_exported() -> None:
    assert not any("_created" in name.partition("{")[0] for name in shown(used()))


@pytest.mark.parametrize("seconds", [-1.0, math.nan, math.inf, -math.inf])
def test_invalid_durations_are_dropped(seconds: float) -> None:
    meters = Meters()
    meters.cycle(seconds=seconds, followed=True)
    meters.reaction(seconds)
    meters.queue("x").started(waited=seconds, depth=0)
    meters.queue("x").finished(took=seconds)
    samples = shown(meters)
    assert samples['fairway_cycle_seconds_sum{path="followed"}'] == 0
    assert samples["fairway_reaction_seconds_sum"] == 0


def test_nonpositive_counts_are_dropped() -> None:
    meters = Meters()
    meters.cells(kind="Placement", count=0)
    meters.cells(kind="Placement", count=-5)
    assert not any(name.startswith("fairway_cells_changed_total") for name in shown(meters))


@settings(max_examples=30)
@given(st.text())
def test_labels_from_a_hub_never_break_the_exposition(word: str) -> None:
    meters = Meters()
    meters.write(controller="placement", resource=word, verb=word, error=word)
    meters.decision(word)
    meters.lag(resource=word, seconds=1.0)
    meters.queue(word).retried()
    families = list(text_string_to_metric_families(meters.expose().decode()))
    assert (
        sum(
            sample.value
            for family in families
            if family.name == "fairway_writes"
            for sample in family.samples
        )
        == 1
    )


def test_number_of_reason_labels_is_limited() -> None:
    meters = Meters()
    for number in range(MOST_LABELS + 500):
        meters.write(controller="placement", resource="placements", verb="patch", error=f"Reason{number}")
    samples = {
        name: count for name, count in shown(meters).items() if name.startswith("fairway_write_errors")
    }
    assert len(samples) == MOST_LABELS + 1
    assert sum(samples.values()) == MOST_LABELS + 500
    assert (
        samples[
            f'fairway_write_errors_total{{controller="{OTHER}",reason="{OTHER}",resource="{OTHER}",verb="{OTHER}"}}'
        ]
        == 500
    )


# Names and documentation


Told = tuple[str, str, tuple[str, ...]]
"""Type, meaning, and sorted labels."""


def families() -> dict[str, Told]:
    """Return Fairway's own metrics, parsed from the exposition."""
    families: dict[str, Told] = {}
    exposed = (*used().expose().splitlines(), *used_by_providers().expose().splitlines())
    own = (
        b"fairway_hosting_",
        b"fairway_machines_",
        b"fairway_pods_",
        b"fairway_recovery_",
        b"fairway_scores",
    )
    of_controllers = used_by_controllers().expose().splitlines()
    exposed += tuple(line for line in of_controllers if any(prefix in line for prefix in own))
    lines = "\n".join(line.decode() for line in exposed)
    for family in text_string_to_metric_families(lines):
        if not family.name.startswith("fairway_"):
            continue
        labels = {label for sample in family.samples for label in sample.labels} - {"le"}
        name = f"{family.name}_total" if family.type == "counter" else family.name
        families[name] = (family.type, family.documentation, tuple(sorted(labels)))
    return families


def test_every_metric_is_exposed_with_type_meaning_and_labels() -> None:
    assert families() == {
        definition.name: (definition.type, definition.meaning, tuple(sorted(definition.labels)))
        for definition in ALL_DEFINITIONS
    }


def test_metric_names_follow_prometheus_conventions() -> None:
    for definition in ALL_DEFINITIONS:
        assert re.fullmatch(r"fairway_[a-z]+(_[a-z]+)*", definition.name)
        assert definition.name.endswith("_total") == (definition.type == "counter")
        assert definition.type != "histogram" or definition.name.endswith("_seconds")
        assert definition.buckets == tuple(sorted(definition.buckets))
        assert definition.meaning.endswith(".")


def test_metrics_page_lists_only_existing_metrics() -> None:
    text = METRICS_DOCUMENT.read_text(encoding="utf-8")
    names = {re.sub(r"_(bucket|sum|count)$", "", name) for name in re.findall(r"fairway_\w+", text)}
    assert names == set(families())
    others = set(re.findall(r"`((?:process|python)_\w+)`", text))
    shown_names = {name.partition("{")[0] for name in shown(used())}
    assert others == {name for name in shown_names if not name.startswith("fairway_")}


def test_unreadable_fields_metric_resets_and_is_limited() -> None:
    meters = Meters()
    meters.unreadable({("K", f"f{number}"): 2 for number in range(1003)})
    meters.unreadable({("K", "f0"): 1})
    samples = {name: value for name, value in values(meters.expose()).items() if "unreadable" in name}
    assert (len(samples), sum(samples.values())) == (1001, 1)
    assert samples['fairway_unreadable_fields{field="f0",kind="K"}'] == 1
