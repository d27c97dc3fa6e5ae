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
        objects: list[dict[str, Any]] = self.row["objects"]
        return objects


SCENARIOS: Final = tuple(Scenario(msgspec.json.decode(row)) for row in open_recording(str(RECORDING)).rows)
FAMILIES: Final = tuple(dict.fromkeys(scenario.family for scenario in SCENARIOS))


def chosen(family: str, *, few: Mapping[str, int], always: frozenset[str]) -> list[Scenario]:
    """``few`` scenarios, spread evenly over the family, and those named ``always``."""
    members = [scenario for scenario in SCENARIOS if scenario.family == family]
    asked = os.environ.get(VARIABLE, "")
    if asked == ALL:
        return members
    if asked:
        return [member for member in members if member.name in asked.split(",")]
    count = few[family]
    spread = {members[at * len(members) // count].name for at in range(count)}
    return [member for member in members if member.name in spread | always]
