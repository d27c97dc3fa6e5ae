"""Free resources equal those of a full count after any sequence of events.

Nodes and pods are created, changed, deleted and recreated under the same name; events are repeated; a new list repeats
all objects; a deletion arrives after the creation of the successor.
"""

from typing import Any

import hypothesis.strategies as st
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from fairway.providers.usage.accounting import Accounting, Basis
from fairway.providers.usage.policy import CountingPolicy
from providers.usage.objects import Document, as_node, as_pod, node, pod, recount, shape

NODES = ("n1", "n2", "n3")
PODS = ("p1", "p2", "p3", "p4")
GPU = "nvidia.com/gpu"
SHAPES = (shape("small", {"cpu": "1", "memory": "1Gi"}), shape("device", {"cpu": "500m", GPU: "1"}))

amounts = st.sampled_from(["0", "1", "2", "500m", "3"])
requests = st.fixed_dictionaries(
    {},
    optional={"cpu": amounts, "memory": st.sampled_from(["1Gi", "512Mi"]), GPU: st.sampled_from(["1", "2"])},
)
allocatable = st.fixed_dictionaries(
    {"cpu": st.sampled_from(["2", "4", "8"]), "pods": st.sampled_from(["1", "3", "110"])},
    optional={"memory": st.sampled_from(["2Gi", "8Gi"]), GPU: st.sampled_from(["0", "1", "4"])},
)
taints = st.lists(
    st.sampled_from(
        [
            ("dedicated", "x", "NoSchedule"),
            (GPU, "", "NoSchedule"),
            ("soft", "", "PreferNoSchedule"),
            ("o", "", "NoExecute"),
        ]
    ),
    max_size=2,
    unique=True,
)
usage = st.dictionaries(
    st.sampled_from([*NODES, "unknown"]),
    st.fixed_dictionaries({"cpu": st.integers(0, 9000), "memory": st.integers(0, 9 * 2**30)}),
)


class Clusters(RuleBasedStateMachine):
    @initialize(
        basis=st.sampled_from(["both", "requests", "usage"]),
        terminating=st.booleans(),
        tainted=st.booleans(),
        not_ready=st.booleans(),
        floor=st.booleans(),
    )
    def begin(self, basis: Basis, terminating: bool, tainted: bool, not_ready: bool, floor: bool) -> None:
        policy = CountingPolicy(terminating=terminating, tainted=tainted, not_ready=not_ready)
        self.accounting = Accounting(policy=policy, shapes=SHAPES, basis=basis, floor=floor)
        self.rule: dict[str, Any] = {
            "basis": basis, "terminating": terminating, "tainted": tainted, "not_ready": not_ready, "floor": floor
        }  # fmt: skip
        self.nodes: dict[str, Document] = {}
        self.pods: dict[str, Document] = {}
        self.used: dict[str, dict[str, int]] = {}
        self.gone: list[tuple[bool, Document]] = []
        self.made = 0

    def uid(self, known: Document | None, again: bool) -> str:
        self.made += 1
        return f"u{self.made}" if known is None or again else str(known["metadata"]["uid"])

    @rule(
        name=st.sampled_from(NODES),
        allocatable=allocatable,
        ready=st.booleans(),
        cordoned=st.booleans(),
        taints=taints,
        again=st.booleans(),
        twice=st.booleans(),
    )
    def add_node(self, name: str, again: bool, twice: bool, **state: Any) -> None:
        old = self.nodes.get(name)
        self.nodes[name] = node(name, uid=self.uid(old, again), **state)
        if old is not None and again:
            self.gone.append((True, old))
            self.accounting.remove_node(as_node(old))
        for _ in range(1 + twice):
            self.accounting.update_node(as_node(self.nodes[name]))

    @rule(
        name=st.sampled_from(PODS),
        node=st.sampled_from([*NODES, "nowhere", ""]),
        requests=requests,
        init=st.none() | requests,
        phase=st.sampled_from(["Pending", "Running", "Running", "Succeeded", "Failed", "Unknown"]),
        terminating=st.booleans(),
        gated=st.booleans(),
        again=st.booleans(),
        twice=st.booleans(),
    )
    def add_pod(self, name: str, again: bool, twice: bool, **state: Any) -> None:
        old = self.pods.get(name)
        self.pods[name] = pod(name, uid=self.uid(old, again), **state)
        if old is not None and again:
            self.gone.append((False, old))
            self.accounting.remove_pod(as_pod(old))
        for _ in range(1 + twice):
            self.accounting.update_pod(as_pod(self.pods[name]))

    @precondition(lambda self: self.pods)
    @rule(data=st.data(), requests=requests)
    def a_pod_is_resized(self, data: st.DataObject, requests: dict[str, str]) -> None:
        old = self.pods[data.draw(st.sampled_from(sorted(self.pods)))]
        container = {"name": "app", "resources": {"requests": requests}}
        new = {**old, "spec": {**old["spec"], "containers": [container]}}
        self.pods[old["metadata"]["name"]] = new
        self.accounting.update_pod(as_pod(new))

    @precondition(lambda self: self.nodes)
    @rule(data=st.data())
    def a_node_goes(self, data: st.DataObject) -> None:
        old = self.nodes.pop(data.draw(st.sampled_from(sorted(self.nodes))))
        self.gone.append((True, old))
        self.accounting.remove_node(as_node(old))

    @precondition(lambda self: self.pods)
    @rule(data=st.data())
    def a_pod_goes(self, data: st.DataObject) -> None:
        old = self.pods.pop(data.draw(st.sampled_from(sorted(self.pods))))
        self.gone.append((False, old))
        self.accounting.remove_pod(as_pod(old))

    @precondition(lambda self: self.gone)
    @rule(data=st.data())
    def repeat_deletion(self, data: st.DataObject) -> None:
        is_node, old = data.draw(st.sampled_from(self.gone))
        changed = (
            self.accounting.remove_node(as_node(old)) if is_node else self.accounting.remove_pod(as_pod(old))
        )
        assert not changed

    @rule()
    def everything_is_listed_again(self) -> None:
        changed = [self.accounting.update_node(as_node(node)) for node in self.nodes.values()]
        changed += [self.accounting.update_pod(as_pod(pod)) for pod in self.pods.values()]
        assert not any(changed)

    @rule(used=usage)
    def report_usage(self, used: dict[str, dict[str, int]]) -> None:
        self.used = used
        self.accounting.update_usage(used)
        assert not self.accounting.update_usage(used)

    @rule()
    def read_totals(self) -> None:
        expected = recount(
            self.nodes.values(), self.pods.values(), shapes=SHAPES, used=self.used, **self.rule
        )
        assert self.accounting.totals() == expected

    @invariant()
    def no_more_is_kept_than_there_is(self) -> None:
        if not hasattr(self, "accounting"):
            return
        places = {pod["spec"].get("nodeName", "") for pod in self.pods.values()}
        assert len(self.accounting._pods) == len(self.pods)
        assert len(self.accounting._accounts) <= len(
            {*self.nodes, *places, *self.used, *self.accounting._changed}
        )

    def teardown(self) -> None:
        if hasattr(self, "accounting"):
            self.read_totals()


TestClusters = Clusters.TestCase
TestClusters.settings = settings(max_examples=35, stateful_step_count=40)
