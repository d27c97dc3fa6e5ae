from typing import Any

import pytest

from fairway.providers.usage.policy import UPSTREAM, WAITING, CountingPolicy, Toleration
from providers.usage.objects import as_node, as_pod, node, pod

NONE: frozenset[str] = frozenset()
CONTROL_PLANE = "node-role.kubernetes.io/control-plane"
TAINTED: dict[str, Any] = {"taints": [("dedicated", "batch", "NoSchedule")]}
MASTER: dict[str, Any] = {"labels": {CONTROL_PLANE: ""}, "taints": [(CONTROL_PLANE, "", "NoSchedule")]}


@pytest.mark.parametrize(
    ("policy", "state", "repelled"),
    [
        (CountingPolicy(), {}, NONE),
        (CountingPolicy(), {"ready": False}, None),
        (CountingPolicy(not_ready=True), {"ready": False}, NONE),
        (
            CountingPolicy(not_ready=True),
            {"ready": False, "taints": [("node.kubernetes.io/unreachable", "", "NoExecute")]},
            NONE,
        ),
        (CountingPolicy(), {"taints": [("node.kubernetes.io/not-ready", "", "NoSchedule")]}, NONE),
        (CountingPolicy(), {"cordoned": True}, None),
        (
            CountingPolicy(cordoned=True),
            {"cordoned": True, "taints": [("node.kubernetes.io/unschedulable", "", "NoSchedule")]},
            NONE,
        ),
        (CountingPolicy(), TAINTED, {"dedicated"}),
        (CountingPolicy(), {"taints": [("dedicated", "", "NoExecute")]}, {"dedicated"}),
        (CountingPolicy(), {"taints": [("dedicated", "", "PreferNoSchedule")]}, NONE),
        (
            CountingPolicy(),
            {"taints": [("node.kubernetes.io/memory-pressure", "", "NoSchedule")]},
            {"node.kubernetes.io/memory-pressure"},
        ),
        (CountingPolicy(tainted=True), TAINTED, NONE),
        (CountingPolicy(tolerated=(Toleration.parse("dedicated"),)), TAINTED, NONE),
        (CountingPolicy(tolerated=(Toleration.parse("dedicated=batch"),)), TAINTED, NONE),
        (CountingPolicy(tolerated=(Toleration.parse("dedicated=web"),)), TAINTED, {"dedicated"}),
        (CountingPolicy(tolerated=(Toleration.parse("dedicated:NoExecute"),)), TAINTED, {"dedicated"}),
        (CountingPolicy(tolerated=(Toleration.parse("dedicated=batch:NoSchedule"),)), TAINTED, NONE),
        (CountingPolicy(), MASTER, {CONTROL_PLANE}),
        (CountingPolicy(), {"labels": {CONTROL_PLANE: ""}}, NONE),
        (CountingPolicy(control_plane="count"), MASTER, NONE),
        (CountingPolicy(control_plane="ignore"), {"labels": {CONTROL_PLANE: ""}}, None),
        (UPSTREAM, {"ready": False, **TAINTED}, NONE),
        (UPSTREAM, {"cordoned": True}, None),
    ],
)
def test_nodes_that_accept_pods(
    policy: CountingPolicy, state: dict[str, Any], repelled: set[str] | None
) -> None:
    assert policy.repelled(as_node(node("n1", **state))) == repelled


@pytest.mark.parametrize(
    ("policy", "state", "place"),
    [
        (CountingPolicy(), {"node": "n1"}, "n1"),
        (CountingPolicy(), {"node": "n1", "phase": "Pending"}, "n1"),
        (CountingPolicy(), {"node": "n1", "phase": "Succeeded"}, None),
        (CountingPolicy(), {"node": "n1", "phase": "Failed"}, None),
        (CountingPolicy(), {"node": "n1", "terminating": True}, "n1"),
        (CountingPolicy(terminating=False), {"node": "n1", "terminating": True}, None),
        (CountingPolicy(), {"phase": "Pending"}, WAITING),
        (CountingPolicy(), {"phase": "Pending", "gated": True}, None),
        (CountingPolicy(), {"phase": "Pending", "terminating": True}, None),
        (CountingPolicy(), {"phase": "Failed"}, None),
    ],
)
def test_node_whose_room_a_pod_takes(
    policy: CountingPolicy, state: dict[str, Any], place: str | None
) -> None:
    assert policy.place(as_pod(pod("p", **state))) == place


@pytest.mark.parametrize("text", ["", "=", "key:Sometimes", "key=a=b", ":NoSchedule", "a b"])
def test_invalid_toleration_is_rejected(text: str) -> None:
    with pytest.raises(ValueError, match=f"^{text!r} is not a taint: write its key"):
        Toleration.parse(text)
