"""The result of every recorded placement scenario equals that of the reference.

``golden/placement.jsonl.gz`` has 330 hub states of one to twelve steps each, with the results of the placement
controller of Open Cluster Management (commit 00f84c32b of 2026-08-11, its own scheduler and controller with an
in-memory client): decisions, their order, labels and pages, status, conditions, events, filter and prioritizer
results. Recorded quantities and CEL expressions are checked in whatif/conformance/test_recording.py.
"""

from collections import Counter
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec import Raw, Struct

from every import every
from fairway.whatif.conformance import placement
from fairway.whatif.conformance.differences import Difference
from fairway.whatif.conformance.recording import PLACEMENT, open_recording

RECORDING = open_recording(str(Path(__file__).parents[1] / "golden" / "placement.jsonl.gz"))


class Named(Struct):
    name: str
    expected: list[Raw]


NAMES = [msgspec.json.decode(row, type=Named).name for row in RECORDING.rows]


@every("row", RECORDING.rows, ids=lambda row: msgspec.json.decode(row, type=Named).name)
def test_recorded_placement_scenario_matches_the_reference(row: bytes) -> None:
    scenario: dict[str, Any] = msgspec.json.decode(row)
    (result,) = placement.run([scenario])
    assert result.differences == ()


def test_placement_recording_is_complete() -> None:
    assert RECORDING.family == PLACEMENT
    assert len(set(NAMES)) == len(NAMES) == 330
    assert Counter(name.rstrip("0123456789-_/ ") for name in NAMES).keys() == FAMILIES
    assert all(msgspec.json.decode(row, type=Named).expected for row in RECORDING.rows)


FAMILIES = {
    "predicates",
    "cel",
    "taints",
    "prioritizers",
    "groups",
    "sets",
    "sequence",
    "misconfigured",
    "slices",
    "mixed",
    "requeue",
}


WRONG_ANSWERS = {"numberOfSelectedClusters": 99, "conditions": [], "decisions": [], "decisionGroups": []}


@pytest.mark.parametrize("field", WRONG_ANSWERS)
def test_wrong_placement_result_is_a_difference(field: str) -> None:
    scenario: dict[str, Any] = msgspec.json.decode(RECORDING.rows[0])
    scenario["expected"][0][field] = WRONG_ANSWERS[field]
    (result,) = placement.run([scenario])
    assert [difference for difference in result.differences if _about(difference, field)]


def _about(difference: Difference, field: str) -> bool:
    return difference.path.startswith(f"expected[0].{field}")
