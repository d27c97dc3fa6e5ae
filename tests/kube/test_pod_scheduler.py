"""`fairway run --controllers machines` schedules pods on a real hub, beside kube-scheduler, with nodes that kwok runs.

The sizes keep the tier fast. With FAIRWAY_PODS=5000 the first test has 5,000 pods on 500 nodes.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from fairway.simulation.machines.neonvm import Step
from fairway.workloads.machines.migration import Phase
from kube.crash_story import CALM, FULL, GANG, MACHINES, MEMBERS, PLAIN, VICTIMS, crash_story, moment
from kube.killable_scheduler import Cut, binding_of, cancellation_of, deletion_of, permit_of, record_of
from kube.pod_cluster import (
    CPUS,
    DEFAULT,
    FAIRWAY,
    GANGS,
    MANY_PODS,
    PodCluster,
    PodSpace,
    VolumeSpace,
    create_gang,
    pod_cluster,
    pod_space,
)
from rigs.kubernetes import Tools, background

HALF, ALL, TOO_MUCH = str(CPUS // 2), str(CPUS), str(CPUS + 1)
"""CPUs in relation to a node."""
OWN = frozenset(
    {"eventTime", "involvedObject", "message", "metadata", "reportingComponent", "reportingInstance"}
)
"""Fields of an event that name the pod, the scheduler or the time."""

pytestmark = pytest.mark.kube


@pytest.fixture(scope="module")
def cluster(kube_tools: Tools, tmp_path_factory: pytest.TempPathFactory) -> Iterator[PodCluster]:
    with background(pod_cluster(kube_tools, tmp_path_factory.mktemp("pods"))) as made:
        yield made


@pytest.fixture
async def space(cluster: PodCluster, request: pytest.FixtureRequest) -> AsyncIterator[PodSpace]:
    name = request.node.name.removeprefix("test_").replace("_", "-")[:60]
    async with pod_space(cluster, name) as made:
        yield made


def names(prefix: str, count: int) -> list[str]:
    return [f"{prefix}-{number}" for number in range(count)]


def condition(pod: dict[str, Any]) -> dict[str, Any]:
    (condition,) = (
        condition for condition in pod["status"]["conditions"] if condition["type"] == "PodScheduled"
    )
    return dict(condition)


@pytest.mark.timeout(300 + MANY_PODS)
async def test_pods_fill_the_room_that_kube_scheduler_leaves(space: PodSpace) -> None:
    await space.add_nodes(*names("full", MANY_PODS // CPUS))
    theirs, ours = names("theirs", MANY_PODS // 4), names("ours", MANY_PODS - MANY_PODS // 4)
    await space.add_pods(theirs, scheduler=DEFAULT)
    await space.until(lambda: len(space.nodes) == len(theirs))
    await space.add_pods(ours)
    await space.until(lambda: len(space.nodes) == MANY_PODS)
    assert space.overcommitted() == {}
    await space.until(lambda: all(pod.status.phase == "Running" for pod in space.pods.values()))


async def test_unschedulable_pod_has_the_condition_and_event_of_kube_scheduler(space: PodSpace) -> None:
    await space.add_nodes("small-0", "small-1")
    for name, scheduler in (("theirs", DEFAULT), ("ours", FAIRWAY)):
        await space.add_pods([name], scheduler=scheduler, cpu=TOO_MUCH)
    theirs, ours = [(await space.events(name, "FailedScheduling"))[0] for name in ("theirs", "ours")]
    assert {key: value for key, value in ours.items() if key not in OWN} == {
        key: value for key, value in theirs.items() if key not in OWN
    }
    assert ours["message"] == theirs["message"]
    assert (ours["reportingComponent"], ours["involvedObject"].keys()) == (
        FAIRWAY,
        theirs["involvedObject"].keys(),
    )
    await space.until(lambda: all(pod.status.conditions for pod in space.pods.values()))
    seen = [condition(await space.read(name)) for name in ("theirs", "ours")]
    for event in seen:
        assert event.pop("lastTransitionTime")
    assert seen[0] == seen[1]


async def test_scheduled_event_is_that_of_kube_scheduler(space: PodSpace) -> None:
    await space.add_nodes("event-0")
    await space.add_pods(["theirs"], scheduler=DEFAULT)
    await space.add_pods(["ours"])
    theirs, ours = [(await space.events(name, "Scheduled"))[0] for name in ("theirs", "ours")]
    assert {key: value for key, value in ours.items() if key not in OWN} == {
        key: value for key, value in theirs.items() if key not in OWN
    }
    assert ours["message"] == theirs["message"].replace("/theirs ", "/ours ")


async def test_gang_waits_for_room_and_starts_together(space: PodSpace) -> None:
    await space.add_nodes("gang-0")
    await create_gang(space, "gang", 3)
    labels = {"scheduling.x-k8s.io/pod-group": "gang"}
    await space.add_pods(names("gang", 3), cpu=HALF, scheduler=GANGS, labels=labels)
    await space.until(lambda: any(pod.status.conditions for pod in space.pods.values()))
    assert space.nodes == {}
    await space.add_nodes("gang-1")
    await space.until(lambda: len(space.nodes) == 3)
    assert set(space.nodes.values()) == {"gang-0", "gang-1"}


async def test_preemption_spares_pods_with_a_disruption_budget(space: PodSpace) -> None:
    # First, because it reaches the scheduler by another watch than pods.
    budget = {
        "metadata": {"name": "protected"},
        "spec": {"minAvailable": 2, "selector": {"matchLabels": {"app": "protected"}}},
    }
    budgets = f"/apis/policy/v1/namespaces/{space.name}/poddisruptionbudgets"
    await space.client.request("POST", budgets, body=budget)
    priority = {"metadata": {"name": "urgent"}, "value": 1000}
    await space.client.request("POST", "/apis/scheduling.k8s.io/v1/priorityclasses", body=priority)
    await space.add_nodes("protected-0")
    await space.add_pods(names("protected", 2), cpu=HALF, labels={"app": "protected"})
    await space.until(lambda: len(space.nodes) == 2)
    await space.add_nodes("exposed-0")
    await space.add_pods(names("exposed", 2), cpu=HALF, labels={"app": "exposed"})
    await space.until(lambda: len(space.nodes) == 4)
    await space.add_pods(["urgent"], cpu=ALL, priority="urgent")
    await space.until(lambda: "urgent" in space.nodes)
    assert space.nodes == {"urgent": "exposed-0", "protected-0": "protected-0", "protected-1": "protected-0"}
    assert not any(pod.terminating for pod in space.pods.values())
    (event,) = await space.events("exposed-0", "Preempted")
    assert event["message"].startswith("Preempted by pod ")


async def test_claims_get_volumes_as_from_kube_scheduler(space: PodSpace) -> None:
    """The test plays the controllers of volumes: each pod needs a volume that exists, and one that is provisioned."""
    await space.add_nodes("volumes-0", "volumes-1")
    storage = VolumeSpace(space.client, space.name)
    await storage.add_class("fresh", "csi.example.com")
    await storage.add_class("local", "kubernetes.io/no-provisioner")
    await storage.add_claim("early", class_name="missing")
    seen: list[tuple[Any, ...]] = []
    for who, scheduler in (("theirs", DEFAULT), ("ours", FAIRWAY)):
        await storage.add_volume(f"local-{who}", on="volumes-1", class_name="local")
        await storage.add_claim(f"local-{who}", class_name="local")
        await storage.add_claim(f"fresh-{who}", class_name="fresh")
        await space.add_pods([who], scheduler=scheduler, claims=[f"local-{who}", f"fresh-{who}"])
        await space.add_pods([f"early-{who}"], scheduler=scheduler, claims=["early"])
        volume, claim = await storage.wait_for_binding(f"local-{who}", f"fresh-{who}")
        assert who not in space.nodes
        await storage.complete(f"local-{who}", f"local-{who}")
        await storage.add_volume(f"fresh-{who}", on="volumes-1", class_name="fresh", claim=f"fresh-{who}")
        await storage.complete(f"fresh-{who}", f"fresh-{who}")
        await space.until(lambda who=who: who in space.nodes)  # type: ignore[misc]
        event = (await space.events(f"early-{who}", "FailedScheduling"))[0]
        reference = volume["spec"]["claimRef"]
        assert reference.pop("name") == f"local-{who}"
        assert reference.pop("uid")
        assert reference.pop("resourceVersion")
        seen.append(
            (
                *(reference, volume["metadata"]["annotations"]),
                *(claim["metadata"]["annotations"], space.nodes[who], event["message"]),
            )
        )
    assert seen[0] == seen[1]


async def test_scheduler_that_is_killed_at_every_step_converges(cluster: PodCluster, tmp_path: Path) -> None:
    """Each process dies in the next step of a migration, and at the same moment in a step of a pod's commit."""
    async with crash_story(cluster, tmp_path) as story:
        rig = story.rig
        await story.add_pod("plain", 1, pool=PLAIN)
        asking = asyncio.create_task(story.request_permits(6, "vm-a", "vm-c"))
        unbound = Cut(matches=binding_of("plain"), carried_out=False)
        await story.die_in(Phase.PLANNED, unbound, when=lambda: asking.done() and story.phase("vm-d"))
        assert await asking == (4, 4)
        assert not story.is_bound("plain")

        await story.add_pod("thief", 1, pool=MACHINES, node=f"{MACHINES}-0")  # as much as is free
        bound = Cut(matches=binding_of("plain"))
        await story.die_in(Phase.TARGET_PENDING, bound, when=lambda: story.is_bound("plain"))

        await story.add_gang()  # two members wait on a node until the third one has one
        await story.die_in(Phase.TARGET_BOUND, when=lambda: any(map(story.is_refused, MEMBERS)))
        assert not any(map(story.is_bound, MEMBERS))

        await story.space.add_nodes(f"{GANG}-1", pool=GANG)
        first = Cut(matches=binding_of(*MEMBERS), once=True)
        others = Cut(matches=binding_of(*MEMBERS), carried_out=False)
        cancelling = Cut(matches=record_of("vm-d", Phase.CANCELLING))
        await story.die_in(
            Phase.COPYING,
            *(first, others, cancelling),
            when=lambda: sum(map(story.is_bound, MEMBERS)) == 1 and story.phase("vm-d") is Phase.CANCELLING,
            meanwhile=story.make_migration_unnecessary,
        )

        rig.neonvm.release(Step.COMPLETE)
        await story.add_preemptor()
        alive = Cut(matches=deletion_of(*VICTIMS), carried_out=False)
        nominated = {"thief": "", "urgent": f"{FULL}-0"}
        cancelled = Cut(matches=cancellation_of("vm-d"))
        await story.die_in(
            Phase.CUTOVER,
            *(alive, cancelled),
            when=lambda: story.waiting() == nominated and not story.moves("vm-d"),
        )

        rig.neonvm.release()
        unbound = Cut(matches=binding_of("urgent"), carried_out=False)
        ungrown = Cut(matches=permit_of("vm-a"), carried_out=False)
        await story.die_in(
            Phase.SWAP_COMMITTED, unbound, ungrown, when=lambda: not any(map(rig.pod, VICTIMS))
        )
        assert rig.approved("vm-a") == 4

        await story.add_pod("rival", 1, pool=FULL)
        bound = Cut(matches=binding_of("urgent"))
        lease = ("--lease-duration", 3, "--identity")
        await story.die_in(
            Phase.CLEANED, bound, when=lambda: story.is_bound("urgent"), options=(*lease, "first")
        )
        held = await story.lease()
        assert held.holderIdentity == "first"

        async with story.scheduler.life(options=(*lease, "second")):
            await story.until(lambda: not rig.migrations.store)
            taken = await story.lease()
            assert (taken.holderIdentity, taken.leaseDurationSeconds) == ("second", 3)
            assert moment(taken.acquireTime) >= moment(held.renewTime) + timedelta(seconds=3)
            assert await story.request_permit("vm-a", 6) == 6
            await rig.resize_vm("vm-a", 6)
            # All the room that is left can be used: nothing is kept for migrations, targets or nominations.
            await story.add_pod("nine", 9, pool=MACHINES, node=f"{MACHINES}-1")
            await story.until(lambda: story.waiting() == {"thief": "", "rival": ""})
            await story.until(lambda: all(map(story.is_refused, ("thief", "rival"))))
            await story.check()
            await rig.delete_pod("x")
            await story.until(lambda: story.is_bound("thief"))
        nodes = {vm: rig.node_of(vm) for vm in ("vm-a", "vm-b", "vm-c", "vm-d")}
        assert list(nodes.values()) == [f"{MACHINES}-0", f"{MACHINES}-1", f"{CALM}-0", f"{CALM}-0"]
        assert (rig.approved("vm-a"), rig.approved("vm-c")) == (6, 6)
