"""Pods get the room that the machines' ledger grants: permits and earmarks bind them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings
from msgspec import structs

from fairway.api.pod import Pod
from fairway.engine import cycle
from fairway.engine.alike import AlikeMemory
from fairway.engine.ledger import Earmark, InsufficientCapacity, Ledger, LedgerColumns
from fairway.engine.outcome import Outcome
from fairway.engine.points import CommitContext
from fairway.engine.profile import Enabled, Profile, ProfileSpec, build_profile
from fairway.engine.status import OK, Code
from fairway.engine.workload import HostKey, ResourceList, WorkloadKey
from fairway.hosts.nodes import NodeFleet
from fairway.hosts.nodes.hypothesis import HypotheticalSnapshot
from fairway.hosts.nodes.pod_template import PodInfo, info_of
from fairway.workloads.pods import pod_registry, pod_workload
from fairway.workloads.pods.plugins.vm_scaling import (
    ABOVE_WATERMARK,
    BAD_SHARE,
    BAD_WATERMARK,
    INSUFFICIENT,
    KEPT,
    NAME,
    UNKNOWN_SETTING,
    EarmarkPreemption,
    UsageCurve,
    VirtualMachineAutoscaling,
)
from hosts.nodes.builders import node, pod

POINTS = ("PreFilter", "Filter", "PreScore", "Score")
GIB = 1000 << 30
"""In milli-units."""


def size(units: int) -> ResourceList:
    return {"cpu": units * 1000, "memory": units * GIB}


def key(name: str) -> WorkloadKey:
    return WorkloadKey("ns1", name, f"uid-{name}")


def with_uid(given: Pod) -> Pod:
    return structs.replace(given, metadata=structs.replace(given.metadata, uid=f"uid-{given.metadata.name}"))


def new_pod(name: str = "new", units: int = 2) -> Pod:
    return with_uid(pod(name, cpu=str(units), memory=f"{units}Gi"))


def host(name: str) -> HostKey:
    return HostKey(name, "")


@dataclass
class FakeRoom:
    """The machines' state, reduced to a ledger."""

    ledger: Ledger = field(default_factory=Ledger)
    sizes: dict[str, ResourceList] = field(default_factory=dict)
    """What the virtual machines in pods count, by name of the pod."""
    targets: Mapping[str, str] = field(default_factory=dict)
    """The node that each target pod must not go to."""
    assumed: dict[WorkloadKey, HostKey] = field(default_factory=dict)
    unknown: str = ""
    """A pod whose virtual machine is not known yet."""
    preempting: frozenset[str] = frozenset()
    """Pods that may take all earmarked room."""

    def amounts_of(self, info: PodInfo, /) -> ResourceList:
        return self.sizes.get(info.pod.metadata.name, info.template.requests)

    def objection(self, info: PodInfo, /) -> str | None:
        return "unknown" if info.pod.metadata.name == self.unknown else None

    def is_target(self, _namespace: str, name: str, /) -> bool:
        return name in self.targets

    def target_rejection(self, _namespace: str, name: str, host: HostKey, /) -> str | None:
        return "source node" if self.targets.get(name) == host.name else None

    def preemptible(self, info: PodInfo, host: HostKey, /) -> list[Earmark]:
        account = self.ledger.account(host)
        if account is None or info.pod.metadata.name not in self.preempting:
            return []
        return list(account.kept(key(info.pod.metadata.name)))

    def assume(self, who: WorkloadKey, host: HostKey, amounts: ResourceList, /) -> str | None:
        try:
            with self.ledger.transaction() as transaction:
                transaction.reserve(host, who, amounts)
        except InsufficientCapacity as refused:
            return str(refused)
        self.assumed[who] = host
        return None

    def forget(self, who: WorkloadKey, /) -> None:
        if (host := self.assumed.pop(who, None)) is not None:
            with self.ledger.transaction() as transaction:
                transaction.release(host, who)


