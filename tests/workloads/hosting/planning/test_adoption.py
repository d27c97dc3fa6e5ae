"""Adoption: which hosted clusters get a request, and why others do not."""

from typing import Any

import msgspec
import pytest

from fairway.api.hosted_request import REQUEST_UID_LABEL, HostedClusterRequest
from fairway.api.work import ManifestWork
from fairway.hosts.instant import from_micros
from fairway.workloads.hosting import AdoptionPlan, plan_adoption
from fairway.workloads.hosting.planning.adoption import (
    CARRIED_TWICE,
    DELETING,
    NOT_REPORTED,
    STRAY,
    TOO_MANY_POOLS,
    WORK_DELETING,
    in_works,
    on_host,
)
from fairway.workloads.hosting.requests.work import MANAGED_BY, MANAGER
from fairway.workloads.hosting.rules.policy import PolicyError
from fairway.workloads.hosting.state import HostingState
from fairway.workloads.hosting.workload import ADOPTS
from workloads.hosting.hosts import NOW, host, load, placed, policy, request, state_of

GROUP = "hypershift.openshift.io"


def hosted(name: str, *, namespace: str = "clusters", **fields: Any) -> dict[str, Any]:
    meta = {"name": name, "namespace": namespace, **fields.pop("metadata", {})}
    return {"apiVersion": f"{GROUP}/v1beta1", "kind": "HostedCluster", "metadata": meta, "spec": {}, **fields}


def pool(name: str, *, of: str, namespace: str = "clusters") -> dict[str, Any]:
    meta = {"name": name, "namespace": namespace}
    spec = {"clusterName": of, "replicas": 2}
    return {"apiVersion": f"{GROUP}/v1beta1", "kind": "NodePool", "metadata": meta, "spec": spec}


def work(
    *manifests: dict[str, Any], on: str = "h1", name: str = "", applied: str = "True", **metadata: Any
) -> ManifestWork:
    reports = [
        {
            "resourceMeta": {
                "group": GROUP,
                "resource": "hostedclusters",
                "namespace": manifest["metadata"]["namespace"],
                "name": manifest["metadata"]["name"],
            },
            "conditions": [
                {
                    "type": "Applied",
                    "status": applied,
                    "reason": "",
                    "message": "",
                    "lastTransitionTime": "2026-03-01T00:00:00Z",
                }
            ],
        }
        for manifest in manifests
        if manifest["kind"] == "HostedCluster"
    ]
    document = {
        "metadata": {"name": name or manifests[0]["metadata"]["name"], "namespace": on, **metadata},
        "spec": {"workload": {"manifests": manifests}},
        "status": {"resourceStatus": {"manifests": reports}},
    }
    return msgspec.convert(document, ManifestWork)


def plan(
    *works: ManifestWork,
    requests: tuple[HostedClusterRequest, ...] = (),
    read: tuple[dict[str, Any], ...] = (),
    state: HostingState | None = None,
    count: int = 10,
) -> AdoptionPlan:
    state = state or state_of(policy(), host("h1"), load("h1", count=count), *requests)
    existing = [*in_works(works), *on_host("h1", read)]
    return plan_adoption(state, requests, existing, ["h1"], namespace="team-a", policy="default")


def test_request_describes_what_exists_and_takes_its_room() -> None:
    labels = {f"{GROUP}/hosted-cluster-size": "medium"}
    spec = {"controllerAvailabilityPolicy": "SingleReplica"}
    manifests = hosted("web", metadata={"labels": labels}, spec=spec), pool("p", of="web"), pool("q", of="db")
    made = plan(work(*manifests), count=2)
    (adoption,) = made.adoptions
    wanted = adoption.request.spec
    assert (wanted.size, wanted.hostedCluster.namespace, wanted.hostedCluster.spec) == (
        "medium",
        "clusters",
        spec,
    )
    assert [(pool.name, pool.spec) for pool in wanted.nodePools] == [("p", {"replicas": 2})]
    assert (adoption.counted, made.unknown) == (True, {"h1": 1})
    # The number on the host stays, and the request has its share of it.
    state = state_of(policy(), host("h1"), load("h1", count=2))
    before = state.free(state.facts["h1"].key)["hostedclusters"]
    status = adoption.status(adoption.request, now=from_micros(NOW))
    state.upsert(msgspec.structs.replace(adoption.request, status=status), now=NOW)
    assert state.free(state.facts["h1"].key)["hostedclusters"] == before
    assert state.facts["h1"].capacity.others["hostedclusters"] == 1000  # type: ignore[union-attr]


