"""Hosts that refuse what a request creates."""

from itertools import pairwise
from typing import cast

import pytest

from clocks import START
from controllers.hosting.hosting_hub import NAMESPACE, HostingHub, controlling, living, wall
from fairway.api.hosted_request import CONFIRMED, UNSCHEDULABLE
from fairway.api.resources import MANIFEST_WORKS
from fairway.workloads.hosting.rules.host_namespaces import derived_namespace
from rigs.fake_hub import Document

pytestmark = [pytest.mark.looptime, pytest.mark.usefixtures("no_error_logs")]

INVALID = 'HostedCluster.hypershift.openshift.io "shop" is invalid: spec.release: Required value'
INVALID_POOL = 'NodePool.hypershift.openshift.io "w" is invalid: spec.platform: Required value'
NO_KIND = 'no matches for kind "HostedCluster" in version "hypershift.openshift.io/v1beta1"'
TAKEN = 'Apply failed with 1 conflict: conflict with "kubectl" using hypershift.openshift.io/v1beta1: .spec.release'
SECONDS = 5


def hub_of(*hosts: str) -> HostingHub:
    hub = HostingHub()
    for name in hosts:
        hub.host(name)
    return hub


def elapsed() -> float:
    return (wall() - START).total_seconds()


async def test_refused_object_gives_its_place_up_at_once_and_is_not_tried_elsewhere() -> None:
    hub = hub_of("h1", "h2")
    hub.refusing = {("h1", "HostedCluster"): INVALID, ("h2", "HostedCluster"): INVALID}
    hub.ask("shop")
    async with living(hub), controlling(hub) as events:
        await hub.until(lambda: hub.reason("shop") == "Misconfigured")
        assert elapsed() < SECONDS
        assert hub.phase("shop") == UNSCHEDULABLE
        assert hub.works() == []
        status = hub.request("shop").status
        assert (status.hostingCluster, status.reservation) == (None, None)
        (refusal,) = status.refusals
        assert (refusal.cause, refusal.count) == ("Object", 1)
        assert f"{refusal.name} refused what the request creates: HostedCluster" in hub.message("shop")
        assert INVALID in hub.message("shop")
        assert "correct the request, or the template of policy default" in hub.message("shop")
        assert events.reasons().count("Refused") == 1

        hub.refusing = {}
        hub.edit("shop", hostedCluster={"spec": {"release": {"image": "x"}}})
        await hub.until(lambda: hub.phase("shop") == CONFIRMED)
        assert elapsed() < 2 * SECONDS
        assert hub.request("shop").status.refusals == ()


async def test_refused_object_is_tried_again_after_times_that_double() -> None:
    hub = hub_of("h1")
    hub.refusing = {("h1", "HostedCluster"): INVALID}
    hub.ask("shop")
    async with living(hub), controlling(hub) as events:
        moments: list[float] = []
        for number in range(1, 4):
            await hub.until(lambda wanted=number: events.reasons().count("Refused") == wanted)  # type: ignore[misc]
            moments.append(elapsed())
        waits = [round(later - sooner, -2) for sooner, later in pairwise(moments)]
        assert waits == [600, 1200]
        assert [refusal.count for refusal in hub.request("shop").status.refusals] == [3]


async def test_template_of_the_policy_corrects_a_refused_request() -> None:
    hub = hub_of("h1")
    hub.refusing = {("h1", "HostedCluster"): INVALID}
    hub.ask("shop")
    async with living(hub), controlling(hub):
        await hub.until(lambda: hub.reason("shop") == "Misconfigured")
        hub.refusing = {}
        hub.policy(template={"hostedCluster": {"spec": {"release": {"image": "x"}}}})
        await hub.until(lambda: hub.phase("shop") == CONFIRMED)
        assert elapsed() < 2 * SECONDS


@pytest.mark.parametrize("message", [NO_KIND, TAKEN], ids=["no kind", "conflict"])
async def test_host_that_refuses_for_its_own_reason_is_left_for_another(message: str) -> None:
    hub = hub_of("h1", "h2")
    hub.others = {"h2": 5}
    hub.refusing = {("h1", "HostedCluster"): message}
    hub.ask("shop")
    async with living(hub), controlling(hub) as events:
        await hub.until(lambda: hub.phase("shop") == CONFIRMED)
        assert hub.place("shop") == "h2"
        assert elapsed() < SECONDS
        assert events.reasons().count("Refused") == 1
        assert [work[0] for work in hub.works()] == ["h2"]


async def test_hosts_that_all_refuse_are_tried_again_later() -> None:
    hub = hub_of("h1", "h2")
    hub.refusing = {("h1", "HostedCluster"): NO_KIND, ("h2", "HostedCluster"): NO_KIND}
    hub.ask("shop")
    async with living(hub), controlling(hub) as events:
        await hub.until(lambda: hub.reason("shop") == "Unschedulable")
        assert elapsed() < SECONDS
        assert "it refused what the request creates: HostedCluster" in hub.message("shop")
        assert NO_KIND in hub.message("shop")
        hub.refusing = {}
        await hub.until(lambda: hub.phase("shop") == CONFIRMED)
        assert 600 <= elapsed() < 700
        assert events.reasons().count("Refused") == 2