class Harness:
    def __init__(self, nodes: Mapping[str, int], **args: Any) -> None:
        self.fleet, self.room = NodeFleet(), FakeRoom()
        self.fleet.load(
            [node(name, cpu=str(units), memory=f"{units}Gi", pods="110") for name, units in nodes.items()]
        )
        with self.room.ledger.transaction() as transaction:
            for name, units in nodes.items():
                transaction.set_capacity(host(name), size(units))
        LedgerColumns(self.room.ledger, self.fleet)
        self.profile = profile(self.room, **args)

    def run(self, given: Pod) -> Outcome:
        return cycle.run(self.fleet.snapshot(), pod_workload(given), self.profile, now=0)

    def book(self, name: str, units: int, on: str) -> None:
        """Book the permit of a virtual machine, whose pod requests nothing."""
        self.fleet.upsert_pod(with_uid(pod(name, on=on)))
        with self.room.ledger.transaction() as transaction:
            transaction.observe(host(on), key(name), size(units))

    def earmark(self, units: int, on: str, *, for_: str, id_: str = "m1/room/ns1/x") -> None:
        with self.room.ledger.transaction() as transaction:
            transaction.earmark(host(on), Earmark(id=id_, beneficiary=key(for_), amounts=size(units)))

    def reasons(self, given: Pod, on: str) -> tuple[str, ...]:
        outcome = self.run(given)
        row = outcome.snapshot.hosts.row_of[on]
        status = cycle.rejection(outcome.context, outcome.plugins, row)
        return () if status is None else status.reasons

    def scores(self, given: Pod) -> dict[str, int]:
        outcome = self.run(given)
        (scored,) = outcome.details.scored
        names = outcome.snapshot.hosts.names
        return {
            str(names[row]): score
            for row, score in zip(outcome.details.rows.tolist(), scored.scores.tolist(), strict=True)
        }


def profile(room: FakeRoom | None, **args: Any) -> Profile:
    registry = pod_registry(room=room)
    points = {
        point: (Enabled(NAME, 1 if point == "Score" else 0),)
        for point in ("PreFilter", "Filter", "PostFilter", "PreScore", "Score")
    }
    return build_profile(ProfileSpec(name="machines", points=points, args={NAME: args}), registry)


def test_plain_pod_cannot_take_earmarked_room_while_its_beneficiary_can() -> None:
    harness = Harness({"n1": 4})
    harness.book("vm-b", 2, "n1")
    harness.earmark(2, "n1", for_="vm-a")
    assert harness.run(new_pod("plain")).selected == []
    kept = KEPT.format(resource="cpu", beneficiary="ns1/vm-a", owner="m1")
    assert kept in harness.reasons(new_pod("plain"), "n1")
    assert harness.run(new_pod("vm-a")).selected == ["n1"]


def test_pod_that_may_preempt_earmarks_takes_the_fewest_and_only_if_no_node_is_left() -> None:
    harness = Harness({"n1": 4, "n2": 4})
    for name in ("n1", "n2"):
        harness.book(f"vm-{name}", 2, name)
    harness.earmark(1, "n1", for_="vm-a", id_="m1/room/ns1/a")
    harness.earmark(1, "n1", for_="vm-b", id_="m2/room/ns1/b")
    harness.earmark(2, "n2", for_="vm-c", id_="m3/room/ns1/c")
    assert EarmarkPreemption.of(harness.run(new_pod("high"))) is None, "the settings do not allow it"
    harness.room.preempting = frozenset({"high", "never"})
    plan = EarmarkPreemption.of(harness.run(new_pod("high")))
    assert plan is not None
    assert (plan.node, plan.beneficiaries) == ("n2", ("ns1/vm-c",))
    assert EarmarkPreemption.of(harness.run(new_pod("high", units=3))) is None, "too little on each node"
    modest = new_pod("never")
    modest = structs.replace(modest, spec=structs.replace(modest.spec, preemptionPolicy="Never"))
    assert EarmarkPreemption.of(harness.run(modest)) is None
    with harness.room.ledger.transaction() as transaction:
        transaction.close(host("n1"), "m1/room/ns1/a")
        transaction.close(host("n1"), "m2/room/ns1/b")
    assert harness.run(new_pod("high")).selected == ["n1"]


def test_pod_takes_the_largest_earmarks_of_a_node_first() -> None:
    harness = Harness({"n1": 4})
    harness.earmark(1, "n1", for_="vm-a", id_="m1/room/ns1/a")
    harness.earmark(3, "n1", for_="vm-b", id_="m2/room/ns1/b")
    harness.room.preempting = frozenset({"high"})
    plan = EarmarkPreemption.of(harness.run(new_pod("high", units=3)))
    assert plan is not None
    assert plan.beneficiaries == ("ns1/vm-b",)


def test_beneficiary_of_an_earmark_does_not_follow_pods_that_are_otherwise_alike() -> None:
    harness, memory = Harness({"n1": 4, "n2": 8}), AlikeMemory()
    harness.earmark(4, "n1", for_="vm-a")
    selected = [
        memory.run(harness.fleet.snapshot(), pod_workload(new_pod(name)), harness.profile, now=0).selected
        for name in ("a", "b", "c", "vm-a")
    ]
    assert (selected, memory.followed) == ([["n2"], ["n2"], ["n2"], ["n1"]], 1)


