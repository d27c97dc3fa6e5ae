"""HostedClusterRequest and HostingPolicy: defaults, decoding, and the messages of a strict check."""

from typing import Any

import pytest

from fairway.api import HostedClusterRequest, HostingPolicy, Problem, check, decode
from fairway.api.crd import RESOURCES
from fairway.api.hosted_request import SIZE_AND_DEMAND, TWO_SELECTIONS
from fairway.api.hosting_policy import NEGATIVE_AMOUNT, SAME_TIMES, SEVERAL_DEFAULTS
from kubewire.api.defaults import apply_defaults
from kubewire.api.encoding import encode
from kubewire.documents.reader import value_of, yaml_documents

SMALLEST = b"""\
apiVersion: placement.fairway.dev/v1alpha1
kind: HostedClusterRequest
metadata: {name: shop, namespace: team-a}
spec:
  hostedCluster:
    spec:
      platform: {type: KubeVirt}
      release: {image: example.com/release:4.19}
"""


def smallest(**spec: Any) -> dict[str, Any]:
    (document,) = yaml_documents(SMALLEST)
    value: dict[str, Any] = value_of(document)
    value["spec"].update(spec)
    return value


def policy(**spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "placement.fairway.dev/v1alpha1",
        "kind": "HostingPolicy",
        "metadata": {"name": "default"},
        "spec": spec,
    }


def test_smallest_request_is_valid_and_defaulted() -> None:
    assert len(SMALLEST.partition(b"spec:\n")[2].splitlines()) <= 5
    document = smallest()
    assert check(document, kind=HostedClusterRequest) == ()
    request = decode(apply_defaults(document, HostedClusterRequest))
    assert isinstance(request, HostedClusterRequest)
    assert (request.spec.policy, request.spec.priority, request.spec.size) == ("default", 0, "")
    assert request.spec.hostedCluster.namespace == ""
    assert request.spec.hostedCluster.spec == {
        "platform": {"type": "KubeVirt"},
        "release": {"image": "example.com/release:4.19"},
    }
    assert decode(encode(request)) == request


def test_empty_policy_is_valid_and_defaulted() -> None:
    document = policy(capacity={"count": {}})
    assert check(document, kind=HostingPolicy) == ()
    filled = apply_defaults(document, HostingPolicy)["spec"]
    assert filled == {
        "capacity": {
            "model": "Auto",
            "count": {"resourceName": "hosted-clusters-score", "scoreName": "hostedClustersCount"},
            "maxAge": "10m",
        },
        "strategy": "Spread",
        "spareHosts": 0,
        "maxPerHost": 80,
        "maxUtilization": 100,
        "tenantAntiAffinity": "None",
        "reservationTimeout": "10m",
    }


BAD_REQUESTS = [
    ({"size": "small", "demand": {"cpu": 4, "memory": "16Gi"}}, "spec", SIZE_AND_DEMAND),
    (
        {"constraints": {"placement": "p", "tolerations": [{"operator": "Exists"}]}},
        "spec.constraints",
        TWO_SELECTIONS,
    ),
    ({"demand": {"cpu": "-4", "memory": "16Gi"}}, "spec.demand.cpu", NEGATIVE_AMOUNT),
    ({"demand": {"cpu": 4, "memory": -1}}, "spec.demand.memory", NEGATIVE_AMOUNT),
]


@pytest.mark.parametrize(("spec", "path", "message"), BAD_REQUESTS)
def test_contradictory_request_is_refused_with_a_remedy(
    spec: dict[str, Any], path: str, message: str
) -> None:
    fault, _, remedy = message.partition(": ")
    assert remedy
    assert check(smallest(**spec), kind=HostedClusterRequest) == (Problem(path, fault, remedy),)


def test_policy_with_empty_quiet_hours_or_negative_sizes_is_refused() -> None:
    document = policy(
        quietHours=[{"start": "22:00", "end": "22:00"}], sizes=[{"name": "tiny", "cpu": 1, "memory": "-1Gi"}]
    )
    messages = {problem.path: problem.message for problem in check(document, kind=HostingPolicy)}
    assert messages == {
        "spec.quietHours[0]": SAME_TIMES.partition(": ")[0],
        "spec.sizes[0].memory": NEGATIVE_AMOUNT.partition(": ")[0],
    }


def test_policy_with_negative_quotas_or_several_default_classes_is_refused() -> None:
    classes = [{"name": name, "value": 1, "default": True} for name in ("a", "b")]
    tenants = [{"name": "t", "namespaces": ["a"], "quota": {"memory": "-1Gi"}}]
    document = policy(quota={"cpu": -1}, tenants=tenants, priorityClasses=classes)
    messages = {problem.path: problem.message for problem in check(document, kind=HostingPolicy)}
    assert messages == {
        "spec.quota.cpu": NEGATIVE_AMOUNT.partition(": ")[0],
        "spec.tenants[0].quota.memory": NEGATIVE_AMOUNT.partition(": ")[0],
        "spec.priorityClasses": SEVERAL_DEFAULTS.partition(": ")[0],
    }


def test_printer_columns_show_phase_and_host_first() -> None:
    columns = {resource.kind: [column.name for column in resource.columns] for resource in RESOURCES}
    assert columns["HostedClusterRequest"] == [
        "Phase",
        "Host",
        "Host Available",
        "Size",
        "Reason",
        "Message",
        "Age",
    ]
    assert columns["HostingPolicy"] == [
        *("Strategy", "Hosts", "Unknown", "Hosted", "Reserved", "Free", "Age")
    ]
