"""Random nodes and pods, with few values of each field, so that selectors, taints and ports meet."""

from typing import Any

import hypothesis.strategies as st

from fairway.api.node import Node, NodeTaint
from fairway.api.pod import ContainerPort, Pod
from fairway.api.pod_affinity import (
    Affinity,
    NodeAffinity,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    PodAffinity,
    PodAffinityTerm,
    PreferredSchedulingTerm,
    Toleration,
    TopologySpreadConstraint,
    WeightedPodAffinityTerm,
)
from hosts.nodes.builders import node, pod
from kubewire.api.selector import LabelSelector, LabelSelectorRequirement

HOST = "kubernetes.io/hostname"
EFFECTS = ("NoSchedule", "NoExecute", "PreferNoSchedule")
NODE_NAMES = tuple(f"n{at}" for at in range(6))

apps = st.sampled_from(["web", "db", "cache"])
namespaces = st.sampled_from(["ns1", "ns2"])
topology_keys = st.sampled_from(["zone", HOST, "disk"])
weights = st.integers(1, 100)


def maybe(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.none() | strategy


def few(strategy: st.SearchStrategy[Any], most: int = 2) -> st.SearchStrategy[tuple[Any, ...]]:
    return st.lists(strategy, max_size=most).map(tuple)


taints = few(
    st.builds(
        NodeTaint,
        key=st.sampled_from("ab"),
        value=st.sampled_from(["", "x", "3"]),
        effect=st.sampled_from(EFFECTS),
    )
)
tolerations = few(
    st.builds(
        Toleration,
        key=st.sampled_from(["", "a", "b", "node.kubernetes.io/unschedulable"]),
        operator=st.sampled_from(["", "Equal", "Exists", "Gt", "Lt"]),
        value=st.sampled_from(["", "x", "2"]),
        effect=st.sampled_from(["", *EFFECTS]),
    )
)
expressions = st.one_of(
    st.builds(
        NodeSelectorRequirement,
        key=st.sampled_from(["zone", "disk", "absent"]),
        operator=st.sampled_from(["In", "NotIn"]),
        values=few(st.sampled_from(["z1", "z2", "ssd"])),
    ),
    st.builds(
        NodeSelectorRequirement,
        key=st.sampled_from(["zone", "disk", "absent"]),
        operator=st.sampled_from(["Exists", "DoesNotExist"]),
    ),
    st.builds(
        NodeSelectorRequirement,
        key=st.sampled_from(["cores", "zone"]),
        operator=st.sampled_from(["Gt", "Lt"]),
        values=st.sampled_from([("4",), ("8",), ("x",), ()]),
    ),
)
fields = st.builds(
    NodeSelectorRequirement,
    key=st.sampled_from(["metadata.name", "metadata.name", "metadata.uid"]),
    operator=st.sampled_from(["In", "NotIn", "Exists"]),
    values=few(st.sampled_from(NODE_NAMES), 1),
)
node_terms = st.builds(
    NodeSelectorTerm, matchExpressions=few(expressions), matchFields=st.just(()) | few(fields)
)
node_affinities = st.builds(
    NodeAffinity,
    requiredDuringSchedulingIgnoredDuringExecution=maybe(
        st.builds(NodeSelector, nodeSelectorTerms=few(node_terms))
    ),
    preferredDuringSchedulingIgnoredDuringExecution=maybe(
        few(
            st.builds(
                PreferredSchedulingTerm,
                weight=weights,
                preference=st.builds(
                    NodeSelectorTerm,
                    matchExpressions=few(
                        expressions.filter(
                            lambda term: (
                                term.values != ("x",)
                                and not (term.operator in ("In", "NotIn", "Gt", "Lt") and not term.values)
                            )
                        )
                    ),
                ),
            )
        )
    ),
)
selectors = maybe(
    st.one_of(
        st.just(LabelSelector()),
        st.builds(LabelSelector, matchLabels=st.fixed_dictionaries({"app": apps})),
        st.builds(
            lambda app, operator: LabelSelector(
                matchExpressions=(LabelSelectorRequirement(key="app", operator=operator, values=(app,)),)
            ),
            apps,
            st.sampled_from(["In", "NotIn"]),
        ),
    )
)
namespace_selectors = maybe(
    st.sampled_from(
        [LabelSelector(), LabelSelector(matchLabels={"team": "a"}), LabelSelector(matchLabels={"team": "b"})]
    )
)
pod_terms = st.builds(
    PodAffinityTerm,
    labelSelector=selectors,
    namespaces=few(namespaces),
    topologyKey=topology_keys,
    namespaceSelector=namespace_selectors,
    matchLabelKeys=few(st.sampled_from(["app", "hash"]), 1),
    mismatchLabelKeys=few(st.sampled_from(["hash", "tenant"]), 1),
)
pod_affinities = st.builds(
    PodAffinity,
    requiredDuringSchedulingIgnoredDuringExecution=few(pod_terms),
    preferredDuringSchedulingIgnoredDuringExecution=few(
        st.builds(WeightedPodAffinityTerm, weight=weights, podAffinityTerm=pod_terms)
    ),
)
affinities = maybe(
    st.builds(
        Affinity,
        nodeAffinity=maybe(node_affinities),
        podAffinity=maybe(pod_affinities),
        podAntiAffinity=maybe(pod_affinities),
    )
)
constraints = st.builds(
    TopologySpreadConstraint,
    maxSkew=st.integers(1, 3),
    topologyKey=topology_keys,
    whenUnsatisfiable=st.sampled_from(["DoNotSchedule", "ScheduleAnyway"]),
    labelSelector=selectors,
    minDomains=maybe(st.integers(1, 4)),
    nodeAffinityPolicy=maybe(st.sampled_from(["Honor", "Ignore"])),
    nodeTaintsPolicy=maybe(st.sampled_from(["Honor", "Ignore"])),
    matchLabelKeys=few(st.sampled_from(["app", "hash"]), 1),
)
ports = few(
    st.builds(
        ContainerPort,
        hostPort=st.sampled_from([0, 80, 81]),
        hostIP=st.sampled_from(["", "0.0.0.0", "127.0.0.1"]),
        protocol=st.sampled_from(["", "TCP", "UDP"]),
    )
)
requests = st.fixed_dictionaries(
    {},
    optional={
        "cpu": st.sampled_from(["100m", "1", "1500m"]),
        "memory": st.sampled_from(["64Mi", "1Gi", "3G"]),
        "ephemeral-storage": st.sampled_from(["1Gi"]),
        "nvidia.com/gpu": st.sampled_from(["0", "1", "3"]),
        "hugepages-2Mi": st.just("2Mi"),
    },
)


@st.composite
def pods(draw: st.DrawFn, *, name: str = "new", on: st.SearchStrategy[str] | None = None) -> Pod:
    labels = {
        "app": draw(apps),
        **draw(st.dictionaries(st.sampled_from(["hash", "tenant"]), st.sampled_from("xy"))),
    }
    spec = {
        "nodeSelector": draw(maybe(st.dictionaries(st.just("disk"), st.sampled_from(["ssd", "hdd"])))),
        "affinity": draw(affinities),
        "tolerations": draw(tolerations),
        "topologySpreadConstraints": draw(few(constraints)),
    }
    return pod(
        name,
        namespace=draw(namespaces),
        on="" if on is None else draw(on),
        labels=labels,
        terminating=draw(st.booleans()) if name != "new" else False,
        image=draw(st.sampled_from(["", "img", "img:1"])),
        ports=draw(ports),
        spec={key: value for key, value in spec.items() if value is not None},
        **draw(requests),
    )


@st.composite
def nodes(draw: st.DrawFn, name: str) -> Node:
    labels = {
        HOST: name,
        **draw(
            st.fixed_dictionaries(
                {},
                optional={
                    "zone": st.sampled_from(["z1", "z2"]),
                    "disk": st.sampled_from(["ssd", "hdd"]),
                    "cores": st.sampled_from(["2", "8", "many"]),
                },
            )
        ),
    }
    allocatable = {
        "cpu": draw(st.sampled_from(["0", "1", "4"])),
        "memory": draw(st.sampled_from(["1Gi", "8Gi"])),
        "pods": draw(st.sampled_from(["0", "2", "110"])),
        "ephemeral-storage": "10Gi",
        **draw(st.dictionaries(st.just("nvidia.com/gpu"), st.just("2"))),
    }
    return node(
        name,
        labels=labels,
        taints=draw(taints),
        unschedulable=draw(st.sampled_from([False, False, False, True])),
        ready=draw(st.sampled_from(["True", "True", "True", "False", "Unknown", None])),
        images=draw(
            st.dictionaries(st.sampled_from(["img:1", "img:latest"]), st.sampled_from([10 << 20, 900 << 20]))
        ),
        **allocatable,
    )


@st.composite
def fleets(draw: st.DrawFn) -> tuple[list[Node], list[Pod]]:
    names = NODE_NAMES[: draw(st.integers(1, len(NODE_NAMES)))]
    drawn = [draw(nodes(name)) for name in names]
    count = draw(st.integers(0, 6))
    return drawn, [draw(pods(name=f"p{at}", on=st.sampled_from((*names, "gone")))) for at in range(count)]
