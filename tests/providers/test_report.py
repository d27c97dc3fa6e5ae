"""The report of scores, clusters and add-ons: states and reasons."""

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from fairway.api.cluster import ManagedCluster
from fairway.api.score import ManagedClusterScore
from fairway.providers.freshness import Entry, Health, State
from fairway.providers.report import AddOn, Published, Registry, document, format_span

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
GROUP = ("AddOnPlacementScore", "usage-score")


def moment(seconds: float) -> str:
    return (NOW + timedelta(seconds=seconds)).isoformat()


def condition(kind: str, status: str, *, reason: str = "Said", message: str = "", at: float = -60) -> Any:
    return {
        "type": kind,
        "status": status,
        "reason": reason,
        "message": message,
        "lastTransitionTime": moment(at),
    }


def cluster(name: str, available: str = "True", *, at: float = -600) -> ManagedCluster:
    conditions = (
        [condition("ManagedClusterConditionAvailable", available, reason="Lease", at=at)] if available else []
    )
    return msgspec.convert({"metadata": {"name": name}, "status": {"conditions": conditions}}, ManagedCluster)


def score(
    name: str,
    *,
    until: float | None = 60,
    written: float | None = -120,
    provider: str = "usage",
    writer: str = "fairway-provider-usage",
    conditions: tuple[Any, ...] = (),
    values: tuple[str, ...] = ("cpu",),
    resource: str = "usage-score",
) -> Published:
    fields = []
    if written is not None:
        fields = [
            {"manager": writer, "time": moment(written), "operation": "Apply", "subresource": "status"},
            {"manager": "kubectl", "time": moment(0), "operation": "Update"},
            {"manager": "fairway-scores", "time": moment(0), "operation": "Update", "subresource": "status"},
        ]
    body = {
        "metadata": {
            "name": resource,
            "namespace": name,
            "labels": {"fairway.dev/provider": provider} if provider else {},
            "managedFields": fields,
        },
        "status": {
            "scores": [{"name": value, "value": 1} for value in values],
            "conditions": list(conditions),
            **({} if until is None else {"validUntil": moment(until)}),
        },
    }
    return msgspec.convert(body, Published)


def addon(name: str, status: str | None, message: str = "", *, called: str = "usage") -> AddOn:
    conditions = [condition("Available", status, message=message)] if status else []
    body = {"metadata": {"name": called, "namespace": name}, "status": {"conditions": conditions}}
    return msgspec.convert(body, AddOn)


def health(*things: object, group: tuple[str, str] = GROUP, absolute: bool = False) -> Health:
    registry = Registry(absolute=absolute)
    for item in things:
        registry.put(item)
    return registry.health(group, now=NOW)


def entry(*things: object) -> Entry:
    return health(cluster("c1"), *things).entries[0]


UPDATED = "AddOnPlacementScoreUpdated"


@pytest.mark.parametrize(
    ("published", "state", "why"),
    [
        (score("c1"), State.FRESH, ""),
        (
            score("c1", until=-180, written=-360),
            State.EXPIRED,
            "usage-score expired 3m ago (last written 6m ago by fairway-provider-usage); cluster available",
        ),
        (
            score("c1", until=-180, written=None),
            State.EXPIRED,
            "usage-score expired 3m ago (last write unknown); cluster available",
        ),
        (
            score("c1", conditions=(condition(UPDATED, "False", message="no\nnodes"),)),
            State.FAILING,
            "usage-score is valid, but its provider reports: no nodes (last written 2m ago by fairway-provider-usage); "
            "cluster available",
        ),
        (
            score("c1", until=-1, conditions=(condition(UPDATED, "False", reason="Broken"),)),
            State.EXPIRED,
            "usage-score expired 1s ago, and its provider reports: Broken (last written 2m ago by "
            "fairway-provider-usage); cluster available",
        ),
        (
            score("c1", until=None, conditions=(condition("fairway.dev/Silent", "True", at=-30),)),
            State.SILENT,
            "usage-score marked silent 30s ago (last written 2m ago by fairway-provider-usage); "
            "cluster available",
        ),
        (
            score("c1", until=None),
            State.ENDLESS,
            "usage-score has no validUntil: a dead publisher would go unnoticed "
            "(last written 2m ago by fairway-provider-usage)",
        ),
        (
            score("c1", values=()),
            State.EMPTY,
            "usage-score contains no score yet (last written 2m ago by fairway-provider-usage); cluster available",
        ),
        (
            score("c1", values=(), until=-120, conditions=(condition(UPDATED, "False", message="no nodes"),)),
            State.FAILING,
            "usage-score contains no score yet, and its provider reports: no nodes (last written 2m ago by "
            "fairway-provider-usage); cluster available",
        ),
    ],
)
def test_provider_report_states_and_reasons(published: Published, state: State, why: str) -> None:
    listed = entry(published)
    assert (listed.state, listed.why) == (state, why)


