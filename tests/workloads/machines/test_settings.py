"""Settings of machines are converted and checked, with messages that name the field."""

from typing import Any

import pytest

from fairway.hosts.instant import SECOND
from fairway.workloads.machines.policy import MachinePolicy, PolicyError
from fairway.workloads.machines.settings import (
    CPU_AND_MEMORY,
    DID_YOU_MEAN,
    OUT_OF_RANGE,
    UNKNOWN,
    WRONG_TYPE,
    WRONG_WORD,
    machine_settings,
)


def test_settings_without_arguments_are_the_default_policy() -> None:
    settings = machine_settings(None)
    assert (settings.policy, settings.resources) == (MachinePolicy(), ("cpu", "memory"))


def test_settings_are_converted_to_a_policy_and_arguments_of_the_plugin() -> None:
    settings = machine_settings(
        {
            "watermark": 0.75,
            "growTogether": True,
            "scoring": {"scorePeak": 0.5},
            "migration": {
                "migrator": "NeonVM",
                "maxInFleet": 3,
                "cooldownSeconds": 1.5,
                "oldestFirst": True,
            },
        }
    )
    policy = MachinePolicy(
        watermark=750, together=True, per_fleet=3, cooldown=3 * SECOND // 2, oldest_first=True
    )
    assert settings.policy == policy
    assert settings.plugin["watermark"] == 0.75
    assert settings.plugin["scoring"] == {"scorePeak": 0.5}


def test_machines_without_a_migrator_never_move() -> None:
    policy = machine_settings({"migration": {"migrator": "None"}}).policy
    assert (policy.for_demand, policy.for_pressure) == (False, False)


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ({"watermark": 0}, OUT_OF_RANGE.format(path="watermark", expected="at least 0.001, and at most 1", given=0)),
        ({"watermark": "high"}, WRONG_TYPE.format(path="watermark", expected="a number", given="high")),
        (
            {"watermarks": 1},
            UNKNOWN.format(path="watermarks", hint=DID_YOU_MEAN.format(near="watermark")),
        ),
        (
            {"migration": {"cooldown": 1}},
            UNKNOWN.format(path="migration.cooldown", hint=DID_YOU_MEAN.format(near="migration.cooldownSeconds")),
        ),
        (
            {"migration": {"maxInFleet": 0}},
            OUT_OF_RANGE.format(path="migration.maxInFleet", expected="from 1 to 1000000", given=0),
        ),
        (
            {"migration": {"copyTimeoutSeconds": 0}},
            OUT_OF_RANGE.format(path="migration.copyTimeoutSeconds", expected="greater than 0 seconds", given=0),
        ),
        (
            {"migration": {"migrator": "Xen"}},
            WRONG_WORD.format(path="migration.migrator", known="NeonVM, None", given="Xen"),
        ),
        ({"growTogether": "no"}, WRONG_TYPE.format(path="growTogether", expected="true or false", given="no")),
        ({"resources": ["cpu"]}, CPU_AND_MEMORY.format(needed="cpu and memory", given="cpu")),
    ],
)  # fmt: skip
def test_wrong_setting_is_refused_with_its_path(args: dict[str, Any], message: str) -> None:
    with pytest.raises(PolicyError) as refused:
        machine_settings(args)
    assert str(refused.value) == message
