"""Recorded scenarios, replayed through the placement controller on a hub: the same answers as ``fairway conformance``.

One controller lives through all scenarios of a family, and sees the fleet of one become that of the next.
"""

from typing import Any, Final

import pytest

from controllers.hubs import HubUnderTest
from controllers.replay.hub_state import HubState, Refused
from controllers.replay.live import Live
from controllers.replay.replaying import Step, replay
from controllers.replay.scenarios import FAMILIES, SCENARIOS, chosen

BY_HUB: Final = {"embedded": 3, "real": 2}
"""How many scenarios of a family are replayed; all of them run without a hub in tests/conformance."""
LARGE: Final = {"embedded": {"slices": 1}, "real": {"slices": 1}}
"""These have hundreds of objects."""

ON_BOTH_HUBS: Final = ("misconfigured", "sequence")
"""Families in which a real API server could make a difference: what it rejects, and what it stores."""

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
@pytest.mark.parametrize(
    "family",
    [
        pytest.param(family, marks=[] if family in ON_BOTH_HUBS else [pytest.mark.embedded])
        for family in FAMILIES
    ],
)
async def test_controller_decisions_match_recorded_ones(
    family: str, hub: HubUnderTest, hub_state: HubState, controller: Live
) -> None:
    few = {family: LARGE[hub.kind].get(family, BY_HUB[hub.kind]) for family in FAMILIES}
    refused: dict[str, str] = {}
    faults: list[str] = []
    scenarios = chosen(family, few=few, always=frozenset(REFUSED))
    for scenario in scenarios:
        try:
            async for step in replay(scenario, hub_state=hub_state, live=controller):
                faults += step.faults()
        except Refused as refusal:
            refused[scenario.name] = str(refusal)
    assert not faults, "\n".join(faults)
    assert refused.keys() == REFUSED.keys() & {scenario.name for scenario in scenarios}
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


@pytest.mark.embedded
async def test_every_wrong_field_of_an_answer_is_reported(hub_state: HubState, controller: Live) -> None:
    telling = next(
        scenario for scenario in SCENARIOS if scenario.row["expected"][0]["numberOfSelectedClusters"] > 1
    )
    (step,) = [step async for step in replay(telling, hub_state=hub_state, live=controller)]
    assert step.faults() == []
    for field, value in WRONG.items():
        wrong = Step(place=step.place, wanted=step.wanted | {field: value}, got=step.got, late=False)
        assert wrong.faults()
        assert all(f": {field}" in fault for fault in wrong.faults())


def test_every_family_is_replayed_in_part_or_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FAIRWAY_REPLAY", raising=False)
    assert len(SCENARIOS) == 330
    assert len(FAMILIES) == 11
    for family in FAMILIES:
        assert len(chosen(family, few={family: 3}, always=frozenset())) == 3
    monkeypatch.setenv("FAIRWAY_REPLAY", "all")
    assert [
        scenario for family in FAMILIES for scenario in chosen(family, few={}, always=frozenset())
    ] == sorted(SCENARIOS, key=lambda scenario: FAMILIES.index(scenario.family))
