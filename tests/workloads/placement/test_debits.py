"""Debits that are rebuilt from decisions and scores on the hub."""

from datetime import datetime, timedelta

import pytest
from msgspec import structs

from fairway.hosts.clusters import Fleet
from fairway.hosts.clusters.promises import MEASURED_AFTER
from fairway.testing.builders import cluster, decision, score
from fairway.workloads.placement.debits import rebuild_debits
from strategies import NOW, NOW_MICROS

OWNER = ("ns1", "p")
DELTAS = {("usage", "cpu"): -5, ("hosted", "count"): 1}


def fleet_of(**versions: str) -> Fleet:
    """A cluster with scores of these resource versions."""
    fleet = Fleet()
    fleet.load([cluster("a")])
    for name, version in versions.items():
        made = score("a", {"cpu": 50}, name=name)
        fleet.upsert_score(
            structs.replace(made, metadata=structs.replace(made.metadata, resourceVersion=version))
        )
    return fleet


def rebuilt(
    fleet: Fleet, *, version: str = "100", created: datetime | None = NOW
) -> dict[tuple[str, str], int]:
    page = decision("p-decision-1", ["a", "not-a-cluster"], placement="p")
    meta = structs.replace(page.metadata, resourceVersion=version, creationTimestamp=created)
    rebuild_debits(fleet, OWNER, DELTAS, [structs.replace(page, metadata=meta)], now=NOW_MICROS)
    return dict(fleet.snapshot().debits.of("a").get(OWNER, {}))


def test_decision_newer_than_the_score_is_debited_again() -> None:
    assert rebuilt(fleet_of(usage="99", hosted="99")) == DELTAS


def test_score_published_after_the_decision_has_no_debit() -> None:
    assert rebuilt(fleet_of(usage="101", hosted="99")) == {("hosted", "count"): 1}


def test_missing_score_has_no_debit() -> None:
    assert rebuilt(fleet_of(usage="99")) == {("usage", "cpu"): -5}


@pytest.mark.parametrize("created", [NOW - timedelta(microseconds=MEASURED_AFTER + 1), None])
def test_old_decision_is_not_debited_again(created: datetime | None) -> None:
    assert rebuilt(fleet_of(usage="99"), created=created) == {}


def test_versions_that_are_not_numbers_rebuild_no_debits() -> None:
    assert rebuilt(fleet_of(usage="99"), version="") == {}
    assert rebuilt(fleet_of(usage="x")) == {}


def test_rebuilding_replaces_debits() -> None:
    fleet = fleet_of(usage="101")
    fleet.debit(OWNER, ["a"], DELTAS)
    assert rebuilt(fleet) == {}
