from typing import Any

import pytest

from fairway.providers.usage.policy import UPSTREAM, WAITING, Policy, Toleration
from providers.usage.objects import as_node, as_pod, node, pod

NONE: frozenset[str] = frozenset()
CONTROL_PLANE = "node-role.kubernetes.io/control-plane"
TAINTED: dict[str, Any] = {"taints": [("dedicated", "batch", "NoSchedule")]}
MASTER: dict[str, Any] = {"labels": {CONTROL_PLANE: ""}, "taints": [(CONTROL_PLANE, "", "NoSchedule")]}


@pytest.mark.parametrize(
    ("policy", "state", "repelled"),
    [
        (Policy(), {}, NONE),
        (Policy(), {"ready": False}, None),
        (Policy(not_ready=True), {"ready": False}, NONE),
        (
            Policy(not_ready=True),
            {"ready": False, "taints": [("node.kubernetes.io/unreachable", "", "NoExecute")]},
            NONE,
        ),
        (Policy(), {"taints": [("node.kubernetes.io/not-ready", "", "NoSchedule")]}, NONE),
        (Policy(), {"cordoned": True}, None),
        (
            Policy(cordoned=True),
            {"cordoned": True, "taints": [("node.kubernetes.io/unschedulable", "", "NoSchedule")]},
            NONE,
        ),
        (Policy(), TAINTED, {"dedicated"}),
        (Policy(), {"taints": [("dedicated", "", "NoExecute")]}, {"dedicated"}),
        (Policy(), {"taints": [("dedicated", "", "PreferNoSchedule")]}, NONE),
        (
            Policy(),
            {"taints": [("node.kubernetes.io/memory-pressure", "", "NoSchedule")]},
            {"node.kubernetes.io/memory-pressure"},
        ),
        (Policy(tainted=True), TAINTED, NONE),
        (Policy(tolerated=(Toleration.parse("dedicated"),)), TAINTED, NONE),
        (Policy(tolerated=(Toleration.parse("dedicated=batch"),)), TAINTED, NONE),
        (Policy(tolerated=(Toleration.parse("dedicated=web"),)), TAINTED, {"dedicated"}),
        (Policy(tolerated=(Toleration.parse("dedicated:NoExecute"),)), TAINTED, {"dedicated"}),
        (Policy(tolerated=(Toleration.parse("dedicated=batch:NoSchedule"),)), TAINTED, NONE),
        (Policy(), MASTER, {CONTROL_PLANE}),
        (Policy(), {"labels": {CONTROL_PLANE: ""}}, NONE),
        (Policy(control_plane="count"), MASTER, NONE),
        (Policy(control_plane="ignore"), {"labels": {CONTROL_PLANE: ""}}, None),
        (UPSTREAM, {"ready": False, **TAINTED}, NONE),
        (UPSTREAM, {"cordoned": True}, None),
    ],
)
def test_which_nodes_take_pods(policy: Policy, state: dict[str, Any], repelled: set[str] | None) -> None:
    assert policy.repelled(as_node(node("n1", **state))) == repelled


@pytest.mark.parametrize(
    ("policy", "state", "place"),
    [
        (Policy(), {"node": "n1"}, "n1"),
        (Policy(), {"node": "n1", "phase": "Pending"}, "n1"),
        (Policy(), {"node": "n1", "phase": "Succeeded"}, None),
        (Policy(), {"node": "n1", "phase": "Failed"}, None),
        (Policy(), {"node": "n1", "terminating": True}, "n1"),
        (Policy(terminating=False), {"node": "n1", "terminating": True}, None),
        (Policy(), {"phase": "Pending"}, WAITING),
        (Policy(), {"phase": "Pending", "gated": True}, None),
        (Policy(), {"phase": "Pending", "terminating": True}, None),
        (Policy(), {"phase": "Failed"}, None),
    ],
)
def test_where_a_pod_takes_room(policy: Policy, state: dict[str, Any], place: str | None) -> None:
    assert policy.place(as_pod(pod("p", **state))) == place


@pytest.mark.parametrize("text", ["", "=", "key:Sometimes", "key=a=b", ":NoSchedule", "a b"])
def test_what_names_no_taint_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=f"^{text!r} names no taint: write its key"):
        Toleration.parse(text)
