"""Default constraints of PodTopologySpread, for pods without constraints of their own."""

from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given
from msgspec import structs

from fairway.api.node import Node
from fairway.api.pod import Pod
from fairway.api.pod_affinity import TopologySpreadConstraint
from fairway.api.pod_owner import LabelsSpec, Service
from fairway.engine import cycle
from fairway.engine.alike import AlikeMemory
from fairway.engine.errors import PluginArgsError
from fairway.engine.profile import Profile, build_profile
from fairway.engine.status import Code
from fairway.hosts.nodes import NodeFleet
from fairway.hosts.nodes.pod_owners import PodOwners
from fairway.workloads.pods import pod_registry, pod_workload
from fairway.workloads.pods.plugins.topology_spread import HOSTNAME, NAME, UNEVEN, ZONE
from fairway.workloads.pods.profile import POD_KIND
from hosts.nodes.builders import pod
from kubewire.api.meta import ObjectMeta
from workloads.pods.plugins.strategies import fleets, pods
from workloads.pods.plugins.test_filters import fleet_of, rejections, usable
from workloads.pods.plugins.test_forms import fleet_of as fleet_with
from workloads.pods.plugins.test_forms import seen

WEB = {"app": "web"}


def by(key: str, action: str, skew: int = 1) -> dict[str, Any]:
    return {"maxSkew": skew, "topologyKey": key, "whenUnsatisfiable": action}


def profile(*constraints: dict[str, Any], app: str = "web") -> Profile:
    """Return a profile with these default constraints, or those of kube-scheduler, for the pods of a Service."""
    owners = PodOwners()
    for namespace in ("ns1", "ns2"):
        meta = ObjectMeta(name="web", namespace=namespace)
        owners.upsert(Service(metadata=meta, spec=LabelsSpec(selector={"app": app})))
    args = {"default_constraints": list(constraints), "defaulting_type": "List"} if constraints else {}
    return build_profile(POD_KIND.spec(args={NAME: args}), pod_registry(owners=owners))


def scores(fleet: NodeFleet, incoming: Pod, used: Profile) -> dict[str, int] | None:
    outcome = cycle.run(fleet.snapshot(), pod_workload(incoming), used, now=0)
    (scored,) = (score for score in outcome.details.scored if score.plugin == NAME)
    names = [outcome.snapshot.hosts.names[row] for row in outcome.details.rows.tolist()]
    return None if scored.skipped else dict(zip(names, scored.scores.tolist(), strict=True))


def zoned(name: str, zone: str = "") -> Node:
    return usable(name, labels={HOSTNAME: name, **({ZONE: zone} if zone else {})})


def test_pods_of_a_service_are_spread_over_nodes_and_zones() -> None:
    fleet = fleet_of(
        zoned("a1", "a"), zoned("a2", "a"), zoned("b1", "b"), pods=(pod("web", on="a1", labels=WEB),)
    )
    points = scores(fleet, pod("new", labels=WEB), profile())
    assert points is not None
    assert points["b1"] > points["a2"] > points["a1"]
    assert scores(fleet, pod("new", labels={"app": "db"}), profile()) is None


def test_nodes_without_a_zone_are_spread_by_their_names() -> None:
    fleet = fleet_of(zoned("n1"), zoned("n2"), zoned("b1", "b"), pods=(pod("web", on="n1", labels=WEB),))
    system = scores(fleet, pod("new", labels=WEB), profile())
    listed = profile(by(HOSTNAME, "ScheduleAnyway", 3), by(ZONE, "ScheduleAnyway", 5))
    assert system is not None
    assert system["n2"] > system["n1"] > 0
    assert scores(fleet, pod("new", labels=WEB), listed) == {"n1": 0, "n2": 0, "b1": 100}


def test_constraints_of_the_pod_replace_the_default_ones() -> None:
    fleet = fleet_of(zoned("a1", "a"), zoned("b1", "b"), pods=(pod("web", on="a1", labels=WEB),))
    required = profile(by(ZONE, "DoNotSchedule"))
    assert rejections(fleet, pod("new", labels=WEB), required) == {"a1": (Code.UNSCHEDULABLE, (UNEVEN,))}
    assert rejections(fleet, pod("new", labels={"app": "db"}), required) == {}
    own = TopologySpreadConstraint(maxSkew=1, topologyKey=ZONE, whenUnsatisfiable="ScheduleAnyway")
    assert (
        rejections(fleet, pod("new", labels=WEB, spec={"topologySpreadConstraints": (own,)}), required) == {}
    )


DEFAULTS = st.lists(
    st.builds(
        by,
        st.sampled_from(["zone", HOSTNAME, "disk"]),
        st.sampled_from(["DoNotSchedule", "ScheduleAnyway"]),
        st.integers(1, 3),
    ),
    max_size=3,
)


@given(objects=fleets(), incoming=pods(), defaults=DEFAULTS)
def test_default_constraints_agree_in_both_forms(
    objects: tuple[list[Node], list[Pod]], incoming: Pod, defaults: list[dict[str, Any]]
) -> None:
    spec = structs.replace(incoming.spec, topologySpreadConstraints=())
    workload = pod_workload(structs.replace(incoming, spec=spec))
    used = profile(*defaults, app=incoming.metadata.labels["app"])
    snapshot = fleet_with(objects).snapshot()
    fast = cycle.run(snapshot, workload, used, now=0)
    slow = cycle.run(snapshot, workload, used, now=0, whole_fleet=False)
    assert seen(fast) == seen(slow)


@pytest.mark.parametrize(
    ("constraints", "app", "followed"),
    [((), "web", 0), ((), "db", 6), ((by(ZONE, "DoNotSchedule"),), "web", 6)],
    ids=["preferred", "of no service", "required"],
)
def test_pods_follow_alike_ones_unless_a_default_constraint_scores_them(
    constraints: tuple[dict[str, Any], ...], app: str, followed: int
) -> None:
    fleet, memory = fleet_of(*(zoned(f"n{at}", "ab"[at % 2]) for at in range(4))), AlikeMemory()
    used = profile(*constraints)
    for at in range(8):
        new = pod(f"p{at}", labels={"app": app}, cpu="100m")
        (chosen,) = memory.run(fleet.snapshot(), pod_workload(new), used, now=0).selected
        fleet.upsert_pod(pod(f"p{at}", on=chosen, labels={"app": app}, cpu="100m"))
    assert memory.followed == followed


def test_listed_constraints_need_the_type_list() -> None:
    for args in ({"default_constraints": [by(ZONE, "ScheduleAnyway")]}, {"defaulting_type": "Auto"}):
        with pytest.raises(PluginArgsError, match="default"):
            build_profile(POD_KIND.spec(args={NAME: args}), pod_registry())
