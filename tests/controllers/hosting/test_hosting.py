"""The hosting controller in virtual time: from a request to a hosted cluster, and back."""

import asyncio
import copy
from pathlib import Path
from typing import Any

import pytest

from controllers.hosting.hosting_hub import NAMESPACE, HostingHub, controlling, living
from fairway.api.hosted_request import CONFIRMED
from fairway.api.resources import MANIFEST_WORKS
from fairway.controllers.hosting.hub_access import SECRET_FORBIDDEN
from fairway.history import HOSTED_CLUSTER
from fairway.history.archive import Archive
from fairway.history.recorder import Recorder
from fairway.workloads.hosting.requests.demand import UNKNOWN_SIZE
from fairway.workloads.hosting.requests.request_status import TOO_LATE, WORK_OF_OTHERS
from fairway.workloads.hosting.requests.work import AVAILABLE_PATH, SECRET_MISSING
from fairway.workloads.hosting.workload import NO_PLACEMENT
from rigs.fake_hub import reported_condition

pytestmark = [pytest.mark.looptime, pytest.mark.usefixtures("no_error_logs")]


def two_hosts() -> HostingHub:
    hub = HostingHub()
    hub.host("h1")
    hub.host("h2")
    return hub


async def test_request_is_reserved_bound_and_confirmed_on_the_host_with_more_room(tmp_path: Path) -> None:
    hub, history = two_hosts(), Recorder(tmp_path)
    hub.others = {"h1": 5}
    hub.ask("web")
    async with living(hub), controlling(hub, history=history) as events:
        await hub.until(lambda: hub.phase("web") == CONFIRMED)
        web = hub.request("web")
        assert hub.hosted == {"h1": {}, "h2": {"web": web.metadata.uid}}
        assert hub.works() == [("h2", f"hosted-{web.metadata.uid}")]
        assert web.status.reservation is not None
        assert web.status.reservation.amounts["cpu"] == "5"
        assert {score.plugin for score in web.status.scores} >= {"Headroom", "HostedClusters"}
        assert {condition.type: condition.status for condition in web.status.conditions} == {
            "Scheduled": "True",
            "Bound": "True",
            "Confirmed": "True",
            "Applied": "True",
            "Available": "False",
        }
        assert events.reasons() == ["Scheduled", "Confirmed"]
        await hub.until(lambda: hub.reason("web", "Counted") == "InPublishedLoad")
    history.close()
    with Archive.open(tmp_path) as archive:
        (record,) = [stored.record for stored in archive.records()]
    assert (record.kind, record.key, record.after) == (HOSTED_CLUSTER, f"{NAMESPACE}/web", ("h2",))
    assert record.trace.message.startswith("h2, ranked first with")


async def test_deleted_request_deletes_its_hosted_cluster() -> None:
    hub = two_hosts()
    hub.ask("web")
    async with living(hub), controlling(hub) as events:
        await hub.until(lambda: hub.phase("web") == CONFIRMED)
        hub.withdraw("web")
        assert hub.has("web"), "the finalizer holds it until the hosted cluster is gone"
        await hub.until(lambda: not hub.has("web"))
        assert (hub.works(), hub.hosted) == ([], {"h1": {}, "h2": {}})
        assert events.reasons()[-1] == "Released"


async def test_place_that_is_not_confirmed_in_time_is_given_up_and_the_request_moves_on() -> None:
    hub = two_hosts()
    hub.policy(reservationTimeout="5m", capacity={"maxAge": "1h"})
    hub.others = {"h2": 5}
    for name in ("h1", "h2"):
        hub.publish(name, lasts=3600)
    hub.ask("web")
    async with controlling(hub) as events:
        await hub.until(lambda: hub.phase("web") == "Bound")
        assert hub.place("web") == "h1"
        hub.others["h1"] = 50
        hub.publish("h1", lasts=3600)
        assert await hub.until(lambda: hub.place("web") == "h2") == pytest.approx(300, abs=1)
        assert ("ReservationExpired", TOO_LATE.format(host="h1", seconds=300)) in events.told
        await hub.until(lambda: hub.phase("web") == "Bound")
        assert [host for host, _ in hub.works()] == ["h2"]


async def test_place_is_kept_until_the_agent_has_deleted_the_hosted_cluster() -> None:
    hub = two_hosts()
    for name in ("h1", "h2"):
        hub.publish(name, lasts=3600)
    hub.ask("web")
    async with controlling(hub):
        await hub.until(lambda: hub.phase("web") == "Bound")
        hub.work()
        await hub.until(lambda: hub.phase("web") == CONFIRMED)
        hub.withdraw("web")
        work = ("manifestworks", *hub.works()[0])
        await hub.until(lambda: "deletionTimestamp" in hub.documents[work]["metadata"])
        assert (hub.phase("web"), hub.place("web")) == ("Releasing", "h1")
        hub.work()
        await hub.until(lambda: not hub.has("web"))


