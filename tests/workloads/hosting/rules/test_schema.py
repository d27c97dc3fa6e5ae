"""Requests that lack fields that a host requires."""

from typing import Any

import pytest

from fairway.workloads.hosting import place
from fairway.workloads.hosting.rules.schema import SCHEMA_CLAIM, missing_fields
from workloads.hosting.hosts import NOW, host, load, policy, request, state_of

CLAIM = (
    "v1beta1 8E5A0C77D1B0 hostedclusters=platform.type,pullSecret,release.image,services "
    "nodepools=management.upgradeType,release.image"
)
TEMPLATE: dict[str, Any] = {
    "hostedCluster": {
        "spec": {"pullSecret": {"name": "pull"}, "release": {"image": "i"}, "services": []},
    },
    "nodePool": {"spec": {"management": {"upgradeType": "Replace"}, "release": {"image": "i"}}},
}


def test_missing_fields_are_named_with_their_place_in_the_request() -> None:
    spec = {"platform": {"type": "None"}, "release": {"image": None}, "services": []}
    pools = [{"name": "a", "spec": {"release": {"image": "i"}}}, {"name": "b", "spec": {"release": "text"}}]
    assert list(missing_fields(CLAIM, request("web", hostedCluster={"spec": spec}, nodePools=pools))) == [
        "spec.hostedCluster.spec.pullSecret",
        "spec.hostedCluster.spec.release.image",
        "spec.nodePools[a].spec.management.upgradeType",
        "spec.nodePools[b].spec.management.upgradeType",
        "spec.nodePools[b].spec.release.image",
    ]
    required = "v1beta1 A hostedclusters=controllerAvailabilityPolicy"
    assert list(missing_fields(required, request("web", availability="SingleReplica"))) == []


@pytest.mark.parametrize(
    "claim",
    ["", "v1beta1", "v1beta1 A", "v1beta1 A hostedclusters=", "v1beta1 A hostedclusters=...", "x y z"],
)
def test_claim_without_fields_requires_none(claim: str) -> None:
    assert list(missing_fields(claim, request("web"))) == []


def test_host_whose_required_fields_are_missing_gets_no_place() -> None:
    hosts = (host("h1", claims={SCHEMA_CLAIM: CLAIM}), load("h1", count=0))
    (refused,) = place(state_of(*hosts, policy()), [request("web")], now=NOW)
    assert refused.host is None
    (rejection,) = refused.rejections
    assert rejection.reason == (
        "it requires spec.hostedCluster.spec.pullSecret, spec.hostedCluster.spec.release.image, "
        "spec.hostedCluster.spec.services; write them into the request, or into the template of policy default"
    )
    (selected,) = place(state_of(*hosts, policy(template=TEMPLATE)), [request("web")], now=NOW)
    assert selected.host is not None


def test_host_that_requires_less_is_selected() -> None:
    hosts = (
        host("h1", claims={SCHEMA_CLAIM: CLAIM}),
        load("h1", count=0),
        host("h2", claims={SCHEMA_CLAIM: "v1beta1 A hostedclusters=platform.type"}),
        load("h2", count=9),
        host("h3"),
        load("h3", count=20),
    )
    (selected,) = place(state_of(*hosts, policy()), [request("web")], now=NOW)
    assert selected.host is not None
    assert selected.host.name == "h2"
