"""The recorded scenarios, and which are replayed: a few of each family, or with ``FAIRWAY_REPLAY=all`` every one.

``FAIRWAY_REPLAY`` may also be names of scenarios, such as ``groups-0007,sets-0001``, to look into those.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec

from fairway.whatif.conformance.recording import open_recording

RECORDING: Final = Path(__file__).parents[2] / "golden" / "placement.jsonl.gz"
VARIABLE: Final = "FAIRWAY_REPLAY"
ALL: Final = "all"


@dataclass(frozen=True, slots=True)
class Scenario:
    row: Mapping[str, Any]
    """As recorded."""

    @property
    def name(self) -> str:
        return str(self.row["name"])

    @property
    def family(self) -> str:
        return self.name.rpartition("-")[0]

    @property
    def objects(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.row["objects"]
        return found


SCENARIOS: Final = tuple(Scenario(msgspec.json.decode(row)) for row in open_recording(str(RECORDING)).rows)
FAMILIES: Final = tuple(dict.fromkeys(each.family for each in SCENARIOS))


def chosen(family: str, *, few: Mapping[str, int], always: frozenset[str]) -> list[Scenario]:
    """``few`` scenarios, spread evenly over the family, and those named ``always``."""
    members = [each for each in SCENARIOS if each.family == family]
    asked = os.environ.get(VARIABLE, "")
    if asked == ALL:
        return members
    if asked:
        return [each for each in members if each.name in asked.split(",")]
    count = few[family]
    spread = {members[at * len(members) // count].name for at in range(count)}
    return [each for each in members if each.name in spread | always]
