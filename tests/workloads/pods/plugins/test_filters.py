"""What the filters reject, with kube-scheduler's codes and reasons, beyond the recorded answers."""

from typing import Any

import pytest

from fairway.api.node import Node, NodeTaint
from fairway.api.pod import ALWAYS, Container, ContainerPort, Pod
from fairway.api.pod_affinity import (
    Affinity,
    NodeAffinity,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    PodAffinity,
    PodAffinityTerm,
    Toleration,
    TopologySpreadConstraint,
)
from fairway.engine import cycle
from fairway.engine.profile import Profile, build_profile
from fairway.engine.status import Code
from fairway.hosts import bitmap
from fairway.hosts.nodes import NodeFleet
from fairway.workloads.pods import default_profile, pod_registry, pod_workload
from fairway.workloads.pods.plugins import (
    inter_pod_affinity,
    node_affinity,
    node_name,
    node_ports,
    node_ready,
    node_unschedulable,
    taint_toleration,
    topology_spread,
)
from fairway.workloads.pods.plugins.node_resources_fit import TOO_MANY_PODS
from fairway.workloads.pods.profile import POD_KIND
from hosts.nodes.builders import labelled, node, pod
from kubewire.api.selector import LabelSelector, LabelSelectorRequirement

PROFILE = default_profile()
UNSCHEDULABLE, UNRESOLVABLE = Code.UNSCHEDULABLE, Code.UNRESOLVABLE


def usable(name: str, **more: Any) -> Node:
    more = {"cpu": "4", "memory": "8Gi", "pods": "110", "ready": "True"} | more
    return node(name, **more)


def rejections(
    fleet: NodeFleet, incoming: Pod, profile: Profile = PROFILE
) -> dict[str, tuple[Code, tuple[str, ...]]]:
    """Return code and reasons of each node that is rejected."""
    outcome = cycle.run(fleet.snapshot(), pod_workload(incoming), profile, now=0)
    rejected = {
        name: cycle.rejection(outcome.context, outcome.plugins, row)
        for name, row in outcome.snapshot.hosts.row_of.items()
    }
    assert {name for name, status in rejected.items() if status is None} == outcome.totals_by_name().keys()
    return {name: (status.code, status.reasons) for name, status in rejected.items() if status is not None}


def fleet_of(*nodes: Node, pods: tuple[Pod, ...] = ()) -> NodeFleet:
    fleet = NodeFleet()
    fleet.load(nodes)
    for other in pods:
        fleet.upsert_pod(other)
    return fleet


def required(*terms: NodeSelectorTerm) -> dict[str, Any]:
    rules = NodeAffinity(requiredDuringSchedulingIgnoredDuringExecution=NodeSelector(nodeSelectorTerms=terms))
    return {"affinity": Affinity(nodeAffinity=rules)}


def expressions(key: str, operator: str, *values: str) -> NodeSelectorTerm:
    requirement = NodeSelectorRequirement(key=key, operator=operator, values=values)
    return NodeSelectorTerm(matchExpressions=(requirement,))


def apart(*, selector: LabelSelector | None = None, anti: bool = True, **more: Any) -> dict[str, Any]:
    term = PodAffinityTerm(topologyKey="zone", labelSelector=selector or labelled(app="web"), **more)
    rules = PodAffinity(requiredDuringSchedulingIgnoredDuringExecution=(term,))
    return {"affinity": Affinity(podAntiAffinity=rules) if anti else Affinity(podAffinity=rules)}


def test_pod_that_names_a_node_fits_only_there() -> None:
    rejected = rejections(fleet_of(usable("n1"), usable("n2")), pod("new", on="n2"))
    assert rejected == {"n1": (UNRESOLVABLE, (node_name.REASON,))}


def test_only_the_named_node_is_considered() -> None:
    fleet = fleet_of(usable("n1"), usable("n2"))
    outcome = cycle.run(fleet.snapshot(), pod_workload(pod("new", on="n2")), PROFILE, now=0)
    assert [
        outcome.snapshot.hosts.names[row] for row in bitmap.rows_of(outcome.details.eligible).tolist()
    ] == ["n2"]


def test_cordoned_node_takes_only_pods_that_tolerate_a_cordon() -> None:
    fleet = fleet_of(usable("n1", unschedulable=True))
    assert rejections(fleet, pod("new")) == {"n1": (UNRESOLVABLE, (node_unschedulable.REASON,))}
    toleration = Toleration(key="node.kubernetes.io/unschedulable", operator="Exists", effect="NoSchedule")
    assert rejections(fleet, pod("new", spec={"tolerations": (toleration,)})) == {}


