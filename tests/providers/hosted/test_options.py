"""Options of hosted clusters, and their errors."""

from typing import Any

import pytest

from fairway.providers.catalogue import OptionsError
from fairway.providers.hosted.claims import Limits
from fairway.providers.hosted.options import HostedOptions


def read(given: dict[str, Any], **environment: str) -> HostedOptions:
    return HostedOptions.read(given, environment=environment)


def test_hosted_defaults_match_hypershift_addon() -> None:
    assert read({}).limits == Limits(maximum=80, threshold=60)


def test_hosted_options_override_variables() -> None:
    assert read({}, HC_MAX_NUMBER="10", HC_THRESHOLD_NUMBER="5").limits == Limits(maximum=10, threshold=5)
    assert read({"maximum": 20}, HC_MAX_NUMBER="10").limits == Limits(maximum=20, threshold=20)


@pytest.mark.parametrize(
    ("maximum", "threshold"), [("ten", "5"), ("0", "0"), ("10", "20"), ("-1", "-2"), ("", "")]
)
def test_invalid_hosted_variables_are_ignored(maximum: str, threshold: str) -> None:
    options = read({}, HC_MAX_NUMBER=maximum, HC_THRESHOLD_NUMBER=threshold)
    assert options.limits == Limits()
    assert options.note == (
        f"HC_MAX_NUMBER={maximum!r}, HC_THRESHOLD_NUMBER={threshold!r} ignored; using the limits 80 and 60"
    )


def test_contradicting_hosted_variables_are_ignored() -> None:
    assert read({}, HC_MAX_NUMBER="50").note == "HC_MAX_NUMBER='50' ignored; using the limits 80 and 60"
    assert read({}, HC_MAX_NUMBER="60").note == read({}).note == ""


def test_contradicting_hosted_limits_are_rejected() -> None:
    with pytest.raises(OptionsError, match="a maximum of 5 and a threshold of 6 cannot be limits"):
        read({"maximum": 5, "threshold": 6})


def test_hosted_sizes_are_added_and_replaced() -> None:
    given = {"profiles": {"huge": {"cpu": 40, "memory": "150Gi", "pods": 90}, "small": SMALL}}
    profiles = {profile.name: profile for profile in read(given).profiles}
    assert (profiles["huge"].cpu, profiles["huge"].memory, profiles["huge"].replicas) == (40, 150 * 2**30, 3)
    assert profiles["small"].cpu == 0.5
    assert profiles["huge"].score == "hcpSlotsHuge"


SMALL = {"cpu": "500m", "memory": "1Gi", "pods": 10, "replicas": 1}


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"maximun": 5}, "maximun"),
        ({"maximum": 5, "threshold": 6}, "maximum"),
        ({"maximum": "five"}, "maximum"),
        ({"profiles": {"x-y": SMALL}}, "profiles"),
        ({"profiles": {"x": {**SMALL, "cpu": "fast"}}}, "profiles.x.cpu"),
        ({"profiles": {"x": {**SMALL, "memory": "-1Gi"}}}, "profiles.x.memory"),
        ({"profiles": {"x": {**SMALL, "memory": "1e400"}}}, "profiles.x.memory"),
        ({"profiles": {"x": {**SMALL, "pods": 0}}}, "profiles.x.pods"),
        ({"baseline": {"cpuPerHCP": 1}}, "baseline"),
        ({"interval": "0s"}, "interval"),
        ({"prometheus": {"url": "prometheus:9090"}}, "prometheus.url"),
    ],
)
def test_invalid_hosted_option_names_its_field(given: dict[str, Any], field: str) -> None:
    with pytest.raises(OptionsError) as error:
        read(given)
    assert error.value.field == field
