"""The parts of health, and how they combine.

    health = (the worst part + the mean of all parts by weight) / 2

One bad part cannot hide behind good ones, and several mediocre ones add up. An unknown part is left out.
"""

from collections.abc import Mapping
from typing import Final

from fairway.providers.provider import Score
from fairway.providers.scales import Direct, Inverted, Linear, Logarithmic

HEALTH: Final = "health"
NODES: Final = "healthNodes"
API: Final = "healthApi"
ADD_ONS: Final = "healthAddOns"
RESTARTS: Final = "healthRestarts"
PARTS: Final = (NODES, API, ADD_ONS, RESTARTS)

WEIGHTS: Final[Mapping[str, float]] = {NODES: 3.0, API: 3.0, ADD_ONS: 2.0, RESTARTS: 1.0}
THRESHOLDS: Final = (40, 60)
"""Defaults of the recovery controller; crossing one is published at once."""

WORST: Final = "the worst part is {name}: {words}"
ALL_WELL: Final = "all parts are at their best"
_WORDS: Final = {
    NODES: "{value:.4g} % of the nodes are ready",
    API: "9 of 10 requests to the API server took up to {value:.4g} ms",
    ADD_ONS: "{value:.4g} % of the pods of add-ons and the control plane are ready",
    RESTARTS: "{value:.4g} restarts per 100 containers and hour",
}


def scores(thresholds: tuple[int, ...] = THRESHOLDS) -> tuple[Score, ...]:
    """Units are chosen so that integers are precise enough."""
    return (
        Score(
            name=HEALTH,
            scale=Direct(floor=0),
            meaning="Health: half the worst part, half the weighted mean of all parts.",
            thresholds=thresholds,
        ),
        Score(
            name=NODES,
            scale=Linear(50, 100),
            unit="%",
            meaning="Ready nodes; a node under memory, disk or PID pressure counts half.",
        ),
        Score(
            name=API,
            scale=Inverted(Logarithmic(50, 5000)),
            unit="ms",
            meaning="90th percentile of API request durations, including requests without a response.",
        ),
        Score(
            name=ADD_ONS,
            scale=Linear(50, 100),
            unit="%",
            meaning="Pods of the control plane and of add-ons that are ready.",
        ),
        Score(
            name=RESTARTS,
            scale=Inverted(Linear(0, 100)),
            unit="per 100 containers and hour",
            meaning="Recent container restarts; an evicted pod counts one restart per container.",
        ),
    )


def combine(parts: Mapping[str, int], weights: Mapping[str, float] = WEIGHTS) -> float | None:
    """Combine the known parts that have a weight; None if there are none."""
    known = {name: score for name, score in parts.items() if weights.get(name, 0.0) > 0.0}
    if not known:
        return None
    total = sum(weights[name] for name in known)
    mean = sum(weights[name] * score for name, score in known.items()) / total
    return (min(known.values()) + mean) / 2


def describe_worst(parts: Mapping[str, int], values: Mapping[str, float]) -> str:
    """Describe the worst part; the first in the order of PARTS among equals."""
    name = min((name for name in PARTS if name in parts), key=lambda name: parts[name])
    if parts[name] >= 100:
        return ALL_WELL
    return WORST.format(name=name, words=_WORDS[name].format(value=values[name]))