@pytest.mark.parametrize("status", ["False", "Unknown", None])
def test_node_that_is_not_ready_is_rejected_unless_its_taint_is_tolerated(status: str | None) -> None:
    fleet = fleet_of(usable("n1", ready=status))
    assert rejections(fleet, pod("new")) == {"n1": (UNRESOLVABLE, (node_ready.REASON,))}
    key = f"node.kubernetes.io/{'unreachable' if status == 'Unknown' else 'not-ready'}"
    assert (
        rejections(fleet, pod("new", spec={"tolerations": (Toleration(key=key, operator="Exists"),)})) == {}
    )


@pytest.mark.parametrize(
    ("toleration", "accepted"),
    [
        (Toleration(operator="Exists"), True),
        (Toleration(key="k", value="5"), True),
        (Toleration(key="k", operator="Equal", value="6"), False),
        (Toleration(key="k", operator="Exists", effect="NoExecute"), False),
        (Toleration(key="other", operator="Exists"), False),
        (Toleration(key="k", operator="Gt", value="4"), True),
        (Toleration(key="k", operator="Lt", value="4"), False),
        (Toleration(key="k", operator="Gt", value="few"), False),
    ],
)
def test_taint_needs_a_toleration_of_its_key_value_and_effect(toleration: Toleration, accepted: bool) -> None:
    fleet = fleet_of(usable("n1", taints=(NodeTaint(key="k", value="5", effect="NoSchedule"),)))
    rejected = rejections(fleet, pod("new", spec={"tolerations": (toleration,)}))
    assert rejected == ({} if accepted else {"n1": (UNRESOLVABLE, (taint_toleration.REASON,))})


@pytest.mark.parametrize(
    ("term", "accepted"),
    [
        (expressions("cores", "Gt", "4"), ["n2"]),
        (expressions("cores", "Lt", "8"), ["n1"]),
        (expressions("cores", "Gt", "x"), []),
        (expressions("cores", "In"), []),
        (expressions("cores", "Near", "4"), []),
        (expressions("cores", "NotIn", "4"), ["n2", "n3"]),
        (NodeSelectorTerm(), []),
    ],
)
def test_required_node_affinity_term_selects_nodes(term: NodeSelectorTerm, accepted: list[str]) -> None:
    fleet = fleet_of(usable("n1", labels={"cores": "4"}), usable("n2", labels={"cores": "8"}), usable("n3"))
    rejected = rejections(fleet, pod("new", spec=required(term)))
    assert rejected == {
        name: (UNRESOLVABLE, (node_affinity.REASON,)) for name in ("n1", "n2", "n3") if name not in accepted
    }


def test_node_affinity_terms_are_alternatives_and_node_selector_applies_to_all() -> None:
    fleet = fleet_of(
        *(usable(f"n{at}", labels={"disk": disk, "at": str(at)}) for at, disk in enumerate(["a", "a", "b"]))
    )
    spec = required(expressions("at", "In", "0"), expressions("at", "In", "2")) | {
        "nodeSelector": {"disk": "a"}
    }
    assert rejections(fleet, pod("new", spec=spec)).keys() == {"n1", "n2"}


def test_affinity_that_the_profile_adds_applies_to_every_pod() -> None:
    term = {"matchExpressions": [{"key": "disk", "operator": "In", "values": ["ssd"]}]}
    added = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    spec = POD_KIND.spec(args={"NodeAffinity": {"added_affinity": added}})
    fleet = fleet_of(usable("n1", labels={"disk": "ssd"}), usable("n2"))
    rejected = rejections(fleet, pod("new"), build_profile(spec, pod_registry()))
    assert rejected == {"n2": (UNRESOLVABLE, (node_affinity.ENFORCED,))}


def test_host_port_of_a_sidecar_counts_and_of_an_init_container_does_not() -> None:
    port = (ContainerPort(hostPort=80),)
    fleet = fleet_of(usable("n1"), pods=(pod("a", on="n1", ports=port),))
    init = Container(name="i", ports=port)
    sidecar = Container(name="s", ports=port, restartPolicy=ALWAYS)
    assert rejections(fleet, pod("new", spec={"initContainers": (init,)})) == {}
    rejected = rejections(fleet, pod("new", spec={"initContainers": (sidecar,)}))
    assert rejected == {"n1": (UNSCHEDULABLE, (node_ports.REASON,))}