async def test_refusal_that_may_pass_waits_for_the_deadline() -> None:
    hub = hub_of("h1")
    hub.refusing = {("h1", "HostedCluster"): 'namespaces "x" not found'}
    hub.ask("shop")
    async with living(hub), controlling(hub) as events:
        await hub.until(lambda: hub.reason("shop", "Applied") == "NotApplied")
        assert hub.place("shop") == "h1"
        hub.refusing = {}
        await hub.until(lambda: hub.phase("shop") == CONFIRMED)
        await hub.until(lambda: hub.reason("shop", "Applied") == "AllApplied")
        assert "Refused" not in events.reasons()


@pytest.mark.parametrize(
    ("message", "reason"),
    [(INVALID_POOL, "NotApplied"), (TAKEN, "Conflict")],
    ids=["invalid", "conflict"],
)
async def test_refused_node_pool_shows_on_the_request_and_keeps_the_hosted_cluster(
    message: str, reason: str
) -> None:
    hub = hub_of("h1")
    hub.refusing = {("h1", "NodePool"): message}
    hub.ask("shop", nodePools=[{"name": "w", "spec": {}}])
    async with living(hub), controlling(hub):
        await hub.until(lambda: hub.reason("shop", "Applied") == reason)
        namespace = derived_namespace(NAMESPACE)
        assert (
            hub.message("shop", "Applied") == f"NodePool {namespace}/w: Failed to apply manifest: {message}"
        )
        assert hub.phase("shop") == CONFIRMED
        hub.refusing = {}
        await hub.until(lambda: hub.reason("shop", "Applied") == "AllApplied")


async def test_edit_that_a_host_refuses_keeps_the_hosted_cluster_and_shows() -> None:
    hub = hub_of("h1")
    hub.ask("shop")
    async with living(hub), controlling(hub):
        await hub.until(lambda: hub.reason("shop", "Applied") == "AllApplied")
        hub.refusing = {("h1", "HostedCluster"): INVALID}
        hub.edit("shop", hostedCluster={"spec": {"platform": {"type": "None"}, "x": 1}})
        await hub.until(lambda: hub.reason("shop", "Applied") == "NotApplied")
        assert (hub.phase("shop"), hub.place("shop")) == (CONFIRMED, "h1")
        assert len(hub.works()) == 1


async def test_template_is_that_of_the_reservation() -> None:
    """A hosted cluster must not upgrade itself because the defaults for new ones changed."""
    hub = hub_of("h1")
    hub.policy(
        template={"hostedCluster": {"spec": {"release": {"image": "old"}}}, "nodePool": {"spec": {"a": 1}}}
    )
    hub.ask("shop", nodePools=[{"name": "w", "spec": {"replicas": 1}}])
    async with living(hub), controlling(hub):
        await hub.until(lambda: hub.phase("shop") == CONFIRMED)
        hub.policy(template={"hostedCluster": {"spec": {"release": {"image": "new"}}}})
        hub.edit("shop", nodePools=[{"name": "w", "spec": {"replicas": 2}}])
        await hub.until(lambda: pool(hub)["replicas"] == 2)
        assert pool(hub) == {"a": 1, "replicas": 2, "clusterName": "shop"}
        assert manifest(hub, "HostedCluster")["spec"]["release"] == {"image": "old"}
        hub.ask("other")
        await hub.until(lambda: hub.phase("other") == CONFIRMED)
        assert manifest(hub, "HostedCluster", "other")["spec"]["release"] == {"image": "new"}


async def test_secrets_of_the_template_come_from_the_namespace_of_the_request() -> None:
    hub = hub_of("h1")
    hub.policy(
        template={"hostedCluster": {"spec": {"pullSecret": {"name": "pull"}}}, "secrets": [{"name": "pull"}]}
    )
    hub.ask("shop")
    async with living(hub), controlling(hub):
        await hub.until(lambda: hub.reason("shop") == "SecretUnreadable")
        assert f"there is no Secret {NAMESPACE}/pull" in hub.message("shop")
        hub.secret("pull", "eA==")
        await hub.until(lambda: hub.phase("shop") == CONFIRMED)
        assert manifest(hub, "Secret")["data"] == {"key": "eA=="}


def manifest(hub: HostingHub, kind: str, name: str = "") -> Document:
    (only,) = [
        manifest
        for work in hub.works()
        for manifest in hub.documents[MANIFEST_WORKS.plural, *work]["spec"]["workload"]["manifests"]
        if manifest["kind"] == kind and name in ("", manifest["metadata"]["name"])
    ]
    return cast("Document", only)


def pool(hub: HostingHub) -> Document:
    return cast("Document", manifest(hub, "NodePool")["spec"])
