"""The priority of new pods."""

from typing import Any

import pytest
from fake_objects import FakeObjects

from kubehub.kinds.priorities import (
    CLASSES,
    OTHER_POLICY,
    OTHER_PRIORITY,
    SECOND_DEFAULT,
    UNKNOWN,
    Priorities,
    PriorityClass,
)
from kubehub.options import Write
from kubehub.resource import Document
from kubehub.status import Refusal
from kubehub.user import User
from kubehub.write_request import WriteRequest

REQUEST = WriteRequest(user=User(name="jo"), options=Write())


def kept(**classes: dict[str, Any]) -> FakeObjects:
    made = FakeObjects()
    for name, more in classes.items():
        made.put(CLASSES, {"metadata": {"name": name}, **more})
    return made


def admitted(objects: FakeObjects, **spec: Any) -> Document:
    pod: Document = {"metadata": {"name": "bridge"}, "spec": spec}
    Priorities(objects).admit(pod)
    return {key: pod["spec"].get(key) for key in ("priorityClassName", "priority", "preemptionPolicy")}


def test_without_classes_every_pod_counts_the_same() -> None:
    assert admitted(kept()) == {
        "priorityClassName": None,
        "priority": 0,
        "preemptionPolicy": "PreemptLowerPriority",
    }


def test_priority_class_sets_value_and_preemption_policy() -> None:
    objects = kept(high={"value": 7, "preemptionPolicy": "Never"})
    assert admitted(objects, priorityClassName="high") == {
        "priorityClassName": "high",
        "priority": 7,
        "preemptionPolicy": "Never",
    }


def test_pod_without_priority_class_gets_the_lowest_default() -> None:
    objects = kept(
        high={"value": 9}, middle={"value": 5, "globalDefault": True}, low={"value": 1, "globalDefault": True}
    )
    assert admitted(objects)["priorityClassName"] == "low"
    assert admitted(objects)["priority"] == 1


@pytest.mark.parametrize(
    ("spec", "told"),
    [
        ({"priorityClassName": "admiral"}, UNKNOWN.format(name="admiral")),
        ({"priorityClassName": "high", "priority": 8}, OTHER_PRIORITY.format(given=8, computed=7)),
        (
            {"priorityClassName": "high", "preemptionPolicy": "Never"},
            OTHER_POLICY.format(given="Never", computed="PreemptLowerPriority"),
        ),
    ],
)
def test_priority_that_differs_from_the_class_is_rejected(spec: dict[str, Any], told: str) -> None:
    with pytest.raises(Refusal) as refused:
        admitted(kept(high={"value": 7}), **spec)
    assert (refused.value.code, refused.value.reason) == (403, "Forbidden")
    assert refused.value.message == f'pods "bridge" is forbidden: {told}'


def test_second_default_priority_class_is_forbidden() -> None:
    kind = PriorityClass(Priorities(kept(low={"value": 1, "globalDefault": True})))
    second: Document = {"metadata": {"name": "high"}, "value": 2, "globalDefault": True}
    with pytest.raises(Refusal) as refused:
        kind.authorize(second, None, REQUEST)
    assert refused.value.message.endswith(SECOND_DEFAULT.format(name="low"))
    kind.authorize({**second, "globalDefault": False}, None, REQUEST)
    same: Document = {"metadata": {"name": "low"}, "value": 1, "globalDefault": True}
    kind.authorize(same, same, REQUEST)
