"""Watch events about objects that are being written: our own writes, or those of another client."""

import pytest

from fairway.controllers.placement.record import InflightWrite, PlacementRecord
from fairway.testing import builders
from fairway.workloads.placement import PlacementWorkload


@pytest.fixture
def record() -> PlacementRecord:
    placement = builders.placement("p")
    return PlacementRecord(placement, PlacementWorkload(placement))


def test_event_without_a_write_in_flight_need_not_wait(record: PlacementRecord) -> None:
    assert not record.observe("5")
    record.writing = InflightWrite()
    assert record.observe("5")


def test_event_of_an_own_write_is_no_external_modification_whichever_arrives_first(
    record: PlacementRecord,
) -> None:
    record.writing = writing = InflightWrite()
    record.observe("5")
    record.answer("5")
    record.answer("6")
    record.observe("6")
    assert not writing.externally_modified


def test_event_of_a_version_that_we_did_not_write_is_an_external_modification(
    record: PlacementRecord,
) -> None:
    record.writing = writing = InflightWrite()
    record.observe("5")
    record.answer("6")
    assert writing.externally_modified


def test_pages_of_events_are_checked_when_the_write_ends(record: PlacementRecord) -> None:
    record.writing = writing = InflightWrite(pages={"ours"})
    record.observe("5", pages={"theirs"})
    assert writing.pages == {"ours", "theirs"}


def test_dirty_placement_stays_externally_modified(record: PlacementRecord) -> None:
    record.settled = frozenset({"a"})
    record.mark_dirty(externally_modified=True)
    record.mark_dirty(externally_modified=False)
    assert record.externally_modified
    assert record.settled is None
