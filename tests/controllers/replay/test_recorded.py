"""Recorded scenarios, replayed through the placement controller on a hub: the same answers as ``fairway conformance``.

One controller lives through all scenarios of a family, and sees the fleet of one become that of the next.
"""

from typing import Any, Final

import pytest

from controllers.hubs import HubUnderTest
from controllers.replay.live import Live
from controllers.replay.replaying import Step, replay
from controllers.replay.scenarios import FAMILIES, SCENARIOS, chosen
from controllers.replay.scenery import Refused, Stage

BY_HUB: Final = {"embedded": 6, "real": 2}
"""How many scenarios of a family are replayed; all of them run without a hub in tests/conformance."""
LARGE: Final = {"embedded": {"slices": 1}, "real": {"slices": 1}}
"""These have hundreds of objects."""

NOT_A_COUNT: Final = 'clustersPerDecisionGroup: Invalid value: "abc"'
REFUSED: Final = {
    "misconfigured-0117": NOT_A_COUNT,
    "misconfigured-0128": NOT_A_COUNT,
    "misconfigured-0238": NOT_A_COUNT,
    "misconfigured-0271": NOT_A_COUNT,
    "misconfigured-0282": "configurations[0].scoreCoordinate: Required value",
}
"""No hub takes these: they were recorded without one. They are always tried."""


@pytest.mark.timeout(1200)  # all large ones take minutes on a busy machine
@pytest.mark.parametrize("family", FAMILIES)
async def test_the_controller_answers_as_recorded(
    family: str, hub: HubUnderTest, stage: Stage, controller: Live
) -> None:
    few = {each: LARGE[hub.kind].get(each, BY_HUB[hub.kind]) for each in FAMILIES}
    refused: dict[str, str] = {}
    faults: list[str] = []
    scenarios = chosen(family, few=few, always=frozenset(REFUSED))
    for scenario in scenarios:
        try:
            async for step in replay(scenario, stage=stage, live=controller):
                faults += step.faults()
        except Refused as refusal:
            refused[scenario.name] = str(refusal)
    assert not faults, "\n".join(faults)
    assert refused.keys() == REFUSED.keys() & {each.name for each in scenarios}
    for name, message in refused.items():
        assert REFUSED[name] in message


WRONG: Final[dict[str, Any]] = {
    "numberOfSelectedClusters": 99,
    "conditions": [],
    "decisionGroups": [],
    "decisions": [],
    "events": {},
    "records": {},
}


@pytest.mark.parametrize("field", WRONG)
async def test_a_wrong_answer_would_be_noticed(field: str, stage: Stage, controller: Live) -> None:
    telling = next(each for each in SCENARIOS if each.row["expected"][0]["numberOfSelectedClusters"] > 1)
    (step,) = [each async for each in replay(telling, stage=stage, live=controller)]
    assert step.faults() == []
    wrong = Step(place=step.place, wanted=step.wanted | {field: WRONG[field]}, got=step.got, late=False)
    assert wrong.faults()
    assert all(f": {field}" in fault for fault in wrong.faults())


def test_every_family_is_replayed_in_part_or_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FAIRWAY_REPLAY", raising=False)
    assert len(SCENARIOS) == 330
    assert len(FAMILIES) == 11
    for family in FAMILIES:
        assert len(chosen(family, few={family: 3}, always=frozenset())) == 3
    monkeypatch.setenv("FAIRWAY_REPLAY", "all")
    assert [each for family in FAMILIES for each in chosen(family, few={}, always=frozenset())] == sorted(
        SCENARIOS, key=lambda each: FAMILIES.index(each.family)
    )
