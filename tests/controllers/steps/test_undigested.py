"""A change that fails unexpectedly does not affect others."""

import logging
from functools import partial
from typing import Any

import pytest

from clocks import ManualClock
from fairway.api.clusterset import ManagedClusterSet
from fairway.controllers.placement import state as module
from fairway.controllers.placement.queue import PlacementQueue
from fairway.controllers.placement.state import PlacementState
from fairway.hosts.clusters import Fleet
from fairway.hosts.journal import Change
from fairway.observe.meters import Meters
from fairway.testing import builders as make
from kubewire.client import Added, Batch


def test_unprocessed_changes_survive_a_failing_one(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    known = Fleet.upsert_set

    def upsert(self: Fleet, source: ManagedClusterSet) -> Change:
        if source.metadata.name == "odd":
            raise RuntimeError("nobody foresaw this")
        return known(self, source)

    monkeypatch.setattr(Fleet, "upsert_set", upsert)
    state = PlacementState(PlacementQueue(ManualClock()), meters=Meters())
    changes: tuple[Added[Any], ...] = tuple(Added(make.cluster_set(name)) for name in ("a", "odd", "b"))
    batch = Batch(changes=changes, epoch=0, listed=True, resource_version="1")
    with caplog.at_level(logging.ERROR):
        module._guarded(partial(state.objects_changed, "ManagedClusterSet"))(batch)
    assert sorted(state.fleet.snapshot().sets) == ["a", "b"]
    assert [record.getMessage() for record in caplog.records] == [
        "cannot process object, keeping the last valid version  kind=ManagedClusterSet object=/odd"
    ]