def test_hosted_clusters_of_one_name_get_requests_of_several_names() -> None:
    taken = request("web")
    works = [work(hosted("web", namespace=space), name=space) for space in ("a", "b")]
    first = plan(*works, requests=(taken,))
    names = [adoption.request.metadata.name for adoption in first.adoptions]
    assert len({*names, "web"}) == 3
    # An adoption that was interrupted goes on with its requests, whatever is free now.
    begun = tuple(
        msgspec.structs.replace(
            adoption.request, metadata=msgspec.structs.replace(adoption.request.metadata, uid=f"uid-{number}")
        )
        for number, adoption in enumerate(first.adoptions)
    )
    again = plan(*works, requests=begun)
    assert [(adoption.is_begun, adoption.request.metadata.name) for adoption in again.adoptions] == [
        (True, name) for name in names
    ]


FAIRWAYS = {MANAGED_BY: MANAGER, REQUEST_UID_LABEL: "gone"}


@pytest.mark.parametrize(
    ("works", "read", "reason"),
    [
        ([work(hosted("web"), applied="False")], [], NOT_REPORTED.format(work="web")),
        (
            [work(hosted("web"), deletionTimestamp="2026-03-01T00:00:00Z")],
            [],
            WORK_DELETING.format(work="web"),
        ),
        ([work(hosted("web"), labels=FAIRWAYS)], [], STRAY.format(work="web")),
        (
            [work(hosted("web"), name="one"), work(hosted("web"), name="two")],
            [],
            CARRIED_TWICE.format(works="one and two"),
        ),
        (
            [work(hosted("web"), *(pool(f"p{number}", of="web") for number in range(65)))],
            [],
            TOO_MANY_POOLS.format(count=65, most=64),
        ),
        ([], [hosted("web", metadata={"deletionTimestamp": "2026-03-01T00:00:00Z"})], DELETING),
        ([work(hosted("web", spec={"controllerAvailabilityPolicy": "Two"}))], [], "'Two' is unknown"),
    ],
)
def test_what_cannot_be_adopted_has_a_reason(
    works: list[ManifestWork], read: list[dict[str, Any]], reason: str
) -> None:
    made = plan(*works, read=tuple(read))
    (refused,) = made.refused
    assert reason in refused.obstacle
    assert made.adoptions == ()


def test_hosted_cluster_of_a_request_is_not_adopted_again() -> None:
    own = placed("web", "h1", phase="Confirmed", hostedCluster={"namespace": "clusters", "spec": {}})
    made = plan(work(hosted("web")), requests=(own,), read=(hosted("web"),))
    assert (made.adoptions, made.refused, made.adopted) == ((), (), 1)


def test_hosted_cluster_that_was_read_and_is_in_a_work_is_adopted_with_the_work() -> None:
    (adoption,) = plan(work(hosted("web")), read=(hosted("web"),)).adoptions
    assert adoption.existing.work is not None


@pytest.mark.parametrize("malformed", [{}, {"metadata": 3}, {"metadata": {"labels": [1]}, "spec": "x"}])
def test_malformed_documents_are_refused(malformed: dict[str, Any]) -> None:
    document = {"apiVersion": f"{GROUP}/v1beta1", "kind": "HostedCluster", **malformed}
    assert [bool(item.obstacle) for item in plan(read=(document,)).refused] == [True]


def test_unavailable_host_is_left_out() -> None:
    made = plan(work(hosted("web")), state=state_of(policy(), host("h1", available=False)))
    assert made.refused[0].obstacle.startswith("h1 is not available")


def test_policy_must_be_for_the_namespace_of_the_requests() -> None:
    state = state_of(policy(namespaces=["team-b"]), host("h1"))
    with pytest.raises(PolicyError, match="team-a"):
        plan(work(hosted("web")), state=state)


def test_request_of_an_unfinished_adoption_is_never_placed() -> None:
    (adoption,) = plan(work(hosted("web"))).adoptions
    assert adoption.request.metadata.annotations == {ADOPTS: "h1/clusters/web"}
    state = state_of(policy(), host("h1"), load("h1", count=0))
    assert "adoption is not finished" in state.spec_of(adoption.request).problem
