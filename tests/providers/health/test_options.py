"""Options of the health provider, valid and invalid."""

from typing import Any

import pytest

from fairway.providers.catalogue import CATALOGUE, Context, OptionsError
from fairway.providers.health import HealthOptions, health
from fairway.providers.health.parts import WEIGHTS


def test_health_defaults() -> None:
    assert HealthOptions.read({}) == HealthOptions()


def test_all_health_options() -> None:
    options = HealthOptions.read(
        {
            "namespaces": ["kube-*"],
            "weights": {"healthRestarts": 0},
            "window": "5m",
            "probe": "/readyz",
            "probeInterval": "5s",
            "probeTimeout": 2,
            "thresholds": [0],
            "interval": "30s",
        }
    )
    assert options == HealthOptions(
        namespaces=("kube-*",),
        weights={**WEIGHTS, "healthRestarts": 0.0},
        window=300.0,
        probe="/readyz",
        probe_interval=5.0,
        probe_timeout=2.0,
        thresholds=(0,),
        interval=30.0,
    )


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"window": "1s"}, "window: must be at least 60s"),
        ({"probeInterval": "20m"}, "probeInterval: must be shorter than the window"),
        ({"probeInterval": 0}, "probeInterval: must be at least 1s"),
        ({"weights": {"nodes": 1}}, "weights.nodes: is not a part of health; the parts are healthNodes"),
        ({"weights": {"healthApi": -1}}, "weights.healthApi: a weight must be 0 or more; got -1.0"),
        ({"weights": dict.fromkeys(WEIGHTS, 0)}, "weights: all weights are 0"),
        ({"namespaces": []}, "namespaces: must name at least one"),
        ({"namespaces": [""]}, "namespaces: must name at least one"),
        ({"probe": "readyz"}, "probe: 'readyz' is not a path"),
        ({"thresholds": [0, 101]}, r"thresholds\[1\]: must be from -100 to 100; got 101"),
        ({"windows": "5m"}, "windows"),
        ({"interval": "soon"}, "interval"),
    ],
)
def test_invalid_health_option_is_rejected(given: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionsError, match=message):
        HealthOptions.read(given)


def test_health_factory_needs_local_cluster() -> None:
    assert CATALOGUE["health"].factory() is health
    with pytest.raises(OptionsError, match="--managed-kubeconfig"):
        health({}, Context(name="health"))