async def test_missing_secret_is_reported_before_anything_is_created_and_a_late_one_helps() -> None:
    hub = two_hosts()
    hub.ask("web", secrets=[{"name": "pull"}])
    async with living(hub), controlling(hub):
        await hub.until(lambda: hub.reason("web") == "SecretUnreadable")
        assert hub.message("web") == SECRET_MISSING.format(namespace=NAMESPACE, name="pull")
        assert (hub.works(), hub.request("web").status.hostingCluster) == ([], None)
        hub.secret("pull", "c2VjcmV0LXZhbHVl")
        await hub.until(lambda: hub.phase("web") == CONFIRMED)
        assert b"c2VjcmV0LXZhbHVl" not in str(hub.request("web")).encode()


async def test_secret_without_a_right_to_it_is_reported_with_the_remedy() -> None:
    hub = two_hosts()
    hub.secret("pull", "c2VjcmV0")
    hub.secrets_forbidden = True
    hub.ask("web", secrets=[{"name": "pull"}])
    async with living(hub), controlling(hub):
        await hub.until(lambda: hub.reason("web") == "SecretUnreadable")
        assert hub.message("web") == SECRET_FORBIDDEN.format(namespace=NAMESPACE, name="pull")
        assert hub.works() == []


BAD = [
    ({"size": "hue"}, "Misconfigured", UNKNOWN_SIZE.format(size="hue", known="large, medium, small")),
    (
        {"constraints": {"placement": "gone"}},
        "Misconfigured",
        NO_PLACEMENT.format(namespace=NAMESPACE, name="gone"),
    ),
    (
        {"constraints": {"platforms": ["AWS"]}},
        "Unschedulable",
        "no hosting cluster qualifies (2 examined): 2 has no claim platform.open-cluster-management.io, and the "
        "request wants platform AWS",
    ),
]


@pytest.mark.parametrize(("spec", "reason", "message"), BAD)
async def test_request_that_cannot_be_placed_says_why_and_creates_nothing(
    spec: dict[str, Any], reason: str, message: str
) -> None:
    hub = two_hosts()
    hub.ask("web", **spec)
    async with living(hub), controlling(hub) as events:
        await hub.until(lambda: hub.phase("web") == "Unschedulable")
        assert (hub.reason("web"), hub.message("web")) == (reason, message)
        assert (hub.works(), hub.request("web").metadata.finalizers) == ([], ())
        assert events.told == [("FailedScheduling", message)]


async def test_conflicting_policies_are_refused_until_they_agree() -> None:
    hub = two_hosts()
    hub.policy("default", maxPerHost=10)
    hub.policy("other", maxPerHost=20)
    hub.ask("web")
    async with living(hub), controlling(hub):
        await hub.until(lambda: hub.reason("web") == "Misconfigured")
        assert "default and other both cover h1 and differ in maxPerHost" in hub.message("web")
        hub.policy("other", maxPerHost=10)
        await hub.until(lambda: hub.phase("web") == CONFIRMED)


async def test_manifest_work_of_another_owner_is_neither_changed_nor_deleted() -> None:
    hub = HostingHub()
    hub.host("h1")
    hub.policy(reservationTimeout="1m", capacity={"maxAge": "1h"})
    hub.publish("h1", lasts=3600)
    hub.ask("web")
    name = f"hosted-{hub.request('web').metadata.uid}"
    foreign = {"metadata": {"name": name}, "spec": {"workload": {"manifests": []}}, "status": {}}
    hub.put(MANIFEST_WORKS, foreign, namespace="h1")
    before = hub.documents["manifestworks", "h1", name]
    async with controlling(hub):
        await hub.until(lambda: hub.reason("web", "Bound") == "ManifestWorkRefused")
        assert hub.message("web", "Bound") == WORK_OF_OTHERS.format(namespace="h1", name=name)
        await hub.until(lambda: hub.phase("web") in ("Releasing", "Pending"))
        hub.withdraw("web")
        await hub.until(lambda: not hub.has("web"))
        assert hub.documents["manifestworks", "h1", name] == before


async def test_hosted_cluster_of_a_lost_host_stays_pinned_and_a_mere_reservation_moves_on() -> None:
    hub = two_hosts()
    hub.others = {"h2": 5}
    hub.ask("web")
    async with living(hub), controlling(hub) as events:
        await hub.until(lambda: hub.phase("web") == CONFIRMED)
        hub.lose("h1")
        await hub.until(lambda: hub.reason("web", "Confirmed") == "HostingClusterGone")
        assert (hub.place("web"), hub.works(), hub.hosted["h2"]) == ("h1", [], {})
        assert "HostingClusterGone" in events.reasons()
        hub.withdraw("web")
        await hub.until(lambda: not hub.has("web"))