def test_every_lacking_resource_is_a_reason_and_too_small_nodes_are_unresolvable() -> None:
    used: dict[str, Any] = {"cpu": "3", "nvidia.com/gpu": "2", "hugepages-2Mi": "4Mi"}
    fleet = fleet_of(
        usable("full", **{"pods": "1", "nvidia.com/gpu": "2", "hugepages-2Mi": "4Mi"}),
        usable("small", cpu="1"),
        pods=(pod("a", on="full", **used),),
    )
    wanted: dict[str, Any] = {
        "cpu": "2",
        "nvidia.com/gpu": "1",
        "hugepages-2Mi": "2Mi",
        "ephemeral-storage": "0",
    }
    assert rejections(fleet, pod("new", **wanted)) == {
        "full": (
            UNSCHEDULABLE,
            (TOO_MANY_PODS, "Insufficient cpu", "Insufficient hugepages-2Mi", "Insufficient nvidia.com/gpu"),
        ),
        "small": (
            UNRESOLVABLE,
            ("Insufficient cpu", "Insufficient hugepages-2Mi", "Insufficient nvidia.com/gpu"),
        ),
    }


def test_ignored_extended_resources_are_not_checked() -> None:
    fit = {"ignored_resources": ["example.com/a", "cpu"], "ignored_resource_groups": ["example.org"]}
    profile = build_profile(POD_KIND.spec(args={"NodeResourcesFit": fit}), pod_registry())
    wanted: dict[str, Any] = {"example.com/a": "1", "example.org/b": "1", "example.net/c": "1", "cpu": "999"}
    rejected = rejections(fleet_of(usable("n1")), pod("new", **wanted), profile)
    assert rejected == {"n1": (UNRESOLVABLE, ("Insufficient cpu", "Insufficient example.net/c"))}


@pytest.mark.parametrize(
    ("resource", "checked"),
    [
        ("example.com/a", True),
        ("kubernetes.io/a", True),
        ("attachable-volumes-a", True),
        ("requests.example.com/a", False),
        ("example.com/a/b", False),
        ("storage", False),
    ],
)
def test_resources_other_than_native_and_extended_ones_are_not_checked(resource: str, checked: bool) -> None:
    wanted: dict[str, Any] = {resource: "1"}
    rejected = rejections(fleet_of(usable("n1")), pod("new", **wanted))
    assert rejected == ({"n1": (UNRESOLVABLE, (f"Insufficient {resource}",))} if checked else {})


def spread(**more: Any) -> dict[str, Any]:
    constraint = TopologySpreadConstraint(
        maxSkew=1,
        topologyKey="zone",
        whenUnsatisfiable="DoNotSchedule",
        **({"labelSelector": labelled(app="web")} | more),
    )
    return {"topologySpreadConstraints": (constraint,)}


def three_zones(*, pods: tuple[Pod, ...] = ()) -> NodeFleet:
    return fleet_of(
        usable("a1", labels={"zone": "a"}),
        usable("a2", labels={"zone": "a", "disk": "ssd"}),
        usable("b1", labels={"zone": "b", "disk": "ssd"}),
        usable("nowhere"),
        pods=pods,
    )


def web(name: str, on: str, **more: Any) -> Pod:
    return pod(name, on=on, labels={"app": "web", "hash": "x"}, **more)


NEW: dict[str, Any] = {"labels": {"app": "web", "hash": "y"}}


def test_pod_goes_to_the_zone_with_fewer_matching_pods() -> None:
    uneven = (UNSCHEDULABLE, (topology_spread.UNEVEN,))
    rejected = rejections(three_zones(pods=(web("p", "a1"),)), pod("new", spec=spread(), **NEW))
    assert rejected == {"a1": uneven, "a2": uneven, "nowhere": (UNRESOLVABLE, (topology_spread.NO_LABEL,))}


@pytest.mark.parametrize(
    ("existing", "more"),
    [
        (web("p", "a1", terminating=True), {}),
        (web("p", "a1", namespace="other"), {}),
        (web("p", "a1"), {"matchLabelKeys": ("hash",)}),
        (web("p", "a1"), {"labelSelector": LabelSelector()}),
        (web("p", "a1"), {"labelSelector": None}),
    ],
    ids=["terminating", "other namespace", "match label keys", "empty selector", "no selector"],
)
def test_pod_that_a_spread_constraint_does_not_count_leaves_all_zones_open(
    existing: Pod, more: dict[str, Any]
) -> None:
    rejected = rejections(three_zones(pods=(existing,)), pod("new", spec=spread(**more), **NEW))
    assert rejected.keys() == {"nowhere"}