def test_permit_counts_although_the_pod_requests_nothing() -> None:
    harness = Harness({"n1": 4, "n2": 4})
    harness.book("vm", 3, "n1")
    assert harness.run(new_pod()).selected == ["n2"]
    assert harness.reasons(new_pod(), "n1") == tuple(
        INSUFFICIENT.format(resource=resource) for resource in ("cpu", "memory")
    )


def test_pod_of_a_machine_counts_with_the_size_of_the_machine() -> None:
    harness = Harness({"n1": 4, "n2": 8})
    harness.room.sizes["runner"] = size(6)
    assert harness.run(with_uid(pod("runner", cpu="100m"))).selected == ["n2"]


def test_pod_whose_machine_is_not_known_yet_is_rejected_everywhere() -> None:
    harness = Harness({"n1": 4})
    harness.room.unknown = "runner"
    assert harness.run(with_uid(pod("runner"))).selected == []
    assert harness.reasons(with_uid(pod("runner")), "n1") == ("unknown",)


def test_node_that_the_ledger_does_not_know_is_rejected() -> None:
    harness = Harness({"n1": 4})
    harness.fleet.upsert_node(node("new", cpu="64", memory="64Gi", pods="110"))
    assert harness.run(new_pod()).selected == ["n1"]


def test_target_of_a_migration_avoids_its_source_and_nodes_above_the_watermark() -> None:
    harness = Harness({"n1": 10, "n2": 10, "n3": 10}, watermark=0.9)
    harness.room.targets = {"target": "n1"}
    harness.room.sizes["target"] = size(3)
    harness.book("full", 7, "n2")
    harness.book("below", 6, "n3")
    assert harness.run(new_pod("target")).selected == ["n3"]
    assert harness.reasons(new_pod("target"), "n1") == ("source node",)
    assert harness.reasons(new_pod("target"), "n2") == tuple(
        ABOVE_WATERMARK.format(resource=resource) for resource in ("cpu", "memory")
    )
    assert harness.reasons(new_pod("other", 3), "n2") == ()


def test_node_that_keeps_room_for_a_pod_scores_highest() -> None:
    harness = Harness({"n1": 10, "n2": 10})
    harness.book("vm", 7, "n2")
    harness.earmark(3, "n2", for_="target")
    assert harness.scores(new_pod("target", 3)) == {"n1": 68, "n2": 100}


@pytest.mark.parametrize(
    ("percent", "points"),
    [(0, 50), (20, 62), (40, 75), (60, 87), (80, 100), (85, 75), (90, 50), (95, 25), (100, 0)],
)
def test_usage_curve_has_the_reference_points(percent: int, points: int) -> None:
    curve = UsageCurve(low=0.5, high=0.0, peak=0.8)
    assert int(curve.at(percent / 100) * 100) == points


@pytest.mark.parametrize("peak", [0.0, 1.0])
def test_usage_curve_may_have_its_peak_at_an_end(peak: float) -> None:
    curve = UsageCurve(low=0.5, high=0.25, peak=peak)
    assert curve.at(peak) == 1.0
    assert (curve.at(0.0), curve.at(1.0)) == ((1.0, 0.25) if peak == 0 else (0.5, 1.0))


def test_half_as_large_node_scores_half() -> None:
    harness = Harness({"large": 20, "small": 10})
    harness.book("a", 14, "large")
    harness.book("b", 6, "small")
    assert harness.scores(new_pod()) == {"large": 100, "small": 50}


def test_reserve_books_the_pod_and_unreserve_gives_its_room_back() -> None:
    harness = Harness({"n1": 4})
    plugin = VirtualMachineAutoscaling(room=harness.room)
    context = CommitContext(workload=pod_workload(new_pod("a", 3)), hosts=(host("n1"),), started=0)
    assert plugin.reserve(context) is OK
    assert harness.run(new_pod("b")).selected == []
    second = CommitContext(workload=pod_workload(new_pod("b", 3)), hosts=(host("n1"),), started=0)
    assert plugin.reserve(second).code is Code.UNSCHEDULABLE
    for _ in range(2):
        plugin.unreserve(context)
        assert harness.run(new_pod("b")).selected == ["n1"]


def test_what_if_counts_the_machines_of_removed_pods() -> None:
    harness = Harness({"n1": 4})
    harness.book("vm", 4, "n1")
    snapshot = HypotheticalSnapshot(harness.fleet.snapshot())
    assert cycle.run(snapshot, pod_workload(new_pod()), harness.profile, now=0).selected == []
    snapshot.remove_pod("n1", ("ns1", "vm"))
    assert cycle.run(snapshot, pod_workload(new_pod()), harness.profile, now=0).selected == ["n1"]
    snapshot.add_pod("n1", ("ns1", "plain"), info_of(new_pod("plain", 3)))
    assert cycle.run(snapshot, pod_workload(new_pod()), harness.profile, now=0).selected == []


