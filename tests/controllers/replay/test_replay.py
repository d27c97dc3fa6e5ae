"""Recorded scenarios, with their objects created through the API and decided by the live controller.

``golden/placement.jsonl.gz`` is what OCM's own controller made of 330 hub states, and ``conformance/`` shows that the
engine makes the same of them. Here they go through everything else as well: the schemas of an API server, informers,
and writes over the wire. See ``expected`` for the differences there must be.
"""

import os
from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import Final

import msgspec
import pytest

from controllers.hubs import HubUnderTest, hub_of
from controllers.replay.expected import expected
from controllers.replay.stage import Document, Refused, Stage, seconds_until, staged
from fairway.kube import Connection, load
from fairway.testing.hub import embedded_hub
from fairway.whatif.conformance import open_recording
from fairway.whatif.differences import differences

GOLDEN: Final = Path(__file__).parents[2] / "golden" / "placement.jsonl.gz"
LENGTH: Final = int(os.environ.get("FAIRWAY_CHAOS", "1"))
FEW_OF_THE_LARGE: Final = 3 * LENGTH
"""Scenarios with more than a hundred decisions have hundreds of objects each."""
SAMPLE: Final = 2 * LENGTH
"""Of each family, on a real hub."""
TICK: Final = 0.0015
"""Seconds by which a timer may come after the moment it waits for."""

REFUSED: Final = {
    "misconfigured-0117": "spec.decisionStrategy.groupStrategy.clustersPerDecisionGroup",
    "misconfigured-0128": "spec.decisionStrategy.groupStrategy.clustersPerDecisionGroup",
    "misconfigured-0238": "spec.decisionStrategy.groupStrategy.clustersPerDecisionGroup",
    "misconfigured-0271": "spec.decisionStrategy.groupStrategy.clustersPerDecisionGroup",
    "misconfigured-0282": "spec.prioritizerPolicy.configurations[0].scoreCoordinate",
}
"""No API server takes these, so no controller ever sees them; and the field it complains about."""


def recorded() -> dict[str, list[Document]]:
    """By family."""
    families: dict[str, list[Document]] = {}
    for row in open_recording(str(GOLDEN)).rows:
        scenario: Document = msgspec.json.decode(row)
        families.setdefault(scenario["name"].rpartition("-")[0], []).append(scenario)
    return families


SCENARIOS: Final = recorded()


async def played(stage: Stage, scenario: Document, answers: Sequence[Document]) -> list[str]:
    """In what the hub differs from these answers, in words."""
    await stage.set_up(scenario)
    found: list[str] = []
    if expected({**scenario, "objects": await stage.objects()}) != expected(scenario):
        found.append(f"{scenario['name']}: defaults of the schemas change the answer")
    looked: set[str] = set()
    for at, (step, wanted) in enumerate(zip(scenario["schedule"], answers, strict=True)):
        namespace, _, name = step.partition("/")
        got = await stage.look((namespace, name))
        path = f"{scenario['name']}[{at}] {step}"
        if step not in looked:
            found += [f"{path}: {text}" for text in _wrong_scores(got, wanted)]
        looked.add(step)
        found += [f"{path}: {text}" for text in _late(got, wanted, now=scenario["now"])]
        found += [
            f"{each.path}: {each}" for each in differences(_comparable(wanted), _comparable(got), path=path)
        ]
    return found


def _comparable(answer: Document) -> Document:
    """The order of events is that of the writes, which go where nothing is lost on the way."""
    told = sorted(answer.get("events", []), key=lambda each: (each["reason"], each["message"]))
    decisions = [
        {key: each[key] for key in ("name", "labels", "clusters")} for each in answer.get("decisions", [])
    ]
    kept = {key: answer.get(key, []) for key in ("numberOfSelectedClusters", "conditions", "decisionGroups")}
    return {**kept, "decisions": decisions, "events": told}


def _wrong_scores(got: Document, wanted: Document) -> Iterator[str]:
    for page in got.get("decisions", []):
        for cluster, score in page["scores"].items():
            if wanted["events"] and score != wanted["totals"][cluster]:
                yield f"{cluster} is recorded with {score}, should be {wanted['totals'][cluster]}"


def _late(got: Document, wanted: Document, *, now: str) -> Iterator[str]:
    """Where the reference looks again at some moment, the controller must not come later."""
    if wanted["again"] is not None:
        seconds = seconds_until(wanted["again"], now=datetime.fromisoformat(now))
        if got["again"] is None or got["again"] > seconds + TICK:
            yield f"looks again in {got['again']} s, should in {seconds}"


async def play_all(connection: Connection, scenarios: Sequence[Document]) -> tuple[list[str], dict[str, str]]:
    """What differs, and which were refused with which words."""
    found: list[str] = []
    refused: dict[str, str] = {}
    async with staged(connection) as stage:
        for scenario in scenarios:
            try:
                found += await played(stage, scenario, expected(scenario))
            except Refused as refusal:
                refused[scenario["name"]] = str(refusal)
            await stage.clear()
        await stage.recorder.flush()
        assert stage.recorder.figures().refused == 0
    return found, refused


def check(scenarios: Sequence[Document], found: list[str], refused: dict[str, str]) -> None:
    assert not found, "\n".join(found[:20])
    known = {name: field for name, field in REFUSED.items() if name in {each["name"] for each in scenarios}}
    assert refused.keys() == known.keys()
    assert [name for name, field in known.items() if field not in refused[name]] == []


@pytest.mark.parametrize("family", SCENARIOS)
async def test_the_hub_shows_what_was_recorded(family: str, tmp_path: Path) -> None:
    scenarios = SCENARIOS[family][: FEW_OF_THE_LARGE if family == "slices" else None]
    async with embedded_hub() as hub:
        hub.certificates.write_kubeconfig(tmp_path / "kubeconfig", server=hub.url)
        check(scenarios, *await play_all(load(tmp_path / "kubeconfig").context(), scenarios))


@pytest.fixture(scope="module")
def real(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[HubUnderTest]:
    """One that nobody else puts clusters on."""
    folder = tmp_path_factory.mktemp("replay")
    with hub_of("real", folder=folder, tools=lambda: request.getfixturevalue("kube_tools")) as hub:
        yield hub


@pytest.mark.kube
@pytest.mark.parametrize("family", SCENARIOS)
async def test_a_real_hub_shows_what_was_recorded(family: str, real: HubUnderTest) -> None:
    scenarios = sorted(SCENARIOS[family], key=lambda each: len(each["objects"]))[
        -(1 if family == "slices" else SAMPLE) :
    ]
    check(scenarios, *await play_all(real.administrator, scenarios))


async def test_a_wrong_answer_would_be_noticed(tmp_path: Path) -> None:
    scenario = next(each for each in SCENARIOS["prioritizers"] if expected(each)[0]["totals"])
    (spoilt,) = expected(scenario)
    spoilt["numberOfSelectedClusters"] += 1
    spoilt["events"].pop()
    spoilt["totals"] = dict.fromkeys(spoilt["totals"], 12345)
    spoilt["conditions"][0]["message"] = "another"
    spoilt["again"] = scenario["now"]
    async with embedded_hub() as hub:
        hub.certificates.write_kubeconfig(tmp_path / "kubeconfig", server=hub.url)
        async with staged(load(tmp_path / "kubeconfig").context()) as stage:
            found = await played(stage, scenario, [spoilt])
    for word in ("numberOfSelectedClusters", "events", "is recorded with", "conditions", "looks again"):
        assert any(word in text for text in found), found