def test_fewer_domains_than_the_minimum_count_as_empty_ones() -> None:
    fleet = three_zones(pods=(web("p", "a1"), web("q", "b1")))
    assert rejections(fleet, pod("new", spec=spread(minDomains=2), **NEW)).keys() == {"nowhere"}
    assert rejections(fleet, pod("new", spec=spread(minDomains=3), **NEW)).keys() == {
        "a1",
        "a2",
        "b1",
        "nowhere",
    }


def test_node_affinity_policy_decides_whether_excluded_nodes_count() -> None:
    fleet = three_zones(pods=(web("p", "b1"),))
    only_b = {"nodeSelector": {"zone": "b"}}
    honored = pod("new", spec=spread() | only_b, **NEW)
    assert "b1" not in rejections(fleet, honored)
    ignored = pod("new", spec=spread(nodeAffinityPolicy="Ignore") | only_b, **NEW)
    assert rejections(fleet, ignored)["b1"] == (UNSCHEDULABLE, (topology_spread.UNEVEN,))


def test_first_pod_with_affinity_to_itself_may_go_anywhere_with_the_label() -> None:
    rejected = rejections(three_zones(), pod("new", spec=apart(anti=False), **NEW))
    assert rejected == {"nowhere": (UNRESOLVABLE, (inter_pod_affinity.AFFINITY,))}
    rejected = rejections(three_zones(), pod("new", spec=apart(anti=False), labels={"app": "db"}))
    assert rejected.keys() == {"a1", "a2", "b1", "nowhere"}


def test_affinity_keeps_pods_in_the_domain_of_matching_ones() -> None:
    fleet = three_zones(pods=(web("p", "a1", terminating=True),))
    assert rejections(fleet, pod("new", spec=apart(anti=False))).keys() == {"b1", "nowhere"}


def test_anti_affinity_holds_in_both_directions() -> None:
    fleet = three_zones(pods=(web("p", "a1"),))
    refused = (UNSCHEDULABLE, (inter_pod_affinity.ANTI_AFFINITY,))
    assert rejections(fleet, pod("new", spec=apart())) == {"a1": refused, "a2": refused}
    fleet = three_zones(pods=(pod("p", on="a1", spec=apart()),))
    refused = (UNSCHEDULABLE, (inter_pod_affinity.EXISTING_ANTI_AFFINITY,))
    assert rejections(fleet, pod("new", **NEW)) == {"a1": refused, "a2": refused}


@pytest.mark.parametrize(
    ("more", "applies"),
    [
        ({}, False),
        ({"namespaces": ("other",)}, True),
        ({"namespaceSelector": LabelSelector()}, True),
        ({"namespaceSelector": labelled(team="a")}, True),
        ({"namespaceSelector": labelled(team="b")}, False),
        ({"namespaces": ("other",), "matchLabelKeys": ("hash",)}, False),
        ({"namespaces": ("other",), "mismatchLabelKeys": ("hash",)}, True),
    ],
)
def test_term_applies_to_pods_of_the_namespaces_it_selects(more: dict[str, Any], applies: bool) -> None:
    for existing, incoming in (
        (web("p", "a1", namespace="other"), pod("new", spec=apart(**more), **NEW)),
        (pod("p", on="a1", spec=apart(**more), **NEW), web("new", "", namespace="other")),
    ):
        fleet = three_zones(pods=(existing,))
        fleet.upsert_namespace("other", {"team": "a"})
        assert (rejections(fleet, incoming).keys() == {"a1", "a2"}) is applies


def test_invalid_selector_of_a_constraint_ends_the_cycle_with_an_error() -> None:
    wrong = LabelSelector(matchExpressions=(LabelSelectorRequirement(key="app", operator="Near"),))
    for spec in (spread(labelSelector=wrong), apart(selector=wrong)):
        outcome = cycle.run(three_zones().snapshot(), pod_workload(pod("new", spec=spec)), PROFILE, now=0)
        assert outcome.status.code is Code.ERROR
        assert outcome.status.message == '"Near" is not a valid label selector operator'