def test_what_if_counts_a_pod_once_for_which_room_is_kept() -> None:
    harness = Harness({"n1": 4})
    harness.earmark(2, "n1", for_="nominated")
    snapshot = HypotheticalSnapshot(harness.fleet.snapshot())
    snapshot.add_pod("n1", ("ns1", "nominated"), info_of(new_pod("nominated")))
    assert cycle.run(snapshot, pod_workload(new_pod()), harness.profile, now=0).selected == ["n1"]


def test_plugin_without_machines_is_skipped() -> None:
    fleet = NodeFleet()
    fleet.load([node("n1", cpu="1", memory="1Gi", pods="110")])
    outcome = cycle.run(fleet.snapshot(), pod_workload(new_pod("a", 9)), profile(None), now=0)
    assert outcome.selected == ["n1"]


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ({"watermark": 0}, BAD_WATERMARK.format(given=0)),
        ({"watermark": True}, BAD_WATERMARK.format(given=True)),
        ({"scoring": {"scorePeak": 1.5}}, BAD_SHARE.format(field="scoring.scorePeak", given=1.5)),
        (
            {"scoring": {"peak": 0.5}},
            UNKNOWN_SETTING.format(given="peak", known="minUsageScore, maxUsageScore, scorePeak"),
        ),
    ],
)
def test_bad_arguments_are_refused(args: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=r"must be|has no setting") as refused:
        VirtualMachineAutoscaling(**args)
    assert str(refused.value) == message


NAMES = ("n0", "n1", "n2", "n3")


@st.composite
def scenes(draw: st.DrawFn) -> Harness:
    harness = Harness(
        {name: draw(st.sampled_from([0, 2, 8, 20])) for name in NAMES},
        watermark=draw(st.sampled_from([0.5, 0.9, 1])),
        scoring={"scorePeak": draw(st.sampled_from([0, 0.5, 0.8, 1]))},
    )
    for at in range(draw(st.integers(0, 5))):
        harness.book(f"vm{at}", draw(st.integers(0, 9)), draw(st.sampled_from(NAMES)))
    for at in range(draw(st.integers(0, 3))):
        on, units = draw(st.sampled_from(NAMES)), draw(st.integers(0, 4))
        account = harness.room.ledger.account(host(on))
        if account is not None and account.free().get("cpu", 0) >= units * 1000:
            harness.earmark(units, on, for_=draw(st.sampled_from(["new", "other"])), id_=f"m{at}/room/ns1/x")
    harness.room.targets = draw(st.sampled_from([{}, {"new": "n0"}]))
    if draw(st.booleans()):
        harness.room.sizes["new"] = size(draw(st.integers(0, 8)))
    return harness


def seen(outcome: Outcome) -> list[Any]:
    return [
        outcome.selected,
        outcome.details.rows.tolist(),
        [score.scores.tolist() for score in outcome.details.scored],
    ]


@given(harness=scenes(), units=st.integers(0, 6), removed=st.booleans())
@settings(max_examples=60)
def test_whole_fleet_form_agrees_with_per_node_form(harness: Harness, units: int, removed: bool) -> None:
    snapshot = HypotheticalSnapshot(harness.fleet.snapshot())
    if removed:
        for name in NAMES[:2]:
            for key in list(snapshot.pods.on(name).pods):
                snapshot.remove_pod(name, key)
    workload = pod_workload(new_pod("new", units))
    fast = cycle.run(snapshot, workload, harness.profile, now=0)
    slow = cycle.run(snapshot, workload, harness.profile, now=0, whole_fleet=False)
    assert seen(fast) == seen(slow)
    assert all(0 <= score <= 100 for scored in fast.details.scored for score in scored.scores.tolist())


@given(harness=scenes(), data=st.data())
@settings(max_examples=30)
def test_alike_pods_are_placed_as_by_full_cycles_and_reserve_never_refuses(
    harness: Harness, data: st.DataObject
) -> None:
    memory = AlikeMemory()
    plugin = VirtualMachineAutoscaling(room=harness.room)
    for at in range(6):
        workload = pod_workload(new_pod(f"p{at}", data.draw(st.integers(0, 2))))
        snapshot = harness.fleet.snapshot()
        followed = memory.run(snapshot, workload, harness.profile, now=0)
        full = cycle.run(snapshot, workload, harness.profile, now=0)
        assert (followed.selected, followed.status) == (full.selected, full.status)
        if full.selected:
            context = CommitContext(workload=workload, hosts=(host(full.selected[0]),), started=0)
            assert plugin.reserve(context) is OK
            if data.draw(st.booleans()):
                plugin.unreserve(context)