async def test_manifest_work_without_a_request_is_deleted() -> None:
    hub = two_hosts()
    hub.ask("web")
    async with living(hub), controlling(hub):
        await hub.until(lambda: hub.phase("web") == CONFIRMED)
        hub.erase(("hostedclusterrequests", NAMESPACE, "web"))  # its finalizer was removed by force
        await hub.until(lambda: hub.works() == [])


async def test_changed_request_changes_its_manifest_work_and_stays_where_it_is() -> None:
    hub = two_hosts()
    hub.ask("web")
    async with living(hub), controlling(hub):
        await hub.until(lambda: hub.phase("web") == CONFIRMED)
        key = ("hostedclusterrequests", NAMESPACE, "web")
        old, place = hub.documents[key], hub.place("web")
        pools = [{"name": "workers", "spec": {"replicas": 3}}]
        hub.write(key, {**old, "spec": {**old["spec"], "nodePools": pools}})
        work = ("manifestworks", *hub.works()[0])
        await hub.until(lambda: len(hub.documents[work]["spec"]["workload"]["manifests"]) == 3)
        await hub.until(lambda: hub.request("web").status.observedGeneration == 2)
        assert hub.place("web") == place


async def test_silent_host_gets_no_hosted_cluster_until_it_publishes_again() -> None:
    hub = HostingHub()
    hub.host("h1")
    hub.publish("h1", lasts=60)
    async with controlling(hub):
        await asyncio.sleep(61)
        hub.ask("web")
        await hub.until(lambda: hub.phase("web") == "Unschedulable")
        assert "hosted-clusters-score expired" in hub.message("web")
        assert hub.request("web").status.wouldFit == ("h1 publishes its load",)
        hub.publish("h1")
        await hub.until(lambda: hub.phase("web") == "Bound")


async def test_quiet_hours_end_by_themselves() -> None:
    hub = two_hosts()
    hub.policy(quietHours=[{"start": "11:00", "end": "12:30"}])  # the clock starts at noon
    hub.ask("web")
    async with living(hub), controlling(hub):
        await hub.until(lambda: hub.phase("web") == "Unschedulable")
        assert hub.message("web") == "quiet hours of policy default until 2026-03-01T12:30:00Z"
        assert await hub.until(lambda: hub.phase("web") == "Reserved") == pytest.approx(1800, abs=2)


async def test_policy_status_has_hosts_load_and_room() -> None:
    hub = two_hosts()
    hub.policy(maxPerHost=10)
    hub.host("h3")
    hub.others = {"h1": 4}
    for name in ("h1", "h2"):
        hub.publish(name)
    async with controlling(hub):
        hub.ask("web")
        key = ("hostingpolicies", "", "default")
        await hub.until(lambda: hub.documents[key]["status"].get("reserved") == 1)
        status = hub.documents[key]["status"]
        assert (status["hosts"], status["unknownHosts"], status["hostedClusters"], status["freeSlots"]) == (
            3,
            1,
            5,
            15,
        )
        assert status["conditions"][0]["reason"] == "Applies"


async def test_manifest_work_of_an_earlier_version_gets_the_feedback_rules_that_agents_can_follow() -> None:
    """Its path lacked .status, so that no agent reported a value. What the agent applied stays."""
    hub = two_hosts()
    hub.statuses["web"] = {"conditions": [reported_condition("Available", "True")]}
    hub.ask("web")
    async with living(hub):
        async with controlling(hub):
            await hub.until(lambda: hub.phase("web") == CONFIRMED)
            await hub.until(lambda: hub.reason("web", "Available") == "ControlPlaneAvailable")
        ((host, name),) = hub.works()
        key = (MANIFEST_WORKS.plural, host, name)
        document = copy.deepcopy(hub.documents[key])
        path = document["spec"]["manifestConfigs"][0]["feedbackRules"][0]["jsonPaths"][0]
        path["path"] = path["path"].removeprefix(".status")
        hub.write(key, document)
        await hub.until(lambda: "statusFeedback" not in str(hub.documents[key]["status"]))
        async with controlling(hub):
            await hub.until(lambda: "statusFeedback" in str(hub.documents[key]["status"]))
            current = hub.documents[key]
            assert AVAILABLE_PATH in str(current["spec"]["manifestConfigs"])
            assert current["spec"]["workload"] == document["spec"]["workload"]
            assert current["metadata"]["uid"] == document["metadata"]["uid"]
            hub.statuses["web"] = {}
            await hub.until(lambda: hub.reason("web", "Available") == "ControlPlaneNotAvailable")