@pytest.mark.parametrize(
    ("things", "ending"),
    [
        ((addon("c1", "False", "pod crashes"),), "add-on usage not available: pod crashes"),
        ((addon("c1", "True"),), "add-on usage available"),
        ((addon("c1", None),), "add-on usage has not reported yet"),
        ((addon("c2", "False", "elsewhere"),), "cluster available"),
        ((addon("c1", "False", "gone", called="usage-score"),), "add-on usage-score not available: gone"),
        ((cluster("c1", ""),), "cluster has not reported yet"),
        ((cluster("c1", "Unknown", at=-600),), "cluster not available (Lease) since 2026-03-01T11:50:00Z"),
    ],
)
def test_provider_report_names_cluster_and_addon_problems(things: tuple[object, ...], ending: str) -> None:
    assert entry(score("c1", until=-1), *things).why.endswith(f"; {ending}")


def test_provider_report_finds_addon_of_other_name() -> None:
    late = score("c1", until=-1, provider="resource-usage")
    listed = entry(late, addon("c1", "False", "pod crashes", called="resource-usage-collect"))
    assert listed.why.endswith("add-on resource-usage-collect not available: pod crashes")


def test_provider_report_lists_missing_and_stray_scores() -> None:
    report = health(cluster("c1"), cluster("c2"), score("c1"), score("gone", until=-1))
    assert [(entry.cluster, entry.state) for entry in report.entries] == [
        ("gone", State.EXPIRED),
        ("c2", State.MISSING),
        ("c1", State.FRESH),
    ]
    assert report.entries[0].why.endswith("no such cluster")
    assert report.entries[1].why == "no usage-score; cluster available"
    assert (report.published, report.fleet) == (1, 2)


def test_provider_report_lists_fresh_score_of_deleted_cluster() -> None:
    report = health(cluster("c1"), cluster("c2"), score("c1"), score("gone"))
    assert report.problem == "gone: no such cluster"
    assert (report.published, report.fleet) == (1, 2)
    endless = health(cluster("c1"), score("gone", until=None))
    assert endless.problem.endswith("; no such cluster")


def test_provider_report_lists_scores_without_validity() -> None:
    report = health(*map(cluster, ("c1", "c2", "c3")), score("c1"), score("c2", until=None))
    assert report.problem == ("none for c3; 1 of 2 have no validUntil: a dead publisher would go unnoticed")


def test_provider_report_lists_addon_that_never_published() -> None:
    registry = Registry()
    for item in (
        cluster("c1"),
        cluster("c2"),
        addon("c2", "False", "pod crashes", called="resource-usage-collect"),
        addon("c1", "True", called="something-else"),
    ):
        registry.put(item)
    (group,) = registry.groups()
    assert group == ("AddOnPlacementScore", "resource-usage-score")
    assert registry.names() == {"resource-usage", "resource-usage-score"}
    health = registry.health(group, now=NOW)
    assert (health.provider, health.published, health.fleet) == ("resource-usage", 0, 2)
    assert health.problem == (
        "c2: no resource-usage-score; cluster available; "
        "add-on resource-usage-collect not available: pod crashes"
    )
    registry.put(score("c1", resource="resource-usage-score"))
    assert registry.groups() == [group]
    assert registry.health(group, now=NOW).provider == "usage"  #  a publishing writer names the provider


def test_provider_report_detects_clock_difference() -> None:
    late = entry(score("c1", until=-180, written=-120))
    assert late.why.startswith(
        "usage-score expired 3m ago, before it was written: the provider's clock is behind "
        "(last written 2m ago by "
    )
    assert entry(score("c1", until=-180, written=-175)).why.startswith("usage-score expired 3m ago (")
    ahead = health(cluster("c1"), calculated("c1", at=7200), group=("ManagedClusterScore", "ratio"))
    assert "(last written in 120m)" in ahead.entries[0].why
    assert format_span(NOW + timedelta(seconds=9), NOW) == "0s"


def test_provider_report_sorts_by_severity() -> None:
    late = [score(f"c{at}", until=-at) for at in (1, 2, 3)]
    report = health(*(cluster(f"c{at}") for at in range(1, 5)), *late)
    assert report.problem == f"c1: {report.entries[0].why} (and 2 more)"
    without = health(*(cluster(f"c{at}") for at in range(1, 7)), score("c1"))
    assert without.problem == "none for c2, c3, c4 (and 2 more)"
    assert health(cluster("c1"), cluster("c2"), score("c1")).problem == "none for c2"
    assert health(cluster("c1"), score("c1")).problem == ""


def test_provider_report_names_provider() -> None:
    assert health(score("c1")).provider == "usage"
    assert health(score("c1", provider="", writer="agent")).provider == "agent"
    assert health(score("c1", provider="", written=None)).provider == "usage-score"
    mixed = health(score("c1", provider=""), score("c2", provider="usage"), score("c3", provider="usage"))
    assert mixed.provider == "usage"
    assert mixed.writers == ("fairway-provider-usage",)


def test_provider_report_with_absolute_times() -> None:
    report = health(cluster("c1"), score("c1", until=-180, written=-360), absolute=True)
    assert report.entries[0].why.startswith(
        "usage-score expired at 2026-03-01T11:57:00Z (last written at 2026-03-01T11:54:00Z by "
    )


def calculated(name: str, status: str = "True", *, at: float = -300) -> ManagedClusterScore:
    updated = condition("ManagedClusterScoreUpdated", status, message="no CPU") | {
        "lastUpdateTime": moment(at)
    }
    body = {
        "metadata": {"name": f"{name}-ratio", "namespace": name},
        "status": {"score": 5, "conditions": [updated]},
    }
    return msgspec.convert(body, ManagedClusterScore)


def test_provider_report_of_calculator() -> None:
    group = ("ManagedClusterScore", "ratio")
    report = health(
        cluster("c1"), cluster("c2"), calculated("c1"), calculated("c2", "False", at=-900), group=group
    )
    assert [(entry.cluster, entry.state, entry.scores) for entry in report.entries] == [
        ("c2", State.FAILING, ("ratio",)),
        ("c1", State.ENDLESS, ("ratio",)),
    ]
    assert "its provider reports: no CPU (last written 15m ago)" in report.entries[0].why
    assert report.oldest == NOW - timedelta(seconds=900)
    assert report.provider == "ratio"


def test_provider_report_of_unwritten_score() -> None:
    meta = {"name": "c1-ratio", "namespace": "c1", "creationTimestamp": moment(-600)}
    made = msgspec.convert({"metadata": meta}, ManagedClusterScore)
    (listed,) = health(cluster("c1"), made, group=("ManagedClusterScore", "ratio")).entries
    assert (listed.state, listed.why) == (
        State.EMPTY,
        "ratio contains no score yet (created 10m ago, never written); cluster available",
    )


def test_provider_report_follows_changes() -> None:
    registry = Registry()
    things = (cluster("c1"), score("c1", until=-1), addon("c1", "False", "bad"), calculated("c1"))
    for item in things:
        registry.put(item)
    assert registry.groups() == [("ManagedClusterScore", "ratio"), GROUP]
    assert registry.names() == {"ratio", "usage", "usage-score"}
    registry.drop(things[2])
    assert registry.health(GROUP, now=NOW).entries[0].why.endswith("cluster available")
    registry.drop(things[1])
    registry.drop(things[3])
    assert registry.groups() == []
    registry.drop(things[0])
    assert registry.clusters == {}


def test_provider_report_as_document() -> None:
    report = health(cluster("c1"), cluster("c2"), score("c1"), score("c2", until=-1))
    (brief,) = document([report], problems_only=True)["providers"]
    assert [cluster["cluster"] for cluster in brief["clusters"]] == ["c2"]
    (whole,) = document([report], problems_only=False)["providers"]
    assert [cluster["cluster"] for cluster in whole["clusters"]] == ["c2", "c1"]
    assert whole["states"] == {
        "silent": 0,
        "expired": 1,
        "failing": 0,
        "empty": 0,
        "missing": 0,
        "endless": 0,
        "fresh": 1,
    }
    assert (whole["oldest"], whole["published"], whole["fleet"]) == ("2026-03-01T11:58:00Z", 2, 2)
